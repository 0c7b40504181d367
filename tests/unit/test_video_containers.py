"""Frames of videos in every container that FFmpeg writes: each path delivers the frames of a plain sequential decoder."""

from __future__ import annotations

import io
import random
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("av", reason="reading videos needs PyAV")

from helpers.operators import run_operator
from helpers.video_kinds import KINDS, count_of, made, sequential, shown_number, write

from asyncdali import Pipeline, fn
from asyncdali.codecs.video.video_formats import OpenVideo, open_video, prepare_decoding
from asyncdali.codecs.video.video_index import read_index


def run(graph, count, batch=2, **options):
    """The outputs of `count` samples: a list of lists of arrays."""
    pipe = Pipeline(batch_size=batch, num_threads=2, device_id=None, seed=5, **options)
    with pipe:
        outputs = graph()
        pipe.set_outputs(*(outputs if isinstance(outputs, (list, tuple)) else [outputs]))
    pipe.build()
    samples = []
    while len(samples) < count:
        samples += zip(*(map(np.asarray, output) for output in pipe.run()), strict=True)
    pipe.close()
    return samples[:count]


@pytest.mark.parametrize("name", KINDS)
def test_frames_in_any_order_are_those_of_sequential_decoding(tmp_path, name):
    prepare_decoding()
    path = made(tmp_path, name)
    data = Path(path).read_bytes()
    expected = sequential(data)
    assert len(expected) == count_of(name)
    index = read_index(io.BytesIO(data))
    assert len(index) == len(expected) and not (np.diff(index.times) < 0).any()
    choose = random.Random(name)
    video = open_video(io.BytesIO(data))
    for turn in range(20):
        first, stride = choose.randrange(len(index)), choose.choice([1, 1, 2, 3, 7])
        wanted = np.arange(first, len(index), stride)[: choose.randint(1, 8)] if turn else np.arange(len(index))
        choose.shuffle(wanted)
        frames = np.empty((len(wanted), index.height, index.width, 3), np.uint8)
        if choose.random() < 0.3:
            video.close()
            video = OpenVideo(index, open(path, "rb"))
        video.read(wanted, frames, [0])
        differing = [number for number, frame in zip(wanted.tolist(), frames, strict=True) if not np.array_equal(frame, expected[number])]
        assert not differing, f"frames {differing} of {wanted.tolist()}"
    video.close()


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.parametrize("name", ["a.mp4", "b.mkv", "zeros_b.mkv", "x.avi", "open.ts", "sound.mpg", "a.flv", "a.h264", "v8.webm"])
def test_every_operator_delivers_the_same_frames(tmp_path, name):
    """Overlapping sequences in random order, with strides, as readers, the decoder and the input deliver them."""
    path = made(tmp_path, name)
    expected = sequential(Path(path).read_bytes())
    data, numbers = np.fromfile(path, np.uint8), np.arange(len(expected))
    order = {"random_shuffle": True, "initial_fill": 40, "stride": 3, "step": 2, "sequence_length": 4, "filenames": [path], "name": "R"}

    def check(samples):
        assert samples
        for frames, shown in samples:
            assert all(np.array_equal(frame, expected[number]) for frame, number in zip(frames, shown, strict=True)), shown

    sequences = len(range(0, len(expected) - 12 + 1, 2))
    check(run(lambda: fn.experimental.readers.video(enable_frame_num="sequence", **order), sequences))
    for reader, rest in ((fn.readers.video, {}), (fn.readers.video_resize, {"size": expected[0].shape[:2]})):
        samples = run(lambda: reader(enable_frame_num=True, skip_vfr_check=True, **order, **rest), sequences)  # noqa: B023
        check([(frames, int(first[0]) + 3 * np.arange(4)) for frames, first in samples])
    for decoder in (fn.decoders.video, fn.experimental.decoders.video):
        for arguments, wanted in (
            ({}, numbers), ({"frames": [5, 2, 28, 5, 9]}, [5, 2, 28, 5, 9]), ({"start_frame": 3, "stride": 4}, numbers[3::4]),
            ({"start_frame": 20, "sequence_length": 4}, numbers[20:24]),
        ):  # fmt: skip
            samples = run(lambda: decoder(fn.external_source(lambda: [data, data], batch=True), **arguments), 2)  # noqa: B023
            check([(*sample, wanted) for sample in samples])
    pipe = Pipeline(batch_size=2, num_threads=2, device_id=None, seed=5, prefetch_queue_depth=1)
    with pipe:
        pipe.set_outputs(fn.experimental.inputs.video(name="V", sequence_length=3))
    pipe.build()
    pipe.feed_input("V", [data])
    frames = np.concatenate([np.asarray(sample) for _ in range(-(-len(expected) // 6)) for sample in pipe.run()[0]])
    check([(frames, numbers)])
    pipe.close()


def shown(path, **arguments):
    """The numbers that the frames of the first sequence show."""
    return [shown_number(frame) for frame in run(lambda: fn.experimental.readers.video(filenames=[path], **arguments), 1, 1)[0][0]]


@pytest.mark.parametrize("name, codec", [("v.mkv", "libvpx-vp9"), ("v.mp4", "libx264"), ("v.mov", "mpeg4"), ("v.avi", "mpeg4")])
def test_a_picture_before_the_video_is_a_cover(tmp_path, name, codec):
    path = write(tmp_path / name, codec, count=9, first=("mjpeg", "yuvj420p", 1))
    assert shown(path, sequence_length=9) == list(range(9))
    assert [shown_number(frame) for frame in run_operator("decoders.video", [np.fromfile(path, np.uint8)])[0]] == list(range(9))


def test_the_first_of_two_videos(tmp_path):
    """As in DALI, also if the first one is short, or consists of pictures."""
    for number, (first, pixels, count) in enumerate((("libvpx-vp9", "yuv420p", 1), ("libvpx-vp9", "yuv420p", 9), ("mjpeg", "yuvj420p", 3))):
        path = write(tmp_path / f"{number}.mkv", "libvpx-vp9", count=12, first=(first, pixels, count))
        assert shown(path, sequence_length=count) == [63] * count

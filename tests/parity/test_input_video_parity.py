"""experimental.inputs.video and readers.video_resize beside DALI's.

DALI's readers.video_resize needs a GPU; it is compared with DALI's resize of the frames that readers.video gives.
"""

from __future__ import annotations

import math
import random

import numpy as np
import pytest

pytest.importorskip("nvidia.dali", reason="parity with DALI needs DALI")
pytest.importorskip("av", reason="decoding videos needs PyAV")

import nvidia.dali as dali
from helpers.videos import photographs, write_video

import asyncdali

CASES = 50


@pytest.fixture(scope="module")
def videos(tmp_path_factory):
    """Encoded videos of several lengths. Two of the videos show movement."""
    folder = tmp_path_factory.mktemp("videos")
    paths = [write_video(folder / f"{count}.webm", count, 40 + count) for count in (1, 4, 7, 12, 23)]
    paths.append(write_video(folder / "picture.webm", 9, images=photographs(9)))
    paths.append(write_video(folder / "picture8.webm", 11, images=photographs(11, 34, 50), codec="libvpx"))
    return paths


def seen(lib, fed, runs, batch, depth, **arguments):
    """The batches of some runs. A batch that fails is "error"."""
    pipe = lib.Pipeline(batch_size=batch, num_threads=2, device_id=None, seed=3, prefetch_queue_depth=depth)
    with pipe:
        pipe.set_outputs(lib.fn.experimental.inputs.video(name="video", **arguments))
    pipe.build()
    result = [pipe.input_feed_count("video")]
    for data in fed:
        pipe.feed_input("video", [data])
    for _ in range(runs):
        (frames,) = pipe.run()
        info = [frames[k].source_info() for k in range(len(frames))]
        result.append((int(frames.dtype), frames.layout(), [np.array(frames[k]) for k in range(len(frames))], info))
    return result


def agree(ours, theirs):
    assert ours[0] == theirs[0]
    for (*a, frames_a, info_a), (*b, frames_b, info_b) in zip(ours[1:], theirs[1:], strict=True):
        assert (a, info_a) == (b, info_b)
        assert [frame.shape for frame in frames_a] == [frame.shape for frame in frames_b]
        for x, y in zip(frames_a, frames_b, strict=True):
            np.testing.assert_array_equal(x, y)


@pytest.mark.parametrize("case", range(CASES))
def test_random_arguments(videos, case):
    choose = random.Random(case)
    chosen = [np.fromfile(choose.choice(videos), np.uint8) for _ in range(choose.randint(1, 3))]
    batch, length = choose.randint(1, 4), choose.randint(1, 8)
    counts = [asyncdali_frames(data) for data in chosen]
    runs = sum(math.ceil(math.ceil(count / length) / batch) for count in counts)
    arguments = {"sequence_length": length}
    if choose.random() < 0.8:
        arguments["last_sequence_policy"] = choose.choice(["partial", "pad"])
    if choose.random() < 0.3:
        arguments["no_copy"] = True
    if choose.random() < 0.3:
        arguments["blocking"] = True
    depth = 1 if "blocking" in arguments else choose.choice([1, 2])
    agree(*(seen(lib, chosen, runs, batch, depth, **arguments) for lib in (asyncdali, dali)))


def asyncdali_frames(data):
    import io

    from asyncdali.codecs.video.video_frames import read_index

    return len(read_index(io.BytesIO(data.tobytes())))


@pytest.mark.parametrize("lib", [asyncdali, dali])
def test_input_videos_run_out(videos, lib):
    data = np.fromfile(videos[1], np.uint8)
    with pytest.raises(RuntimeError):
        seen(lib, [data], 2, 2, 1, sequence_length=2)
    with pytest.raises(RuntimeError):
        seen(lib, [], 1, 2, 1, sequence_length=2)


@pytest.mark.parametrize("lib", [asyncdali, dali])
@pytest.mark.parametrize("bad", ["nothing", "bytes as samples", "no video"])
def test_refusals(videos, lib, bad):
    data = np.fromfile(videos[1], np.uint8)
    fed = {"nothing": [], "bytes as samples": data, "no video": [data[:50]]}[bad]
    pipe = lib.Pipeline(batch_size=2, num_threads=1, device_id=None, prefetch_queue_depth=1)
    with pipe:
        pipe.set_outputs(lib.fn.experimental.inputs.video(name="video", sequence_length=2))
    pipe.build()
    with pytest.raises(RuntimeError):
        pipe.feed_input("video", fed)
        pipe.run()


# ------------------------------------------------------------------------------------------------------------ readers.video_resize


def resize_arguments(choose):
    size = choose.choice(["size", "one", "two", "resize_shorter", "resize_longer"])
    if size == "size":
        arguments = {"size": [choose.randint(5, 90), choose.randint(5, 90)]}
    elif size == "one":
        arguments = {choose.choice(["resize_x", "resize_y"]): choose.randint(5, 90)}
    elif size == "two":
        arguments = {"resize_x": choose.randint(5, 90), "resize_y": choose.randint(5, 90)}
    else:
        arguments = {size: choose.randint(5, 90)}
    if size in ("size", "one", "two") and choose.random() < 0.5:
        arguments["mode"] = choose.choice(["default", "stretch", "not_larger", "not_smaller"])
    if choose.random() < 0.3:
        arguments["max_size"] = choose.randint(20, 80)
    if choose.random() < 0.5:
        arguments["antialias"] = choose.random() < 0.5
    if choose.random() < 0.5:
        arguments[choose.choice(["interp_type", "min_filter", "mag_filter"])] = choose.choice([0, 1, 2, 3, 5])
    if choose.random() < 0.3 and 0 not in arguments.values():  # test_resize_nearest_parity.py has INTERP_NN
        arguments |= {"roi_start": [0.1, 0.2], "roi_end": [0.9, 0.7], "roi_relative": True}
    if choose.random() < 0.3:
        arguments["subpixel_scale"] = choose.random() < 0.5
    return arguments


def with_types(lib, arguments):
    return {
        name: lib.types.DALIInterpType(value) if name in ("interp_type", "min_filter", "mag_filter") else value
        for name, value in arguments.items()
    }


@pytest.mark.parametrize("case", range(CASES))
def test_video_resize(videos, case):
    choose = random.Random(1000 + case)
    arguments = resize_arguments(choose)
    reading = {"filenames": choose.sample(videos[2:], choose.randint(1, 3)), "sequence_length": choose.randint(1, 4)}
    for name, value in (("stride", choose.randint(1, 2)), ("step", choose.randint(1, 5)), ("dtype", 9), ("pad_sequences", True)):
        if choose.random() < 0.4:
            reading[name] = asyncdali.types.FLOAT if name == "dtype" else value

    def batches(make):
        pipe = asyncdali.Pipeline(batch_size=3, num_threads=2, device_id=None, seed=1)
        with pipe:
            pipe.set_outputs(make())
        return [np.array(item) for _ in range(2) for item in pipe.run()[0]]

    found = batches(lambda: asyncdali.fn.readers.video_resize(**reading, **with_types(asyncdali, arguments)))
    frames = batches(lambda: asyncdali.fn.readers.video(**reading))
    pipe = dali.Pipeline(batch_size=6, num_threads=2, device_id=None)
    with pipe:
        data = dali.fn.external_source(lambda: frames, layout="FHWC")
        pipe.set_outputs(dali.fn.resize(data, **with_types(dali, arguments)))
    pipe.build()
    theirs = [np.array(item) for item in pipe.run()[0]]
    assert [item.shape for item in found] == [item.shape for item in theirs]
    for x, y in zip(found, theirs, strict=True):
        assert x.dtype == y.dtype
        np.testing.assert_allclose(x.astype(np.float64), y.astype(np.float64), atol=1 if x.dtype == np.uint8 else 2e-2)

"""Frames of videos in every container that FFmpeg writes: each path delivers the frames of a plain sequential decoder."""

from __future__ import annotations

import gc
import io
import random
import struct
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("av", reason="reading videos needs PyAV")
import av
from helpers.marks import slow
from helpers.operators import run_operator
from helpers.video_fuzz import mutated
from helpers.video_kinds import COUNT, KINDS, count_of, made, picture, sequential, shown_number, write

from asyncdali import Pipeline, fn
from asyncdali.codecs.video.video_frames import OpenVideo, open_video, prepare_decoding, read_index


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


@pytest.mark.parametrize("turns", [4, *slow(24)])
@pytest.mark.parametrize("name", KINDS)
def test_frames_in_any_order_are_those_of_sequential_decoding(tmp_path, name, turns):
    prepare_decoding()
    path = made(tmp_path, name)
    data = Path(path).read_bytes()
    expected = sequential(data)
    assert len(expected) == count_of(name)
    index = read_index(io.BytesIO(data))
    assert len(index) == len(expected) and not (np.diff(index.times) < 0).any()
    choose = random.Random(name)
    video = open_video(io.BytesIO(data))
    for turn in range(turns):
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
@pytest.mark.parametrize("name", [
    "a.mp4", "b.mkv", "open.ts", "a.h264", "v8.webm",
    *(pytest.param(name, marks=pytest.mark.slow) for name in ("zeros_b.mkv", "x.avi", "sound.mpg", "a.flv")),
])  # fmt: skip
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


def remuxed(path, target, kept):
    """The packets that ``kept(number, packet)`` wants, in a container of the same kind."""
    with av.open(path) as source, av.open(str(target), "w") as container:
        stream = container.add_stream_from_template(source.streams.video[0])
        for number, packet in enumerate(source.demux(video=0)):
            if packet.size and kept(number, packet):
                packet.stream = stream
                container.mux(packet)
    return target.read_bytes()


def equal_to_sequential(data: bytes, count: int) -> int:
    """Compare `count` single frames, in random order, with sequential decoding. Returns how many frames there are."""
    prepare_decoding()
    expected, choose = sequential(data), random.Random(count)
    video = open_video(io.BytesIO(data))
    assert len(video.index) == len(expected)
    frame = np.empty((1, video.index.height, video.index.width, 3), np.uint8)
    for number in choose.choices(range(len(expected)), k=count):
        video.read(np.array([number]), frame, [0])
        assert np.array_equal(frame[0], expected[number]), number
    video.close()
    return len(expected)


@pytest.mark.parametrize("name, frames", [
    ("b.mp4", 20), ("open.mp4", 20), ("open265.mp4", 20), ("b.mkv", 20), ("m2.mkv", 20), ("open.ts", 20), ("a.mpg", 20), ("x.flv", 20),
    ("b.avi", 26), ("bm.mp4", 24),
])  # fmt: skip
def test_videos_that_were_cut_before_a_key_frame(tmp_path, name, frames):
    """A decoder does not return the frames before the key frame, or returns some, and the packets do not tell."""
    data = remuxed(made(tmp_path, name), tmp_path / f"cut_{name}", lambda number, packet: number >= 4)
    assert equal_to_sequential(data, 30) == frames


@pytest.mark.parametrize("skipped, halved, frames", [(0, False, 29), (3, False, 26), (12, False, 17), (12, True, 15), (20, False, 9)])
def test_edit_lists(tmp_path, skipped, halved, frames):
    """Frames that an edit list leaves out are no frames, but later ones need them."""
    data = bytearray(Path(made(tmp_path, "b.mp4")).read_bytes())
    entry = data.index(b"elst") + 12  # After the type: version, flags and count; then duration and first time.
    duration, first = struct.unpack_from(">Ii", data, entry)
    struct.pack_into(">Ii", data, entry, duration // 2 if halved else duration, first + 512 * skipped)
    assert equal_to_sequential(bytes(data), 30) == frames


@pytest.mark.parametrize("name", ["b.mp4", "bm.mp4"])
def test_a_file_that_calls_every_frame_a_key_frame(tmp_path, name):
    """MP4 without a list of key frames: decoding cannot start at most of them."""
    data = Path(made(tmp_path, name)).read_bytes()
    assert b"stss" in data
    assert equal_to_sequential(data.replace(b"stss", b"free"), 60) == COUNT


@pytest.mark.parametrize("name", ["open.ts", "a.mpg", "a.h264", "a.m2v", "a.mjpeg", "a.gif", "a.avi", "b.mkv", "v9.webm"])
def test_videos_one_behind_another(tmp_path, name):
    """Times begin again at the second one, so frames have the times of the frame rate."""
    data = Path(made(tmp_path, name)).read_bytes() * 2
    assert equal_to_sequential(data, 40) == 2 * COUNT
    assert (np.diff(read_index(io.BytesIO(data)).times) > 0).all()


@pytest.mark.parametrize("name", [
    "open.ts", "a.mpg", "a.h264", "a.m2v", "a.mjpeg", "a.avi", "a.flv", "b.mkv", "v9.webm", "fragments.mp4", "a.nut", "a.wmv", "a.hevc",
    "huff.avi",
])  # fmt: skip
def test_truncated_videos(tmp_path, name):
    """All whole frames are there. The incomplete frame at the end is not, nor frames that are shown after it."""
    prepare_decoding()
    data = Path(made(tmp_path, name)).read_bytes()
    whole = sequential(data)
    for kept in (0.67, 0.83, 0.97):
        part = data[: int(len(data) * kept)]
        video = open_video(io.BytesIO(part))
        assert 0 <= len(sequential(part, tolerant=True)) - len(video.index) <= 2
        frames = np.empty((len(video.index), *whole[0].shape), np.uint8)
        video.read(np.arange(len(frames)), frames, [0])
        video.close()
        sure = int(video.index.packets.argmax())  # Decoders of H.264 and H.265 replace parts of an incomplete frame, and show it.
        assert sure > 4 and all(map(np.array_equal, frames[:sure], whole[:sure]))


def test_damaged_frames_are_refused_alike_from_every_start(tmp_path):
    """Damage in the middle of a run. Decoders of such codecs leave parts of earlier frames in the picture."""
    prepare_decoding()
    for name in ("a.mjpeg", "a.avi", "m2.ts", "a.flv"):
        data = bytearray(Path(made(tmp_path, name)).read_bytes())
        data[len(data) // 2 : len(data) // 2 + 60] = b"\xff" * 60
        results: dict[int, set[bytes | str]] = {}
        for turn in range(4):
            video = open_video(io.BytesIO(data))
            frame = np.empty((1, video.index.height, video.index.width, 3), np.uint8)
            order = random.Random(turn).sample(range(len(video.index)), len(video.index)) if turn else range(len(video.index))
            for number in order:
                try:
                    video.read(np.array([number]), frame, [0])
                    found: bytes | str = frame.tobytes()
                except ValueError as error:
                    found = str(error)
                    video.close()
                    video = OpenVideo(video.index, io.BytesIO(data))
                results.setdefault(number, set()).add(found)
            video.close()
        assert [number for number, found in results.items() if len(found) > 1] == [], name
        assert any(isinstance(text, str) for found in results.values() for text in found), name


def outcome(video, number):
    """The pixels of a frame, or the error."""
    frame = np.empty((1, video.index.height, video.index.width, 3), np.uint8)
    try:
        video.read(np.array([number]), frame, [0])
    except ValueError as error:
        return str(error)
    return frame.tobytes()


@pytest.mark.parametrize("name, seeds", [
    ("a.avi", [316, 429, 434]), ("a.flv", [4, 28, 71, 77, 113]), ("x.flv", [145, 147, 175, 196]), ("a.apng", [238, 1180]),
    ("a.mjpeg", [1, 2, 3]),
])  # fmt: skip
def test_damaged_frames_do_not_depend_on_what_was_read_before(tmp_path, name, seeds):
    """Decoders keep state when they are emptied, and some containers give other packets, or an error, after a seek. The same video is used
    on after errors, too. With one decoder for all runs the first four kinds differ."""
    prepare_decoding()
    path = Path(made(tmp_path, name, count=11))
    for seed in seeds:
        _, data = mutated(seed, [path])
        video, choose = open_video(io.BytesIO(data)), random.Random(seed)
        straight = [outcome(video, number) for number in range(len(video.index))]
        alone = []
        for number in range(len(straight)):
            alone.append(OpenVideo(video.index, io.BytesIO(data)))
            assert outcome(alone[-1], number) == straight[number], (seed, number)
        for number in choose.sample(range(len(straight)), len(straight)):
            assert outcome(video, number) == outcome(alone[-1], number) == straight[number], (seed, number)
        for other in [video, *alone]:
            other.close()


def test_another_size_in_the_middle(tmp_path):
    data = Path(made(tmp_path, "a.h264")).read_bytes() + Path(write(tmp_path / "b.h264", "libx264", size=(64, 96))).read_bytes()
    (tmp_path / "c.h264").write_bytes(data)
    assert shown(str(tmp_path / "c.h264"), sequence_length=COUNT) == list(range(COUNT))
    with pytest.raises(RuntimeError, match=r"c.h264, frame 29: the frame has 96x64 pixels, the video 64x48"):
        shown(str(tmp_path / "c.h264"), sequence_length=COUNT + 1)


def test_attached_pictures(tmp_path):
    """A cover beside a video is skipped; a cover alone is no video."""
    names = []
    for name, frames in (("a.mp4", 9), ("b.mkv", 9), ("c.mp4", 0)):
        path = tmp_path / name
        with av.open(str(path), "w") as container:
            cover = container.add_stream("mjpeg", rate=1)
            cover.height, cover.width, cover.pix_fmt, cover.disposition = 32, 32, "yuvj420p", av.stream.Disposition.attached_pic
            other = container.add_stream("libx264", rate=25) if frames else container.add_stream("aac", rate=48000)
            if frames:
                other.height, other.width, other.pix_fmt = 48, 64, "yuv420p"
            container.mux(cover.encode(av.VideoFrame.from_ndarray(picture(63, 32, 32), "rgb24")) + cover.encode(None))
            for number in range(frames):
                container.mux(other.encode(av.VideoFrame.from_ndarray(picture(number, 48, 64), "rgb24")))
            if not frames:
                samples = av.AudioFrame.from_ndarray(np.zeros((1, 48000), np.float32), format="fltp", layout="mono")
                samples.rate = 48000
                container.mux(other.encode(samples))
            container.mux(other.encode(None))
        names.append(str(path))
    assert shown(names[0], sequence_length=9) == shown(names[1], sequence_length=9) == list(range(9))
    with pytest.raises(ValueError, match="the data has a cover picture, but no video stream"):
        read_index(open(names[2], "rb"))


def test_files_without_frames(tmp_path):
    for name in ("a.mkv", "a.mp4", "a.avi"):
        path = tmp_path / name
        with av.open(str(path), "w") as container:
            stream = container.add_stream("mpeg4", rate=25)
            stream.height, stream.width, stream.pix_fmt = 48, 64, "yuv420p"
            container.start_encoding()
        with pytest.raises(ValueError, match="the video has no frames|no video stream|End of file|Invalid data"):
            read_index(open(path, "rb"))


def test_a_file_and_the_same_bytes_in_memory(tmp_path):
    """A damaged index of NUT makes FFmpeg seek before the beginning. The name of a file does not say what the file is."""
    path = tmp_path / "a.nut"
    data = bytearray(Path(made(tmp_path, "a.nut")).read_bytes())
    for place in range(len(data) - 60, len(data)):
        changed = bytes(data[:place]) + bytes([data[place] ^ 0x55]) + bytes(data[place + 1 :])
        path.write_bytes(changed)
        with open(path, "rb") as file:
            found = [_outcome(source) for source in (file, io.BytesIO(changed))]
        assert found[0] == found[1], place
    (tmp_path / "text.ans").write_text("no video\n" * 200)
    with pytest.raises(ValueError, match="Invalid data"):
        read_index(open(tmp_path / "text.ans", "rb"))


def _outcome(source) -> int | str:
    try:
        index = open_video(source).index
    except ValueError as error:
        return str(error)
    return len(index)


def test_data_that_change_after_the_index_was_made(tmp_path):
    """Sound, a shorter video, and text in place of a video."""
    prepare_decoding()
    path = made(tmp_path, "b.mkv")
    index = read_index(open(path, "rb"))
    with av.open(str(tmp_path / "sound.mkv"), "w") as container:
        voice = container.add_stream("mp2", rate=48000)
        samples = av.AudioFrame.from_ndarray(np.zeros((1, 48000), np.int16), format="s16", layout="mono")
        samples.rate = 48000
        container.mux(voice.encode(samples) + voice.encode(None))
    (tmp_path / "text.mkv").write_text("no video")
    for name, match in (("sound.mkv", "stream 0 is no video any more"), ("text.mkv", "Invalid data")):
        with open(tmp_path / name, "rb") as file, pytest.raises(ValueError, match=match):
            OpenVideo(index, file)
    video = OpenVideo(index, open(write(tmp_path / "short.mkv", "libx264", count=5), "rb"))
    with pytest.raises(ValueError, match="frame 19: the frame could not be decoded"):
        video.read(np.array([19]), np.empty((1, 48, 64, 3), np.uint8), [0])
    video.close()


@pytest.mark.parametrize("name, everywhere", [("packed.avi", True), ("packed.mkv", True), ("packed.avi", False)])
def test_two_frames_in_a_packet(tmp_path, name, everywhere):
    """Packed B frames, as DivX and Xvid wrote them: a packet has a P and a B frame, and the next one is a placeholder."""
    path = write(tmp_path / f"plain_{name}", "mpeg4", {"bf": "1", "b_strategy": "0"})
    start, placeholder = b"\0\0\1\xb6", b"\0\0\1\xb6\x51\0\0"
    with av.open(path) as source, av.open(str(tmp_path / name), "w") as container:
        stream = container.add_stream_from_template(source.streams.video[0])
        packets = [packet for packet in source.demux(video=0) if packet.size]
        data = [bytes(packet) for packet in packets]
        kinds = [part[part.index(start) + 4] >> 6 for part in data]  # 0: I, 1: P, 2: B
        place = 0
        while place < len(data):
            if kinds[place] < 2 and kinds[place + 1 : place + 2] == [2] and kinds[place + 2 : place + 3] != [2]:
                data[place], data[place + 1] = data[place] + data[place + 1], placeholder
            place += 1
        for place, kind in enumerate(kinds):
            if kind == 0 and (everywhere or not place):  # Writers repeat their name at key frames. B frames are lost without the name.
                at = data[place].index(start)
                data[place] = data[place][:at] + b"\0\0\1\xb2DivX503b1338p" + data[place][at:]
        for packet, content in zip(packets, data, strict=True):
            written = av.Packet(content)
            written.stream, written.pts, written.dts, written.is_keyframe = stream, packet.pts, packet.dts, packet.is_keyframe
            written.time_base = packet.time_base
            container.mux(written)
    assert placeholder in (tmp_path / name).read_bytes()
    assert equal_to_sequential((tmp_path / name).read_bytes(), 40) == COUNT


@pytest.mark.parametrize("side", [0, 20_000, 65_535])
def test_an_impossible_size_in_the_header(tmp_path, side):
    """Of uncompressed frames, whose size is nowhere else. FFmpeg makes 0 of a size that is too large; it was taken for a size."""
    data = bytearray(Path(write(tmp_path / "raw.mov", "rawvideo", pixels="rgb24", count=3)).read_bytes())
    size = data.index(b"raw ") + 28
    assert struct.unpack_from(">HH", data, size) == (64, 48)
    struct.pack_into(">HH", data, size, side, side)
    with pytest.raises(ValueError, match=r"the frames of the video have \d+x\d+ pixels; 1 to 268435456 pixels"):
        read_index(io.BytesIO(data))


def test_runs_leave_nothing_for_the_garbage_collector(tmp_path):
    """Each run of frames has a decoder of its own, which is freed behind the run."""
    prepare_decoding()
    video = open_video(open(made(tmp_path, "m.avi"), "rb"))
    frame = np.empty((1, 48, 64, 3), np.uint8)
    gc.collect()
    gc.disable()
    try:
        for number in range(COUNT):
            video.read(np.array([number]), frame, [0])
        kinds = [type(found).__name__ for found in gc.get_objects()]
        assert kinds.count("OutputContainer") <= 2 and kinds.count("VideoCodecContext") <= 4
    finally:
        gc.enable()
        video.close()

"""decoders.video: selected frames, padding and damaged files. test_readers_video.py tests formats."""

from __future__ import annotations

import io
import sys
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("av", reason="decoding videos needs PyAV")

from helpers.operators import PerSample, run_operator
from helpers.pipelines import pipeline_of
from helpers.videos import frame_numbers, photographs, write_video

from asyncdali import fn, types
from asyncdali.codecs.video import video_frames, video_index
from asyncdali.errors import SampleError

FIRST = 60
FILL = 30  # the grey level of a frame with number -5
"""Grey of the first frame and of the padding."""
MODES = ("none", "constant", "edge", "repeat", "reflect_1001", "symmetric", "reflect_101", "reflect")


@pytest.fixture(scope="module")
def videos(tmp_path_factory):
    """Encoded videos of 10, 7 and 1 frames."""
    folder = tmp_path_factory.mktemp("videos")
    return [np.fromfile(write_video(folder / f"{count}.webm", count, FIRST), np.uint8) for count in (10, 7, 1)]


def decoded(samples, **arguments):
    """The numbers of the frames of each sample. A frame of the fill value has number -5."""
    return [frame_numbers(frames, FIRST) for frames in run_operator("decoders.video", samples, fill_value=FILL, **arguments)]


def test_all_frames(videos):
    frames = run_operator("decoders.video", videos)
    assert [found.shape for found in frames] == [(10, 16, 32, 3), (7, 16, 32, 3), (1, 16, 32, 3)]
    assert [frame_numbers(found, FIRST) for found in frames] == [list(range(10)), list(range(7)), [0]]


def test_some_frames(videos):
    assert decoded(videos[:2], frames=[5, 0, 5, 3]) == [[5, 0, 5, 3]] * 2
    assert decoded(videos[:2], start_frame=2, end_frame=6, stride=3) == [[2, 5]] * 2
    assert decoded(videos[:2], start_frame=4, sequence_length=2) == [[4, 5]] * 2
    assert decoded(videos[:2], stride=4) == [[0, 4, 8], [0, 4]]
    assert decoded(videos[:2], start_frame=5) == [[5, 6, 7, 8, 9], [5, 6]]
    assert decoded(videos[:2], build_index=False, affine=False, frames=[6]) == [[6], [6]]
    for arguments in ({"frames": []}, {"sequence_length": 0}):
        assert [found.shape for found in run_operator("decoders.video", videos, **arguments)] == [(0, 16, 32, 3)] * 3


TAILS = {
    "constant": [6, -5, -5, -5], "edge": [6, 6, 6, 6], "repeat": [6, 6, 6, 6], "symmetric": [6, 6, 5, 4], "reflect_1001": [6, 6, 5, 4],
    "reflect": [6, 5, 4, 3], "reflect_101": [6, 5, 4, 3],
}  # fmt: skip
HEADS = {
    "constant": [-5, -5, 0], "edge": [0, 0, 0], "repeat": [0, 0, 0], "symmetric": [1, 0, 0], "reflect_1001": [1, 0, 0],
    "reflect": [2, 1, 0], "reflect_101": [2, 1, 0],
}  # fmt: skip


@pytest.mark.parametrize("mode", TAILS)
def test_missing_frames_are_padded(videos, mode):
    assert decoded(videos[1:2], start_frame=6, sequence_length=4, pad_mode=mode) == [TAILS[mode]]
    assert decoded(videos[1:2], frames=[6, 7, 8, 9, 3], pad_mode=mode) == [[*TAILS[mode], 3]]
    assert decoded(videos[1:2], start_frame=-2, end_frame=1, pad_mode=mode) == [HEADS[mode]]


def test_without_padding(videos):
    assert decoded(videos[:2], start_frame=6, end_frame=20, stride=2, pad_mode="none") == [[6, 8], [6]]
    assert decoded(videos[:2], sequence_length=8, pad_mode="none") == [list(range(8)), list(range(7))]
    with pytest.raises(SampleError, match='there is no frame 7: the video has 7, and `pad_mode` is "none"') as error:
        decoded(videos[:2], frames=[0, 7], pad_mode="none")
    assert error.value.sample == 1
    with pytest.raises(SampleError, match="there is no frame -1"):
        decoded(videos, start_frame=-1, sequence_length=2, pad_mode="none")


def test_fill_value_of_three_channels(videos):
    (frames,) = run_operator("decoders.video", videos[:1], frames=[10], fill_value=[1, 2, 3])
    assert np.array_equal(frames, np.broadcast_to(np.uint8([1, 2, 3]), (1, 16, 32, 3)))


def test_arguments_per_sample(videos):
    two = videos[:2]
    assert decoded(two, frames=PerSample([np.int32([4, -1]), np.int32([1])])) == [[4, -5], [1]]
    assert decoded(two, frames=PerSample([np.int64(4), np.int64(1)])) == [[4], [1]]
    assert decoded(two, start_frame=PerSample([np.int32(8), np.int32(1)]), sequence_length=PerSample([np.int32(3), np.int32(2)])) == [
        [8, 9, -5], [1, 2]
    ]  # fmt: skip
    assert decoded(two, stride=PerSample([np.int32(4), np.int32(1)]), end_frame=6) == [[0, 4], [0, 1, 2, 3, 4, 5]]


WRONG = [
    ({"start_frame": 7}, 1, "`start_frame` is 7, the video has 7 frames"),
    ({"end_frame": 0}, 0, r"`end_frame` \(0\) must be greater than `start_frame` \(0\)"),
    ({"start_frame": 4, "end_frame": 4}, 0, "must be greater"),
    ({"sequence_length": -1}, 0, "`sequence_length` must not be negative, got -1"),
    ({"stride": PerSample([np.int32(1), np.int32(0)])}, 1, "`stride` must be positive, got 0"),
    ({"stride": 2**62, "sequence_length": 3}, 0, "`stride` is 4611686018427387904; it must fit into 32 bits"),
    ({"frames": PerSample([np.int32([[1]]), np.int32([[1]])])}, 0, "a list of numbers, got shape"),
]


@pytest.mark.parametrize("arguments, sample, message", WRONG, ids=str)
def test_wrong_arguments_of_a_sample(videos, arguments, sample, message):
    with pytest.raises(SampleError, match=message) as error:
        decoded(videos[:2], **arguments)
    assert error.value.sample == sample


REFUSED = [
    ({"frames": [1], "stride": 2}, "Cannot specify both `frames` and any of .*; got `stride`"),
    ({"end_frame": 3, "sequence_length": 2}, "Cannot specify both `sequence_length` and `end_frame`"),
    ({"pad_mode": "wrap"}, "Invalid pad_mode: wrap. Valid options are: none, constant"),
    ({"pad_mode": ""}, "Invalid pad_mode"),
    ({"fill_value": [1, 2]}, "Fill value size must be 1 or equal to the number of channels"),
    ({"fill_value": 256}, r"must be in range \[0, 255\], got \[256\]"),
    ({"start_frame": PerSample([np.float32(1)])}, "argument 'start_frame' expects integers, got FLOAT"),
]


@pytest.mark.parametrize("arguments, message", REFUSED, ids=str)
def test_refusals(videos, arguments, message):
    with pytest.raises(ValueError, match=message):
        run_operator("decoders.video", videos[:1], **arguments)


def test_one_way_to_pad_for_all_samples():
    with pytest.raises(TypeError, match="argument 'pad_mode' should not be a 'DataNode'"):
        pipeline_of(lambda: fn.decoders.video(fn.external_source(name="data"), pad_mode=fn.external_source(name="mode")))


@pytest.mark.parametrize("sample", [np.zeros((2, 9), np.uint8), np.zeros(9, np.int8)], ids=["2-D", "INT8"])
def test_input_that_is_not_encoded(sample):
    with pytest.raises(ValueError, match=r"has 2 dimensions; supported are: 1|INT8 .*encoded videos.*supported types are: UINT8"):
        run_operator("decoders.video", [sample])


def test_damage_is_an_error_with_sample_and_source(videos, tmp_path):
    whole, intact = videos[:2]
    with pytest.raises(SampleError, match="the sample is empty"):
        decoded([whole, np.zeros(0, np.uint8)])
    with pytest.raises(SampleError, match="broken video: ") as error:
        decoded([whole, np.arange(5000).astype(np.uint8)])
    assert error.value.sample == 1
    for name, data in (("a", intact), ("b", whole[: len(whole) // 2])):
        (tmp_path / f"{name}.webm").write_bytes(data.tobytes())
    pipe = pipeline_of(lambda: fn.decoders.video(fn.readers.file(file_root="", files=[f"{tmp_path}/a.webm", f"{tmp_path}/b.webm"])[0]),
                       batch_size=2)  # fmt: skip
    pipe.build()
    with pytest.raises(RuntimeError, match=r"(?s)sample 1.*b.webm.*broken video: "):
        pipe.run()


def test_tags_in_any_encoding(tmp_path):
    """A title that is not valid UTF-8 is no error."""
    path = tmp_path / "v.webm"
    data = Path(write_video(path, 3, FIRST)).read_bytes().replace(b"Lavf", b"L\xe9vf")
    assert b"L\xe9vf" in data
    assert decoded([data]) == [[0, 1, 2]]


def test_an_unknown_codec(videos):
    data = videos[0].tobytes()
    assert b"V_VP9" in data
    with pytest.raises(SampleError, match="broken video: the codec of the video is unknown, or FFmpeg has no decoder for the codec"):
        decoded([data.replace(b"V_VP9", b"V_VPX")])


def test_a_frame_that_cannot_be_decoded(videos):
    import av

    with av.open(io.BytesIO(videos[0])) as container:
        packets = [bytes(packet) for packet in container.demux(video=0) if packet.size]
    damaged = videos[0].tobytes().replace(packets[5], bytes(len(packets[5])))
    assert decoded([np.frombuffer(damaged, np.uint8)], end_frame=5) == [[0, 1, 2, 3, 4]]
    with pytest.raises(SampleError, match="broken video: frame 5: Invalid data"):
        decoded([np.frombuffer(damaged, np.uint8)])


@pytest.mark.parametrize("suffix, codec, times", [
    ("webm", "libvpx-vp9", 1), ("mkv", "mpeg4", 1), ("mp4", "mpeg4", 1), ("mov", "mjpeg", 1), ("avi", "mpeg4", 1), ("ts", "mpeg2video", 3),
])  # fmt: skip
def test_a_video_is_opened_once_if_it_can_be_rewound(tmp_path, monkeypatch, suffix, codec, times):
    """Opening costs as much as decoding a frame. Frames are those of a video that is opened for its index, and again for decoding."""
    options = {"max_b_frames": "2", "bf": "2"} if codec == "mpeg4" and suffix != "avi" else {}
    pixels = "yuvj420p" if codec == "mjpeg" else "yuv420p"
    path = write_video(tmp_path / f"v.{suffix}", 9, codec=codec, pixels=pixels, images=photographs(9), **options)
    data = np.fromfile(path, np.uint8)
    index = video_frames.read_index(io.BytesIO(data))
    twice, expected = video_frames.OpenVideo(index, io.BytesIO(data)), np.empty((9, 48, 66, 3), np.uint8)
    twice.read(np.arange(9), expected, [0])
    twice.close()
    opened, genuine = [], video_index._open
    monkeypatch.setattr(video_index, "_open", lambda source: opened.append(source) or genuine(source))
    (whole,), (some,) = run_operator("decoders.video", [data]), run_operator("decoders.video", [data], frames=[7, 2, 7])
    assert np.array_equal(whole, expected) and np.array_equal(some, expected[[7, 2, 7]])
    assert len(opened) == 2 * times


def test_videos_are_closed(videos, monkeypatch):
    """After decoding, and if another video of the batch cannot be opened or has no such frame."""
    made, closed = [], []
    genuine, close = video_frames.OpenVideo.__init__, video_frames.OpenVideo.close
    monkeypatch.setattr(video_frames.OpenVideo, "__init__", lambda self, *rest: made.append(self) or genuine(self, *rest))
    monkeypatch.setattr(video_frames.OpenVideo, "close", lambda self: closed.append(self) or close(self))
    decoded(videos)
    for samples, arguments in (([*videos, np.arange(5000).astype(np.uint8)], {}), (videos, {"start_frame": 1})):
        with pytest.raises(SampleError):
            decoded(samples, **arguments)
    assert len(made) == 9 and sorted(map(id, closed)) == sorted(map(id, made))


def test_in_a_pipeline(videos, tmp_path, monkeypatch):
    """Frames keep their origin and layout. The deprecated name, and the mixed device, give the same results."""
    monkeypatch.setenv("ASYNCDALI_DEVICE", "host")
    names = [str(tmp_path / f"{count}.webm") for count in (10, 7)]
    for name, data in zip(names, videos, strict=False):
        data.tofile(name)

    def graph():
        files, _ = fn.readers.file(files=names)
        length = fn.cast(fn.random.uniform(range=[2, 9.9], seed=4), dtype=types.INT32)
        chosen = {"start_frame": 1, "sequence_length": length, "pad_mode": "edge"}
        older = fn.experimental.decoders.video(files, **chosen)
        return fn.decoders.video(files, **chosen), older, fn.decoders.video(files, device="mixed", **chosen), length

    with pytest.warns(DeprecationWarning, match="decoders.video"):
        pipe = pipeline_of(graph, batch_size=2, device_id=0)
    pipe.build()
    for _ in range(2):
        frames, older, mixed, lengths = pipe.run()
        assert frames.layout() == mixed.layout() == "FHWC" and frames.dtype == types.UINT8
        for k, (count, name, length) in enumerate(zip((10, 7), names, lengths, strict=True)):
            expected = [min(1 + frame, count - 1) for frame in range(int(np.asarray(length)))]
            assert frame_numbers(frames[k], FIRST) == expected and frames[k].source_info() == name
            assert np.array_equal(older[k], frames[k]) and np.array_equal(mixed.as_cpu()[k], frames[k])
    pipe.close()


def test_on_a_gpu(videos, cuda):
    """The CPU decodes the frames, they are uploaded, and GPU operators use them."""

    def graph():
        files = fn.external_source(lambda: videos, batch=True)
        return fn.flip(fn.decoders.video(files)), fn.flip(fn.decoders.video(files, device="mixed"))

    pipe = pipeline_of(graph, device_id=0)
    pipe.build()
    for _ in range(5):
        here, there = pipe.run()
        assert type(there).__name__ == "TensorListGPU"
        assert all(np.array_equal(a, b) for a, b in zip(there.as_cpu(), here, strict=True))
    pipe.close()


def test_without_pyav(videos, monkeypatch):
    monkeypatch.setitem(sys.modules, "av", None)
    with pytest.raises(RuntimeError, match=r"needs PyAV, which is not installed: pip install asyncdali\[video\]"):
        run_operator("decoders.video", videos)

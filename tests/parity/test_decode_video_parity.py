"""decoders.video beside DALI's: selected frames, refusals, and pixels that are equal bit for bit."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("nvidia.dali", reason="parity with DALI needs DALI")
pytest.importorskip("av", reason="decoding videos needs PyAV")

from helpers.operators import PerSample, run_operator
from helpers.parity import dali_output
from helpers.videos import photographs, write_video
from hypothesis import given, settings
from hypothesis import strategies as st

from asyncdali.errors import SampleError

MODES = ("none", "constant", "edge", "repeat", "reflect_1001", "reflect_101", "symmetric", "reflect")


@pytest.fixture(scope="module")
def videos(tmp_path_factory):
    """Encoded videos of 10, 7 and 1 frames, and one whose frames have irregular timestamps."""
    folder = tmp_path_factory.mktemp("videos")
    paths = [write_video(folder / f"{count}.webm", count, 60) for count in (10, 7, 1)]
    paths.append(write_video(folder / "uneven.webm", 8, times=[0, 40, 100, 140, 300, 340, 350, 500]))
    return [np.fromfile(path, np.uint8) for path in paths]


def ours(samples, per_sample=None, **constants):
    return run_operator("decoders.video", samples, **constants, **{key: PerSample(value) for key, value in (per_sample or {}).items()})


def same(samples, per_sample=None, **constants):
    """Both libraries return the same arrays, or both refuse the call."""
    try:
        theirs = dali_output("decoders.video", samples, per_sample=per_sample, **constants)
    except RuntimeError:
        with pytest.raises((SampleError, ValueError)):
            ours(samples, per_sample, **constants)
        return
    for found, expected in zip(ours(samples, per_sample, **constants), theirs, strict=True):
        assert found.shape == expected.shape and found.dtype == expected.dtype
        assert np.array_equal(found, expected)


def per_sample(values):
    return st.lists(values.map(np.int32), min_size=4, max_size=4)


NUMBERS = st.lists(st.integers(-25, 25), max_size=9)


@settings(deadline=None, derandomize=True, max_examples=40)
@given(
    bounds=st.fixed_dictionaries({}, optional={"start_frame": st.integers(-4, 7), "stride": st.integers(1, 6)}),
    end=st.fixed_dictionaries({}, optional={"end_frame": st.integers(-1, 14)})
    | st.fixed_dictionaries({}, optional={"sequence_length": st.integers(-1, 14)}),
    rest=st.fixed_dictionaries({}, optional={
        "pad_mode": st.sampled_from(MODES), "fill_value": st.sampled_from([9, [1, 2, 3]]), "build_index": st.booleans()}),
)  # fmt: skip
def test_ranges(videos, bounds, end, rest):
    same(videos if bounds.get("start_frame", 0) <= 0 else videos[:2], **bounds, **end, **rest)


@settings(deadline=None, derandomize=True, max_examples=12)
@given(frames=NUMBERS, mode=st.sampled_from(MODES), index=st.booleans())
def test_lists(videos, frames, mode, index):
    same(videos, frames=frames, pad_mode=mode, fill_value=7, build_index=index)


@settings(deadline=None, derandomize=True, max_examples=12)
@given(
    chosen=st.fixed_dictionaries({"frames": st.lists(NUMBERS.map(np.int32), min_size=4, max_size=4)})
    | st.fixed_dictionaries({"start_frame": per_sample(st.integers(-3, 0)), "sequence_length": per_sample(st.integers(0, 12))},
                            optional={"stride": per_sample(st.integers(1, 4))}),
    mode=st.sampled_from(["constant", "edge", "reflect", "symmetric"]),
)  # fmt: skip
def test_arguments_per_sample(videos, chosen, mode):
    same(videos, chosen, pad_mode=mode, fill_value=9)


@pytest.mark.parametrize("arguments", [
    {"frames": [1], "stride": 1}, {"frames": [1], "start_frame": 0}, {"frames": [1], "end_frame": 2}, {"frames": [1], "sequence_length": 1},
    {"end_frame": 3, "sequence_length": 2}, {"pad_mode": "odd"}, {"fill_value": [1, 2]}, {"fill_value": 256}, {"fill_value": -1},
    {"fill_value": []}, {"start_frame": 7},
], ids=str)  # fmt: skip
def test_refusals(videos, arguments):
    with pytest.raises(RuntimeError):
        dali_output("decoders.video", videos[:2], **arguments)
    with pytest.raises((SampleError, ValueError)):
        ours(videos[:2], **arguments)


def test_damage(videos):
    whole = videos[0]
    for damaged in (np.zeros(0, np.uint8), np.arange(3000).astype(np.uint8), whole[: len(whole) // 2], whole[:200], whole[:-1]):
        same([videos[1], damaged])
    same([whole[None]])
    same([whole.view(np.int8)])


@pytest.mark.parametrize("codec, suffix, pixels, options", [
    ("libvpx-vp9", "webm", "yuv420p", {}), ("libvpx-vp9", "webm", "yuv444p", {}), ("libvpx", "webm", "yuv420p", {"b": "1M"}),
    ("libvpx", "webm", "yuv420p", {"auto-alt-ref": "1", "lag-in-frames": "16", "b": "1M"}), ("mjpeg", "avi", "yuvj420p", {}),
    ("mjpeg", "mkv", "yuvj444p", {}), ("libvpx-vp9", "mkv", "yuv420p", {"colorspace": "bt709", "color_range": "tv"}),
])  # fmt: skip
def test_pixels(tmp_path, codec, suffix, pixels, options):
    path = write_video(tmp_path / f"v.{suffix}", 9, codec=codec, pixels=pixels, images=photographs(9), **options)
    data = np.fromfile(path, np.uint8)
    same([data])
    same([data], frames=[7, 2, 8, 11, 2], pad_mode="reflect")

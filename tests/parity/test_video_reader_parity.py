"""experimental.readers.video beside DALI's: frames, times, frame numbers, labels and order. Pixels are equal bit for bit."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

pytest.importorskip("nvidia.dali", reason="parity with DALI needs DALI")
pytest.importorskip("av", reason="reading videos needs PyAV")

import nvidia.dali as dali
from helpers.videos import photographs, write_video
from hypothesis import given, settings
from hypothesis import strategies as st

import asyncdali

LENGTHS = (7, 20, 1)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("videos")
    for count in LENGTHS:
        write_video(folder / f"{count}.webm", count)
    write_video(folder / "uneven.webm", 8, times=[0, 40, 100, 140, 300, 340, 350, 500])
    write_video(folder / "late.webm", 8, times=[200 + 40 * k for k in range(8)])
    return folder


def seen(lib, batch=1, runs=3, **arguments):
    """All outputs of some runs, or None if the call is refused."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        pipe = lib.Pipeline(batch_size=batch, num_threads=2, device_id=None, seed=3)
        try:
            with pipe:
                made = lib.fn.experimental.readers.video(name="R", **arguments)
                pipe.set_outputs(*(made if isinstance(made, list) else [made]))
            pipe.build()
            result = [pipe.reader_meta("R")]
            for _ in range(runs):
                outputs = pipe.run()
                result += [(int(column.dtype), column.layout(), [np.asarray(sample).tolist() for sample in column]) for column in outputs]
                result.append([outputs[0][k].source_info() for k in range(batch)])
            return result
        except (RuntimeError, ValueError, TypeError):
            return None


def same(runs=3, **arguments):
    theirs = seen(dali, runs=runs, **arguments)
    assert theirs is not None
    assert seen(asyncdali, runs=runs, **arguments) == theirs


@settings(deadline=None, derandomize=True, max_examples=12)
@given(
    length=st.integers(1, 12), stride=st.integers(1, 4), step=st.integers(-2, 7), batch=st.integers(1, 3),
    mode=st.sampled_from(["none", "constant", "edge", "repeat", "reflect_1001", "reflect_101", "symmetric", "reflect"]),
    extra=st.fixed_dictionaries({}, optional={
        "enable_frame_num": st.sampled_from(["none", "scalar", "sequence", True, False]), "enable_timestamps": st.booleans(),
        "fill_value": st.sampled_from([[9], [1, 2, 3]]), "labels": st.just([4, 5, 6]), "random_shuffle": st.booleans(),
        "num_shards": st.just(2), "initial_fill": st.integers(1, 4), "pad_last_batch": st.booleans()}),
)  # fmt: skip
def test_sequences(folder, length, stride, step, batch, mode, extra):
    files = [str(folder / f"{count}.webm") for count in LENGTHS]
    arguments = {"filenames": files, "sequence_length": length, "stride": stride, "step": step, "pad_mode": mode, "batch": batch, **extra}
    assert seen(asyncdali, **arguments) == seen(dali, **arguments)


LINES = [
    ("frames", "2 5"), ("frames", "-4 -1"), ("frames", "1.5 6.7"), ("timestamps", "0.09 0.37"),
    ("timestamps", "0.08 0.36"), ("timestamps", "0.12 0.2"), ("timestamps", "0.1 0.2"), ("timestamps", "0.04 0.12"),
    ("timestamps", "-0.2 0.3"), ("timestamps", "0 0.76"), ("timestamps", "0.7 0.761"),
]  # fmt: skip


@pytest.mark.parametrize("kind, bounds", LINES)
@pytest.mark.parametrize("rounding", [
    "start_down_end_up", "start_up_end_down", *(pytest.param(name, marks=pytest.mark.slow) for name in ("all_up", "all_down")),
])  # fmt: skip
def test_parts(folder, tmp_path, kind, bounds, rounding):
    (tmp_path / "list").write_text(f"{folder}/20.webm 3 {bounds}\n")
    arguments = {"file_list": str(tmp_path / "list"), "file_list_format": kind, "file_list_rounding": rounding, "enable_timestamps": True}
    same(sequence_length=1, **arguments)


@pytest.mark.parametrize("mode", ["reflect_101", "reflect_1001", "edge", "constant"])
def test_padded_parts(folder, tmp_path, mode):
    (tmp_path / "list").write_text(f"{folder}/20.webm 3 2 7\n")
    for include in (True, False):
        same(file_list=str(tmp_path / "list"), file_list_format="frames", sequence_length=13, pad_mode=mode, file_list_include_end=include)


@pytest.mark.parametrize("name", ["uneven", "late"])
def test_times(folder, tmp_path, name):
    arguments = {"enable_timestamps": True, "enable_frame_num": "sequence"}
    same(filenames=[f"{folder}/{name}.webm"], sequence_length=4, **arguments)
    for bounds in ("0.11 0.345", "0.2 0.35", "0.3 0.4"):
        (tmp_path / "list").write_text(f"{folder}/{name}.webm 3 {bounds}\n")
        same(file_list=str(tmp_path / "list"), sequence_length=1, runs=4, **arguments)


@pytest.mark.parametrize("length", [1, 5, 12])
def test_uniform_samples(folder, length):
    files = [str(folder / f"{count}.webm") for count in LENGTHS]
    same(filenames=files, sequence_length=length, uniform_sample=True, enable_frame_num="sequence")


@pytest.mark.parametrize("codec, suffix, pixels, options", [
    ("libvpx-vp9", "webm", "yuv420p", {}), ("libvpx-vp9", "webm", "yuv444p", {}), ("libvpx", "webm", "yuv420p", {"b": "1M"}),
    ("mjpeg", "avi", "yuvj420p", {}), ("mjpeg", "avi", "yuvj422p", {}), ("mjpeg", "mkv", "yuvj444p", {}),
    ("libvpx-vp9", "webm", "yuv420p", {"colorspace": "bt709", "color_range": "tv"}),
])  # fmt: skip
def test_pixels(tmp_path, codec, suffix, pixels, options):
    path = write_video(tmp_path / f"v.{suffix}", 9, codec=codec, pixels=pixels, images=photographs(9), **options)
    same(filenames=[path], sequence_length=3, step=2, enable_timestamps=True)
    same(filenames=[path], sequence_length=3, step=1, random_shuffle=True, enable_frame_num="sequence")


def test_classes(folder, tmp_path):
    for name in ("b", "a", "c"):
        (tmp_path / name).mkdir()
    write_video(tmp_path / "b" / "1.webm", 5)
    write_video(tmp_path / "a" / "2.webm", 4, 60)
    write_video(tmp_path / "c" / "0.webm", 3, 90)
    same(file_root=str(tmp_path), sequence_length=3, batch=2)
    (tmp_path / "list").write_text(f"{folder}/7.webm 1 0 3\n\n{folder}/gone.webm 9\n{folder}/20.webm 2 10 20\n{folder}/7.webm 7\n")
    same(file_list=str(tmp_path / "list"), file_list_format="frames", sequence_length=2, uniform_sample=True)


REFUSED = [
    {"pad_mode": "odd"}, {"fill_value": [1, 2], "pad_mode": "constant"}, {"fill_value": [300], "pad_mode": "constant"},
    {"enable_frame_num": "odd"}, {"enable_frame_num": 1}, {"labels": [1, 2]}, {"labels": []}, {"file_root": "."}, {"filenames": []},
    {"sequence_length": 9}, {"image_type": 2}, {"file_list_format": "odd", "file_list": "x"}, {"num_shards": 9},
]  # fmt: skip


@pytest.mark.parametrize("arguments", REFUSED, ids=str)
def test_refusals(folder, arguments):
    arguments = {"filenames": [str(folder / "7.webm")], "sequence_length": 3, **arguments}
    assert seen(dali, **arguments) is None
    assert seen(asyncdali, **arguments) is None

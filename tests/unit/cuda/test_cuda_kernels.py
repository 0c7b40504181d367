"""Every kernel, compiled for the host, equals the compiled step of the same plan."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from typing import Any

import numpy as np
import pytest
from helpers import kernels
from helpers.operators import batch_of, first_iteration, make, run_step

from asyncdali import types
from asyncdali.batch import Batch
from asyncdali.operators.base import Arguments

pytestmark = pytest.mark.skipif(kernels.COMPILER is None, reason="no C++ compiler to build kernels for the host")
GUARD = 64
SLOW = pytest.mark.slow  # each pair of types is a kernel that must be compiled


def both(
    name: str,
    samples: list[np.ndarray],
    layout: str = "",
    per_sample: dict[str, Any] | None = None,
    more: tuple[list[np.ndarray], ...] = (),
    layouts: dict[str, str] | None = None,
    **constants: Any,
) -> tuple[list[np.ndarray], list[np.ndarray]]:
    """First output by the compiled step and by the kernel, over one plan each; `layouts` of arguments, and of `more` ("more")."""
    layouts = layouts or {}
    results = []
    for gpu in (False, True):
        inputs = {key: Batch.from_values(np.asarray(value), layouts.get(key, "")) for key, value in (per_sample or {}).items()}
        sources = [batch_of(samples, layout), *[batch_of(other, layouts.get("more", layout)) for other in more]]
        operator = make(name, len(samples), constants, inputs, len(sources))
        planned = operator.plan(sources, Arguments(operator.spec, inputs, len(samples)), first_iteration(operator, len(samples)))
        output = planned.outputs[0]
        memory = np.full(int(output.sizes().sum()) + 2 * GUARD, 0xA5, np.uint8)
        output.place(memory[GUARD:-GUARD])
        for step in planned.steps:
            if gpu:
                assert step.launches is not None
                kernels.run_launches(step.launches())
            else:
                run_step(step, len(samples))
        assert (memory[:GUARD] == 0xA5).all() and (memory[-GUARD:] == 0xA5).all(), "a kernel left its output"
        results.append([np.array(output.sample(i)) for i in range(len(samples))])
    return results[0], results[1]


def assert_close(expected: list[np.ndarray], found: list[np.ndarray], steps: float = 0, relative: float = 0.0, part: float = 0.0) -> None:
    """At most a `part` of the integers differ, and by at most `steps`. Floats differ by at most `relative`."""
    for a, b in zip(expected, found, strict=True):
        assert a.shape == b.shape and a.dtype == b.dtype
        if a.dtype.kind in "iub":
            difference = np.abs(a.astype(np.int64) - b.astype(np.int64))
            assert difference.max(initial=0) <= steps
            assert (difference > 0).mean() <= part if a.size else True
        else:
            a, b = a.astype(np.float64), b.astype(np.float64)
            largest = np.abs(a[np.isfinite(a)]).max(initial=1)
            np.testing.assert_allclose(b, a, rtol=relative, atol=relative * largest)


def pictures(rng: np.random.Generator, count: int, dtype: Any = np.uint8, channels: int = 3, largest: int = 40) -> list[np.ndarray]:
    """Random pictures of random sizes."""
    def one() -> np.ndarray:
        shape = (*rng.integers(1, largest, 2), channels)
        if np.dtype(dtype).kind == "f":
            return rng.normal(0, 50, shape).astype(dtype)
        info = np.iinfo(dtype)
        return rng.integers(info.min, info.max, shape, dtype, endpoint=True)

    return [one() for _ in range(count)]


@pytest.mark.parametrize("seed", [0, pytest.param(1, marks=SLOW), pytest.param(2, marks=SLOW), pytest.param(3, marks=SLOW)])
@pytest.mark.parametrize("out", [types.FLOAT16, *[pytest.param(out, marks=SLOW) for out in (types.FLOAT, types.UINT8, types.INT8)]])
def test_crop_mirror_normalize(seed, out):
    rng = np.random.default_rng(seed)
    dtype = [np.uint8, np.int16, np.float32, np.float16][seed]
    expected, found = both(
        "crop_mirror_normalize", pictures(rng, 5, dtype), "HWC", {"mirror": rng.integers(0, 2, 5).astype(np.int32)}, crop=[17, 23],
        out_of_bounds_policy="pad", fill_values=[3.0], mean=[120.0, 100.0, 7.0], std=[50.0, 60.0, 3.0], dtype=out, scale=40.0,
        output_layout=["CHW", "HWC"][seed % 2], pad_output=bool(seed // 2),
    )  # fmt: skip
    assert_close(expected, found)


@pytest.mark.parametrize("crop", [(20, 24), pytest.param((20, 37), marks=SLOW), (9, 3)])
@pytest.mark.parametrize("out", [types.FLOAT16, pytest.param(types.FLOAT, marks=SLOW), pytest.param(types.UINT8, marks=SLOW)])
def test_pixels_of_bytes_become_planes(crop, out):
    """Four pixels are written at a time: mirrored or not, at every alignment, beyond both borders, for frames and an added channel."""
    rng = np.random.default_rng(4)
    images = [rng.integers(0, 256, (*shape, 3), np.uint8) for shape in ((31, 41), (22, 150), (5, 7), (20, 24))]
    mirror = {"mirror": np.array([0, 1, 1, 0], np.int32)}
    options = {"crop": crop, "out_of_bounds_policy": "pad", "mean": [120.0, 100.0, 7.0], "std": [50.0, 60.0, 3.0], "dtype": out}
    assert_close(*both("crop_mirror_normalize", images, "HWC", mirror, **options, crop_pos_x=0.3, fill_values=[1.0, 2.0, 3.0]))
    clips = [rng.integers(0, 256, (2, 23, width, 3), np.uint8) for width in (40, 41, 42, 43)]
    options |= {"pad_output": True, "output_layout": "FCHW"}
    assert_close(*both("crop_mirror_normalize", clips, "FHWC", mirror, **options, fill_values=[9.0]))


@pytest.mark.parametrize("interp", [types.INTERP_NN, types.INTERP_LINEAR, types.INTERP_CUBIC, types.INTERP_LANCZOS3, types.INTERP_GAUSSIAN])
@pytest.mark.parametrize("dtype", [np.uint8, pytest.param(np.float32, marks=SLOW)])
def test_resize(interp, dtype):
    rng = np.random.default_rng(int(interp))
    sizes = rng.integers(1, 60, (6, 2)).astype(np.float32) * rng.choice([1, -1], (6, 2))
    expected, found = both("resize", pictures(rng, 6, dtype), "HWC", {"size": sizes}, interp_type=interp)
    assert_close(expected, found, steps=1, relative=1e-5, part=0.01)


@pytest.mark.parametrize("interp", [types.INTERP_LINEAR, pytest.param(types.INTERP_CUBIC, marks=SLOW)])
@pytest.mark.parametrize("channels, dtype", [
    (3, np.uint8), *[pytest.param(*pair, marks=SLOW) for pair in [(1, np.uint8), (4, np.uint8), (2, np.int16)]],
])  # fmt: skip
def test_resize_by_tiles(interp, channels, dtype):
    """Several tiles; more taps than source rows fit into shared memory; enlarged and reversed pictures."""
    rng = np.random.default_rng(9)
    sizes = {(30, 701): (12, 520), (420, 301): (7, -9), (9, 5): (-40, 601), (33, 37): (33, 37), (50, 63): (31, 29)}
    samples = [rng.integers(0, 250, (*shape, channels)).astype(dtype) for shape in sizes]
    expected, found = both("resize", samples, "HWC", {"size": np.array([*sizes.values()], np.float32)}, interp_type=interp)
    assert_close(expected, found, steps=1, part=0.01)


@pytest.mark.slow
def test_resize_of_a_region_in_sequences_of_one_channel():
    rng = np.random.default_rng(7)
    samples = [rng.integers(0, 65535, (3, *rng.integers(4, 30, 2), 1), np.uint16) for _ in range(3)]
    expected, found = both(
        "resize", samples, "FHWC", size=[11.0, 13.5], roi_start=[0.1, 0.2], roi_end=[0.9, 0.7], roi_relative=True, dtype=types.FLOAT
    )
    assert_close(expected, found, relative=1e-5)


@pytest.mark.parametrize("axes", [2, 3])
def test_nearest_pixels_of_regions(axes):
    """Positions on the borders of pixels. The kernel and the compiled step must round them in the same way."""
    rng = np.random.default_rng(9)
    extents = rng.integers(2, 40, (40, axes))
    samples = [np.arange(row.prod(), dtype=np.uint16).reshape(*row, 1) for row in extents]
    begin = rng.integers(0, extents).astype(np.float32)
    end = np.where(begin + 1 < extents, extents, 0).astype(np.float32)
    size = rng.integers(1, 50, (40, axes)).astype(np.float32)
    per_sample = {"size": size, "roi_start": begin, "roi_end": end}
    expected, found = both("resize", samples, "DHWC"[3 - axes :], per_sample, interp_type=types.INTERP_NN)
    assert_close(expected, found)


@pytest.mark.slow
def test_resize_of_volumes():
    rng = np.random.default_rng(8)
    samples = [rng.integers(0, 255, (*rng.integers(2, 12, 3), 2), np.uint8) for _ in range(3)]
    expected, found = both("resize", samples, "DHWC", size=[5.0, 9.0, 7.0], dtype=types.FLOAT)
    assert_close(expected, found, relative=1e-5)


def test_flip_of_pixels_of_three_bytes():
    """Rows of any length at unaligned addresses, both axes, and samples that are not flipped, are empty, or have one column."""
    rng = np.random.default_rng(12)
    shapes = [(h, w, 3) for h, w in ((7, 21), (5, 18), (4, 3), (9, 40), (3, 1), (6, 5), (0, 8), (1, 4))]
    samples = [rng.integers(0, 256, shape, np.uint8) for shape in shapes]
    for vertical in (0, 1):
        for flags in (np.ones(8, np.int32), np.array([1, 0, 1, 0, 1, 1, 1, 0], np.int32)):
            expected, found = both("flip", samples, "HWC", {"horizontal": flags}, vertical=vertical)
            for a, b, sample, flag in zip(expected, found, samples, flags, strict=True):
                np.testing.assert_array_equal(b, a)
                np.testing.assert_array_equal(b, sample[:: -1 if vertical else 1, :: -1 if flag else 1])


def test_flip():
    rng = np.random.default_rng(1)
    for dtype, channels in ((np.uint8, 3), (np.float32, 1), (np.int16, 4)):
        flags = {name: rng.integers(0, 2, 5).astype(np.int32) for name in ("horizontal", "vertical")}
        assert_close(*both("flip", pictures(rng, 5, dtype, channels), "HWC", flags))


@pytest.mark.parametrize("policy", [pytest.param("pad", marks=SLOW), "edge", "wrap", "reflect", "reflect_101"])
def test_crop(policy):
    rng = np.random.default_rng(2)
    where = {name: rng.random(5).astype(np.float32) for name in ("crop_pos_x", "crop_pos_y")}
    dtype, out = (np.float32, types.UINT8) if policy == "pad" else (np.uint8, types.FLOAT16)
    assert_close(*both("crop", pictures(rng, 5, dtype), "HWC", where, crop=[19, 33], out_of_bounds_policy=policy, dtype=out))


NUMBERS = {
    "uint8": np.uint8, "int8": np.int8, "uint16": np.uint16, "int16": np.int16, "uint32": np.uint32, "int32": np.int32,
    "uint64": np.uint64, "int64": np.int64, "float32": np.float32, "float64": np.float64, "float16": np.float16, "bool": np.bool_,
}  # fmt: skip


def values_of(name: str) -> np.ndarray:
    """Elements that are critical for a conversion, such as limits, halves and NaN."""
    dtype = np.dtype(NUMBERS[name])
    if dtype.kind == "b":
        return np.array([True, False])
    if dtype.kind in "iu":
        info = np.iinfo(dtype)
        some = [0, 1, 2, 127, 128, 255, 256, 32767, 65535, 65536, 2**31 - 1, 2**31, 2**32 - 1, 2**40, 2**63 - 1, 2**64 - 1, -1, -32769]
        return np.array([value for value in some if info.min <= value <= info.max] + [info.min, info.max], dtype)
    some = [0, -0.0, 0.25, 0.5, -0.5, 1.5, 2.5, -1.5, -2.5, 127.5, 254.5, 255.5, 256, -129, 65504, 65519, 65520, 1e5, -1e5, 2.0**31,
            2.0**32, 2.0**63, 2.0**64, 1e30, -1e30, np.inf, -np.inf, np.nan, 2049, 2051, 1e-7, 6e-8, 3e-8,
            0.49999997, 0.50000006, -0.49999997, 1.4999999, 1.5000001, 2.4999998, 127.49999, 254.49998, 255.49998, 1e-30]  # fmt: skip
    with np.errstate(over="ignore"):
        return np.array(some).astype(dtype)


@pytest.mark.parametrize("source", ["float32", pytest.param("", marks=SLOW)])
def test_cast(source):
    for name in [source] if source else NUMBERS:
        for target in ("uint8", "float16", "int32") if source else NUMBERS:
            if target == name:
                continue
            dtype = getattr(types, {"float32": "FLOAT"}.get(target, target.upper()))
            expected, found = both("cast", [values_of(name), values_of(name)[:3]], dtype=dtype)
            for a, b in zip(expected, found):
                np.testing.assert_array_equal(b.view(f"u{b.itemsize}"), a.view(f"u{a.itemsize}"), f"{name} -> {target}")


def test_copy():
    rng = np.random.default_rng(3)
    assert_close(*both("copy", [rng.integers(0, 255, n, np.uint8) for n in (1, 7, 64, 1000)]))


@pytest.mark.parametrize("out", [types.UINT8, pytest.param(types.FLOAT, marks=SLOW)])
def test_colour(out):
    rng = np.random.default_rng(4)
    arguments = {name: rng.uniform(0.2, 2, 4).astype(np.float32) for name in ("brightness", "contrast")}
    assert_close(*both("brightness_contrast", pictures(rng, 4), "HWC", arguments, dtype=out))
    arguments = {"hue": rng.uniform(-90, 90, 4).astype(np.float32), "saturation": rng.uniform(0, 2, 4).astype(np.float32)}
    assert_close(*both("hsv", pictures(rng, 4), "HWC", arguments, dtype=out))


@pytest.mark.parametrize("constants", [{}, {"fill_value": 7.0}, {"keep_size": True, "interp_type": types.INTERP_NN}])
@pytest.mark.parametrize("dtype, channels", [(np.uint8, 3), pytest.param(np.float32, 1, marks=SLOW)])
def test_rotate(constants, dtype, channels):
    rng = np.random.default_rng(5)
    angles = {"angle": rng.uniform(-180, 180, 6).astype(np.float32)}
    expected, found = both("rotate", pictures(rng, 6, dtype, channels), "HWC", angles, **constants)
    if "interp_type" not in constants:
        assert_close(expected, found, steps=1, relative=1e-3, part=0.02)
        return
    for a, b in zip(expected, found, strict=True):
        np.testing.assert_array_equal(a, b)


def test_the_neighbours_of_long_rows():
    """Positions in long rows are equal to the last bit, also where sums restart (every 256 columns) and where the exponent changes."""
    images = [np.arange(h * w, dtype=np.int32).reshape(h, w, 1) for h, w in ((3, 700), (40, 300), (8, 8), (7, 9))]
    for angle in (45.0, 10.0, -135.0, 179.5):
        expected, found = both("rotate", images, "HWC", angle=angle, interp_type=types.INTERP_NN, fill_value=-1.0)
        for a, b in zip(expected, found, strict=True):
            np.testing.assert_array_equal(a, b)


@pytest.mark.slow
def test_rotate_volumes():
    rng = np.random.default_rng(6)
    samples = [rng.integers(0, 255, (*rng.integers(3, 9, 3), 2), np.uint8) for _ in range(2)]
    assert_close(*both("rotate", samples, "DHWC", angle=33.0, axis=[0.0, 1.0, 1.0], fill_value=3.0), steps=1, part=0.02)


def test_volumes_of_any_width():
    """A warp computes a patch of a tile. Tiles have 32 columns or more, and the last ones of a row and of a volume are not full."""
    rng = np.random.default_rng(9)
    shapes = [(3, 5, 1, 1), (2, 4, 2, 1), (1, 9, 3, 1), (4, 3, 7, 1), (3, 4, 33, 1), (2, 37, 9, 1), (5, 6, 140, 1), (1, 1, 300, 1)]
    samples = [rng.integers(0, 255, shape, np.uint8) for shape in shapes]
    for constants in ({}, {"keep_size": True, "fill_value": 3.0}):
        expected, found = both("rotate", samples, "DHWC", angle=33.0, axis=[0.3, 1.0, 1.0], **constants)
        assert_close(expected, found, steps=1, part=0.02)
        assert [sample.shape for sample in found] == [sample.shape for sample in expected]


def test_warp_affine():
    rng = np.random.default_rng(7)
    matrices = {"matrix": np.stack([[[1, 0.2, -3], [0.1, 0.9, 4]]] * 3).astype(np.float32)}
    assert_close(*both("warp_affine", pictures(rng, 3), "HWC", matrices, fill_value=0.0, size=[20.0, 31.0]), steps=1, part=0.02)


def test_operators_that_copy_pieces():
    rng = np.random.default_rng(8)
    samples = [rng.integers(0, 99, (*rng.integers(3, 9, 2), 3), np.int32) for _ in range(4)]
    assert_close(*both("transpose", samples, "HWC", perm=[2, 0, 1]))
    assert_close(*both("pad", samples, "HWC", axes=[0, 1], fill_value=5.0, align=[4, 8]))
    assert_close(*both("cat", samples, "HWC", more=(samples, samples), axis=1))
    assert_close(*both("cat", samples, "HWC", more=(samples, samples), axis=2))
    bytes_ = [sample.astype(np.uint8) for sample in samples]
    assert_close(*both("cat", bytes_, "HWC", more=(bytes_,), axis=2))
    assert_close(*both("stack", bytes_, "HWC", more=(bytes_, bytes_), axis=3))
    assert_close(*both("stack", samples, "HWC", more=(samples,), axis=0))
    window = {"start": [-2], "shape": [9], "axes": [0], "out_of_bounds_policy": "pad", "fill_values": [1.0, 2.0, 3.0]}
    assert_close(*both("slice", samples, "HWC", **window, dtype=types.FLOAT16))
    places = {"in_ids": np.array([[3, 0], [1, 1], [2, 3], [0, 2]], np.int32), "shapes": np.full((4, 2, 2), 3, np.int32)}
    targets = {"out_anchors": np.array([[[0, 1], [2, 2]]] * 4, np.int32)}
    assert_close(*both("multi_paste", samples, "HWC", {**places, **targets}, output_size=[7, 6], dtype=types.FLOAT))


@pytest.mark.parametrize("dtype", [np.uint8, np.int32])
def test_operators_that_copy_frames(dtype):
    """Frames of any number of bytes, so that frames begin between lines; numbers of frames that differ; long and empty frames."""
    rng = np.random.default_rng(9)
    samples = [rng.integers(0, 99, (5, *rng.integers(1, 9, 2), 3)).astype(dtype) for _ in range(4)]
    samples += [rng.integers(0, 99, (4, 61, 67, 3)).astype(dtype), np.empty((4, 0, 3, 3), dtype)]
    assert_close(*both("sequence_rearrange", samples, "FHWC", new_order=[3, 0, 0, 2, 1, 3, 2]))
    assert_close(*both("sequence_rearrange", samples, "FHWC", {"new_order": rng.integers(0, 4, (6, 9)).astype(np.int32)}))
    assert_close(*both("element_extract", samples, "FHWC", element_map=[2]))


@pytest.mark.slow
def test_kernels_stay_within_their_memory():
    """All tests above run again under AddressSanitizer."""
    if "fsanitize" in os.environ.get("ASYNCDALI_KERNEL_FLAGS", ""):
        pytest.skip("this is that run")
    asan = subprocess.run([kernels.COMPILER, "-print-file-name=libasan.so"], capture_output=True, text=True, check=True).stdout.strip()
    if not os.path.isabs(asan):
        pytest.skip("the compiler has no AddressSanitizer")
    environment = {
        **os.environ, "LD_PRELOAD": asan, "ASAN_OPTIONS": "detect_leaks=0", "ASYNCDALI_KERNEL_FLAGS": "-fsanitize=address -g",
    }  # fmt: skip
    command = [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", __file__]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=900, check=False)
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-4000:]


def test_filters_with_arguments_per_frame():
    """A batch of frames is one launch. The addresses of frames, filters and fill values are known when it is recorded."""
    rng = np.random.default_rng(5)
    clips = [rng.integers(0, 255, (3, *size, 3), np.uint8) for size in ((9, 7), (5, 12))]
    sigmas = np.float32([[0.5, 1, 2], [2, 1, 0.7]])
    assert_close(*both("gaussian_blur", clips, "FHWC", {"sigma": sigmas}, layouts={"sigma": "F"}), steps=1, part=0.02)
    weights = [rng.random((3, 3, 2), np.float32), rng.random((3, 2, 2), np.float32)]
    anchors = rng.integers(0, 2, (2, 3, 2)).astype(np.int32)
    fills = [np.uint8([1, 2, 3]), np.uint8([9, 8, 7])]
    options = {"border": "constant", "dtype": types.FLOAT}
    results = both("filter", clips, "FHWC", {"anchor": anchors}, (weights, fills), {"anchor": "F", "more": "F"}, **options)
    assert_close(*results, relative=1e-5)


def test_pasting_with_regions_per_frame():
    rng = np.random.default_rng(5)
    clips = [rng.integers(0, 255, (3, *size, 3), np.uint8) for size in ((9, 7), (5, 12))]
    anchors = rng.integers(0, 6, (2, 3, 2, 2)).astype(np.int32)
    named = {"out_anchors": anchors, "in_ids": np.int32([[0, 4], [2, 5]])}
    assert_close(*both("multi_paste", clips, "FHWC", named, layouts={"out_anchors": "F"}, output_size=[20, 20]))


@pytest.mark.parametrize("dtype, channels, frames", [
    (np.uint8, (3,), 0), *[pytest.param(dtype, (3, 2, 4), 2, marks=SLOW) for dtype in (np.uint8, np.float32, np.int16, np.float64)],
])  # fmt: skip
def test_planes_and_pixels(dtype, channels, frames, monkeypatch):
    """Planes of two to four channels, and frames. Some sizes are multiples of a line. Each case must take the expected kernel."""
    rng = np.random.default_rng(12)
    entries, run = [], kernels.run_launches

    def noted(launches):
        entries.extend(launch.kernel.entry for launch in launches)
        run(launches)

    monkeypatch.setattr(kernels, "run_launches", noted)

    def transposed(shape, layout, perm):
        for sizes in (((16, 16), (4, 40)), ((7, 33), (1, 50), (5, 3))):
            images = [rng.integers(0, 200, shape(*size)).astype(dtype) for size in sizes]
            assert_close(*both("transpose", images, layout, perm=perm))
            if frames:
                clips = [rng.integers(0, 200, (frames, *shape(*size))).astype(dtype) for size in sizes]
                assert_close(*both("transpose", clips, f"F{layout}", perm=[0, *[axis + 1 for axis in perm]]))

    for count in channels:
        transposed(lambda height, width: (height, width, count), "HWC", [2, 0, 1])  # noqa: B023
    assert set(entries) == {"planes"}
    entries.clear()
    transposed(lambda height, width: (3, height, width), "CHW", [1, 2, 0])
    assert set(entries) == {"interleaved"}


@pytest.mark.parametrize("dtype", [np.uint8, np.float32, pytest.param(np.int16, marks=SLOW), pytest.param(np.float64, marks=SLOW)])
def test_transposes_in_lines(dtype):
    """Rows longer than a line at every alignment, short rows, axes that are merged, planes and pixels."""
    rng = np.random.default_rng(11)
    samples = [rng.integers(0, 200, (int(h), int(w), 3)).astype(dtype) for h, w in rng.integers(20, 60, (7, 2))]
    samples += [np.zeros((0, 4, 3), dtype), rng.integers(0, 9, (1, 1, 3)).astype(dtype)]
    for axis in (0, 1, 2):
        assert_close(*both("cat", samples, "HWC", more=(samples,), axis=axis))
    for axis in (0, 3):
        assert_close(*both("stack", samples, "HWC", more=(samples,), axis=axis))
    for perm in ([2, 0, 1], [2, 1, 0], [1, 0, 2], [1, 2, 0]):
        assert_close(*both("transpose", samples, "HWC", perm=perm))
    assert_close(*both("pad", samples, "HWC", fill_value=7.0))
    assert_close(*both("slice", samples[:7], "HWC", start=[3, 5], shape=[12, 11], axes=[1, 0]))
    regions = {"anchor": [3.0, 2.0, 9.0, 9.0], "shape": [4.0, 15.0, 3.0, 2.0]}
    for fill in ([9.0], [1.0, 2.0, 3.0]):
        assert_close(*both("erase", samples, "HWC", **regions, fill_value=fill, axes=[0, 1]))
    lines = [rng.integers(0, 200, int(n)).astype(dtype) for n in (1, 1000, 17, 0, 333)]
    assert_close(*both("cat", lines, more=(lines[::-1],)))
    assert_close(*both("pad", lines))


# --- how kernels run on the host

BARRIERS = """
import sys
from pathlib import Path
import numpy as np
from asyncdali.device.launch import Kernel
from asyncdali.extending.testing import host_kernel

kernel = Kernel(Path("barriers.cu"), sys.argv[1])
found = np.zeros((3, 8), np.int64)
table = np.array([found.ctypes.data], np.int64)
for _ in range(2):
    host_kernel(kernel)(table.ctypes.data, 3, 1, 8, 0)
print(found.tolist())
"""

BARRIER_KERNELS = """#include "kernel.cuh"

// Each thread adds the numbers of its right neighbours, which are written before the barrier.
KERNEL turned(const int64 *context) {
    __shared__ int64 numbers[8];
    int64 *out = (int64 *)context[0] + blockIdx.x * 8;
    for (int turn = 0; turn < 3; ++turn) {
        numbers[threadIdx.x] = 10 * blockIdx.x + threadIdx.x + turn;
        __syncthreads();
        out[threadIdx.x] += numbers[(threadIdx.x + 1) % 8];
        __syncthreads();
    }
}

KERNEL missed(const int64 *) {
    if (threadIdx.x != 5) __syncthreads();
}
"""


@pytest.mark.parametrize("flags", ["", "-O1 -D_FORTIFY_SOURCE=2"], ids=["plain", "fortified"])
def test_threads_of_a_block_meet_at_barriers(tmp_path, flags):
    """Blocks, launches and threads take turns on the same stacks. Some systems compile with _FORTIFY_SOURCE, which forbids jumps."""
    (tmp_path / "barriers.cu").write_text(BARRIER_KERNELS)
    environment = {**os.environ, "ASYNCDALI_KERNEL_FLAGS": flags, "TMPDIR": str(tmp_path)}
    environment.pop("LD_PRELOAD", None)  # of AddressSanitizer

    def run(entry):
        command = [sys.executable, "-c", BARRIERS, entry]
        return subprocess.run(command, env=environment, cwd=tmp_path, capture_output=True, text=True, timeout=300, check=False)

    done = run("turned")
    expected = [[2 * sum(10 * block + (k + 1) % 8 + turn for turn in range(3)) for k in range(8)] for block in range(3)]
    assert done.stdout == f"{expected}\n", done.stderr
    done = run("missed")
    assert done.returncode == -signal.SIGABRT and "1 of 8 threads of a block ended before a barrier" in done.stderr, done.stderr

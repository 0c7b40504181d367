"""resize, rotate, crop_mirror_normalize, crop, flip and cast beside DALI's with random arguments.

Bounds: resize and rotate within 2 grey levels on 99.9 % of the pixels; the others exactly. Nearest-neighbour choices can differ where a
position is on a pixel's edge to the last bit of float32. Such pixels are counted instead.
"""

from __future__ import annotations

import importlib
import re
from typing import Any

import numpy as np
import pytest
from helpers import operators as harness

from asyncdali.errors import SampleError

dali = pytest.importorskip("nvidia.dali")
fn, types = importlib.import_module("nvidia.dali.fn"), importlib.import_module("nvidia.dali.types")

F32 = np.float32
ALL_TYPES = ["uint8", "uint16", "uint32", "uint64", "int8", "int16", "int32", "int64", "float16", "float32", "float64", "bool"]


def dali_run(name: str, samples: list[Any], layout: str, per_sample: dict[str, Any] | None = None, **constants: Any) -> list[np.ndarray]:
    """The first output of a DALI operator on the CPU."""

    @dali.pipeline_def(batch_size=len(samples), num_threads=1, device_id=None, prefetch_queue_depth=1)
    def pipeline():
        data = fn.external_source(lambda: samples, layout=layout or None)
        nodes = {key: fn.external_source(_feeder(value)) for key, value in (per_sample or {}).items()}
        result = getattr(fn, name)(data, **nodes, **{key: _for_dali(value) for key, value in constants.items()})
        return result[0] if isinstance(result, (list, tuple)) else result

    built = pipeline()
    built.build()
    (output,) = built.run()
    return [np.array(output.at(i)) for i in range(len(samples))]


def _feeder(values: Any) -> Any:
    return lambda: list(values)


def _for_dali(value: Any) -> Any:
    """Our enumerations as DALI's."""
    kind = type(value).__name__
    return getattr(types, kind)(int(value)) if kind in ("DALIDataType", "DALIInterpType") else value


def both(name: str, samples: list[Any], layout: str, per_sample: dict[str, Any] | None = None, **constants: Any) -> tuple[list, list]:
    return dali_run(name, samples, layout, per_sample, **constants), harness.run(name, samples, layout, per_sample, **constants)


def differences(theirs: list[np.ndarray], ours: list[np.ndarray]) -> np.ndarray:
    assert [a.shape for a in theirs] == [b.shape for b in ours]
    assert theirs[0].dtype == ours[0].dtype
    return np.concatenate([np.abs(a.astype(np.float64) - b.astype(np.float64)).ravel() for a, b in zip(theirs, ours)])


def assert_close(theirs: list[np.ndarray], ours: list[np.ndarray], mean: float, limit: float = 2.0) -> None:
    error = differences(theirs, ours)
    assert (error > limit).mean() <= 1e-3 and error.mean() <= mean, (error.max(), (error > limit).mean(), error.mean())


def same(theirs: list[np.ndarray], ours: list[np.ndarray]) -> None:
    assert [a.shape for a in theirs] == [b.shape for b in ours] and theirs[0].dtype == ours[0].dtype
    for a, b in zip(theirs, ours):
        np.testing.assert_array_equal(a, b)


def random_images(rng: np.random.Generator, count: int, low: int, high: int, channels: int, dtype: Any = np.uint8) -> list[np.ndarray]:
    sizes = rng.integers(low, high, (count, 2))
    return [rng.integers(0, 256, (h, w, channels)).astype(dtype) for h, w in sizes]


# ------------------------------------------------------------------------------------------------------------------------- resize


def coordinates(shape: Any) -> np.ndarray:
    """A picture whose pixels are their own coordinates, so a linearly resampled pixel shows its source position."""
    grids = np.meshgrid(*[np.arange(extent, dtype=F32) + F32(0.5) for extent in shape], indexing="ij")
    return np.ascontiguousarray(np.stack(grids, -1))


def random_sizes(rng: np.random.Generator, count: int, axes: int, fractional: bool) -> np.ndarray:
    largest = 90 if axes == 2 else 20
    size = rng.uniform(0.1, largest, (count, axes)) if fractional else rng.integers(1, largest, (count, axes))
    size = np.where(rng.random((count, axes)) < 0.3, 0, size)
    return np.where((rng.random((count, axes)) < 0.2) & (size != 0), -size, size).astype(F32)


@pytest.mark.parametrize("axes", [2, 3])
@pytest.mark.parametrize("region", [None, "absolute", "relative"])
@pytest.mark.parametrize("mode", ["default", "stretch", "not_larger", "not_smaller", "resize_shorter", "resize_longer"])
def test_resize_geometry(mode, region, axes):
    rng = np.random.default_rng([axes, len(mode), len(region or "")])
    count = 60 if axes == 2 else 12
    for fractional, limited in ((False, False), (False, True), (True, False), (True, True)):
        shapes = rng.integers(6, 60 if axes == 2 else 16, (count, axes))
        size = random_sizes(rng, count, axes, fractional)
        per_sample: dict[str, Any] = {"size": size}
        constants: dict[str, Any] = {"subpixel_scale": bool(rng.integers(2)), "antialias": False}
        if mode.startswith("resize"):
            per_sample = {mode: np.where(size[:, 0] == 0, 7, size[:, 0])}
        else:
            constants["mode"] = mode
        if limited:
            constants["max_size"] = [float(value) for value in rng.integers(10, 70, axes)]
        if region:
            # The middle of each region is inside the picture, because DALI reads foreign memory for regions outside of the picture.
            begin, end = rng.uniform(-0.1, 0.4, (count, axes)), rng.uniform(0.5, 1.1, (count, axes))
            turned = rng.random((count, axes)) < 0.3
            begin, end = np.where(turned, end, begin), np.where(turned, begin, end)
            factor = shapes if region == "absolute" else 1
            per_sample |= {"roi_start": (begin * factor).astype(F32), "roi_end": (end * factor).astype(F32)}
            constants["roi_relative"] = region == "relative"
        pictures = [coordinates(shape) for shape in shapes]
        theirs, ours = both("resize", pictures, "HWC" if axes == 2 else "DHWC", per_sample, **constants)
        assert differences(theirs, ours).max(initial=0) < 5e-3


@pytest.mark.parametrize("antialias", [True, False])
@pytest.mark.parametrize("kind", range(6))
@pytest.mark.parametrize("dtype, out", [("uint8", None), ("uint8", "float32"), ("int16", None), ("uint16", None), ("float32", None)])
def test_resize_filters(dtype, out, kind, antialias):
    from asyncdali.types import DALIDataType, DALIInterpType

    rng = np.random.default_rng([kind, antialias, len(dtype)])
    pictures = random_images(rng, 8, 2, 100, int(rng.choice([1, 2, 3, 4])), dtype)
    size = rng.integers(1, 130, (8, 2)).astype(F32)
    constants: dict[str, Any] = {"interp_type": DALIInterpType(kind), "antialias": antialias}
    if out:
        constants["dtype"] = DALIDataType.FLOAT
    theirs, ours = both("resize", pictures, "HWC", {"size": size}, **constants)
    if kind == 0:
        same(theirs, ours)
    else:
        assert_close(theirs, ours, 0.01, limit=1)


@pytest.mark.parametrize("kind", [0, 1, 2])
@pytest.mark.parametrize(
    "layout, shape", [("FHWC", (3, 30, 40, 3)), ("CHW", (3, 30, 40)), ("FCHW", (2, 3, 30, 40)), ("CFHW", (2, 3, 30, 40)),
                      ("DHWC", (9, 20, 30, 3)), ("CDHW", (2, 9, 20, 30)), ("FDHWC", (2, 9, 20, 30, 2))],
)  # fmt: skip
def test_resize_layouts(layout, shape, kind):
    from asyncdali.types import DALIInterpType

    rng = np.random.default_rng(kind)
    axes = 3 if "D" in layout else 2
    pictures = [rng.integers(0, 256, shape).astype(np.uint8) for _ in range(3)]
    size = rng.integers(5, 50, (3, axes)).astype(F32)
    theirs, ours = both("resize", pictures, layout, {"size": size}, interp_type=DALIInterpType(kind))
    assert_close(theirs, ours, 0.01, limit=1 if kind else 0)


@pytest.mark.parametrize("scale", [1, 3, 5, 7, 9, 11, 13, 1 / 3, 1 / 5])
def test_gaussian_weights_at_the_edge(scale):
    """The outermost taps of a Gaussian (weight 1.8 %) are included or excluded as in DALI. Impulses show the weights."""
    from asyncdali.types import DALIInterpType

    extent = round(40 * max(scale, 1))
    impulses = np.repeat(np.eye(extent, dtype=F32)[:, None, :], 2, 1).reshape(2 * extent, extent, 1)
    size = np.array([[extent, round(extent / scale)]], F32)
    filters = {"min_filter": DALIInterpType.INTERP_GAUSSIAN, "mag_filter": DALIInterpType.INTERP_NN}
    if scale <= 1:
        filters = {"min_filter": DALIInterpType.INTERP_NN, "mag_filter": DALIInterpType.INTERP_GAUSSIAN, "antialias": False}
    theirs, ours = both("resize", [impulses], "HWC", {"size": size}, **filters)
    np.testing.assert_allclose(ours[0], theirs[0], atol=1e-4)


def test_resize_training_crop():
    rng = np.random.default_rng(1)
    pictures = random_images(rng, 6, 150, 300, 3)
    shapes = np.array([picture.shape[:2] for picture in pictures])
    start = (rng.uniform(0, 0.4, (6, 2)) * shapes).astype(F32)
    end = (rng.uniform(0.5, 1, (6, 2)) * shapes).astype(F32)
    theirs, ours = both("resize", pictures, "HWC", {"roi_start": start, "roi_end": end}, size=[224.0, 224.0])
    assert_close(theirs, ours, 0.01, limit=1)


# ------------------------------------------------------------------------------------------------------------------------- rotate


@pytest.mark.parametrize("fill", [None, 50.0, -7.0, 300.0, 1.5, 254.7])
@pytest.mark.parametrize("linear", [True, False])
@pytest.mark.parametrize(
    "dtype, out", [("uint8", "UINT8"), ("uint8", "FLOAT"), ("int16", "INT16"), ("int32", "FLOAT"), ("float32", "FLOAT"),
                   ("float32", "UINT8"), ("float32", "INT16"), ("float32", "INT32")],
)  # fmt: skip
def test_rotate(dtype, out, linear, fill):
    from asyncdali.types import DALIDataType, DALIInterpType

    rng = np.random.default_rng([len(dtype), len(out), linear])
    pictures = random_images(rng, 30, 1, 80, int(rng.choice([1, 2, 3, 4])), dtype)
    angles = rng.uniform(-200, 200, 30).astype(F32)
    angles[:8] = rng.choice([0, 15, 30, 45, -45, 90, 135, 180, 270], 8) if linear else rng.choice([0, 90, 180, 270], 8)
    constants: dict[str, Any] = {"interp_type": DALIInterpType(int(linear)), "dtype": DALIDataType[out]}
    if fill is not None:
        constants["fill_value"] = fill
    theirs, ours = both("rotate", pictures, "HWC", {"angle": angles}, **constants)
    if linear:
        assert_close(theirs, ours, 0.01, limit=1)
    else:
        assert (differences(theirs, ours) > 0).mean() < 1e-3


@pytest.mark.parametrize("axes", [2, 3])
def test_rotate_canvas(axes):
    rng = np.random.default_rng(axes)
    count = 400 if axes == 2 else 100
    shapes = rng.integers(1, 50 if axes == 2 else 16, (count, axes))
    angles = rng.uniform(-400, 400, count).astype(F32)
    angles[: count // 3] = np.round(angles[: count // 3] / 15) * 15
    per_sample = {"angle": angles}
    if axes == 3:
        per_sample["axis"] = rng.normal(0, 1, (count, 3)).astype(F32)
    pictures = [np.zeros((*shape, 1), np.uint8) for shape in shapes]
    same(*both("rotate", pictures, "HWC" if axes == 2 else "DHWC", per_sample))


def test_rotate_volumes_sequences_sizes():
    rng = np.random.default_rng(0)
    volumes = [rng.integers(0, 256, (*rng.integers(1, 14, 3), 2)).astype(np.uint8) for _ in range(8)]
    per_sample = {"angle": rng.uniform(-180, 180, 8).astype(F32), "axis": rng.normal(0, 1, (8, 3)).astype(F32)}
    for constants in ({}, {"fill_value": 9.0}, {"keep_size": True, "fill_value": 1.0}, {"size": [5.0, 6.5, 7.4]}):
        assert_close(*both("rotate", volumes, "DHWC", per_sample, **constants), mean=0.01, limit=1)
    frames = [rng.integers(0, 256, (3, 20, 30, 3)).astype(np.uint8) for _ in range(3)]
    assert_close(*both("rotate", frames, "FHWC", {"angle": np.array([10, 20, -30], F32)}, fill_value=0.0), mean=0.01, limit=1)
    pictures = random_images(rng, 5, 5, 40, 3)
    size = rng.uniform(1, 50, (5, 2)).astype(F32)
    assert_close(*both("rotate", pictures, "", {"size": size}, angle=33.0, fill_value=0.0), mean=0.01, limit=1)


# -------------------------------------------------------------------------------------------------------------- crop and normalise


@pytest.mark.parametrize("policy", ["error", "pad", "trim_to_shape"])
@pytest.mark.parametrize("rounding", ["round", "truncate"])
@pytest.mark.parametrize("operator", ["crop", "crop_mirror_normalize"])
def test_windows(operator, rounding, policy):
    rng = np.random.default_rng([len(operator), len(rounding), len(policy)])
    count = 100
    pictures = random_images(rng, count, 3, 30, 3)
    shapes = np.array([picture.shape[:2] for picture in pictures])
    largest = shapes if policy == "error" else np.full_like(shapes, 40)
    window = rng.uniform(0.6, largest + 0.9).astype(F32)
    position = np.where(rng.random((count, 2)) < 0.5, np.round(rng.random((count, 2)) * 8) / 8, rng.random((count, 2))).astype(F32)
    per_sample = {"crop_h": window[:, 0], "crop_w": window[:, 1], "crop_pos_y": position[:, 0], "crop_pos_x": position[:, 1]}
    constants: dict[str, Any] = {"rounding": rounding, "out_of_bounds_policy": policy}
    if policy == "pad":
        constants["fill_values"] = [7.0, 8.0, 9.0]
    same(*both(operator, pictures, "HWC", per_sample, **constants))


@pytest.mark.parametrize(
    "dtype, out",
    [("uint8", "FLOAT"), ("uint8", "FLOAT16"), ("uint8", "UINT8"), ("float16", "FLOAT"), ("float32", "INT8"), ("int32", "FLOAT16")],
)
def test_normalisation(dtype, out):
    from asyncdali.types import DALIDataType

    rng = np.random.default_rng([len(dtype), len(out)])
    pictures = random_images(rng, 6, 9, 40, 3, dtype)
    if dtype.startswith("float"):
        pictures = [((picture - 128) * 1.7).astype(dtype) for picture in pictures]
    mirror = rng.integers(0, 2, 6).astype(np.int32)
    for layout, pad, shift in (("CHW", False, 0.0), ("HWC", False, 0.3), ("CHW", True, 11.7), ("WHC", True, 0.0)):
        same(*both(
            "crop_mirror_normalize", pictures, "HWC", {"mirror": mirror}, dtype=DALIDataType[out], mean=[123.675, 116.28, 103.53],
            std=[58.395, 57.12, 57.375], scale=1.7, shift=shift, output_layout=layout, pad_output=pad, crop=[9.0, 8.0],
            out_of_bounds_policy="pad", fill_values=[3.5],
        ))  # fmt: skip


@pytest.mark.parametrize(
    "layout, shape, outputs", [
        ("CHW", (3, 9, 12), ("CHW", "HWC")), ("FHWC", (2, 9, 12, 3), ("FHWC", "FCHW")), ("DHWC", (4, 9, 12, 3), ("CDHW", "DHWC")),
        ("CFHW", (3, 2, 9, 12), ("FHWC",)), ("FDHWC", (2, 3, 9, 12, 1), ("FCDHW",)),
    ],
)  # fmt: skip
def test_layouts_and_per_sample_statistics(layout, shape, outputs):
    rng = np.random.default_rng(0)
    channels = shape[layout.index("C")]
    samples = [rng.integers(0, 256, shape).astype(np.uint8) for _ in range(4)]
    per_sample = {"mean": rng.uniform(0, 255, (4, channels)).astype(F32), "std": rng.uniform(1, 60, (4, channels)).astype(F32),
                  "mirror": np.array([0, 1, 2, 0], np.int32)}  # fmt: skip
    for output in outputs:
        same(*both("crop_mirror_normalize", samples, layout, per_sample, output_layout=output, crop=[5.0, 7.0]))
    for crop in ([5.0, 7.0], [1.0, 5.0, 7.0]) if len(layout) < 5 else ():  # DALI's crop refuses five axes.
        same(*both("crop", samples, layout, crop=crop))


@pytest.mark.parametrize("policy", ["edge", "clamp", "wrap", "reflect", "reflect_1001", "reflect_101"])
def test_crop_borders(policy):
    rng = np.random.default_rng(0)
    pictures = random_images(rng, 20, 2, 9, 3)
    crop = rng.integers(1, 30, (20, 2)).astype(F32)
    same(*both("crop", pictures, "HWC", {"crop": crop}, out_of_bounds_policy=policy))
    planes = [np.ascontiguousarray(picture.transpose(2, 0, 1)) for picture in pictures]
    same(*both("crop", planes, "CHW", {"crop": crop}, out_of_bounds_policy=policy))


@pytest.mark.parametrize(
    "dtype", ["uint8", "int8", "uint16", "int16", "int32", "uint32", "int64", "uint64", "float16", "float32", "float64"]
)
def test_crop_types(dtype):
    from asyncdali.types import DALIDataType

    rng = np.random.default_rng(len(dtype))
    samples = [
        (rng.integers(-300, 300, (5, 6, 2)) / 2).astype(np.float64).clip(np.iinfo(dtype).min if "int" in dtype else None).astype(dtype)
    ]
    others = (DALIDataType.FLOAT, DALIDataType.FLOAT16, DALIDataType.UINT8)
    for out in (None, others[ALL_TYPES.index(dtype) % 3]):  # Every variant is compiled, so only some pairs are tested.
        constants = {} if out is None else {"dtype": out}
        same(*both("crop", samples, "HWC", crop=[7.0, 4.0], out_of_bounds_policy="pad", fill_values=[99.5], **constants))


@pytest.mark.parametrize("dtype, out", [("float32", "FLOAT16"), ("int32", "FLOAT16"), ("float64", "FLOAT")])
def test_crop_and_slice_saturate_floats(dtype, out):
    from asyncdali.types import DALIDataType

    values = [0, 3, 2049, 65504, 65519, 65520, 2**30, -(2**30), *([] if dtype == "int32" else [3.3, np.inf, -np.inf, np.nan, 3e38])]
    samples = [np.array(values, dtype).reshape(1, -1, 1)]
    if dtype == "float64":
        samples[0][0, -1] = -1e300
    for name, constants in (("crop", {"crop": [1.0, 7.0]}), ("slice", {"start": [1], "shape": [len(values) - 1], "axes": [1]})):
        same(*both(name, samples, "HWC", dtype=DALIDataType[out], **constants))


# ---------------------------------------------------------------------------------------------------------------------- flip, cast


@pytest.mark.parametrize("dtype", ["uint8", "int16", "float32", "float64"])
@pytest.mark.parametrize(
    "layout, shape", [("HWC", (5, 7, 3)), ("HWC", (5, 7, 1)), ("CHW", (3, 5, 7)), ("DHWC", (2, 5, 7, 2)), ("FHWC", (2, 5, 7, 5)),
                      ("FCDHW", (2, 2, 3, 4, 5)), ("", (5, 7, 4))],
)  # fmt: skip
def test_flip(layout, shape, dtype):
    rng = np.random.default_rng(0)
    samples = [rng.integers(0, 256, shape).astype(dtype) for _ in range(8)]
    bits = np.arange(8, dtype=np.int32)
    same(*both("flip", samples, layout, {"horizontal": bits & 1, "vertical": bits >> 1 & 1, "depthwise": bits >> 2}))


@pytest.mark.parametrize("source", ALL_TYPES)
def test_cast(source):
    from asyncdali.batch import from_numpy_dtype

    if source == "bool":
        values = np.array([True, False])
    elif source.startswith("float"):
        values = np.array(
            [0, -0.0, 0.49999997, 0.5, -0.5, 1.5, 2.5, -2.5, 254.5, 255.5, 300, -300, 32767.5, 65519, 7e4, 3e9, -3e9, 1e19, 1e30]
        )
        with np.errstate(over="ignore"):
            values = values.astype(source)
    else:
        info = np.iinfo(source)
        values = np.unique(np.array([info.min, info.max, 0, 1, 127, 100, info.max // 2 + 1, info.max // 3], source))
    for target in ALL_TYPES:
        theirs, ours = both("cast", [values], "", dtype=from_numpy_dtype(target))
        np.testing.assert_array_equal(theirs[0], ours[0], err_msg=f"{source} -> {target}")


# -------------------------------------------------------------------------------------------------------------------------- errors


@pytest.mark.parametrize(
    "name, constants", [
        ("resize", {}), ("resize", {"size": [5.0], "resize_x": 4.0}), ("resize", {"size": [1.0, 2.0, 3.0]}),
        ("resize", {"size": [5.0], "mode": "x"}),
        ("resize", {"resize_shorter": 5.0, "mode": "stretch"}), ("resize", {"size": [5.0], "roi_start": [0.0]}),
        ("resize", {"size": [5.0], "max_size": [1.0, 2.0, 3.0]}), ("rotate", {"angle": 1.0, "size": [4.0]}),
        ("rotate", {"angle": 1.0, "size": [0.0, 4.0]}), ("crop", {"crop": [3.0]}), ("crop", {"crop_w": 3.0}), ("crop", {"crop_d": 3.0}),
        ("crop", {"crop": [3.0, 3.0], "crop_w": 3.0, "crop_h": 3.0}), ("crop", {"crop": [99.0, 3.0]}), ("crop", {"rounding": "up"}),
        ("crop", {"crop": [9.0, 9.0], "out_of_bounds_policy": "mirror"}), ("crop", {"crop": [2.0, 2.0], "crop_pos_x": 1.5}),
        ("crop_mirror_normalize", {"mean": [1.0, 2.0]}), ("crop_mirror_normalize", {"mean": [1.0, 2.0, 3.0], "std": [1.0, 2.0]}),
        ("crop_mirror_normalize", {"output_layout": "HW"}), ("crop_mirror_normalize", {"output_layout": "CDHW"}),
        ("crop_mirror_normalize", {"fill_values": [1.0, 2.0], "out_of_bounds_policy": "pad"}),
    ],
)  # fmt: skip
def test_both_refuse(name, constants):
    samples = [np.zeros((6, 7, 3), np.uint8)]
    with pytest.raises((ValueError, RuntimeError)) as theirs:
        dali_run(name, samples, "HWC", **constants)
    with pytest.raises((ValueError, SampleError)) as ours:
        harness.run(name, samples, "HWC", **constants)
    assert type(ours.value).__name__ in ("ValueError", "SampleError"), ours.value
    # The argument at fault is named in both messages.
    named = [key for key in constants if re.search(rf"`{key}`", str(theirs.value))]
    assert all(key in str(ours.value) for key in named), (str(theirs.value), str(ours.value))

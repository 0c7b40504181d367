"""slice and pad beside DALI's with random samples and arguments."""

from __future__ import annotations

import numpy as np
import pytest
from helpers.tensor_parity import ALL_TYPES, compare, random_array, random_cases

from asyncdali.types import DALIDataType

pytest.importorskip("nvidia.dali")

NUMBERS = [name for name in ALL_TYPES if name != "bool"]
LAYOUTS = {1: ["", "X"], 2: ["", "HW", "WH", "XY"], 3: ["", "HWC", "CHW", "XYZ"], 4: ["", "DHWC", "CDHW", "FHWC"]}
POLICIES = ["error", "pad", "constant", "trim_to_shape", "edge", "clamp", "wrap", "reflect", "reflect_1001", "reflect_101"]

LENIENT = ("Unexpected shape for argument",)
"""Arguments that we accept: one value per sample where there are several axes."""


def samples_of(rng, ndim, dtype, largest=7):
    shapes = rng.integers(1, largest, (int(rng.integers(1, 5)), ndim))
    return [random_array(rng, tuple(shape), dtype) for shape in shapes]


def check_slice(rng, converted=("int16",)):
    ndim, dtype = int(rng.integers(1, 5)), str(rng.choice(NUMBERS))
    samples = samples_of(rng, ndim, dtype)
    layout = str(rng.choice(LAYOUTS[ndim]))
    policy = str(rng.choice(POLICIES))
    constants = {"out_of_bounds_policy": policy, "fill_values": [float(rng.integers(0, 100)) + 0.75]}
    axes = [int(axis) for axis in rng.permutation(ndim)[: rng.integers(1, ndim + 1)]]
    channel = (layout or {3: "HWC", 4: "DHWC"}.get(ndim, "")).find("C")
    if channel >= 0 and rng.random() < 0.4:
        # One fill value per channel. The number of values is always right, because DALI may hang after it has refused a wrong number.
        constants["fill_values"] = rng.integers(0, 100, 3).astype(float).tolist()
        samples = [random_array(rng, (*sample.shape[:channel], 3, *sample.shape[channel + 1 :]), dtype) for sample in samples]
        axes = [axis for axis in axes if axis != channel] or [0 if channel else 1]
    if rng.random() < 0.3 and layout:
        constants["axis_names"] = "".join(layout[axis] for axis in axes)
    elif rng.random() < 0.9:
        constants["axes"] = [axis - ndim if rng.random() < 0.2 else axis for axis in axes]
    else:
        axes = [0, 1]
        if channel in axes:
            del constants["fill_values"]
    if rng.random() < 0.3:
        constants["dtype"] = rng.choice([DALIDataType.FLOAT, DALIDataType.FLOAT16, DALIDataType.UINT8])
        constants["dtype"] = DALIDataType(int(constants["dtype"]))
        # Few pairs of types, because each pair is a kernel to compile. With a fill value per channel DALI does not saturate.
        if dtype not in converted or len(constants.get("fill_values", "")) == 3:
            del constants["dtype"]
    extents = np.array([[sample.shape[axis] for axis in axes] if max(axes) < ndim else [1] * len(axes) for sample in samples])
    reach = 0 if policy == "error" and rng.random() < 0.8 else 3
    start = rng.integers(-reach, extents + reach) if reach else rng.integers(0, extents)
    size = rng.integers(0, extents + reach - np.minimum(start, extents) + 1)
    if rng.random() < 0.3:
        return positional(rng, samples, layout, extents, start, size, constants)
    named = {}
    for choice, absolute, relative in (
        (("start", "rel_start"), start, start / extents),
        (("end", "rel_end"), start + size, (start + size) / extents),
    ):
        if rng.random() < 0.1:
            continue
        name, values = (choice[0], absolute.astype(np.int32)) if rng.random() < 0.6 else (choice[1], relative.astype(np.float32))
        if choice[0] == "end" and rng.random() < 0.5:
            name, values = ("shape", size.astype(np.int32)) if rng.random() < 0.6 else ("rel_shape", (size / extents).astype(np.float32))
        if rng.random() < 0.6:
            named[name] = list(values)
        else:
            constants[name] = values[0].tolist()
    compare("slice", [samples], [layout], named, theirs_only=LENIENT, **constants)


def positional(rng, samples, layout, extents, start, size, constants):
    kind = str(rng.choice(["float32", "int32", "int64"]))
    if kind == "float32":
        anchor_relative, shape_relative = rng.random() < 0.6, rng.random() < 0.6
        constants |= {"normalized_anchor": bool(anchor_relative), "normalized_shape": bool(shape_relative)}
        start, size = start / (extents if anchor_relative else 1), size / (extents if shape_relative else 1)
    inputs = [list(start.astype(kind)), list(size.astype(kind))]
    compare("slice", [samples, *inputs], [layout, "", ""], theirs_only=LENIENT, **constants)


def check_pad(rng):
    ndim, dtype = int(rng.integers(1, 5)), str(rng.choice([name for name in ALL_TYPES if name != "float64"]))
    samples = samples_of(rng, ndim, dtype)
    layout = str(rng.choice(LAYOUTS[ndim]))
    count, named, constants = len(samples), {}, {}
    axes = [int(axis) for axis in rng.permutation(ndim)[: rng.integers(1, ndim + 1)]]
    way = rng.random()
    if way < 0.3 and layout:
        constants["axis_names"] = "".join(layout[axis] for axis in axes)
    elif way < 0.6:
        constants["axes"] = [axis - ndim if rng.random() < 0.3 else axis for axis in axes]
    elif way < 0.7:
        named["axes"] = [rng.permutation(ndim)[: len(axes)].astype(np.int32) for _ in range(count)]
    else:
        axes = list(range(ndim))
    for name, low in (("shape", -1), ("align", 1)):
        length = len(axes) if rng.random() < 0.8 else 1
        if rng.random() < 0.4:
            constants[name] = rng.integers(low, 10, length).tolist()
        elif rng.random() < 0.5:
            named[name] = list(rng.integers(low, 10, (count, length)).astype(np.int32))
    if rng.random() < 0.5:
        constants["fill_value"] = float(rng.uniform(-300, 300)) if np.dtype(dtype).kind == "i" else float(rng.uniform(0, 300))
    else:
        named["fill_value"] = [np.float32(value) for value in rng.uniform(0, 120, count)]
    compare("pad", [samples], [layout], named, theirs_only=LENIENT, **constants)


CHECKS = [check_slice, check_pad]


@pytest.mark.parametrize("check", CHECKS)
def test_random_cases(check):
    random_cases(check, 200)


@pytest.mark.slow
@pytest.mark.parametrize("check", [lambda rng: check_slice(rng, ("uint8", "int16", "float32")), check_pad])
def test_many_random_cases(check):
    random_cases(check, 4000)

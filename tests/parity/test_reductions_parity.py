"""reductions.* beside DALI's: equal to the last bit, also for floats."""

from __future__ import annotations

import numpy as np
import pytest
from helpers.tensor_parity import compare, random_array, random_cases

from asyncdali.types import DALIDataType

pytest.importorskip("nvidia.dali")

INTEGERS = ["uint8", "int8", "uint16", "int16", "uint32", "int32", "uint64", "int64"]
LETTERS = "FDHWC"


def samples_of(rng, dtype):
    ndim, count = int(rng.integers(0, 5)), int(rng.integers(1, 4))
    largest = int({0: 2, 1: 3000, 2: 90, 3: 40, 4: 12}[ndim]) if rng.random() < 0.7 else 4
    shapes = rng.integers(1, largest, (count, ndim))
    if ndim and rng.random() < 0.3:
        shapes[:, rng.integers(ndim)] = 1
    if ndim and rng.random() < 0.05:
        shapes[0, rng.integers(ndim)] = 0
    return [random_array(rng, tuple(shape), dtype) for shape in shapes]


def axes_of(rng, ndim):
    """Arguments that name some axes, and the layout."""
    layout = LETTERS[:ndim] if rng.random() < 0.5 else ""
    chosen = [int(axis) for axis in rng.permutation(ndim)[: rng.integers(0, ndim + 1)]]
    way = rng.random()
    if way < 0.2:
        arguments = {}
    elif way < 0.4 and layout and chosen:
        arguments = {"axis_names": "".join(layout[axis] for axis in chosen)}
    else:
        arguments = {"axes": [axis - ndim if rng.random() < 0.3 else axis for axis in chosen]}
        if rng.random() < 0.03:
            arguments["axes"].append(int(rng.choice([ndim, -ndim - 1])))
    return layout, {**arguments, "keep_dims": bool(rng.integers(2))}, chosen if arguments else list(range(ndim))


def type_of(dtype):
    return DALIDataType[{"float32": "FLOAT"}.get(dtype, dtype.upper())]


def dtypes_for(name, dtype):
    """Output types in which DALI's sums do not overflow. DALI adds in the output type."""
    wide = DALIDataType.UINT64 if dtype.startswith("u") else DALIDataType.INT64
    if dtype == "float32":
        return [DALIDataType.FLOAT]
    if name == "sum":
        return [type_of(dtype), wide] if dtype.endswith("64") else [type_of(dtype), wide, DALIDataType.FLOAT]
    if name == "mean_square" and np.dtype(dtype).itemsize < 4:
        return [wide, DALIDataType.FLOAT]
    return [DALIDataType.FLOAT]


def check_sums(rng, dtypes=("uint8", "float32", "int64")):
    dtype, name = str(rng.choice(dtypes)), str(rng.choice(["sum", "mean", "mean_square", "rms"]))
    if dtype == "uint16" and name in ("mean_square", "rms"):
        dtype = "int16"  # DALI squares uint16 values as int, which overflows.
    samples = samples_of(rng, dtype)
    if dtype in ("int64", "uint64") and name in ("mean_square", "rms"):
        samples = [sample >> sample.dtype.type(36) for sample in samples]  # DALI's squares of larger numbers overflow.
    layout, arguments, _ = axes_of(rng, samples[0].ndim)
    if rng.random() < 0.5:
        arguments["dtype"] = DALIDataType(int(rng.choice([int(kind) for kind in dtypes_for(name, dtype)])))
    compare(f"reductions.{name}", [samples], [layout], **arguments)


def check_extremes(rng, dtypes=("uint8", "int16", "float32")):
    samples = samples_of(rng, str(rng.choice(dtypes)))
    layout, arguments, _ = axes_of(rng, samples[0].ndim)
    if samples[0].dtype == np.float32 and rng.random() < 0.3:
        for sample in samples:
            sample[rng.random(sample.shape) < 0.2] = rng.choice([np.nan, np.inf, -np.inf])
    compare(f"reductions.{rng.choice(['min', 'max'])}", [samples], [layout], **arguments)


def check_deviations(rng, dtypes=("uint8", "float32", "int32")):
    samples = samples_of(rng, str(rng.choice(dtypes)))
    layout, arguments, axes = axes_of(rng, samples[0].ndim)
    with np.errstate(all="ignore"):
        wide = [sample.astype(np.float64) for sample in samples]
        means = [np.float32(sample.sum(axis=tuple(axes), keepdims=arguments["keep_dims"]) / max(sample.size, 1)) for sample in wide]
    name = str(rng.choice(["variance", "std_dev"]))
    compare(f"reductions.{name}", [samples, means], [layout, ""], **arguments, ddof=int(rng.integers(0, 3)))


def every_type(check, *more):
    def test(rng):
        check(rng, [*INTEGERS, "float32"])

    test.__name__ = check.__name__
    return test


CHECKS = [check_sums, check_extremes, check_deviations]


@pytest.mark.parametrize("check", CHECKS)
def test_random_cases(check):
    random_cases(check, 100)


@pytest.mark.slow
@pytest.mark.parametrize("check", CHECKS)
def test_many_random_cases(check):
    random_cases(every_type(check), 3000)

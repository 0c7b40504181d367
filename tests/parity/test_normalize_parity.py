"""normalize beside DALI's. DALI uses the processor's approximation of 1 / sqrt(x), so results differ by a few units of the last place."""

from __future__ import annotations

import numpy as np
import pytest
from helpers.tensor_parity import compare, random_array, random_cases

from asyncdali.types import DALIDataType

pytest.importorskip("nvidia.dali")

LETTERS = "DHWC"
INPUTS = ["uint8", "int8", "uint16", "int16", "float32"]
OUTPUTS = ["FLOAT", "UINT8", "INT16", "INT32"]


def parameters(rng, samples, axes, names, low):
    """Means or deviations: tensors of the input's rank, with an extent of 1 along `axes`."""
    shapes = [[1 if axis in axes else extent for axis, extent in enumerate(sample.shape)] for sample in samples]
    return {name: [rng.uniform(low if name == "stddev" else -100, 100, shape).astype(np.float32) for shape in shapes] for name in names}


def check_normalize(rng, inputs=("uint8", "float32"), outputs=("FLOAT", "INT16")):
    ndim, count = int(rng.integers(1, 5)), int(rng.integers(1, 4))
    dtype = str(rng.choice(inputs))
    batch = bool(rng.random() < 0.25)
    axes = sorted(int(axis) for axis in rng.permutation(ndim)[: rng.integers(1, ndim + 1)])
    shapes = rng.integers(1, {1: 300, 2: 40, 3: 20, 4: 8}[ndim], (count, ndim))
    if batch:
        kept = [axis for axis in range(ndim) if axis not in axes]
        shapes[:, kept] = shapes[0, kept]
    samples = [random_array(rng, tuple(shape), dtype) for shape in shapes]
    constants, named = {}, {}
    if rng.random() < 0.1:
        samples[0][...] = 3
    way = rng.random()
    if way < 0.15:
        constants |= {"mean": float(rng.uniform(-9, 9)), "stddev": round(float(rng.uniform(0.1, 9)), 1)}
        if batch:
            axes = list(range(ndim))
    elif way < 0.35:
        constants[str(rng.choice(["mean", "stddev"]))] = float(rng.uniform(1, 9))
    elif way < 0.6 and not batch:
        named = parameters(rng, samples, axes, [["mean"], ["stddev"], ["mean", "stddev"]][rng.integers(3)], 0.5)
    layout = LETTERS[:ndim] if rng.random() < 0.5 else ""
    both = way < 0.15
    derived = bool(named) and rng.random() < 0.5 and (shapes[:, [axis for axis in range(ndim) if axis not in axes]] > 1).all()
    if not both and not derived:
        constants |= {"axis_names": "".join(layout[axis] for axis in axes)} if layout and rng.random() < 0.5 else {"axes": axes}
    elif batch:
        shapes[:] = shapes[0]
    constants |= {"batch": batch, "ddof": int(rng.integers(0, 3)), "scale": float(rng.uniform(0.5, 40)), "shift": float(rng.uniform(-5, 5))}
    if rng.random() < 0.4:
        constants["epsilon"] = float(rng.uniform(0.01, 3))
    dtype_out = str(rng.choice(outputs))
    constants["dtype"] = DALIDataType[dtype_out]
    compare("normalize", [samples], [layout], named, **constants, close=4e-5, grey=int(dtype_out != "FLOAT"))


@pytest.mark.parametrize("check", [check_normalize])
def test_random_cases(check):
    random_cases(check, 200)


@pytest.mark.slow
def test_many_random_cases():
    def check(rng):
        check_normalize(rng, INPUTS, OUTPUTS)

    random_cases(check, 4000)

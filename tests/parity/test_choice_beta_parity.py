"""random.choice and random.beta against DALI: equal to the last bit for the same seed."""

from __future__ import annotations

import numpy as np
import pytest
from helpers.parity import dali_outputs, same
from helpers.pipelines import pipeline_of

from asyncdali import fn
from asyncdali.types import DALIDataType

pytest.importorskip("nvidia.dali")


def feeder(samples):
    return lambda: samples


def ours(name, inputs, per_sample=None, **constants):
    operator = fn.random.choice if name == "random.choice" else fn.random.beta
    count = len(inputs[0]) if inputs else len(next(iter((per_sample or {}).values())))

    def graph():
        nodes = [fn.external_source(feeder(samples)) for samples in inputs]
        named = {key: fn.external_source(feeder(list(values))) for key, values in (per_sample or {}).items()}
        return operator(*nodes, **named, **constants)

    with pipeline_of(graph, batch_size=count) as pipeline:
        (output,) = pipeline.run()
        return [np.array(output.at(i)) for i in range(count)]


def check(name, inputs, per_sample=None, **constants):
    (theirs,) = dali_outputs(name, inputs, [""] * len(inputs), per_sample, **constants)
    same(theirs, ours(name, inputs, per_sample, **constants))


@pytest.mark.parametrize("dtype", ["uint8", "int32", "uint64"])
def test_below_a_bound(dtype):
    rng = np.random.default_rng(1)
    bounds = [np.array(n, dtype) for n in rng.integers(1, 120, 5)]
    check("random.choice", [bounds], seed=3)
    check("random.choice", [bounds], seed=3, shape=[4, 5])
    if np.dtype(dtype).itemsize == 8:
        check("random.choice", [[np.array(n, dtype) for n in (2**32, 2**32 + 1, 2**40 + 12345, 2**62, 7)]], seed=3, shape=[50])


@pytest.mark.parametrize("dtype", ["uint8", "float32", "float64"])
@pytest.mark.parametrize("tail", [(), (3,), (2, 2)])
def test_elements_and_slices(dtype, tail):
    rng = np.random.default_rng(2)
    lists = [(rng.random((n, *tail)) * 100).astype(dtype) for n in rng.integers(1, 9, 5)]
    check("random.choice", [lists], seed=-4)
    check("random.choice", [lists], seed=4, shape=[7])
    weights = [rng.dirichlet(np.ones(len(row))).astype(np.float32) for row in lists]
    check("random.choice", [lists], {"p": weights}, seed=4, shape=[3, 2])
    like = [np.zeros(rng.integers(0, 4, 2), np.float32) for _ in lists]
    check("random.choice", [lists, like], seed=9)


def test_constant_weights():
    check("random.choice", [[np.array(4, np.int32)] * 6], seed=5, p=[0.1, 0.0, 0.6, 0.3], shape=[40])


@pytest.mark.parametrize("alpha, beta", [(1.0, 1.0), (0.5, 0.5), (2.0, 3.0), (0.2, 5.0), (7.0, 0.3), (0.01, 0.02), (100.0, 200.0)])
def test_beta(alpha, beta):
    for dtype in (DALIDataType.FLOAT, DALIDataType.FLOAT64):
        like = [np.zeros((n, 7)) for n in (1, 5, 0)]
        check("random.beta", [like], alpha=alpha, beta=beta, seed=6, dtype=dtype)


def test_beta_per_sample_and_large_samples():
    rng = np.random.default_rng(3)
    per_sample = {"alpha": rng.uniform(0.1, 3, 5).astype(np.float32), "beta": rng.uniform(0.1, 3, 5).astype(np.float32)}
    check("random.beta", [], per_sample, seed=1)
    check("random.beta", [], per_sample, seed=1, shape=[3, 3])
    check("random.beta", [[np.zeros(2**18 + 5, np.uint8), np.zeros(9, np.uint8)]], alpha=0.7, beta=1.5, seed=2)


@pytest.mark.parametrize(
    "inputs, constants", [
        ([[np.array(0, np.int32)]], {}), ([[np.array(2.0, np.float32)]], {}), ([[np.zeros(0, np.int32)]], {}),
        ([[np.array(3, np.int32)]], {"p": [0.5, 0.5]}), ([[np.array(2, np.int32)]], {"p": [1.5, -0.5]}),
        ([[np.array(2, np.int32)]], {"p": [0.5, 0.6]}),
    ],
)  # fmt: skip
def test_both_refuse_choices(inputs, constants):
    with pytest.raises(RuntimeError):
        dali_outputs("random.choice", inputs, [""], **constants)
    with pytest.raises((RuntimeError, ValueError)):
        ours("random.choice", inputs, **constants)


@pytest.mark.parametrize("constants", [{"alpha": 0.0}, {"beta": -1.0}, {"dtype": DALIDataType.INT32}])
def test_both_refuse_betas(constants):
    like = [[np.zeros(3, np.float32)]]
    with pytest.raises(RuntimeError):
        dali_outputs("random.beta", like, [""], **constants)
    with pytest.raises((RuntimeError, ValueError)):
        ours("random.beta", like, **constants)

"""batch_permutation and permute_batch beside DALI's over several iterations."""

from __future__ import annotations

import numpy as np
import pytest
from helpers.tensor_parity import ALL_TYPES, compare, random_batch, random_cases

import asyncdali

dali = pytest.importorskip("nvidia.dali")
dali_fn = pytest.importorskip("nvidia.dali.fn")


def permutations(package, fn, batch, seed, arguments, iterations):
    """Permutations of several iterations, and data permuted by them."""
    pipeline = package.Pipeline(batch, 1, None, seed=seed)
    data = [np.full(1 + k % 3, k, np.int32) for k in range(batch)]
    with pipeline:
        order = fn.batch_permutation(**arguments)
        pipeline.set_outputs(order, fn.permute_batch(fn.external_source(lambda: data), indices=order))
    pipeline.build()
    runs = [pipeline.run() for _ in range(iterations)]
    return [[[np.array(sample).tolist() for sample in output] for output in outputs] for outputs in runs]


def check_streams(rng):
    batch, seed = int(rng.choice([1, 2, 3, int(rng.integers(1, 70))])), int(rng.integers(2**31))
    arguments = {name: bool(rng.integers(2)) for name in ("allow_repetitions", "no_fixed_points")}
    if rng.random() < 0.5:
        arguments["seed"] = int(rng.integers(2**62))
    theirs = permutations(dali, dali_fn, batch, seed, arguments, 3)
    assert permutations(asyncdali, asyncdali.fn, batch, seed, arguments, 3) == theirs


def check_orders(rng):
    samples = random_batch(rng, int(rng.integers(0, 4)), str(rng.choice(ALL_TYPES)))
    count = len(samples)
    indices = rng.integers(0 if rng.random() < 0.95 else -1, count if rng.random() < 0.95 else count + 1, count)
    if rng.random() < 0.5:
        compare("permute_batch", [samples], [""], {"indices": [np.int32(index) for index in indices]})
    else:
        compare("permute_batch", [samples], [""], indices=indices.tolist() if rng.random() < 0.9 else [0] * (count + 1))


CHECKS = [check_streams, check_orders]


@pytest.mark.parametrize("check", CHECKS)
def test_random_cases(check):
    random_cases(check, 60)


@pytest.mark.slow
@pytest.mark.parametrize("check", CHECKS)
def test_many_random_cases(check):
    random_cases(check, 1500)


@pytest.mark.parametrize("batch", [65534, 65535, 65536, 70001])
def test_large_batches(batch):
    """Beyond 65,535 positions the draws no longer come in pairs."""
    import asyncdali.operators.batches.batch_permutation_kernels as kernels

    pipeline = dali.Pipeline(batch, 1, None, seed=1)
    with pipeline:
        pipeline.set_outputs(dali_fn.batch_permutation(seed=77))
    pipeline.build()
    (theirs,) = pipeline.run()
    ours = np.empty(batch, np.int32)
    kernels.draw_permutation(77, 0, 0, 0, batch, 0, 0, ours.ctypes.data)
    np.testing.assert_array_equal(ours, theirs.as_array().reshape(-1))

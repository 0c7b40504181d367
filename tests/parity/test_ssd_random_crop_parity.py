"""ssd_random_crop beside DALI's: the same seed gives the same windows."""

from __future__ import annotations

import numpy as np
import pytest
from helpers.tensor_parity import random_cases

from asyncdali import Pipeline, fn

dali = pytest.importorskip("nvidia.dali")
dali_fn = pytest.importorskip("nvidia.dali.fn")


def runs(make, functions, inputs, **constants):
    """Outputs of three iterations."""
    count = len(inputs[0])
    pipe = make(count, 2, None, prefetch_queue_depth=1)
    with pipe:
        images, boxes, labels = (
            functions.external_source(_feeder(samples), layout=layout) for samples, layout in zip(inputs, ("HWC", "", ""))
        )
        pipe.set_outputs(*functions.ssd_random_crop(images, boxes, labels, **constants))
    pipe.build()
    return [[[np.array(output[i]) for i in range(count)] for output in pipe.run()] for _ in range(3)]


def _feeder(samples):
    return lambda: list(samples)


def check(rng):
    count = int(rng.integers(1, 5))
    inputs = ([], [], [])
    for _ in range(count):
        inputs[0].append(rng.integers(0, 256, (*rng.integers(10, 60, 2), 3)).astype(np.uint8))
        corners = np.sort(rng.random((int(rng.choice([1, 2, 4])), 2, 2)), axis=1).astype(np.float32)
        inputs[1].append(np.ascontiguousarray(corners.reshape(-1, 4)))
        inputs[2].append(rng.integers(0, 100, len(corners)).astype(np.int32))
    constants = {"seed": int(rng.integers(2**31)), "num_attempts": int(rng.choice([1, 5, 50]))}
    theirs, ours = runs(dali.Pipeline, dali_fn, inputs, **constants), runs(Pipeline, fn, inputs, **constants)
    for expected, made in zip(theirs, ours, strict=True):
        for kind, (a, b) in enumerate(zip(expected, made, strict=True)):
            for x, y in zip(a, b, strict=True):
                assert x.shape == y.shape and x.dtype == y.dtype
                np.testing.assert_allclose(y, x, rtol=0, atol=1e-6 if kind == 1 else 0)


def test_the_same_windows_boxes_and_labels():
    random_cases(check, 40)

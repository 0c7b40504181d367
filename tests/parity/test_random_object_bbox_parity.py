"""segmentation.random_object_bbox beside DALI's: the same seed gives the same objects."""

from __future__ import annotations

import numpy as np
import pytest
from helpers.parity import assert_both_refuse
from helpers.tensor_parity import random_cases

from asyncdali import Pipeline, fn

dali = pytest.importorskip("nvidia.dali")
dali_fn = pytest.importorskip("nvidia.dali.fn")

NAME = "segmentation.random_object_bbox"


def runs(make, functions, source, arguments, count, **constants):
    """Outputs of three iterations."""
    pipe = make(count, 2, None, prefetch_queue_depth=1)
    feed = lambda samples: lambda: list(samples)  # noqa: E731
    with pipe:
        named = {key: functions.external_source(feed(value)) for key, value in arguments.items()}
        made = functions.segmentation.random_object_bbox(functions.external_source(feed(source)), **named, **constants)
        pipe.set_outputs(*(made if isinstance(made, (list, tuple)) else (made,)))
    pipe.build()
    return [[[np.array(output[i]) for i in range(count)] for output in pipe.run()] for _ in range(3)]


def check(rng):
    count, axes = int(rng.integers(1, 4)), int(rng.choice([1, 2, 2, 2, 3, 4]))
    dtype, labels = str(rng.choice(["uint8", "int8", "uint16", "int16", "uint32", "int32"])), int(rng.integers(2, 5))
    shift = -2 if dtype.startswith("int") and rng.random() < 0.4 else 0
    # Masks of one element are left out: DALI treats them differently (docs/differences.md).
    shapes = [(*rng.integers(1, 9, axes - 1), rng.integers(2, 9)) for _ in range(count)]
    masks = [(rng.integers(0, labels, shape) + shift).astype(dtype) for shape in shapes]
    constants, named = {"seed": int(rng.integers(2**31)), "format": str(rng.choice(["anchor_shape", "start_end", "box"]))}, {}
    if rng.random() < 0.3:
        constants["foreground_prob"] = 0.5
    if rng.random() < 0.3:
        constants["k_largest"] = int(rng.integers(1, 4))
    if rng.random() < 0.4:
        constants["threshold"] = [int(k) for k in rng.integers(1, 4, axes)]
    if rng.random() < 0.2:
        constants["ignore_class"] = True
        if rng.random() < 0.5:
            named["background"] = list(rng.integers(shift, labels, count).astype(np.int32))
        return masks, named, constants
    constants["output_class"] = bool(rng.random() < 0.7)
    kind = rng.integers(5)
    if kind in (1, 3):
        lists = [rng.permutation(np.arange(-2, 6))[: rng.integers(1, 5)] for _ in range(count)]
        named["classes"] = [row.astype(np.int32) for row in lists]
        if rng.random() < 0.5:
            named["background"] = list(np.full(count, 9, np.int32))
    if kind in (2, 3):
        lengths = [len(row) for row in named["classes"]] if kind == 3 else rng.integers(1, 5, count)
        named["class_weights"] = [(rng.integers(0, 4, n) / 2).astype(np.float32) for n in lengths]
        if kind == 2 and rng.random() < 0.5:
            constants["background"] = int(rng.integers(0, 3))
    return masks, named, constants


def test_the_same_objects():
    def both(rng):
        masks, named, constants = check(rng)
        theirs = runs(dali.Pipeline, dali_fn, masks, named, len(masks), **constants)
        ours = runs(Pipeline, fn, masks, named, len(masks), **constants)
        for expected, made in zip(theirs, ours, strict=True):
            for a, b in zip(expected, made, strict=True):
                for x, y in zip(a, b, strict=True):
                    assert x.dtype == y.dtype and x.shape == y.shape
                    np.testing.assert_array_equal(y, x)

    random_cases(both, 60)


@pytest.mark.parametrize(
    "dtype, constants", [
        ("int64", {}), ("float32", {}), ("uint8", {"format": "corners"}), ("uint8", {"k_largest": 0}), ("uint8", {"threshold": [1, 2, 3]}),
        ("uint8", {"classes": [1, 2], "class_weights": [1.0]}), ("uint8", {"classes": [0, 1], "background": 0}),
        ("uint8", {"ignore_class": True, "classes": [1]}), ("uint8", {"ignore_class": True, "output_class": True}),
    ],
)  # fmt: skip
def test_refused_by_both(dtype, constants):
    assert_both_refuse(NAME, [np.ones((3, 3), dtype)], **constants)

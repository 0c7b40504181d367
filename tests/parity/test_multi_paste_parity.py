"""multi_paste beside DALI's: regions and refusals."""

from __future__ import annotations

import numpy as np
import pytest
from helpers.tensor_parity import compare, random_cases

from asyncdali import types

pytest.importorskip("nvidia.dali")

TYPES = {"uint8": types.UINT8, "int16": types.INT16, "int32": types.INT32, "float32": types.FLOAT}


def places(rng, counts, low, high, relative):
    """An argument input of [n, 2] numbers per sample, relative to the extents and between about `low` and `high`."""
    if relative:
        return [(np.round(rng.uniform(low, high, (n, 2)) * 20) / 20).astype(np.float32) for n in counts]
    return [rng.integers(int(10 * low), int(10 * high) + 1, (n, 2)).astype(np.int32) for n in counts]


def check(rng):
    by_id = rng.random() < 0.6
    count, channels = int(rng.integers(1, 5)), int(rng.integers(1, 4))
    inputs = 1 if by_id else int(rng.integers(1, 4))
    dtype = str(rng.choice(list(TYPES)))
    even = rng.random() < 0.3
    sizes = rng.integers(10, 20, (inputs, count, 2)) if not even else np.full((inputs, count, 2), 12)
    data = [[rng.uniform(-300, 300, (*size, channels)).astype(np.float32).astype(dtype) for size in row] for row in sizes]
    counts = rng.integers(1, 5, count) if by_id else np.full(count, inputs)
    named, constants = {}, {}
    if by_id:
        named["in_ids"] = [rng.integers(0, count, n).astype(np.int32) for n in counts]
    for name, low, high in (("in_anchors", 0.0, 0.5), ("shapes", 0.1, 0.5), ("out_anchors", 0.0, 0.6)):
        kind = rng.integers(3)
        if kind:
            named[name + ("_rel" if kind == 2 else "")] = places(rng, counts, low, high, kind == 2)
    if not even or rng.random() < 0.5:
        constants["output_size"] = [int(k) for k in rng.integers(22, 30, 2)]
    if rng.random() < 0.5:
        constants["dtype"] = TYPES[str(rng.choice(list(TYPES)))] if dtype == "float32" else types.FLOAT
    return compare("multi_paste", data, ["HWC"] * inputs, named, **constants)


def test_regions():
    accepted = []
    random_cases(lambda rng: accepted.append(check(rng)), 40)
    assert sum(accepted) > 20


def test_refused_by_both():
    data = [np.zeros((5, 6, 3), np.uint8)] * 2
    anchors = {"out_anchors": [np.int32([[1, 0]])] * 2}
    assert not compare("multi_paste", [data], ["HWC"], anchors)
    assert not compare("multi_paste", [data], ["HWC"], in_ids=[2])
    assert not compare("multi_paste", [data, data], ["HWC", "HWC"], in_ids=[0])
    assert not compare("multi_paste", [[data[0], np.zeros((5, 7, 3), np.uint8)]], ["HWC"])

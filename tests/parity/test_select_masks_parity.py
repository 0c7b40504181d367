"""segmentation.select_masks beside DALI's. Every mask has one polygon, because DALI keeps only the last polygon of a mask."""

from __future__ import annotations

import numpy as np
import pytest
from helpers.parity import dali_outputs
from helpers.tensor_parity import Failed, batch, ours, plan, random_cases, theirs

pytest.importorskip("nvidia.dali")

NAME = "segmentation.select_masks"


def check(rng):
    inputs, reindex = ([], [], []), bool(rng.integers(2))
    width, dtype = int(rng.integers(1, 4)), str(rng.choice(["float32", "int32", "float64", "uint8"]))
    for _ in range(int(rng.integers(1, 5))):
        masks, count = rng.permutation(np.arange(-4, 8))[: rng.integers(0, 6)], int(rng.integers(1, 30))
        ends = np.sort(rng.integers(0, count + 1, (len(masks), 2)), axis=1)
        inputs[0].append(rng.permutation(masks)[: rng.integers(0, len(masks) + 1)].astype(np.int32))
        inputs[1].append(np.concatenate([masks[:, None], ends], axis=1).astype(np.int32))
        inputs[2].append(rng.uniform(0, 100, (count, width)).astype(dtype))
    expected = dali_outputs(NAME, inputs, ["", "", ""], reindex_masks=reindex)
    planned = plan(NAME, [batch(samples) for samples in inputs], {}, {"reindex_masks": reindex})
    for wanted, output in zip(expected, planned.outputs, strict=True):
        for i, sample in enumerate(wanted):
            got = output.sample(i)
            assert got.shape == sample.shape and got.dtype == sample.dtype
            np.testing.assert_array_equal(got, sample)


def test_one_polygon_per_mask():
    random_cases(check, 40)


@pytest.mark.parametrize("ids, polygon", [([7], [0, 0, 3]), ([0, 0], [0, 0, 3]), ([0], [0, 0, 9]), ([0], [0, 2, 1]), ([0], [0, -1, 1])])
def test_refused_by_both(ids, polygon):
    inputs = [[np.int32(ids)], [np.int32([polygon])], [np.zeros((5, 2), np.float32)]]
    assert isinstance(theirs(NAME, inputs), Failed)
    assert isinstance(ours(NAME, inputs), Failed)

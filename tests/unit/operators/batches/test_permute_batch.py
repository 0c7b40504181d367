"""permute_batch: in pipelines, together with batch_permutation, and errors."""

from __future__ import annotations

import numpy as np
import pytest
from helpers.pipelines import pipeline_of
from helpers.tensor_parity import Failed, ours

from asyncdali import fn, types

PICTURES = [np.random.default_rng(k).integers(0, 255, (20 + k, 30, 3), np.uint8) for k in range(6)]


def mixed(device):
    """Pictures and labels in the same random order, between operators that change pixels."""

    def graph():
        pictures = fn.external_source(lambda: PICTURES, layout="HWC")
        labels = fn.external_source(lambda: [np.int32(k) for k in range(6)])
        order = fn.batch_permutation(seed=5)
        pictures = pictures.gpu() if device == "gpu" else pictures
        small = fn.crop(pictures, crop=[10, 10])
        moved = fn.flip(fn.permute_batch(small, indices=order))
        return moved, fn.permute_batch(labels, indices=order), order, fn.permute_batch(small, indices=[0, 0, 0, 1, 2, 3])

    return pipeline_of(graph, batch_size=6)


@pytest.mark.parametrize("device", ["cpu", "gpu"])
def test_pictures_follow_their_order(device):
    pipe = mixed(device)
    with pipe:
        for _ in range(3):
            moved, labels, order, doubled = pipe.run()
            order = order.as_array()
            assert sorted(order) == list(range(6)) and labels.as_array().tolist() == order.tolist()
            for i, k in enumerate(order):
                y, x = np.floor((np.array(PICTURES[k].shape[:2]) - 10) * 0.5 + 0.5).astype(int)
                np.testing.assert_array_equal(np.asarray(moved.as_cpu()[i]), PICTURES[k][y : y + 10, x : x + 10][:, ::-1])
            assert np.array_equal(np.asarray(doubled.as_cpu()[0]), np.asarray(doubled.as_cpu()[2]))


def test_origins_are_permuted():
    from helpers.tensor_parity import batch, plan

    data = batch([np.zeros(1), np.ones(1)])
    data.source_info = ["a", "b"]
    assert plan("permute_batch", [data], {}, {"indices": [1, 0]}).outputs[0].source_info == ["b", "a"]


def test_empty_batches():
    pipe = pipeline_of(lambda: fn.permute_batch(fn.external_source(lambda: [][:], ndim=1, dtype=types.UINT8), indices=np.int32([])))
    with pipe:
        assert len(pipe.run()[0]) == 0


@pytest.mark.parametrize(
    "indices, message",
    [([0], "1 indices for a batch of 2 samples"), ([0, 2], "must be in 0 to 1, got 2"), ([-1, 0], "must be in 0 to 1, got -1")],
)
def test_errors_say_what_was_given(indices, message):
    result = ours("permute_batch", [[np.zeros(1), np.ones(1)]], indices=indices)
    assert isinstance(result, Failed) and message in result.message

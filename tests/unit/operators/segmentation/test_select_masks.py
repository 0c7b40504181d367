"""segmentation.select_masks: the polygons of the selected masks."""

from __future__ import annotations

import re

import numpy as np
import pytest
from helpers.pipelines import pipeline_of
from helpers.tensor_parity import Failed, batch, ours, plan

from asyncdali import fn

POLYGONS = np.int32([[0, 0, 3], [1, 3, 7], [2, 7, 10], [1, 2, 5]])
VERTICES = np.arange(20).reshape(10, 2)


def selected(ids, polygons, vertices, **constants):
    """(polygons, vertices) per sample."""
    inputs = [batch([np.asarray(sample, np.int32) for sample in part]) for part in (ids, polygons)]
    planned = plan("segmentation.select_masks", [*inputs, batch(vertices)], {}, constants)
    return [[np.array(output.sample(i)) for output in planned.outputs] for i in range(len(ids))]


def model(ids, polygons, vertices, reindex):
    """The operator in plain Python, polygon by polygon."""
    rows, points = [], [vertices[:0]]
    for k, mask in enumerate(ids):
        for own, begin, end in polygons:
            if own == mask:
                rows.append([k if reindex else mask, sum(map(len, points)), sum(map(len, points)) + end - begin])
                points.append(vertices[begin:end])
    return np.array(rows, np.int32).reshape(-1, 3), np.concatenate(points)


def test_in_the_order_of_the_ids_with_all_polygons_of_each():
    ((polygons, vertices),) = selected([[2, 1]], [POLYGONS], [VERTICES])
    assert polygons.tolist() == [[2, 0, 3], [1, 3, 7], [1, 7, 10]]
    np.testing.assert_array_equal(vertices, VERTICES[[7, 8, 9, 3, 4, 5, 6, 2, 3, 4]])
    ((polygons, _),) = selected([[2, 1]], [POLYGONS], [VERTICES], reindex_masks=True)
    assert polygons[:, 0].tolist() == [0, 1, 1]


@pytest.mark.parametrize("reindex", [False, True])
def test_random_masks_are_those_of_a_simple_model(reindex):
    rng = np.random.default_rng(1)
    for dtype in ("float32", "uint8", "int64", "float16", "bool"):
        ids, polygons, vertices = [], [], []
        for _ in range(6):
            masks, count = rng.permutation(np.arange(-3, 5))[: rng.integers(0, 5)], int(rng.integers(0, 20))
            owners = np.concatenate([masks, rng.choice(masks, 3)]) if len(masks) else masks
            ends = np.sort(rng.integers(0, count + 1, (len(owners), 2)), axis=1)
            polygons.append(np.concatenate([owners[:, None], ends], axis=1).astype(np.int32))
            vertices.append(rng.integers(0, 2 if dtype == "bool" else 100, (count, rng.integers(1, 4))).astype(dtype))
            ids.append(rng.permutation(masks)[: rng.integers(0, len(masks) + 1)])
        for k, made in enumerate(selected(ids, polygons, vertices, reindex_masks=reindex)):
            for got, wanted in zip(made, model(ids[k], polygons[k], vertices[k], reindex), strict=True):
                assert got.dtype == wanted.dtype
                np.testing.assert_array_equal(got, wanted)


def test_in_a_pipeline():
    def feeder(part):
        return lambda: part

    def graph():
        data = ([np.int32([1])] * 3, [POLYGONS] * 3, [VERTICES.astype(np.float32)] * 3)
        return tuple(fn.segmentation.select_masks(*(fn.external_source(feeder(part)) for part in data)))

    with pipeline_of(graph) as pipeline:
        polygons, vertices = pipeline.run()
    for k in range(3):
        assert np.asarray(polygons[k]).tolist() == [[1, 0, 4], [1, 4, 7]]
        np.testing.assert_array_equal(np.asarray(vertices[k]), VERTICES[[3, 4, 5, 6, 2, 3, 4]])


@pytest.mark.parametrize(
    "ids, polygons, vertices, message", [
        ([7], POLYGONS, VERTICES, "mask 7 is selected, but has no polygon"), ([1, 2, 1], POLYGONS, VERTICES, "mask 1 is selected twice"),
        ([0], [[0, 0, 11]], VERTICES, "vertices 0 to 11; the sample has 10"), ([0], [[0, -1, 3]], VERTICES, "-1 to 3"),
        ([0], [[0, 4, 2]], VERTICES, "4 to 2"), ([0], [[0, 4, 5, 6]], VERTICES, "3 columns"),
        ([[0]], POLYGONS, VERTICES, "Input 0 .ids. has 2 dimensions; supported are: 1"),
        ([0], POLYGONS, VERTICES[0], "Input 2 .vertices. has 1 dimensions"),
    ],
)  # fmt: skip
def test_refusals(ids, polygons, vertices, message):
    inputs = [[np.asarray(ids, np.int32)], [np.asarray(polygons, np.int32)], [vertices]]
    result = ours("segmentation.select_masks", inputs)
    assert isinstance(result, Failed) and re.search(message, result.message), result
    inputs[1] = [np.asarray(polygons, np.int64)]
    assert isinstance(ours("segmentation.select_masks", inputs), Failed)

"""``resize`` with INTERP_NN of regions gives the same source pixels as DALI, whose float arithmetic decides positions on borders of pixels.
The elements are their own coordinates."""

from __future__ import annotations

import numpy as np
import pytest

import asyncdali

dali = pytest.importorskip("nvidia.dali")
BATCH = 64


def feeder(rows):
    return lambda: list(rows)


def resized(library, image, layout, size, begin, end, **arguments):
    @library.pipeline_def(batch_size=BATCH, num_threads=2, device_id=None)
    def graph():
        data = library.fn.external_source(feeder([image] * BATCH), layout=layout)
        rows = {"size": size, "roi_start": begin, "roi_end": end}
        named = {name: library.fn.external_source(feeder(values)) for name, values in rows.items()}
        return library.fn.resize(data, interp_type=library.types.INTERP_NN, antialias=False, **named, **arguments)

    pipe = graph()
    pipe.build()
    (output,) = pipe.run()
    return [np.array(output.at(i)) for i in range(BATCH)]


def coordinates(extents):
    return np.stack(np.meshgrid(*map(np.arange, extents), indexing="ij"), -1).astype(np.uint8)


def region(rng, extents, kind):
    """Begins and ends of regions inside the image, float32[BATCH, axes].

    "upright": whole pixels. "turned": begin and end may be exchanged. "halves": halves of pixels. "relative": sixteenths of the image.
    """
    shape = (BATCH, len(extents))
    if kind == "relative":
        begin, end = rng.integers(0, 17, shape) / 16, rng.integers(0, 17, shape) / 16
        end = np.where(begin == end, np.where(begin < 0.5, 1, 0), end)
    elif kind == "halves":
        begin, end = rng.integers(0, 2 * np.array(extents), shape) / 2, rng.integers(0, 2 * np.array(extents), shape) / 2
        end = np.where(begin == end, begin + 0.5, end)
    else:
        begin, end = rng.integers(0, extents, shape), rng.integers(0, extents, shape)
        end = np.where(begin == end, begin + 1, end)
        if kind == "upright":
            begin, end = np.minimum(begin, end), np.maximum(begin, end)
    return begin.astype(np.float32), end.astype(np.float32)


@pytest.mark.parametrize("kind", ["upright", "turned", "halves", "relative"])
@pytest.mark.parametrize("seed", range(4))
def test_pictures(kind, seed):
    rng = np.random.default_rng([seed, len(kind)])
    for _ in range(3):
        extents = rng.integers(2, 120, 2).tolist() if seed else [48, 66]
        image = np.concatenate([coordinates(extents), np.zeros((*extents, 1), np.uint8)], -1)
        size = rng.integers(1, 150, (BATCH, 2)).astype(np.float32)
        if not seed:
            size[0] = 81, 27
        begin, end = region(rng, extents, kind)
        options = {"roi_relative": True} if kind == "relative" else {}
        pairs = [resized(library, image, "HWC", size, begin, end, **options) for library in (dali, asyncdali)]
        for i, (theirs, ours) in enumerate(zip(*pairs, strict=True)):
            np.testing.assert_array_equal(ours, theirs, err_msg=f"{extents} to {size[i]}, region {begin[i]} to {end[i]}")


@pytest.mark.parametrize("kind", ["upright", "turned"])
def test_volumes(kind):
    rng = np.random.default_rng(len(kind))
    for _ in range(4):
        extents = rng.integers(2, 50, 3).tolist()
        size = rng.integers(1, 60, (BATCH, 3)).astype(np.float32)
        begin, end = region(rng, extents, kind)
        pairs = [resized(library, coordinates(extents), "DHWC", size, begin, end) for library in (dali, asyncdali)]
        for i, (theirs, ours) in enumerate(zip(*pairs, strict=True)):
            np.testing.assert_array_equal(ours, theirs, err_msg=f"{extents} to {size[i]}, region {begin[i]} to {end[i]}")

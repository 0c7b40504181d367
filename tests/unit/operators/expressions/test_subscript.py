"""Indexing of nodes: NumPy's results, cases that DALI lacks, computation while planning, views, and errors."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from helpers import operators as harness
from helpers.pipelines import pipeline_of, values

import asyncdali
from asyncdali import Pipeline, fn, newaxis, types
from asyncdali.graph.plan import build_plan
from asyncdali.types import DALIDataType

T = DALIDataType


def feed(*samples: Any, **options: Any) -> Any:
    """A node that gives these samples in every iteration."""
    return fn.external_source(lambda: [np.asarray(sample) for sample in samples], **options)


def one(graph: Any, count: int = 1) -> list[np.ndarray]:
    """The samples of the only output of one run."""
    with pipeline_of(graph, batch_size=count) as pipeline:
        return [np.array(sample) for sample in pipeline.run()[0].as_cpu()]


def ragged(*shapes: tuple[int, ...]) -> list[np.ndarray]:
    return [np.arange(int(np.prod(shape)), dtype=np.int16).reshape(shape) for shape in shapes]


def test_slices_with_a_step_away_from_the_end_are_empty():
    """For such slices with steps of more than 1, DALI raises an error or kills the process."""
    (x,) = ragged((8, 5))
    for start, stop, step in ((3, 20, -2), (-9, -2, -2), (20, 3, 2), (6, 1, 7), (2, 5, -3), (2, 3, -2)):
        (found,) = one(lambda a=start, b=stop, c=step: feed(x)[a:b:c])
        assert found.shape == x[start:stop:step].shape == (0, 5)


def test_bounds_of_all_sizes():
    (x,) = ragged((4,))
    bounds = [None, 0, 1, -1, 3, 4, 9, -4, -5, -9, 2**63 - 1, -(2**63), 2**200, -(2**200)]
    rng = np.random.default_rng(1)
    chosen = [[bounds[k] for k in rng.integers(0, len(bounds), 3)] for _ in range(150)]
    made = [slice(a, b, 1 if c == 0 else c) for a, b, c in chosen]
    with pipeline_of(lambda: tuple(feed(x)[item] for item in made), batch_size=1) as pipeline:
        for item, output in zip(made, pipeline.run()):
            assert np.asarray(output[0]).tolist() == x[item].tolist(), item


def test_per_sample_bounds_beside_numpy():
    rng = np.random.default_rng(2)
    for _ in range(10):
        samples = ragged(*[tuple(int(extent) for extent in rng.integers(1, 6, 3)) for _ in range(4)])
        at = [int(rng.integers(-len(x), len(x))) for x in samples]
        lo, hi = rng.integers(-7, 8, 4), rng.integers(-7, 8, 4)
        step = rng.choice([-3, -2, -1, 1, 2, 3], 4)

        def graph(samples=samples, at=at, lo=lo, hi=hi, step=step):
            return feed(*samples)[feed(*at), feed(*lo) : feed(*hi) : feed(*step), ::-1]

        for x, a, b, c, d, found in zip(samples, at, lo, hi, step, one(graph, 4)):
            np.testing.assert_array_equal(found, x[a, b:c:d, ::-1])


def test_every_element_type():
    for dtype in (bool, np.uint8, np.float16, np.int32, np.float64, np.uint64):
        x = np.arange(30).reshape(2, 5, 3).astype(dtype)
        (found,) = one(lambda x=x: feed(x)[1, ::-2, 1:])
        assert found.dtype == x.dtype
        np.testing.assert_array_equal(found, x[1, ::-2, 1:])


def test_selections_stay_within_their_memory():
    """Outputs are between guard bytes. Some selections give single elements or scalars."""
    for constants, item in (({"at_0": 1, "at_1": -1, "count": 2}, (1, -1)), ({"lo_0": 1, "step_1": -2, "count": 2}, np.s_[1:, ::-2])):
        samples = ragged((2, 3), (4, 5))
        for x, found in zip(samples, harness.run("_tensor_subscript", samples, **constants)):
            np.testing.assert_array_equal(found, x[item])


def test_whole_slices_and_new_axes_copy_nothing():
    (x,) = ragged((2, 3))

    def graph():
        data = feed(x, layout="HW")
        return data[:, newaxis("Q")], data[:], data[()], data

    with pipeline_of(graph, batch_size=1) as pipeline:
        new, whole, same, plain = pipeline.run()
        addresses = {np.asarray(output[0]).__array_interface__["data"][0] for output in (new, whole, same, plain)}
    assert len(addresses) == 1
    assert (new.layout(), whole.layout(), np.asarray(new[0]).shape) == ("HQW", "HW", (2, 1, 3))


def test_newaxis():
    assert asyncdali.newaxis is newaxis and repr(newaxis) == "newaxis" and newaxis("F").name == "F"
    for wrong, error in ((3, TypeError), ("", ValueError), ("AB", ValueError)):
        with pytest.raises(error, match="a single character"):
            newaxis(wrong)


def test_shapes_are_indexed_while_planning():
    """Small known arrays, such as shapes, are indexed while planning, without a segment and without pixels."""

    def graph():
        image = fn.constant(idata=list(range(12)), shape=[2, 2, 3], dtype=T.UINT8)
        extents = image.shape()
        return fn.reshape(image, shape=extents[::-1]), extents[1], fn.reshape(image, shape=extents[newaxis, 0] * [6] * 1)

    pipeline = Pipeline(batch_size=3, num_threads=1)
    with pipeline:
        made = graph()
    assert len(build_plan(list(made), pipeline._core.definition.instances, pipeline._core.definition, lambda k: 0).segments) == 1
    with pipeline_of(graph) as running:
        turned, second, flat = running.run()
        assert (np.asarray(turned[0]).shape, int(np.asarray(second[2])), np.asarray(flat[1]).shape) == ((3, 2, 2), 2, (12,))


def test_values_known_while_planning_that_differ_per_sample():
    def graph():
        data = feed(*ragged((12,), (12,), (12,)))
        choices = feed([[1, 12], [3, 4]], [[2, 6], [4, 3]], [[6, 2], [12, 1]])
        shape = choices[feed(0, 1, -1)]
        return fn.reshape(data, shape=shape), shape, fn.reshape(data, shape=feed([3, 4, 9], [6, 2], [1, 12, 5, 5])[:2])

    with pipeline_of(graph) as pipeline:
        first, shape, second = pipeline.run()
        assert values([shape]) == [[[1, 12], [4, 3], [12, 1]]]
        assert [np.asarray(sample).shape for sample in first] == [(1, 12), (4, 3), (12, 1)]
        assert [np.asarray(sample).shape for sample in second] == [(3, 4), (6, 2), (1, 12)]


def test_on_the_gpu_side():
    (x,) = ragged((4, 5))

    def graph():
        data, k = feed(x), feed(2)
        assert data.gpu()[0].device == "gpu"
        with pytest.raises(ValueError, match='Invalid device "gpu"'):
            data[k.gpu()]
        return data.gpu()[k, ::-1]

    np.testing.assert_array_equal(one(graph)[0], x[2, ::-1])


def test_types_and_ranks_known_at_definition():
    with Pipeline(batch_size=1, num_threads=1):
        node = fn.external_source(lambda: [0], dtype=T.UINT8, ndim=3)
        assert (node[0].ndim, node[0, :, newaxis].ndim, node[0].dtype) == (2, 3, T.UINT8)
        assert node[()] is node
        real = fn.external_source(lambda: [0], dtype=T.FLOAT)
        for error, text, use in (
            (RuntimeError, r"Too many indices \(4\) for a 3-D tensor", lambda: node[:, :, :, :]),
            (RuntimeError, "Step cannot be zero", lambda: node[::0]),
            (RuntimeError, "must be of integral type, got a node of FLOAT", lambda: node[real]),
            (RuntimeError, r"must be scalar \(0D\), got a 3-D node", lambda: node[node]),
            (TypeError, "an index is 1.5 of type float; it must be an integer", lambda: node[1.5]),
            (TypeError, "the stop of a slice is 'a' of type str", lambda: node[:"a"]),
            (TypeError, "it must be an integer", lambda: node[types.Constant(1.5)]),
            (NotImplementedError, "Ellipsis", lambda: node[...]),
            (ValueError, "at most 32 indices", lambda: fn.copy(node)[(0,) * 33]),
            (ValueError, "64 bits", lambda: node[2**70]),
            (ValueError, "New axis names must be specified for all", lambda: node[newaxis, newaxis("A")]),
        ):
            with pytest.raises(error, match=text):
                use()


def test_errors_name_the_sample():
    for use, text in (
        (lambda x: x[2], r"sample 1,(.|\n)*Index 2 is out of range for axis 0 of length 2"),
        (lambda x: x[:: feed(1, 1, 0)], r"sample 2,(.|\n)*Step cannot be zero"),
    ):
        with pipeline_of(lambda use=use: use(feed(*ragged((3,), (2,), (3,))))) as pipeline, pytest.raises(RuntimeError, match=text):
            pipeline.run()


def test_batches_of_different_sizes():
    batches = [[np.arange(4)] * size for size in (2, 0, 3)]
    given = iter(batches)
    with pipeline_of(lambda: (lambda x: (x[1], x[1:], x[newaxis]))(fn.external_source(lambda: next(given)))) as pipeline:
        assert [[len(output) for output in pipeline.run()] for _ in batches] == [[2] * 3, [0] * 3, [3] * 3]


def test_serialized():
    def graph():
        k = fn.cast(fn.random.uniform(range=(0.0, 3.0), seed=1), dtype=T.INT32)
        image = fn.constant(idata=list(range(24)), shape=[4, 6], dtype=T.UINT8, layout="HW")
        return image[k, k::-1], image[:, newaxis("Q"), 2:]

    pipeline = pipeline_of(graph)
    again = Pipeline.deserialize(pipeline.serialize())
    assert values(pipeline.run()) == values(again.run())

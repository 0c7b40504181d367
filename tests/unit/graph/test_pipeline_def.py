"""pipeline_def: which arguments go to the function and which to the pipeline, and allowed results."""

from __future__ import annotations

import numpy as np
import pytest
from helpers.pipelines import values

from asyncdali import Pipeline, fn, pipeline_def, types

BASE = {"batch_size": 2, "num_threads": 1, "seed": 1}


def test_the_body_runs_once_when_called():
    ran = []

    @pipeline_def(**BASE)
    def graph():
        ran.append(Pipeline.current())
        return fn.random.uniform()

    assert ran == [] and graph._is_pipeline_def and graph.__name__ == "graph" and graph.__wrapped__
    pipeline = graph()
    assert ran == [pipeline] and pipeline._core.session is None and Pipeline.current() is None
    pipeline.run()
    assert len(ran) == 1


def test_all_forms_of_the_decorator():
    def body():
        """Body."""
        return types.Constant(3)

    for decorated in (pipeline_def(body), pipeline_def(fn=body), pipeline_def()(body), pipeline_def(**BASE)(body)):
        assert decorated.__doc__ == "Body."
        pipeline = decorated(batch_size=4, num_threads=1)
        assert pipeline.max_batch_size == 4 and values(pipeline.run()) == [[3] * 4]
    decorated = pipeline_def(**BASE)(body)
    assert decorated(batch_size=5).max_batch_size == 5
    assert decorated().max_batch_size == 2  # the option applies to that call only
    with pytest.raises(TypeError, match=r"decorates a function"):
        pipeline_def(3)


def test_shadowed_names_go_to_the_function(capsys):
    @pipeline_def(**BASE)
    def graph(seed, *, num_threads=None):
        return seed, num_threads

    pipeline = graph(seed=11, num_threads=12)
    printed = capsys.readouterr().out.splitlines()
    assert all(line.startswith("Warning: the argument") for line in printed) and len(printed) == 2
    assert "seed" in printed[0] and "num_threads" in printed[1]
    assert (pipeline.seed, pipeline.num_threads) == (1, 1)
    assert values(pipeline.run()) == [[11, 11], [12, 12]]


def test_positional_arguments_and_defaults():
    @pipeline_def(**BASE)
    def graph(a, b=2, *rest, c=3):
        return a, b, len(rest), c

    assert values(graph(5).run()) == [[5] * 2, [2] * 2, [0] * 2, [3] * 2]
    assert values(graph(5, 6, 7, 8, c=9, batch_size=1).run()) == [[5], [6], [2], [9]]
    with pytest.raises(TypeError, match=r"missing"):
        graph()


def test_unknown_arguments_are_named():
    @pipeline_def(**BASE)
    def graph(images=None):
        return 1

    with pytest.raises(TypeError, match=r"'imagse'.*'images'"):
        graph(imagse=3)
    with pytest.raises(TypeError, match=r"'prefetch_depth'.*'prefetch_queue_depth'"):
        graph(prefetch_depth=3)

    @pipeline_def(batchsize=3)
    def wrong():
        return 1

    with pytest.raises(TypeError, match=r"'batchsize'.*'batch_size'"):
        wrong()


def test_variadic_keywords_are_refused():
    @pipeline_def(**BASE)
    def graph(**options):
        return 1

    with pytest.raises(TypeError, match=r"variadic keyword argument"):
        graph()


def test_methods():
    class Maker:
        value = 4

        @pipeline_def(**BASE)
        def made(self, add=0):
            return self.value + add

        @classmethod
        @pipeline_def(**BASE)
        def of_class(cls):
            return cls.value

        @staticmethod
        @pipeline_def(**BASE)
        def static(value):
            return value

    assert values(Maker().made(add=2).run()) == [[6, 6]]
    assert values(Maker.of_class().run()) == [[4, 4]]
    assert values(Maker.static(8).run()) == [[8, 8]]


@pytest.mark.parametrize(
    "returned, dtype, wanted",
    [(3, types.INT32, 3), (2.5, types.FLOAT, 2.5), (True, types.BOOL, True), (np.float64(3), types.FLOAT, 3.0),
     (np.arange(3, dtype=np.int16), types.INT16, [0, 1, 2]), (np.array([1.5]), types.FLOAT, [1.5]), ([1, 2], types.INT32, [1, 2]),
     ([1, 2.5], types.FLOAT, [1, 2.5]), (types.Constant(3).uint8(), types.UINT8, 3), (np.array([1, 2]), types.INT32, [1, 2])],
)  # fmt: skip
def test_constant_outputs(returned, dtype, wanted):
    pipeline = pipeline_def(**BASE)(lambda: returned)()
    (batch,) = pipeline.run()
    assert batch.dtype == dtype and values([batch]) == [[wanted, wanted]]


def test_several_outputs():
    pipeline = pipeline_def(**BASE)(lambda: (1, 2.5))()
    assert values(pipeline.run()) == [[1, 1], [2.5, 2.5]]


def test_a_list_of_nodes_is_several_outputs():
    """A list of nodes is an error in DALI."""
    pipeline = pipeline_def(**BASE)(lambda: [fn.random.uniform(seed=1), fn.copy(5)])()
    outputs = pipeline.run()
    assert isinstance(outputs, tuple) and len(outputs) == 2 and values(outputs)[1] == [5, 5]


@pytest.mark.parametrize("returned", ["text", [[1]], object(), b"x", [None]])
def test_illegal_outputs(returned):
    with pytest.raises(TypeError, match=r"Illegal output type"):
        pipeline_def(**BASE)(lambda: returned)().build()


@pytest.mark.parametrize("wrap", [lambda n: ([n, 1],), lambda n: ((n, n), n), lambda n: [n, 1], lambda n: [[n]]])
def test_nested_nodes_are_refused(wrap):
    with pytest.raises(TypeError, match=r"nested `DataNode`"):
        pipeline_def(**BASE)(lambda: wrap(fn.random.uniform()))().build()


def test_no_outputs():
    for returned in (None, ()):
        with pytest.raises(NotImplementedError, match=r"output"):
            pipeline_def(**BASE)(lambda returned=returned: returned)().build()


def test_overflowing_output():
    with pytest.raises(OverflowError):
        pipeline_def(**BASE)(lambda: np.array([2**40]))().build()


def test_nodes_as_arguments():
    outside = fn.copy(3)
    assert values(pipeline_def(**BASE)(lambda node: (fn.copy(node),))(outside).run()) == [[3, 3]]


def test_a_failing_body_leaves_no_current_pipeline():
    def broken():
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        pipeline_def(**BASE)(broken)()
    assert Pipeline.current() is None


@pytest.mark.parametrize("debug", [False, True])
@pytest.mark.parametrize("conditionals", [False, True])
def test_debug_and_conditionals_combine(debug, conditionals):
    assert values(pipeline_def(**BASE, debug=debug, enable_conditionals=conditionals)(lambda: 1)().run()) == [[1, 1]]
    assert values(pipeline_def(**BASE)(lambda: 1)(debug=debug, enable_conditionals=conditionals).run()) == [[1, 1]]


def test_debug_belongs_to_the_function_that_declares_it(capsys):
    assert values(pipeline_def(**BASE)(lambda debug: debug)(debug=True).run()) == [[True, True]]

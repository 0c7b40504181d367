"""python_function: functions of the user in the graph."""

from __future__ import annotations

import threading
import weakref

import numpy as np
import pytest
from helpers.pipelines import pipeline_of, values
from helpers.processes import wait_until_gone

from asyncdali import Pipeline, fn, pipeline_def, types


def numbers():
    return fn.external_source(lambda k: np.int32([[10 * k + j] for j in range(3)]))


def test_called_in_order_one_call_at_a_time():
    log, active = [], []

    def function(sample):
        active.append(1)
        assert len(active) == 1
        log.append(int(sample[0]))
        active.pop()
        return sample * 2

    pipe = pipeline_of(lambda: fn.python_function(numbers(), function=function), prefetch_queue_depth=4)
    assert [values(pipe.run())[0][0] for _ in range(3)] == [[0], [20], [40]]
    pipe.close()
    assert log == [10 * (k // 3) + k % 3 for k in range(len(log))]


def test_outputs():
    pipe = pipeline_of(lambda: tuple(fn.python_function(numbers(), function=lambda a: (a, np.float32(a[0])), num_outputs=2)))
    first, second = pipe.run()
    assert values((first, second)) == [[[0], [1], [2]], [0.0, 1.0, 2.0]]
    assert second.dtype == types.FLOAT
    pipe = pipeline_of(lambda: fn.python_function(numbers(), numbers(), function=lambda a, b: [int(a[0] + b[0])], output_layouts=["A"]))
    assert pipe.run()[0].layout() == "A"


def test_whole_batches():
    def function(ones, twos):
        assert isinstance(ones, list) and len(ones) == 3
        return [a + b for a, b in zip(ones, twos)], np.stack(ones)

    pipe = pipeline_of(lambda: tuple(fn.python_function(numbers(), numbers(), function=function, num_outputs=2, batch_processing=True)))
    assert values(pipe.run()) == [[[0], [2], [4]], [[0], [1], [2]]]


@pytest.mark.parametrize("returned", [lambda x: x[:2], lambda x: [*x, x[0]], lambda x: [], lambda x: np.stack(x)[:2], lambda x: (x, x[1:])])
def test_whole_batches_of_another_size(returned):
    outputs = 2 if isinstance(returned([1, 2]), tuple) else 1
    made = lambda: fn.python_function(numbers(), function=returned, batch_processing=True, num_outputs=outputs)  # noqa: E731
    pipe = pipeline_of(lambda: tuple(made()) if outputs == 2 else made())
    with pytest.raises(RuntimeError, match=rf"returned [024] samples for output {outputs - 1}, the batch has 3"):
        pipe.run()


def test_side_effects_without_outputs():
    log = []
    pipe = Pipeline(batch_size=3, num_threads=1, prefetch_queue_depth=1)
    with pipe:
        fn.python_function(function=lambda: log.append("none"), num_outputs=0)
        fn.python_function(numbers(), function=lambda a: log.append("unused") or a)
        pipe.set_outputs(fn.random.uniform())
    pipe.run()
    assert (log.count("none"), log.count("unused")) == (3, 3)


def test_dlpack():
    one, double = {"function": lambda capsule: capsule, "batch_processing": False}, lambda capsules: [twice(each) for each in capsules]
    assert values(pipeline_of(lambda: fn.dl_tensor_python_function(numbers(), **one)).run())[0] == [[0], [1], [2]]
    torch = pytest.importorskip("torch")
    twice = lambda capsule: torch.from_dlpack(capsule) * 2  # noqa: E731
    assert values(pipeline_of(lambda: fn.dl_tensor_python_function(numbers(), function=double)).run())[0] == [[0], [2], [4]]


def test_errors_name_sample_line_and_type_and_later_batches_come():
    def function(sample):
        if sample[0] == 11:
            raise LookupError("no such thing")
        return sample

    pipe = pipeline_of(lambda: fn.python_function(numbers(), function=function))
    pipe.run()
    with pytest.raises(RuntimeError, match=r"(?s)iteration 1, sample 1.*test_python_function\.py.*LookupError: no such thing") as caught:
        pipe.run()
    chain, error = [], caught.value
    while error is not None:
        chain.append(type(error))
        error = error.__cause__
    assert LookupError in chain
    assert values(pipe.run())[0] == [[20], [21], [22]]


WRONG = {
    "too few": (lambda a: (a,), 2, r"returned 1 results; the operator has 2"),
    "no tuple": (lambda a: a, 2, r"returned a ndarray; the operator has 2"),
    "nothing": (lambda a: None, 1, r"NoneType"),
    "text": (lambda a: "text", 1, r"str"),
    "ranks": (lambda a: a if a[0] else a[0], 1, r"number of dimensions"),
}


@pytest.mark.parametrize("case", WRONG)
def test_wrong_results(case):
    function, count, words = WRONG[case]
    pipe = pipeline_of(lambda: (lambda made: tuple(made) if count > 1 else made)(
        fn.python_function(numbers(), function=function, num_outputs=count)))  # fmt: skip
    with pytest.raises((RuntimeError, TypeError), match=words):
        pipe.run()


def test_arguments():
    with pytest.raises(TypeError, match=r"function.*callable"):
        pipeline_of(lambda: fn.python_function(numbers(), function=5)).build()
    with pytest.raises(RuntimeError, match=r"Current Pipeline not set"):
        fn.python_function(function=lambda: 1)
    with pytest.raises(RuntimeError, match=r"Could not serialize"):
        pipeline_of(lambda: fn.python_function(numbers(), function=lambda a: a)).serialize()


def test_other_operators_follow_and_overlap():
    """While a slow function of one iteration runs, compiled operators of another iteration run, too."""
    gate = threading.Event()

    def function(sample):
        gate.wait(300)
        return np.full((4, 4, 3), sample[0], np.uint8)

    pipe = pipeline_of(lambda: fn.flip(fn.python_function(numbers(), function=function, output_layouts="HWC")), device_id=None)
    gate.set()
    assert values(pipe.run())[0][2][0][0] == [2, 2, 2]


def test_gpu_side():
    pipe = pipeline_of(lambda: fn.python_function(numbers().gpu(), function=lambda a: a + 1, device="gpu"), device_id=0)
    assert values(pipe.run())[0] == [[1], [2], [3]]


def seen_by_callback(look, **options):
    """Returns the result of `look(Pipeline.current())` in a callback, and the pipeline."""
    found = []
    pipe = pipeline_of(lambda: fn.python_function(numbers(), function=lambda a: found.append(look(Pipeline.current())) or a), **options)
    pipe.run()
    return found[0], pipe


def test_the_current_pipeline_has_the_properties_of_the_one_that_calls():
    def look(pipe):
        return pipe.max_batch_size, pipe.num_threads, pipe.device_id, pipe.seed, pipe.prefetch_queue_depth, pipe.is_restored_from_checkpoint

    found, pipe = seen_by_callback(look, seed=7, prefetch_queue_depth=1, num_threads=2)
    assert found == (pipe.max_batch_size, 2, None, 7, 1, False)
    found, pipe = seen_by_callback(look, seed=None)
    assert found[3] == pipe.seed is not None
    assert Pipeline.current() is None


FORBIDDEN = [
    lambda pipe: pipe.run(), lambda pipe: pipe.build(), lambda pipe: pipe.feed_input("x", [1]), lambda pipe: pipe.epoch_size(),
    lambda pipe: pipe.checkpoint(), lambda pipe: pipe.set_outputs(1), lambda pipe: pipe.reset(), lambda pipe: pipe.close(),
    lambda pipe: pipe.num_outputs, lambda pipe: pipe.save_graph_to_dot_file("x"), lambda pipe: fn.random.uniform(),
]  # fmt: skip


@pytest.mark.parametrize("use", FORBIDDEN)
def test_the_current_pipeline_cannot_be_used_in_a_callback(use):
    with pytest.raises(RuntimeError, match="Python function that (the running|a) pipeline calls"):
        seen_by_callback(use)


def test_another_pipeline_may_run_in_a_callback():
    def look(pipe):
        inner = pipeline_of(lambda: fn.random.uniform(seed=1), prefetch_queue_depth=1)
        return values(inner.run())[0], Pipeline.current() is pipe

    (inside, same), _ = seen_by_callback(look)
    assert same and inside == values(pipeline_of(lambda: fn.random.uniform(seed=1)).run())[0]


def test_callbacks_of_debug_mode_see_the_stand_in():
    found = []

    @pipeline_def(batch_size=2, num_threads=1, debug=True, seed=5)
    def graph():
        return fn.python_function(fn.random.uniform(), function=lambda a: found.append(Pipeline.current()) or a)

    pipe = graph()
    pipe.run()
    assert found[0].seed == 5 and found[0] is not pipe
    with pytest.raises(RuntimeError, match="is forbidden"):
        found[0].run()


def test_the_stand_in_does_not_keep_the_pipeline():
    found, pipe = seen_by_callback(lambda current: current)
    gone = weakref.ref(pipe)
    del pipe
    wait_until_gone(gone)
    assert found.max_batch_size == 3

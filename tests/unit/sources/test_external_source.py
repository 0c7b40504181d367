"""External sources beyond DALI's features: errors, all-or-nothing feeding, awaiting, positions, more kinds of data."""

from __future__ import annotations

import asyncio
import functools
import gc
import threading
import warnings
import weakref

import numpy as np
import pytest
from helpers.pipelines import pipeline_of, values
from helpers.processes import wait_until_gone

from asyncdali import Pipeline, fn, ops, pipeline_def, types
from asyncdali.sources.awaited import _outcome
from asyncdali.sources.kinds import SourceKind, get_callback_from_source
from asyncdali.sources.state import decode_state, encode_state
from asyncdali.tensors import TensorCPU, TensorListCPU

SIZE = 3


def drain(pipe, most=30):
    """The visible results: batches (of the first output), error types, the end."""
    seen = []
    for _ in range(most):
        try:
            seen.append(values(pipe.run())[0])
        except StopIteration:
            seen.append("end")
            break
        except Exception as error:
            seen.append(type(error).__name__)
    return seen


def first_numbers(seen):
    return [item if isinstance(item, str) else np.ravel(item[0])[0] for item in seen]


class Failing:
    """Gives [iteration]*SIZE. Raises `error` at the first request of each iteration in `at`. Ends at `length`."""

    def __init__(self, at, length=6, error=KeyError):
        self.at, self.length, self.error, self.asked = set(at), length, error, []

    def __call__(self, iteration):
        self.asked.append(iteration)
        if iteration in self.at:
            self.at.discard(iteration)
            raise self.error("lost")
        if iteration >= self.length:
            raise StopIteration
        return np.int32([[iteration]] * SIZE)


# ------------------------------------------------------------------------------------------------------------------ errors


@pytest.mark.parametrize("depth", [1, 2, 3, 5])
@pytest.mark.parametrize("at", [0, 1, 2, 5])
def test_good_batches_come_first_then_the_error_then_the_rest(at, depth):
    source = Failing([at])
    pipe = pipeline_of(lambda: fn.external_source(source), prefetch_queue_depth=depth)
    assert first_numbers(drain(pipe)) == [*range(at), "KeyError", *range(at, 6), "end"]
    assert source.asked == sorted(source.asked)  # in order, and only the failing one twice
    assert len(source.asked) == 8


def test_the_users_exception_is_raised_unchanged():
    error = ZeroDivisionError("mine")

    def source():
        raise error

    pipe = pipeline_of(lambda: fn.external_source(source))
    with pytest.raises(ZeroDivisionError) as caught:
        pipe.run()
    assert caught.value is error
    assert any(entry.name == "source" for entry in caught.traceback)


def test_depth_is_kept_after_an_error():
    source = Failing([2])
    pipe = pipeline_of(lambda: fn.external_source(source), prefetch_queue_depth=3)
    for _ in range(2):
        pipe.run()
    with pytest.raises(KeyError):
        pipe.run()
    pipe.run()
    assert max(source.asked) == 4  # iteration 2 was returned; 3 and 4 are in flight


def test_scheduled_calls_raise_after_the_good_batches():
    pipe = pipeline_of(lambda: fn.external_source(Failing([1])), prefetch_queue_depth=2)
    pipe.schedule_run()
    pipe.schedule_run()
    assert values(pipe.outputs())[0][0] == [0]
    with pytest.raises(KeyError):
        pipe.outputs()
    pipe.schedule_run()
    assert values(pipe.outputs())[0][0] == [1]


def test_data_of_other_sources_is_kept_for_the_retry():
    """Sources stay in step, for any failing source."""
    numbers = iter(range(100))
    before = lambda: np.int32([next(numbers)] * SIZE)  # noqa: E731
    letters = iter(range(100))
    after = lambda: np.int32([next(letters)] * SIZE)  # noqa: E731
    pipe = pipeline_of(lambda: (fn.external_source(before), fn.external_source(Failing([1, 3])), fn.external_source(after)))
    seen = []
    for _ in range(20):
        try:
            outputs = values(pipe.run())
        except KeyError:
            continue
        except StopIteration:
            break
        seen.append([np.ravel(part)[0] for part in outputs])
    assert seen == [[k, k, k] for k in range(6)]


def test_invalid_data_of_one_source_feeds_no_input():
    sizes = iter([3, 3, 9, 3, 3])
    first = lambda k: np.int32([[k]] * SIZE)  # noqa: E731
    pipe = pipeline_of(lambda: (fn.external_source(first), fn.external_source(lambda: np.zeros((next(sizes), 1)))))
    assert [np.ravel(values(pipe.run())[0])[0] for _ in range(2)] == [0, 1]
    with pytest.raises(RuntimeError, match=r"9 samples.*3 at most"):
        pipe.run()
    assert np.ravel(values(pipe.run())[0])[0] == 2


def test_errors_of_declared_type_name_operator_and_line():
    pipe = pipeline_of(lambda: fn.external_source(lambda: np.int32([1]), dtype=types.FLOAT, name="numbers"))
    with pytest.raises(RuntimeError, match=r"(?s)'numbers'.*test_external_source\.py.*type FLOAT.*INT32"):
        pipe.run()


def test_an_error_before_a_stop_counts():
    """Two sources: one ends while the other fails. The error comes first, then the end."""
    pipe = pipeline_of(lambda: (fn.external_source(iter([])), fn.external_source(Failing([0]))))
    assert first_numbers(drain(pipe)) == ["KeyError", "end"]


def test_batch_size_clash_names_both():
    pipe = pipeline_of(lambda: (fn.external_source(lambda: np.zeros(2), name="a"), fn.external_source(lambda: np.zeros(3), name="b")))
    with pytest.raises(RuntimeError, match=r"Batch size clash: 'a' has 2 samples, 'b' has 3"):
        pipe.run()


def test_interrupt_in_a_source_loses_nothing():
    source = Failing([1, 3], error=KeyboardInterrupt)
    pipe = pipeline_of(lambda: fn.external_source(source))
    seen = []
    for _ in range(20):
        try:
            seen.append(np.ravel(values(pipe.run())[0])[0])
        except KeyboardInterrupt:
            seen.append("interrupt")
        except StopIteration:
            break
    assert [item for item in seen if item != "interrupt"] == list(range(6))
    assert seen.count("interrupt") == 2


def test_a_failing_hook_keeps_the_data():
    class Hooked(Pipeline):
        rounds = 0

        def iter_setup(self):
            self.rounds += 1
            if self.rounds == 2:
                raise OSError("hook")

    pipe = Hooked(batch_size=SIZE, num_threads=1)
    numbers = iter(range(4))
    with pipe:
        pipe.set_outputs(fn.external_source(lambda: np.int32([[next(numbers)]] * SIZE)))
    assert first_numbers(drain(pipe)) == [0, "OSError", 1, 2, 3, "end"]


def test_a_dropped_pipeline_is_freed_in_spite_of_references_to_its_parts():
    """Only an error that waits to be raised, and a source that knows its pipeline, keep the pipeline alive."""
    pipe = pipeline_of(lambda: fn.external_source(Failing([1])))
    pipe.run()

    class Owner:
        def source(self):
            return np.zeros(1)

    owner = Owner()
    owner.pipe = pipeline_of(lambda: fn.external_source(owner.source))
    owner.pipe.run()
    dropped = [weakref.ref(pipe), weakref.ref(owner)]
    pipe = owner = None
    gc.collect()
    for item in dropped:
        wait_until_gone(item)


def test_an_operator_error_skips_its_iteration():
    """The source has moved on: positions advance as if the iteration had run."""
    pictures = lambda k: [np.frombuffer(b"no picture" if k == 1 else b"P5 1 1 255 \0", np.uint8)]  # noqa: E731
    pipe = pipeline_of(lambda: fn.decoders.image(fn.external_source(pictures)), enable_checkpointing=True)
    pipe.run()
    with pytest.raises(RuntimeError, match=r"iteration 1, sample 0"):
        pipe.run()
    saved = pipe.checkpoint()
    asked = []
    other = pipeline_of(
        lambda: fn.decoders.image(fn.external_source(lambda k: asked.append(k) or pictures(k))), enable_checkpointing=True, checkpoint=saved
    )
    other.run()
    assert asked[0] == 2


# ------------------------------------------------------------------------------------------------------------------- kinds


def test_partial_of_a_function():
    def both(scale, iteration):
        return np.int32([scale * iteration] * SIZE)

    pipe = pipeline_of(lambda: fn.external_source(functools.partial(both, 10)))
    assert [np.ravel(values(pipe.run())[0])[0] for _ in range(2)] == [0, 10]
    pipe = pipeline_of(lambda: fn.external_source(functools.partial(both, 10, 3)))
    assert np.ravel(values(pipe.run())[0])[0] == 30
    assert get_callback_from_source(functools.partial(both, iteration=3))[1].has_inputs


@pytest.mark.parametrize("source", [np.zeros, print, dict.fromkeys, type("C", (), {"__init__": lambda self, a, b: None})])
def test_sources_that_cannot_be_called_are_type_errors(source):
    with pytest.raises(TypeError, match=r"argument|signature"):
        fn.external_source(source)


def test_an_error_in_iter_is_the_users():
    class Broken:
        def __iter__(self):
            raise TypeError("'Broken' object is not iterable")  # words that must not be read as the protocol's

        def __call__(self):
            return np.zeros(1)

    with pytest.raises(TypeError, match=r"'Broken' object is not iterable"):
        fn.external_source(Broken())


def test_description():
    callback, what = get_callback_from_source([1, 2], "raise")
    assert (what.kind, what.has_inputs, what.cycle) == (SourceKind.ITERABLE, False, "raise")
    assert callback() == 1
    assert get_callback_from_source(None) == (None, None)


def test_order_of_definition():
    """Sources are called in the order of their definition."""
    for _ in range(5):
        log = []
        def graph(log=log):
            def source(number):
                def ask():
                    log.append(number)
                    return np.zeros(1)

                return ask

            nodes = [fn.external_source(source(k)) for k in range(5)]
            return tuple(reversed(nodes))

        pipeline_of(graph, prefetch_queue_depth=1).run()
        assert log == [0, 1, 2, 3, 4]


def test_num_outputs_must_be_positive():
    for count in (0, -1):
        with pytest.raises(ValueError, match=r"num_outputs"):
            fn.external_source(lambda: 1, num_outputs=count)
    with pytest.raises(ValueError, match=r"repeat_last"):
        fn.external_source(lambda: 1, repeat_last=True)
    with pytest.raises(ValueError, match=r"parallel"):
        fn.external_source(parallel=True)
    with pytest.raises(TypeError, match=r"layouts"):
        fn.external_source(layout=["A"])
    with pytest.raises(ValueError, match=r"max_concurrency"):
        fn.external_source(lambda: 1, max_concurrency=3)
    for source in ([1], lambda k: 1, None):
        with pytest.raises(ValueError, match=r"snapshot_every"):
            fn.external_source(source, snapshot_every=2)


def test_too_few_outputs():
    pipe = pipeline_of(lambda: tuple(fn.external_source(lambda: (np.zeros(1),), num_outputs=2)))
    with pytest.raises(IndexError, match=r"num_outputs=2, but returned 1"):
        pipe.run()
    pipe = pipeline_of(lambda: tuple(fn.external_source(lambda: 5, num_outputs=2)))
    with pytest.raises(TypeError, match=r"returned a int"):
        pipe.run()


def test_unused_outputs_warn():
    pipe = Pipeline(batch_size=1, num_threads=1)
    with pipe:
        made = fn.external_source(lambda: (np.zeros(1),) * 3, num_outputs=3)
        pipe.set_outputs(made[1])
    with pytest.warns(Warning, match=r"3 outputs, but the pipeline does not use these: 0, 2"):
        pipe.build()
    assert len(pipe.run()) == 1


def test_an_unused_source_is_never_asked():
    pipe = Pipeline(batch_size=1, num_threads=1)
    with pipe:
        fn.external_source(lambda: 1 / 0)
        pipe.set_outputs(fn.random.uniform())
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        pipe.run()


def test_a_numpy_type_as_dtype():
    pipe = pipeline_of(lambda: fn.external_source(lambda: np.float32([1]), dtype=np.float32))
    pipe.run()
    with pytest.raises(TypeError, match=r"dtype"):
        fn.external_source(lambda: 1, dtype=complex)


def test_another_pipeline_as_source():
    inner = pipeline_of(lambda: fn.random.uniform(shape=[2]), seed=7)
    same = pipeline_of(lambda: fn.random.uniform(shape=[2]), seed=7)
    outer = pipeline_of(lambda: fn.external_source(lambda: inner.run()[0]))
    for _ in range(3):
        assert values(outer.run()) == values(same.run())


def test_two_pipelines_of_one_source_object():
    source = Failing([], 100)
    one, two = (pipeline_of(lambda: fn.external_source(source)) for _ in range(2))
    for k in range(4):
        assert first_numbers([values(one.run())[0], values(two.run())[0]]) == [k, k]


def test_gpu_output():
    pipe = pipeline_of(lambda: fn.external_source(lambda k: np.float32([[k]] * SIZE), device="gpu"), device_id=0)
    (batch,) = pipe.run()
    assert type(batch).__name__ == "TensorListGPU"
    assert values((batch,)) == [[[0.0]] * SIZE]


def test_class_form_of_several_inputs():
    pipe = Pipeline(batch_size=2, num_threads=1, prefetch_queue_depth=1)
    with pipe:
        first, second = ops.ExternalSource(num_outputs=2, layout=["A", "B"])()
        pipe.set_outputs(first, second)
    pipe.feed_input(first, [np.zeros(1)])
    pipe.feed_input(second.name, [np.ones(1)])
    one, two = pipe.run()
    assert (one.layout(), two.layout()) == ("A", "B")


def test_a_node_has_the_declared_rank_layout_and_type():
    node = fn.external_source(lambda: 1, layout="HWC", dtype=types.UINT8)
    assert (node.ndim, node.layout, node.dtype) == (3, "HWC", types.UINT8)


# -------------------------------------------------------------------------------------------------------------------- data


class OnlyArray:
    def __array__(self, dtype=None, copy=None):
        return np.int16([1, 2])


class OnlyDlpack:
    def __dlpack__(self, **kwargs):
        return np.int16([1, 2]).__dlpack__()

    def __dlpack_device__(self):
        return (1, 0)


MORE_DATA = {
    "python ints": ([1, 2, 3], [1, 2, 3], types.INT32),
    "python floats": ([1.5, 2.5], [1.5, 2.5], types.FLOAT),
    "python bools": ([True, False], [True, False], types.BOOL),
    "lists": ([[1, 2], [3, 4]], [[1, 2], [3, 4]], types.INT32),
    "bytes": ([b"ab", b"c"], [[97, 98], [99]], types.UINT8),
    "big-endian": (np.array([1, 2], ">i4"), [1, 2], types.INT32),
    "big-endian samples": ([np.array([1, 2], ">f8")], [[1.0, 2.0]], types.FLOAT64),
    "transposed": ([np.arange(6, dtype=np.uint8).reshape(2, 3).T], [[[0, 3], [1, 4], [2, 5]]], types.UINT8),
    "reversed": (np.arange(3, dtype=np.uint8)[::-1], [2, 1, 0], types.UINT8),
    "__array__": ([OnlyArray()], [[1, 2]], types.INT16),
    "__dlpack__": ([OnlyDlpack()], [[1, 2]], types.INT16),
    "mixed containers": ([np.int32([1]), [2]], [[1], [2]], types.INT32),
}


@pytest.mark.parametrize("no_copy", [False, True])
@pytest.mark.parametrize("case", MORE_DATA)
def test_more_data(case, no_copy):
    data, wanted, dtype = MORE_DATA[case]
    pipe = pipeline_of(lambda: fn.external_source(lambda: data, no_copy=no_copy))
    (batch,) = pipe.run()
    assert values((batch,))[0] == wanted
    assert batch.dtype == dtype


def test_python_numbers_take_the_declared_type():
    pipe = pipeline_of(lambda: fn.external_source(lambda: [1, 2], dtype=types.FLOAT16))
    assert pipe.run()[0].dtype == types.FLOAT16


def test_torch_tensors():
    torch = pytest.importorskip("torch")
    pipe = pipeline_of(lambda: fn.external_source(lambda: [torch.arange(3), torch.arange(2)]))
    assert values(pipe.run())[0] == [[0, 1, 2], [0, 1]]
    pipe = pipeline_of(lambda: fn.external_source(lambda: torch.ones(2, 2)))
    assert values(pipe.run())[0] == [[1.0, 1.0], [1.0, 1.0]]
    pipe = pipeline_of(lambda: fn.external_source(lambda: torch.ones(2, 2, requires_grad=True)))
    with pytest.raises(RuntimeError, match=r"requires grad"):
        pipe.run()


@pytest.mark.parametrize("bad", [np.zeros(2, complex), np.zeros(2, "S3"), np.zeros(2, [("a", int)]), np.zeros(2, np.longdouble)])
def test_types_without_a_counterpart(bad):
    for data in (bad, [bad, bad]):
        pipe = pipeline_of(lambda data=data: fn.external_source(lambda: data))
        with pytest.raises(TypeError, match=r"numpy dtype .* not supported"):
            pipe.run()


def test_layouts():
    tensors = lambda: [TensorCPU(np.zeros((2, 2)), "HW")]  # noqa: E731
    assert pipeline_of(lambda: fn.external_source(tensors)).run()[0].layout() == "HW"
    assert pipeline_of(lambda: fn.external_source(tensors, layout="AB")).run()[0].layout() == "AB"
    mixed = lambda: [TensorCPU(np.zeros((2, 2)), "HW"), TensorCPU(np.zeros((2, 2)), "AB")]  # noqa: E731
    with pytest.raises(RuntimeError, match=r"same layout"):
        pipeline_of(lambda: fn.external_source(mixed)).run()
    with pytest.raises(RuntimeError, match=r"describes 3 dimensions.*have 2"):
        pipeline_of(lambda: fn.external_source(tensors, layout="HWC")).run()


def test_an_empty_layout_of_a_feed_leaves_the_declared_one():
    pipe = pipeline_of(lambda: fn.external_source(name="input", layout="HW"), prefetch_queue_depth=1)
    pipe.build()
    for layout in ("", None, "HW"):
        pipe.feed_input("input", np.zeros((2, 3, 4)), layout=layout)
        assert pipe.run()[0].layout() == "HW"


def test_empty_batches():
    sizes = iter([2, 0, 1])
    pipe = pipeline_of(lambda: (lambda x: (x, fn.random.uniform(), fn.flip(x)))(
        fn.external_source(lambda: [np.zeros((2, 2, 1), np.uint8)] * next(sizes), layout="HWC")))  # fmt: skip
    assert [[len(batch) for batch in pipe.run()] for _ in range(3)] == [[2] * 3, [0] * 3, [1] * 3]


@pytest.mark.parametrize("ragged", [False, True])
@pytest.mark.parametrize("no_copy", [False, True])
def test_users_may_keep_outputs(no_copy, ragged):
    """No later action of the source changes an output, with no_copy either."""
    buffer = [np.zeros((60000,)), np.zeros((60001 if ragged else 60000,))]

    def source(k):
        for part in buffer:
            part[:] = k
        return buffer

    pipe = pipeline_of(lambda: fn.external_source(source, no_copy=no_copy), prefetch_queue_depth=1)
    held = [pipe.run()[0] for _ in range(6)]
    assert [np.asarray(batch[1])[-1] for batch in held] == list(range(6))


def test_no_copy_uses_the_memory_when_the_iteration_runs():
    for no_copy, wanted in ((False, 1.0), (True, 7.0)):
        pipe = pipeline_of(lambda no_copy=no_copy: fn.copy(fn.external_source(name="in", no_copy=no_copy)), prefetch_queue_depth=1)
        data = np.ones((2, 50000))
        pipe.feed_input("in", data)
        data[:] = 7
        assert np.asarray(pipe.run()[0][0])[0] == wanted


def test_tensor_lists_keep_enumerations_and_layout():
    tensors = TensorListCPU([TensorCPU(np.zeros((1, 2), np.float32), "AB")])
    pipe = pipeline_of(lambda: fn.external_source(lambda: tensors))
    assert pipe.run()[0].layout() == "AB"


# -------------------------------------------------------------------------------------------------------------------- push


def test_fed_too_little_then_enough():
    pipe = pipeline_of(lambda: fn.external_source(name="in"))
    pipe.feed_input("in", np.int32([0]))
    seen = drain(pipe, 2)
    for k in range(1, 7):
        pipe.feed_input("in", np.int32([k]))
    assert seen + drain(pipe, 4) == [[0], "OperatorIndexError", "OperatorIndexError", [1], [2], [3]]


def test_a_bad_batch_fails_its_own_iteration():
    pipe = pipeline_of(lambda: fn.external_source(name="in", dtype=types.INT32))
    for data in (np.int32([1]), np.float32([2]), np.int32([3])):
        pipe.feed_input("in", data)
    pipe.feed_input("in", np.int32([4]))
    assert drain(pipe, 3) == [[1], "OperatorError", [3]]


def test_blocking_waits_for_one_feed_per_batch():
    pipe = pipeline_of(lambda: fn.external_source(name="in", blocking=True), num_threads=1, prefetch_queue_depth=3)
    pipe.feed_input("in", np.int32([0]))
    assert values(pipe.run()) == [[0]]
    feeder = threading.Thread(target=lambda: [pipe.feed_input("in", np.int32([k])) for k in range(1, 5)])
    got = []
    running = threading.Thread(target=lambda: got.extend(values(pipe.run())[0] for _ in range(4)))
    running.start()
    feeder.start()
    running.join(300)
    feeder.join(300)
    assert got == [[1], [2], [3], [4]]


def test_closing_ends_a_blocked_run():
    pipe = pipeline_of(lambda: fn.external_source(name="in", blocking=True))
    pipe.build()
    result = []

    def wait():
        try:
            pipe.run()
        except RuntimeError as error:
            result.append(type(error).__name__)

    waiting = threading.Thread(target=wait)
    waiting.start()
    while not pipe._core.session.in_flight:
        pass
    pipe.close()
    waiting.join(300)
    assert result == ["PipelineClosed"]


def test_blocking_and_pulled_sources_together():
    pipe = pipeline_of(lambda: (fn.external_source(name="in", blocking=True), fn.external_source(lambda k: np.int32([k]))))
    pipe.feed_input("in", np.int32([5]))
    assert values(pipe.run()) == [[5], [0]]
    pipe.feed_input("in", np.int32([6]))
    assert values(pipe.run()) == [[6], [1]]


def test_repeat_last():
    pipe = pipeline_of(lambda: fn.external_source(name="in", repeat_last=True))
    assert len(pipe.run()[0]) == 0  # nothing was ever fed
    pipe = pipeline_of(lambda: fn.external_source(name="in", repeat_last=True))
    pipe.feed_input("in", np.int32([1]))
    first, second = pipe.run()[0], pipe.run()[0]
    np.asarray(first[0])[...] = 9  # an output is the user's own
    assert np.asarray(second[0]) == 1
    assert values(pipe.run()) == [[1]]


def test_run_with_inputs_is_all_or_nothing():
    pipe = pipeline_of(lambda: (fn.external_source(name="a"), fn.external_source(name="b")), exec_pipelined=False)
    with pytest.raises(KeyError):
        pipe.run(a=np.zeros(1), c=np.zeros(1))
    assert values(pipe.run(a=np.int32([1]), b=np.int32([2]))) == [[1], [2]]
    with pytest.raises(RuntimeError, match=r"prefetch_queue_depth=2"):
        pipeline_of(lambda: fn.external_source(name="a")).run(a=np.zeros(1))


# ------------------------------------------------------------------------------------------------------------- asynchronous


class Awaited:
    def __init__(self, length=4, batch=False):
        self.length, self.batch, self.active, self.peak = length, batch, 0, 0

    async def __call__(self, info):
        self.active += 1
        self.peak = max(self.peak, self.active)
        try:
            await asyncio.sleep(0)
            await asyncio.sleep(0)
        finally:
            self.active -= 1
        iteration = info if isinstance(info, int) else info.iteration
        if iteration >= self.length:
            raise StopAsyncIteration
        return np.int32([[iteration]] * SIZE) if self.batch else np.int32([info.idx_in_epoch])


@pytest.mark.parametrize("ahead", [1, 3])
@pytest.mark.parametrize("limit", [1, 2, 50])
def test_async_callable_of_samples(ahead, limit):
    source = Awaited()
    pipe = pipeline_of(lambda: fn.external_source(source, batch=False, max_concurrency=limit, prefetch_queue_depth=ahead))
    for _ in range(2):
        assert [np.ravel(item).tolist() for item in drain(pipe)[:-1]] == [[3 * k, 3 * k + 1, 3 * k + 2] for k in range(4)]
        pipe.reset()
    assert source.peak <= limit


def test_async_callable_of_batches():
    pipe = pipeline_of(lambda: fn.external_source(Awaited(batch=True)))
    assert first_numbers(drain(pipe)) == [0, 1, 2, 3, "end"]


@pytest.mark.parametrize("ahead", [1, 3])
@pytest.mark.parametrize("cycle", [None, "raise", "quiet"])
def test_async_iterators_as_their_plain_forms(cycle, ahead):
    async def numbers():
        for k in range(3):
            await asyncio.sleep(0)
            yield np.int32([[k]] * SIZE)

    def plain():
        for k in range(3):
            yield np.int32([[k]] * SIZE)

    found = []
    for source, options in ((numbers, {"prefetch_queue_depth": ahead}), (plain, {})):
        pipe = pipeline_of(lambda source=source, options=options: fn.external_source(source, cycle=cycle, **options))
        seen = []
        for _ in range(3):
            seen += first_numbers(drain(pipe, 5))
            pipe.reset()
        found.append(seen)
    assert found[0] == found[1]


def test_async_errors_come_in_their_place():
    failing = {1}

    async def source(k):
        if k in failing:
            failing.discard(k)
            raise KeyError(k)
        if k == 4:
            raise StopAsyncIteration
        return np.int32([[k]])

    pipe = pipeline_of(lambda: fn.external_source(source, prefetch_queue_depth=2))
    assert first_numbers(drain(pipe)) == [0, "KeyError", 1, 2, 3, "end"]


def test_a_real_error_of_a_batch_counts_before_its_end():
    async def source(info):
        if info.idx_in_batch == 2:
            raise OSError("real")
        raise StopAsyncIteration

    pipe = pipeline_of(lambda: fn.external_source(source, batch=False))
    with pytest.raises(OSError, match=r"real"):
        pipe.run()


def test_run_async_and_async_for():
    async def main():
        pipe = pipeline_of(lambda: fn.external_source(Failing([], 5)))
        for _ in range(2):
            assert [values(batch)[0][0][0] async for batch in pipe] == [0, 1, 2, 3, 4]
        threads = []
        pipe = pipeline_of(lambda: fn.external_source(lambda: threads.append(threading.current_thread().name) or np.zeros(1)))
        await pipe.run_async()
        assert all("sources" in name for name in threads)
        pipe.close()

    asyncio.run(main())


def test_a_cancelled_await_loses_no_batch():
    async def main():
        gate = threading.Event()

        def source(k):
            if k == 1:
                gate.wait(300)
            return np.int32([[k]])

        pipe = pipeline_of(lambda: fn.external_source(source))
        task = asyncio.create_task(pipe.run_async())
        while not pipe._core.session or pipe._core.session.producer.launched < 1:
            await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        gate.set()
        got = [values(await pipe.run_async())[0][0][0] for _ in range(4)]
        pipe.close()
        return got

    assert asyncio.run(main()) == [0, 1, 2, 3]


def test_run_async_errors():
    async def main():
        pipe = pipeline_of(lambda: fn.external_source(Failing([1], 3)))
        seen = []
        for _ in range(6):
            try:
                seen.append(values(await pipe.run_async())[0][0][0])
            except KeyError:
                seen.append("KeyError")
            except StopAsyncIteration:
                seen.append("end")
        pipe.close()
        return seen

    assert asyncio.run(main()) == [0, "KeyError", 1, 2, "end", "end"]


# -------------------------------------------------------------------------------------------------------------- checkpoints


def indexed(info):
    """Batches 0..3 of every epoch; the position is the data."""
    iteration = info if isinstance(info, int) else info.iteration
    if iteration >= 4:
        raise StopIteration
    text = [info] if isinstance(info, int) else [getattr(info, name, 0) for name in ("idx_in_epoch", "iteration", "epoch_idx")]
    return np.int32(text)


async def awaited(info):
    try:
        return indexed(info)
    except StopIteration:
        raise StopAsyncIteration from None


POSITIONED = {
    "index": lambda: fn.external_source(lambda k: [indexed(k)] * SIZE),
    "BatchInfo": lambda: fn.external_source(lambda info: [indexed(info)] * SIZE, batch_info=True),
    "SampleInfo": lambda: fn.external_source(indexed, batch=False),
    "async": lambda: fn.external_source(awaited, batch=False, prefetch_queue_depth=2),
}


def follow(pipe, count):
    """`count` calls: batches and ends. Each end is followed by a reset."""
    seen = []
    for _ in range(count):
        try:
            seen.append(values(pipe.run()))
        except StopIteration:
            seen.append("end")
            pipe.reset()
    return seen


@pytest.mark.parametrize("depth", [1, pytest.param(2, marks=pytest.mark.slow), 5])
@pytest.mark.parametrize("kind", POSITIONED)
def test_checkpoint_of_positions(kind, depth):
    graph = lambda: (POSITIONED[kind](), fn.random.uniform())  # noqa: E731
    pipe = pipeline_of(graph, enable_checkpointing=True, prefetch_queue_depth=depth)
    for _ in range(11):
        saved = pipe.checkpoint()
        other = pipeline_of(graph, enable_checkpointing=True, prefetch_queue_depth=3, checkpoint=saved)
        reference = pipeline_of(graph, enable_checkpointing=True, checkpoint=saved)
        assert follow(other, 9) == follow(reference, 9)
        expected = pipeline_of(graph, enable_checkpointing=True, checkpoint=saved)
        assert follow(pipe, 1) == follow(expected, 1)


def test_checkpoint_after_the_end_and_after_reset():
    graph = lambda: fn.external_source(indexed, batch=False)  # noqa: E731
    restore = lambda data: pipeline_of(graph, enable_checkpointing=True, checkpoint=data)  # noqa: E731
    pipe = pipeline_of(graph, enable_checkpointing=True, prefetch_queue_depth=3)
    assert len(drain(pipe)) == 5
    assert drain(restore(pipe.checkpoint())) == ["end"]
    pipe.reset()
    assert values(restore(pipe.checkpoint()).run()) == values(pipe.run())


@pytest.mark.parametrize("source, words", [([1], "iterable"), (lambda: np.zeros(1), "callable"), (lambda: (yield 1), "generator function")])
def test_other_kinds_warn(source, words):
    pipe = pipeline_of(lambda: fn.external_source(source), enable_checkpointing=True)
    with pytest.warns(UserWarning, match=words):
        pipe.build()


class Stateful:
    """An iterator with a state: a random walk."""

    def __init__(self, seed=3, limit=None):
        self.random = np.random.default_rng(seed)
        self.pulls = 0
        self.limit = limit

    def __iter__(self):
        return self

    def __next__(self):
        self.pulls += 1
        if self.limit and self.pulls > self.limit:
            raise StopIteration
        return self.random.random((SIZE, 2))

    def state_dict(self):
        return {"random": self.random.bit_generator.state, "pulls": self.pulls, "extra": (1, b"x", None, {"a": np.arange(3)})}

    def load_state_dict(self, state):
        assert state["extra"][1] == b"x"
        self.random.bit_generator.state = state["random"]
        self.pulls = state["pulls"]


@pytest.mark.parametrize("every", [1, 3])
@pytest.mark.parametrize("depth", [1, 3])
def test_sources_with_a_state(depth, every):
    def make(**options):
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            pipe = pipeline_of(
                lambda: fn.external_source(Stateful(), snapshot_every=every), enable_checkpointing=True, prefetch_queue_depth=depth,
                    **options
            )
            pipe.build()
        return pipe

    pipe = make()
    for _ in range(8):
        other = make(checkpoint=pipe.checkpoint())
        following = [values(other.run()) for _ in range(3)]
        again = make(checkpoint=pipe.checkpoint())
        assert [values(again.run()) for _ in range(3)] == following
        assert values(pipe.run()) == following[0]


class Counted:
    """A data set with a state that can be iterated repeatedly."""

    def __init__(self):
        self.index = 0

    def __iter__(self):
        while self.index < 4:
            self.index += 1
            yield np.int32([[self.index]])
        self.index = 0

    def state_dict(self):
        return {"index": self.index}

    def load_state_dict(self, state):
        self.index = state["index"]


@pytest.mark.parametrize("depth", [1, 3])
def test_a_source_with_a_state_and_its_epochs(depth):
    def make(**options):
        graph = lambda: fn.external_source(Counted(), cycle="raise")  # noqa: E731
        return pipeline_of(graph, enable_checkpointing=True, prefetch_queue_depth=depth, **options)

    pipe = make()
    for _ in range(12):
        saved = pipe.checkpoint()
        assert follow(make(checkpoint=saved), 7) == follow(make(checkpoint=saved), 7)
        expected = follow(make(checkpoint=saved), 1)
        assert follow(pipe, 1) == expected


class AsyncStateful(Stateful):
    __iter__ = None

    def __aiter__(self):
        return self

    async def __anext__(self):
        await asyncio.sleep(0)
        return self.__next__()


def test_async_source_with_a_state():
    def make(**options):
        return pipeline_of(
            lambda: fn.external_source(AsyncStateful(), prefetch_queue_depth=3, snapshot_every=2), enable_checkpointing=True, **options
        )

    pipe = make()
    for _ in range(6):
        other = make(checkpoint=pipe.checkpoint())
        assert values(other.run()) == values(pipe.run())


def test_a_state_that_cannot_be_saved():
    class Bad(Stateful):
        def state_dict(self):
            return {"lock": [threading.Lock()]}

    pipe = pipeline_of(lambda: fn.external_source(Bad(), name="walk"), enable_checkpointing=True)
    with pytest.raises(TypeError, match=r"'walk'.*state\['lock'\]\[0\] is a lock"):
        pipe.run()


def test_states_as_json():
    state = {"a": [1, 2.5, None, True, float("inf")], 3: (b"\0", "t"), "s": {1, 2}, "n": np.float32(2), "m": np.zeros((2, 0), "i2")}
    back = decode_state(encode_state(state))
    assert repr(back) == repr(state)
    assert np.isnan(decode_state(encode_state(float("nan"))))
    with pytest.raises(ValueError, match=r"damaged"):
        decode_state({"array": "!", "dtype": "O", "shape": [1]})
    with pytest.raises(TypeError, match=r"state\['x'\]"):
        encode_state({"x": np.array([None])})


def test_epochs_and_iterations_are_per_epoch():
    pipe = pipeline_of(lambda: fn.external_source(indexed, batch=False), enable_checkpointing=True)
    follow(pipe, 7)
    assert b'"epoch":1,' in pipe.checkpoint()
    assert b'"iteration":2,' in pipe.checkpoint()


@pipeline_def(batch_size=2, num_threads=1)
def decorated():
    return fn.external_source(lambda k: np.int32([k, k]))


def test_in_a_pipeline_function():
    assert values(decorated().run()) == [[0, 0]]


def test_arrays_of_sources_are_released_after_the_copy():
    """The array is released after the copy: the next batch may reuse its memory."""

    class Given(np.ndarray):
        """An array that can be referred to weakly."""

    given = []

    def source():
        array = np.zeros((3, 4)).view(Given)
        given.append(weakref.ref(array))
        return array

    pipe = pipeline_of(lambda: fn.external_source(source), prefetch_queue_depth=1)
    pipe.run()
    [reference] = given
    wait_until_gone(reference)


def test_a_request_that_is_cancelled_before_it_begins_leaves_no_coroutine():
    """A task that is cancelled before its first step runs nothing. Python 3.14 reported a coroutine made earlier as never awaited."""
    called = []

    async def request():
        called.append(True)

    async def cancelled():
        task = asyncio.ensure_future(_outcome(request, [True]))
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        return await _outcome(request, [])

    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        asyncio.run(cancelled())
        gc.collect()
    assert called == [True]
    assert [str(one.message) for one in said if "never awaited" in str(one.message)] == []


def ten(info):
    """Ten samples."""
    if info.idx_in_epoch >= 10:
        raise StopIteration
    return np.array([info.idx_in_epoch])


async def ten_awaited(info):
    return ten(info)


class Ten:
    def __init__(self):
        self.left = iter(range(10))

    def __call__(self):
        return np.array([next(self.left)])


LEFT_OVER = {
    "a callable of the position": lambda: {"source": ten},
    "workers": lambda: {"source": ten, "parallel": True},
    "an awaited callable": lambda: {"source": ten_awaited, "prefetch_queue_depth": 3},
    "a callable without arguments": lambda: {"source": Ten()},
}


@pytest.mark.parametrize("kind", LEFT_OVER)
@pytest.mark.parametrize("size", [4, 5])
def test_one_warning_for_samples_that_are_left_over(kind, size):
    """As in DALI, the end of the data in the middle of a batch drops the samples before it."""
    pipe = Pipeline(batch_size=size, num_threads=1, py_num_workers=2, py_start_method="spawn")
    with pipe:
        pipe.set_outputs(fn.external_source(name="numbers", batch=False, **LEFT_OVER[kind]()))
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        for epoch in range(2):
            once = kind == "a callable without arguments"  # it has no more data
            assert sum(len(batch[0]) for batch in pipe.epoch()) == (0 if once and epoch else 10 // size * size)
    texts = [str(item.message) for item in told if "is not delivered" in str(item.message)]
    assert len(texts) == (size == 4)
    assert not texts or "'numbers' ended the data at sample 2 of a batch of 4. What" in texts[0]
    pipe.close()

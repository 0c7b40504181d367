"""Debug mode: operators run when they are called, and results equal those of a graph."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import gc
import signal
import threading
import traceback

import numpy as np
import pytest
from helpers.images import encode, picture
from helpers.interrupted_places import PlacedInterrupts
from helpers.pipelines import values

from asyncdali import Pipeline, fn, math, ops, pipeline_def, types
from asyncdali.pipeline.debug.calls import OperatorCall
from asyncdali.pipeline.debug.debug_pipeline import DebugPipeline
from asyncdali.pipeline.debug.definition import DataNodeDebug
from asyncdali.pipeline.experimental import pipeline_def as experimental_pipeline_def
from asyncdali.tensors import TensorListCPU, TensorListGPU

SIZE = 4
BASE = {"batch_size": SIZE, "num_threads": 2, "seed": 11}

pytestmark = pytest.mark.filterwarnings("ignore:.*no CUDA driver.*:RuntimeWarning")


def debug(function, *args, **options):
    return pipeline_def(**{**BASE, **options}, debug=True)(function)(*args)


def both(function, *args, **options):
    """The same function as a graph and in debug mode."""
    return pipeline_def(**{**BASE, **options})(function)(*args), debug(function, *args, **options)


def drained(pipe, epochs=1, most=20):
    """Values of all batches of some epochs."""
    seen = []
    for _ in range(epochs):
        epoch = []
        for _ in range(most):
            try:
                epoch.append(values(pipe.run()))
            except StopIteration:
                break
        seen.append(epoch)
        pipe.reset()
    return seen


def same_runs(function, *args, runs=4, **options):
    graph, eager = both(function, *args, **options)
    for _ in range(runs):
        expected, found = graph.run(), eager.run()
        assert values(found) == values(expected)
        assert [(type(item), item.dtype, item.layout()) for item in found] == [
            (type(item), item.dtype, item.layout()) for item in expected
        ]


@pytest.fixture(scope="module")
def images(tmp_path_factory):
    root = tmp_path_factory.mktemp("images")
    for k in range(7):
        folder = root / str(k % 2)
        folder.mkdir(exist_ok=True)
        (folder / f"{k}.jpg").write_bytes(encode(picture(20 + k, 30 - k, seed=k), "JPEG"))
    return str(root)


# ---------------------------------------------------------------------------------------------------------- what nodes are


def test_the_function_is_executed_in_every_run_and_not_before():
    calls = []

    def function(what):
        calls.append((what, Pipeline.current().max_batch_size))
        return fn.constant(idata=[1])

    pipe = debug(function, "me")
    assert isinstance(pipe, DebugPipeline) and calls == []
    pipe.build()
    assert calls == []
    pipe.run()
    pipe.run()
    assert calls == [("me", SIZE)] * 2
    assert Pipeline.current() is None


def test_a_node_has_data():
    seen = {}

    def function():
        node = fn.random.uniform(range=[0.0, 1.0], shape=[2, 3], seed=5)
        seen["node"], seen["text"], seen["shape"], seen["data"] = node, str(node), node.shape(), node.get()
        return node

    pipe = debug(function)
    (output,) = pipe.run()
    node = seen["node"]
    assert isinstance(node, DataNodeDebug) and isinstance(seen["data"], TensorListCPU)
    assert seen["shape"] == [(2, 3)] * SIZE
    assert values([seen["data"]]) == values([output])
    assert (node.device, node.dtype, node.ndim, node.layout) == ("cpu", types.FLOAT, 2, None)
    number = str(np.asarray(output[0])[0, 0])
    assert number in seen["text"] and number in repr(node) and node.name in seen["text"]
    assert values([node.get()]) == values([output])  # the data stays readable after the run
    with pytest.raises(TypeError, match="truth value"):
        bool(node)
    with pytest.raises(TypeError, match="len"):
        len(node)


def test_printing_and_python_decisions_on_data(capsys):
    def function():
        node = fn.external_source(lambda: np.arange(SIZE, dtype=np.int32))
        print(node)
        total = sum(int(np.asarray(item)) for item in node.get())
        return node * total if total > 5 else node

    assert values(debug(function).run()) == [[0, 6, 12, 18]]
    assert "TensorListCPU" in capsys.readouterr().out


def test_arithmetic_indexing_and_math_give_data():
    def function():
        x = fn.external_source(lambda i: np.full((SIZE, 2, 3), i, np.uint8) + np.arange(3, dtype=np.uint8), layout="HW")
        y = fn.random.uniform(range=[1.0, 2.0], seed=3)
        results = x * y + 1, 7 - x, -x, x > 1, math.sqrt(x), x[0], x[:, 1:], x[0, 1] ** 2, y // 0.1, x & 3, x / y
        assert len({type(item) for item in (x, *results)}) == 1  # either all are nodes, or all are data
        return results

    same_runs(function)


def test_devices():
    def function():
        x = fn.external_source(lambda i: np.full((SIZE, 4, 4, 3), i, np.uint8), layout="HWC")
        moved = x.gpu()
        turned = fn.rotate(moved, angle=fn.random.uniform(range=[0.0, 90.0], seed=8))
        return x, moved, turned, turned.cpu(), (moved + 1)[0].cpu(), moved.gpu()

    same_runs(function, device_id=0)
    same_runs(function)
    outputs = debug(function).run()
    assert isinstance(outputs[1], TensorListGPU) and isinstance(outputs[3], TensorListCPU)


def test_copying_a_node_to_its_own_device_returns_the_node():
    def function():
        x = fn.random.uniform(seed=1)
        assert x.cpu() is x and x.gpu().gpu().device == "gpu"
        return x

    debug(function).run()


# -------------------------------------------------------------------------------------------------------- data as arguments


def test_arrays_and_lists_of_arrays_are_inputs():
    frames = [[np.full((6, 6, 3), 10 * run + k, np.uint8) for k in range(SIZE)] for run in range(3)]
    given = iter(frames)

    def function():
        batch = next(given)
        angles = [np.float32(0) + np.zeros((), np.float32) for _ in batch]
        turned = fn.rotate(batch, angle=[np.asarray(a) for a in angles], interp_type=types.INTERP_NN, keep_size=True)
        flipped = fn.flip(tuple(batch), horizontal=1)
        one = fn.flip(batch[0])  # a single array is used for every sample
        return turned, flipped, one

    pipe = debug(function)
    for batch in frames:
        turned, flipped, one = pipe.run()
        for k in range(SIZE):
            np.testing.assert_array_equal(np.asarray(turned[k]), batch[k])
            np.testing.assert_array_equal(np.asarray(flipped[k]), batch[k][:, ::-1])
            np.testing.assert_array_equal(np.asarray(one[k]), batch[0][:, ::-1])


def test_tensor_lists_are_inputs():
    def function():
        x = fn.external_source(lambda: np.arange(SIZE * 3, dtype=np.int32).reshape(SIZE, 3))
        data = x.get()
        moved = fn.cast(x.gpu().get(), dtype=types.FLOAT, device="gpu")
        return fn.cast(data, dtype=types.FLOAT), x + data, x * [np.asarray(item) for item in data], moved, data

    a, b, c, d, e = debug(function).run()
    base = np.arange(SIZE * 3).reshape(SIZE, 3)
    for found, expected in ((a, base), (b, 2 * base), (c, base**2), (d, base), (e, base)):
        np.testing.assert_array_equal(np.asarray(values([found])[0]), expected)
    assert isinstance(d, TensorListGPU)


def test_a_list_of_another_length_is_refused():
    def function():
        fn.constant(idata=[1])
        return fn.flip([np.zeros((2, 2, 1), np.uint8)] * 3)

    with pytest.raises(RuntimeError, match=r"has 3 samples, but the batch size of this iteration is 4"):
        debug(function).run()


def test_outputs_that_are_not_nodes_are_repeated():
    array = np.arange(6, dtype=np.int32).reshape(2, 3)
    a, b, c, d = debug(lambda: (fn.constant(idata=[7]), array, 3, [1.5, 2.5])).run()
    assert values([a, b]) == [[[7]] * SIZE, [array.tolist()] * SIZE]
    assert values([c, d]) == [[3] * SIZE, [[1.5, 2.5]] * SIZE] and d.dtype == types.FLOAT


@pytest.mark.parametrize("wrong", ["text", {"a": 1}, object()])
def test_outputs_that_cannot_be_repeated(wrong):
    with pytest.raises(TypeError, match="Illegal output type"):
        debug(lambda: (fn.constant(idata=[7]), wrong)).run()


def test_nested_outputs():
    with pytest.raises(TypeError, match="nested"):
        debug(lambda: (fn.constant(idata=[7]), [fn.constant(idata=[7]), 3])).run()
    assert len(debug(lambda: [fn.constant(idata=[7]), fn.constant(idata=[8])]).run()) == 2
    with pytest.raises(NotImplementedError):
        debug(lambda: None).run()


def test_declared_outputs_are_checked():
    with pytest.raises(RuntimeError, match="Output 0 has an unexpected type"):
        debug(lambda: fn.constant(idata=[7]), output_dtype=types.FLOAT).run()
    with pytest.raises(RuntimeError, match="number of dimensions"):
        debug(lambda: fn.constant(idata=[7]), output_ndim=3).run()
    debug(lambda: fn.constant(idata=[7]), output_dtype=types.INT32, output_ndim=1).run()


# ------------------------------------------------------------------------------------------------------------ streams, seeds


def test_explicit_seeds_give_the_streams_of_a_graph():
    def function():
        x = fn.random.uniform(range=[-3.0, 3.0], shape=[3], seed=4)
        flips = fn.random.coin_flip(seed=-1)
        noise = [fn.random.normal(x, seed=k) for k in range(3)]
        return x, flips, *noise

    same_runs(function, runs=5)


def test_readers_and_decoders_continue_from_run_to_run(images):
    def function():
        files, labels = fn.readers.file(file_root=images, random_shuffle=True, initial_fill=5, seed=9, name="files")
        pixels = fn.decoders.image_random_crop(files, seed=2, device="mixed")
        small = fn.resize(pixels, size=[8, 8])
        return fn.crop_mirror_normalize(small, mirror=fn.random.coin_flip(seed=6), dtype=types.FLOAT), labels

    same_runs(function, runs=6, device_id=0)


def test_the_pipelines_seed_decides_and_operators_differ():
    def function():
        return fn.random.uniform(), fn.random.uniform()

    def draws(seed):
        pipe = debug(function, seed=seed)
        return [values(pipe.run()) for _ in range(3)]

    first = draws(11)
    assert first == draws(11) != draws(12)
    assert first[0][0] != first[0][1] and first[0] != first[1]
    unseeded = debug(function, seed=None)
    assert unseeded.seed is None
    drawn = [values(unseeded.run()) for _ in range(2)]
    assert drawn == draws(unseeded.seed)[:2]


def test_input_sets_share_a_seed():
    def function():
        x = fn.external_source(lambda: np.zeros((SIZE, 5), np.float32))
        a, b = fn.random.normal([x, x])
        c, d = ops.random.Normal(seed=3)([x, x])
        return a, b, c, d

    pipe = debug(function)
    for _ in range(2):
        a, b, c, d = values(pipe.run())
        assert a == b != c and c == d


def test_threads_do_not_matter(images):
    def function():
        files, _ = fn.readers.file(file_root=images, seed=1, random_shuffle=True)
        return fn.resize(fn.decoders.image(files), size=[9, 7])

    one, many = debug(function, num_threads=1), debug(function, num_threads=5)
    for _ in range(3):
        assert values(one.run()) == values(many.run())


# --------------------------------------------------------------------------------------------------------- rules that a program must keep


def test_calls_in_loops_and_helpers_are_distinguished():
    def draw(seed):
        return fn.random.uniform(seed=seed)

    def function():
        return (*[draw(k) for k in range(3)], *[fn.random.uniform(seed=k) for k in (7, 8)], draw(1) + draw(2))

    same_runs(function)


def test_another_operator_at_the_same_call_is_refused():
    turns = iter([fn.random.uniform, fn.random.normal])

    def function():
        return next(turns)()

    pipe = debug(function)
    pipe.run()
    with pytest.raises(RuntimeError, match=r"Debug mode does not support changing the order of operators executed within the pipeline"):
        pipe.run()


@pytest.mark.parametrize("later", ["more", "turned"])
def test_another_order_is_refused(later):
    state = {"how": ""}

    def function():
        def one():
            return fn.random.uniform()

        def two():
            return fn.random.coin_flip()

        if state["how"] == "turned":
            two()
            return one()
        if state["how"] == "more":
            two()
        one()
        return two()

    pipe = debug(function)
    pipe.run()
    state["how"] = later
    with pytest.raises(RuntimeError, match=r"Debug mode does not support changing the order of operators"):
        pipe.run()


def test_a_run_may_skip_an_operator():
    state = {"run": 0}

    def function():
        state["run"] += 1
        if state["run"] != 2:
            fn.random.coin_flip()
        return fn.random.uniform(seed=3)

    def always():
        return fn.random.uniform(seed=3)

    pipe, graph = debug(function), pipeline_def(**BASE)(always)()
    for _ in range(3):
        assert values(pipe.run()) == values(graph.run())


@pytest.mark.parametrize(
    "call",
    [
        lambda k: fn.random.uniform(range=[0.0, 1.0 + k]),
        lambda k: fn.random.uniform(seed=k),
        lambda k: fn.random.uniform(**({"shape": [2]} if k else {})),
        lambda k: fn.random.uniform(shape=fn.constant(idata=[2]) if k else [2]),
        lambda k: fn.constant(idata=[1]) * k,
        lambda k: fn.constant(idata=[1, 2])[k],
        lambda k: fn.python_function(fn.constant(idata=[1]), function=[abs, np.sqrt][k]),
    ],
)
def test_a_changed_argument_is_refused(call):
    state = {"k": 0}
    pipe = debug(lambda: call(state["k"]))
    pipe.run()
    pipe.run()
    state["k"] = 1
    with pytest.raises(RuntimeError, match="unexpectedly changed value|changing the order"):
        pipe.run()
    state["k"] = 0
    pipe.run()


def test_the_message_names_argument_and_values():
    widths = iter([1.0, 2.0])
    pipe = debug(lambda: fn.random.uniform(range=[0.0, next(widths)]))
    pipe.run()
    message = r"fn.random.uniform: argument 'range' unexpectedly changed value from \[0.0, 1.0\] to \[0.0, 2.0\]"
    with pytest.raises(RuntimeError, match=message):
        pipe.run()


def test_functions_made_in_the_body_are_the_same_function():
    counter = iter(range(100))

    def function():
        now = next(counter)
        x = fn.constant(idata=[1])
        first = fn.python_function(x, function=lambda a: a + 1)
        return first, fn.python_function(x, function=lambda a: a + now), fn.python_function(x, function=lambda a, k=now: a - k)

    pipe = debug(function)
    for k in range(3):
        assert values(pipe.run()) == [[[2]] * SIZE, [[1 + k]] * SIZE, [[1 - k]] * SIZE]


class Scale:
    def __init__(self, factor):
        self.factor = factor

    def __call__(self, a):
        return a * self.factor


@pytest.mark.parametrize(
    "made",
    [
        lambda k: functools.partial(np.multiply, k),
        lambda k: functools.partial(lambda a, b: a * b, b=k),
        lambda k: functools.partial(Scale(k)),
        Scale,
        lambda k: Scale(k).__call__,
    ],
)
def test_other_callables_made_in_the_body(made):
    counter = iter(range(100))
    pipe = debug(lambda: fn.python_function(fn.constant(idata=[2]), function=made(next(counter))))
    for k in range(3):
        assert values(pipe.run()) == [[[2 * k]] * SIZE]


@pytest.mark.parametrize(
    "makers",
    [
        (functools.partial(np.add, 1), functools.partial(np.subtract, 1)),
        (Scale(1), lambda a: a),
        (np.abs, np.negative),
        (functools.partial(np.add, 1), np.negative),
    ],
)
def test_another_callable_is_refused(makers):
    turns = iter(makers)
    pipe = debug(lambda: fn.python_function(fn.constant(idata=[2]), function=next(turns)))
    pipe.run()
    with pytest.raises(RuntimeError, match="argument 'function' unexpectedly changed value"):
        pipe.run()


@pytest.mark.parametrize("changed", [{"dtype": types.INT16}, {"interp_type": types.INTERP_NN}])
def test_a_changed_enumeration_is_refused(changed):
    given = {"dtype": types.FLOAT, "interp_type": types.INTERP_LINEAR}

    def function():
        return fn.resize(fn.constant(idata=[1] * 12, shape=[2, 2, 3], layout="HWC", dtype=types.UINT8), size=[3, 3], **given)

    pipe = debug(function)
    pipe.run()
    given.update(changed)
    with pytest.raises(RuntimeError, match=f"argument '{next(iter(changed))}' unexpectedly changed value"):
        pipe.run()


def test_shapes_as_nodes():
    def function():
        x = fn.external_source(lambda k: [np.zeros((i, 2), np.uint8) for i in range(SIZE)])
        return x.shape(dtype=types.FLOAT), x.shape(device="cpu") * 2, x.shape(dtype=types.INT64)[0]

    same_runs(function)


def test_names_are_unique():
    def function():
        fn.random.uniform(name="x")
        return fn.random.coin_flip(name="x")

    with pytest.raises(RuntimeError, match="non-unique names"):
        debug(function).run()
    pipe = debug(lambda: fn.random.uniform(name="x"))
    pipe.run()
    pipe.run()


# ------------------------------------------------------------------------------------------------------------ external sources


class Numbered:
    """A source of batches that contain the number of the run and of the epoch. An epoch has `length` batches."""

    def __init__(self, length):
        self.length = length

    def __call__(self, info):
        if info.iteration >= self.length:
            raise StopIteration
        return np.full((SIZE, 2), 100 * info.epoch_idx + info.iteration, np.int32)


def generator():
    for k in range(3):
        yield [np.full((j + 1,), 10 * k + j, np.uint8) for j in range(SIZE)]


def sample(info):
    if info.iteration >= 3:
        raise StopIteration
    return np.array([info.idx_in_epoch, info.idx_in_batch, info.epoch_idx], np.int64)


def by_number(k):
    if k >= 3:
        raise StopIteration
    return np.float32([k] * SIZE)


async def awaited(k):
    if k >= 2:
        raise StopAsyncIteration
    return np.float32([k] * SIZE)


SOURCES = {
    "BatchInfo": lambda: fn.external_source(Numbered(3), batch_info=True),
    "int": lambda: fn.external_source(by_number),
    "SampleInfo": lambda: fn.external_source(sample, batch=False),
    "generator function": lambda: fn.external_source(generator),
    "quiet": lambda: fn.external_source(generator, cycle="quiet"),
    "raise": lambda: fn.external_source(generator, cycle="raise"),
    "list": lambda: fn.external_source([np.int16([k] * SIZE) for k in range(3)], cycle="raise", layout=""),
    "async": lambda: fn.external_source(awaited),
    "gpu": lambda: fn.external_source(by_number, device="gpu"),
    "no_copy": lambda: fn.external_source(by_number, no_copy=True),
    "declared": lambda: fn.external_source(lambda: [1, 2, 3, 4], dtype=types.FLOAT, ndim=0),
    "layout": lambda: fn.external_source(Numbered(2), batch_info=True, layout="C"),
    "class": lambda: ops.ExternalSource(by_number)(),
    "outputs": lambda: tuple(fn.external_source(lambda k: (by_number(k), by_number(k) + 1), 2, layout=["", ""])),
    "reshaped": lambda: fn.reshape(fn.external_source(by_number, no_copy=True), shape=[1]),
}


@pytest.mark.parametrize("kind", SOURCES)
def test_sources_give_the_same_data_as_in_a_graph(kind):
    graph, eager = both(SOURCES[kind], device_id=0)
    expected, found = drained(graph, 3, 7), drained(eager, 3, 7)
    assert found == expected
    assert expected[0]


def test_declared_types_are_checked():
    pipe = debug(lambda: fn.external_source(by_number, dtype=types.INT32))
    with pytest.raises(RuntimeError, match="Expected data of type INT32 and got FLOAT"):
        pipe.run()


def test_parallel_arguments_are_ignored():
    def function():
        return fn.external_source(sample, batch=False, parallel=True, prefetch_queue_depth=3, bytes_per_sample_hint=64)

    expected = drained(pipeline_def(**BASE)(SOURCES["SampleInfo"])(), 2)
    pipe = debug(function, py_num_workers=2)
    pipe.start_py_workers()
    assert drained(pipe, 2) == expected


def test_a_source_is_entered_once_and_asked_once_per_run():
    events = []

    class Source:
        def __iter__(self):
            events.append("entered")
            for k in range(3):
                events.append(k)
                yield np.int32([k] * SIZE)

    pipe = debug(lambda: fn.external_source(Source()))
    pipe.build()
    assert events == []
    pipe.run()
    pipe.run()
    assert events == ["entered", 0, 1]


def test_sources_are_not_called_between_the_end_and_reset():
    pipe = debug(lambda: fn.external_source(Numbered(1), batch_info=True))
    pipe.run()
    for _ in range(2):
        with pytest.raises(StopIteration):
            pipe.run()
    pipe.reset()
    pipe.reset()
    assert values(pipe.run()) == [[[100, 100]] * SIZE]


def test_random_streams_do_not_advance_at_the_end_of_an_epoch():
    def function():
        before = fn.random.uniform(seed=1)
        x = fn.external_source(Numbered(2), batch_info=True)
        return before, x, fn.random.uniform(seed=2)

    graph, eager = both(function)
    assert drained(eager, 3) == drained(graph, 3)


def test_sources_of_different_lengths_stay_in_step():
    def function():
        short = fn.external_source([np.int32([k] * SIZE) for k in range(2)], cycle="raise")
        long = fn.external_source([np.int32([k] * SIZE) for k in range(3)], cycle="raise")
        return short, long

    def turned():
        long, short = function()[::-1]
        return long, short

    for each in (function, turned):
        graph, eager = both(each)
        assert drained(eager, 5) == drained(graph, 5)


def test_a_source_that_fails_is_asked_again_for_the_same_batch():
    problems = [KeyError("lost")]

    def failing(k):
        if k == 1 and problems:
            raise problems.pop()
        return by_number(k)

    def function():
        return fn.random.uniform(seed=1), fn.external_source(generator), fn.external_source(failing)

    pipe = debug(function)
    seen = [values(pipe.run())]
    with pytest.raises(KeyError, match="lost"):
        pipe.run()
    seen += [values(pipe.run()), values(pipe.run())]
    assert seen == drained(pipeline_def(**BASE)(function)())[0]


def test_feeding_by_name_also_before_the_first_run():
    def function():
        return fn.external_source(name="x", layout="C"), fn.external_source(name="y") + 1

    pipe = debug(function)
    data = np.arange(SIZE * 2, dtype=np.int32).reshape(SIZE, 2)
    pipe.feed_input("x", data)
    data += 100  # `feed_input` copied the data
    pipe.feed_input("x", [np.int32([k]) for k in range(SIZE)])
    pipe.feed_input("y", np.int32([0, 1, 2, 3]))
    x, y = pipe.run()
    assert values([x, y]) == [(data - 100).tolist(), [1, 2, 3, 4]] and x.layout() == "C"
    with pytest.raises(IndexError, match="Nothing was fed"):
        pipe.run()
    pipe.feed_input("x", np.int32([[9]] * SIZE))
    pipe.feed_input("y", np.int32([5] * SIZE))
    assert values(pipe.run()) == [[[9]] * SIZE, [6] * SIZE]  # as in a graph, the batch of the failed run is lost
    assert pipe.input_feed_count("x") == 1
    with pytest.raises(KeyError, match="no external input named 'z'"):
        pipe.feed_input("z", data)
    with pytest.raises(TypeError):
        pipe.feed_input(3, data)


def test_feeding_a_name_that_the_run_does_not_use():
    pipe = debug(lambda: fn.external_source(by_number))
    pipe.feed_input("x", np.zeros((SIZE, 1)))
    with pytest.raises(KeyError, match="'x'"):
        pipe.run()
    pipe.run()


def test_feeding_an_input_that_has_a_source():
    pipe = debug(lambda: fn.external_source(by_number, name="x"))
    pipe.run()
    with pytest.raises(RuntimeError, match="source"):
        pipe.feed_input("x", np.zeros((SIZE, 1)))


def test_repeat_last():
    pipe = debug(lambda: fn.reshape(fn.external_source(name="x", repeat_last=True), shape=[1]))
    pipe.feed_input("x", np.int32([1] * SIZE))
    assert [values(pipe.run()) for _ in range(2)] == [[[[1]] * SIZE]] * 2
    pipe.feed_input("x", np.int32([2] * SIZE))
    assert values(pipe.run()) == [[[2]] * SIZE]


def test_a_blocking_input_waits_to_be_fed():
    pipe = debug(lambda: fn.external_source(name="x", blocking=True))
    pipe.build()
    feeder = threading.Timer(0.1, lambda: pipe.feed_input("x", np.int32([3] * SIZE)))
    pipe.feed_input("x", np.int32([2] * SIZE))
    feeder.start()
    assert [values(pipe.run()) for _ in range(2)] == [[[2] * SIZE], [[3] * SIZE]]
    feeder.join()


def test_batch_sizes_follow_the_sources():
    sizes = [4, 2, 3]

    def function():
        x = fn.external_source([np.int32(range(n)) for n in sizes])
        return x, fn.random.uniform(seed=1), x + types.Constant([1, 2], device="cpu"), 5

    graph, eager = both(function)
    for n in sizes:
        outputs = eager.run()
        assert values(outputs) == values(graph.run())
        assert [len(item) for item in outputs] == [n] * 4


def test_batch_sizes_that_clash():
    def late():
        fn.random.uniform()
        return fn.external_source(lambda: np.zeros((2, 1)))

    with pytest.raises(RuntimeError, match="has 2 samples, but the batch size of this iteration is 4"):
        debug(late).run()
    with pytest.raises(RuntimeError, match="batch size"):
        debug(lambda: fn.external_source(lambda: np.zeros((SIZE + 1, 1)))).run()


# ------------------------------------------------------------------------------------------------------------------- errors


def test_an_error_comes_from_the_line_that_called_the_operator():
    reached = []

    def function():
        x = fn.external_source(lambda: [b"no picture"] * SIZE)
        reached.append("before")
        y = fn.decoders.image(x)  # this line
        reached.append("after")
        return y

    with pytest.raises(RuntimeError, match="decoders.image") as caught:
        debug(function).run()
    assert reached == ["before"]
    lines = [frame.line for frame in traceback.extract_tb(caught.value.__traceback__)]
    assert "y = fn.decoders.image(x)  # this line" in lines
    assert "iteration 0, sample 0" in str(caught.value) and "this line" in str(caught.value)


def test_arguments_are_checked_as_in_graphs():
    with pytest.raises(KeyError, match="unexpected argument"):
        debug(lambda: fn.random.uniform(rnage=[0, 1])).run()
    with pytest.raises(RuntimeError, match="incompatible device"):
        debug(lambda: fn.rotate(fn.external_source(lambda: np.zeros((SIZE, 2, 2, 1), np.uint8)), angle=1, device="gpu")).run()


@pytest.mark.parametrize("first", [0, 2])
def test_after_a_failed_iteration_all_operators_advance(first):
    """After an error all operators advance, as in a graph, also those that the function did not reach."""

    def check(sample):
        if sample == first:
            raise ValueError("bad sample")
        return sample

    def function():
        a = fn.external_source(by_number)
        b = fn.random.uniform(seed=3)
        c = fn.python_function(a, function=check)
        d = fn.external_source([np.int32([k] * SIZE) for k in range(4)])
        return a, b, c, d, fn.random.normal(seed=4)

    graph, eager = both(function)
    for k in range(3):
        if k == first:
            for pipe in (graph, eager):
                with pytest.raises(RuntimeError, match="bad sample"):
                    pipe.run()
        else:
            assert values(eager.run()) == values(graph.run())
    for pipe in (graph, eager):
        with pytest.raises(StopIteration):
            pipe.run()


def test_an_interrupt_loses_nothing():
    interrupts = [KeyboardInterrupt()]

    def function():
        x = fn.external_source(by_number)
        y = fn.random.uniform(seed=1)
        if interrupts:
            raise interrupts.pop()
        return x, y

    pipe = debug(function)
    with pytest.raises(KeyboardInterrupt):
        pipe.run()
    interrupts.clear()
    assert drained(pipe) == drained(pipeline_def(**BASE)(function)())


@pytest.mark.parametrize("everywhere", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_an_interrupt_at_each_place_loses_no_outputs(everywhere):
    """Also between the last step of an iteration and the return of `run()`."""

    def numbers(number):
        return np.full((SIZE, 1), number)

    def function():
        x = fn.external_source(numbers)
        return x + 1, fn.random.uniform(seed=1), fn.random.normal()

    pipe, expected = debug(function), debug(function)
    handler = signal.getsignal(signal.SIGINT)
    gc.disable()
    try:
        interrupts = PlacedInterrupts(DebugPipeline.run)
        assert values(pipe.run()) == values(expected.run())
        places = interrupts.chosen(pipe.run, 1)
        expected.run()
        came, outputs = 0, []

        def run():
            outputs.append(pipe.run())

        for place in places:
            if not everywhere and not place.code.co_filename.endswith(("pipeline/debug/debug_pipeline.py", "pipeline/debug/definition.py")):
                continue
            outputs.clear()
            with contextlib.suppress(KeyboardInterrupt):
                interrupts.at(place, run)
            came += not outputs
            found = outputs[0] if outputs else pipe.run()
            assert values(found) == values(expected.run()), place
        assert came > 20
        assert not pipe._core.debugged.finished
    finally:
        gc.enable()
        signal.signal(signal.SIGINT, handler)


@pytest.mark.parametrize("place", range(5))
def test_an_interrupt_while_a_call_is_built_changes_no_seed(place, monkeypatch):
    """Seeds that no operator was given are drawn call by call. A call that was interrupted is made again with the same seed."""

    def function():
        x = fn.random.uniform()
        a, b = fn.random.normal([x, x])
        return x, a, b, fn.random.coin_flip(), fn.random.uniform() + 1

    pipe = debug(function)
    expected = [values(pipe.run()) for _ in range(3)]
    build, built = OperatorCall._build, []

    def interrupted(self, instance):
        build(self, instance)
        built.append(instance)
        if len(built) == place + 1:
            raise KeyboardInterrupt

    monkeypatch.setattr(OperatorCall, "_build", interrupted)
    pipe = debug(function)
    with pytest.raises(KeyboardInterrupt):
        pipe.run()
    assert [values(pipe.run()) for _ in range(3)] == expected


def test_nodes_outside_of_their_run_are_refused():
    kept = {}

    def function():
        kept["node"] = fn.random.uniform(seed=1)
        return kept["node"]

    pipe = debug(function)
    pipe.run()
    for use in (lambda: kept["node"] + 1, lambda: fn.random.normal(kept["node"])):
        with pytest.raises(RuntimeError, match="debug mode"):
            use()
    with pytest.raises(RuntimeError, match="debug mode"):
        pipeline_def(**BASE)(lambda: kept["node"] * 2)()
    symbol = fn.random.uniform()
    with pytest.raises(RuntimeError, match="has no data"):
        debug(lambda: symbol + 1).run()
    with pytest.raises(RuntimeError, match="has no data"):
        debug(lambda: symbol).run()
    earlier = kept["node"]
    assert values(debug(lambda: earlier + 0).run()) == values([earlier.get()])


# ------------------------------------------------------------------------------------------------------- the pipeline's methods


@pytest.mark.parametrize(
    "use",
    [
        lambda pipe: pipe.schedule_run(),
        lambda pipe: pipe.outputs(),
        lambda pipe: pipe.share_outputs(),
        lambda pipe: pipe.release_outputs(),
        lambda pipe: pipe.serialize(),
        lambda pipe: pipe.deserialize_and_build(b""),
        lambda pipe: pipe.checkpoint(),
        lambda pipe: pipe.epoch_size(),
        lambda pipe: pipe.reader_meta(),
        lambda pipe: pipe.executor_statistics(),
        lambda pipe: pipe.save_graph_to_dot_file("nowhere"),
        lambda pipe: pipe.set_outputs(1),
        lambda pipe: pipe.output_dtype(),
        lambda pipe: pipe.num_outputs,
        lambda pipe: pipe.run(1234),
        lambda pipe: pipe.run(x=1),
        lambda pipe: pipe.__enter__(),
        lambda pipe: pipe.__aiter__(),
        lambda pipe: pipe.build(lambda: None),
    ],
)
def test_methods_that_debug_mode_lacks(use):
    pipe = debug(lambda: fn.constant(idata=[1]))
    with pytest.raises(RuntimeError, match="not available in debug mode"):
        use(pipe)
    assert Pipeline.current() is None
    pipe.run()


def test_a_checkpoint_cannot_be_restored():
    source = pipeline_def(**BASE, enable_checkpointing=True)(lambda: fn.random.uniform())()
    source.run()
    pipe = debug(lambda: fn.random.uniform(), enable_checkpointing=True, checkpoint=source.checkpoint())
    with pytest.raises(RuntimeError, match="not available in debug mode"):
        pipe.run()


def test_options_are_checked():
    with pytest.raises(ValueError, match="num_threads"):
        debug(lambda: 1, num_threads=None).run()
    with pytest.raises(TypeError, match="batchsize"):
        pipeline_def(batchsize=3, debug=True)(lambda: 1)()


def test_debug_is_given_to_the_decorator_or_the_call():
    def function():
        return fn.constant(idata=[1])

    define = experimental_pipeline_def(**BASE, debug=True)(function)
    assert isinstance(define(), DebugPipeline) and type(define(debug=False)) is Pipeline
    assert isinstance(pipeline_def(**BASE)(function)(debug=True), DebugPipeline)


def test_other_methods():
    pipe = debug(lambda: fn.random.uniform(seed=1))
    assert pipe.empty() and pipe.seed == 11 and pipe.max_batch_size == SIZE
    first = values(asyncio.run(pipe.run_async()))
    assert "debug mode: 1 operators" in str(pipe)
    assert first == values(pipeline_def(**BASE)(lambda: fn.random.uniform(seed=1))().run())
    ended = debug(lambda: fn.external_source([]))
    with pytest.raises(StopAsyncIteration):
        asyncio.run(ended.run_async())


def test_side_effects_run_on_the_users_thread_in_order():
    seen = []

    def function():
        x = fn.external_source(lambda: np.int32(range(SIZE)))
        fn.python_function(x, function=lambda a: seen.append(int(a)), num_outputs=0)
        seen.append("after")
        return x

    debug(function).run()
    assert seen == [*range(SIZE), "after"]


def test_data_is_freed_immediately():
    def function():
        x = fn.random.uniform(shape=[3], seed=1) + 1
        y = fn.python_function(x.gpu().cpu(), function=lambda a: a * 2)
        return fn.external_source(lambda: np.zeros((SIZE, 2))), y

    def nodes():
        return sum(type(item) is DataNodeDebug for item in gc.get_objects())

    gc.collect()
    threads = set(threading.enumerate())
    pipe = debug(function)
    gc.disable()
    try:
        before = nodes()
        for _ in range(3):
            pipe.run()
        assert nodes() == before
        [thread] = set(threading.enumerate()) - threads  # with num_threads=2 there is one thread beside the user's
        del pipe
        thread.join(300)
        assert not thread.is_alive()
    finally:
        gc.enable()


def test_closing():
    pipe = debug(lambda: fn.random.uniform(seed=1))
    (output,) = pipe.run()
    expected = values([output])
    pipe.close()
    pipe.close()
    assert values([output]) == expected
    with pytest.raises(RuntimeError, match="closed"):
        pipe.run()


def test_a_pipeline_inside_a_pipeline():
    inner = debug(lambda: fn.random.uniform(seed=1))

    def function():
        (drawn,) = inner.run()
        with pytest.raises(RuntimeError, match="of the same pipeline"):
            outer.run()
        return fn.random.uniform(seed=1) - drawn

    outer = debug(function)
    for _ in range(2):
        assert values(outer.run()) == [[0.0] * SIZE]


def test_unknown_arguments_of_external_source_are_named():
    """DALI's debug mode ignores them without a word; a graph refuses them in both libraries."""

    def body():
        return fn.external_source(lambda: [np.zeros(2)] * 2, batc_size=3)

    options = {"batch_size": 2, "num_threads": 1, "device_id": None}
    with pytest.warns(UserWarning, match="no argument `batc_size`"):
        assert np.asarray(pipeline_def(body, debug=True, **options)().run()[0][0]).tolist() == [0, 0]
    with pytest.raises(KeyError, match="unexpected argument 'batc_size'"):
        pipeline_def(body, **options)().build()


@pytest.mark.parametrize("device_id", [None, 0])
def test_gpu_operators_run_on_the_host_device(monkeypatch, device_id):
    monkeypatch.setenv("ASYNCDALI_DEVICE", "host")

    def body():
        images = fn.external_source(lambda: [np.arange(12, dtype=np.uint8).reshape(2, 2, 3)] * 2, layout="HWC", device="gpu")
        turned = fn.flip(images, horizontal=fn.random.coin_flip(seed=3))
        return turned, fn.brightness(turned.cpu().gpu(), brightness=2.0), images

    options = {"batch_size": 2, "num_threads": 1, "device_id": device_id}
    outputs = [pipeline_def(body, debug=way, **options)().run() for way in (True, False)]
    for found, expected in zip(*outputs, strict=True):
        assert type(found) is type(expected)
        for i in range(2):
            np.testing.assert_array_equal(np.asarray(found.as_cpu()[i]), np.asarray(expected.as_cpu()[i]))

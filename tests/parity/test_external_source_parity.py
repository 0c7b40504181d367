"""External sources beside DALI's: equal batches, ends of epochs, calls of the source, and refusals."""

from __future__ import annotations

import functools
import itertools
import random
import warnings

import numpy as np
import pytest

import asyncdali
import asyncdali.fn
import asyncdali.ops
import asyncdali.types

dali = pytest.importorskip("nvidia.dali", reason="DALI is not installed")

LIBRARIES = (asyncdali, dali)
SIZE = 3


def make(library, graph, **options):
    pipe = library.Pipeline(**{"batch_size": SIZE, "num_threads": 2, "device_id": None, "seed": 1, **options})
    with pipe, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        outputs = graph(library)
        pipe.set_outputs(*(outputs if isinstance(outputs, (list, tuple)) else [outputs]))
    pipe.build()
    return pipe


def content(batch):
    return [np.array(batch.at(k)).tolist() for k in range(len(batch))]


def epochs(pipe, count, most=12, reset=True):
    """The batches and the ends of some epochs, as a program sees them."""
    seen = []
    for _ in range(count):
        for _ in range(most):
            try:
                seen.append([content(batch) for batch in pipe.run()])
            except StopIteration:
                seen.append("end")
                break
        if reset:
            pipe.reset()
    return seen


def both(graph, count=3, **options):
    """The log of a program with each library. `graph(library, log)` may write its calls to the log."""
    found = []
    for library in LIBRARIES:
        log = []
        found.append((epochs(make(library, lambda lib, log=log: graph(lib, log), **options), count), log))
    return found


# ------------------------------------------------------------------------------------------------------------------- kinds


def batches(length):
    return [np.arange(SIZE, dtype=np.int32) + 10 * k for k in range(length)]


def samples(length):
    return [np.int32([k]) for k in range(length)]


def info_text(info):
    if isinstance(info, int):
        return [info]
    return [getattr(info, name) for name in ("idx_in_epoch", "idx_in_batch", "iteration", "epoch_idx") if hasattr(info, name)]


class Indexed:
    """A callable with one argument, which it returns as data."""

    def __init__(self, length, log, batch):
        self.length, self.log, self.batch = length, log, batch

    def __call__(self, info):
        self.log.append(info_text(info))
        iteration = info if isinstance(info, int) else info.iteration
        if iteration >= self.length:
            raise StopIteration
        data = np.int32(info_text(info))
        return [data] * SIZE if self.batch else data


def counting(length, batch, log):
    state = itertools.count()

    def call():
        k = next(state)
        log.append(k)
        if k >= (length if batch else length * SIZE):
            raise StopIteration
        return batches(length)[k] if batch else np.int32([k])

    return call


KINDS = {
    "no argument, batch": lambda n, log: {"source": counting(n, True, log)},
    "no argument, sample": lambda n, log: {"source": counting(n, False, log), "batch": False},
    "index": lambda n, log: {"source": Indexed(n, log, True)},
    "BatchInfo": lambda n, log: {"source": Indexed(n, log, True), "batch_info": True},
    "SampleInfo": lambda n, log: {"source": Indexed(n, log, False), "batch": False},
    "list": lambda n, log: {"source": batches(n)},
    "list of samples": lambda n, log: {"source": samples(n * SIZE + 1), "batch": False},
    "iterator": lambda n, log: {"source": iter(batches(n))},
    "generator": lambda n, log: {"source": (item for item in batches(n))},
    "generator function": lambda n, log: {"source": lambda: (yield from batches(n))},
    "partial generator function": lambda n, log: {"source": functools.partial(lambda k: (yield from batches(k)), n)},
    "list of lists": lambda n, log: {"source": [list(item.reshape(-1, 1)) for item in batches(n)]},
}


@pytest.mark.parametrize("depth", [1, 2, 3, 5])
@pytest.mark.parametrize("length", [0, 1, 3, 7])
@pytest.mark.parametrize("kind", KINDS)
def test_kind(kind, length, depth):
    ours, theirs = both(lambda lib, log: lib.fn.external_source(**KINDS[kind](length, log)), prefetch_queue_depth=depth)
    assert ours == theirs
    assert "end" in ours[0]


@pytest.mark.parametrize("kind", ["index", "SampleInfo", "list"])
def test_not_pipelined(kind):
    ours, theirs = both(lambda lib, log: lib.fn.external_source(**KINDS[kind](3, log)), exec_pipelined=False)
    assert ours == theirs


@pytest.mark.parametrize("cycle", [None, "no", False, "quiet", True, "raise"])
@pytest.mark.parametrize("kind", ["list", "generator function", "list of samples"])
@pytest.mark.parametrize("length", [0, 1, 3])
def test_cycle(kind, cycle, length):
    ours, theirs = both(lambda lib, log: lib.fn.external_source(**{**KINDS[kind](length, log), "cycle": cycle}))
    assert ours == theirs


LENGTHS = [(8, 4, 6), (3, 5, 4), (1, 2, 7)]


@pytest.mark.parametrize("lengths", LENGTHS)
@pytest.mark.parametrize("policies", [("raise", "raise", "raise"), ("quiet", "raise", "quiet"), (None, "raise", "quiet"), ("raise", None,
None)])
def test_several_sources(lengths, policies):
    """Sources of different lengths. Their batches after the end of the shortest source do not depend on the order of the calls."""

    def graph(lib, log):
        lists = [[np.int32([[100 * s + k]] * SIZE) for k in range(length)] for s, length in enumerate(lengths)]
        nodes = [lib.fn.external_source(source=items, cycle=policy) for items, policy in zip(lists, policies)]
        return [*nodes, lib.fn.external_source(**KINDS["index"](100, []))]

    ours, theirs = both(graph, count=5)
    assert ours == theirs


def test_outputs_of_one_source():
    def graph(lib, log):
        def source(info):
            log.append(info.idx_in_epoch)
            if info.iteration == 4:
                raise StopIteration
            return np.int32([info.idx_in_epoch]), np.float32([[info.iteration]]), np.uint8(7)

        return lib.fn.external_source(source=source, num_outputs=2, batch=False, dtype=[lib.types.INT32, lib.types.FLOAT], layout=["A"])

    ours, theirs = both(graph)
    assert ours == theirs


def test_reset_with_old_batches_left():
    found = []
    for library in LIBRARIES:
        pipe = make(library, lambda lib: lib.fn.external_source(**KINDS["index"](4, [])), prefetch_queue_depth=3)
        seen = []
        for _ in range(3):
            seen.append(content(pipe.run()[0]))
        pipe.reset()  # The source has ended, and one batch is not delivered yet.
        pipe.reset()
        found.append(seen + epochs(pipe, 2))
    assert found[0] == found[1]


def test_scheduled_calls():
    found = []
    for library in LIBRARIES:
        log = []
        pipe = make(library, lambda lib, log=log: lib.fn.external_source(**KINDS["index"](6, log)))
        seen = []
        for _ in range(3):
            pipe.schedule_run()
            seen.append(len(log))
        for _ in range(4):
            seen.append(content(pipe.outputs()[0]))
        seen.append(pipe.empty())
        with pytest.raises(StopIteration):
            pipe.outputs()
        found.append(seen)
    assert found[0] == found[1]


def test_batch_size_varies():
    def graph(lib, log):
        sizes = iter([1, 3, 2])
        node = lib.fn.external_source(lambda: [np.float32([1, 2])] * next(sizes))
        return [node, lib.fn.random.uniform(), lib.fn.constant(idata=[4])]

    ours, theirs = both(graph, count=1)
    assert ours == theirs


def test_arguments_of_other_operators():
    """One source gives the data of an operator, and another source gives its argument."""

    def graph(lib, log):
        flips = lib.fn.external_source(lambda k: np.int32([k % 2, 1, 0]))
        pictures = lib.fn.external_source(lambda k: np.arange(SIZE * 12, dtype=np.uint8).reshape(SIZE, 2, 2, 3) + k, layout="HWC")
        return lib.fn.flip(pictures, horizontal=flips)

    found = []
    for library in LIBRARIES:
        pipe = make(library, lambda lib: graph(lib, []))
        found.append([content(pipe.run()[0]) for _ in range(5)])
    assert found[0] == found[1]


# -------------------------------------------------------------------------------------------------------------------- data


def data_cases(library):
    tensors = library.tensors
    return {
        "array": np.arange(6, dtype=np.int16).reshape(3, 2),
        "scalars": np.float32([1, 2, 3]),
        "list": [np.uint8([1, 2]), np.uint8([3, 4])],
        "ragged": [np.uint8([1, 2]), np.uint8([3])],
        "empty samples": [np.zeros((0, 3), np.float32)] * 2,
        "empty list": [],
        "tuple": (np.float64([1]), np.float64([2])),
        "numpy scalars": [np.int8(1), np.int8(2)],
        "bool": np.array([True, False]),
        "half": np.float16([[1], [2]]),
        "read-only": np.broadcast_to(np.int32([1, 2]), (2, 2)).copy(),
        "tensor list": tensors.TensorListCPU(np.arange(6, dtype=np.int32).reshape(3, 2), "A"),
        "tensor": tensors.TensorCPU(np.arange(6, dtype=np.int32).reshape(3, 2), "AB"),
        "tensors": [tensors.TensorCPU(np.int32([1, 2]), "A"), tensors.TensorCPU(np.int32([3, 4]), "A")],
        "memoryview": [memoryview(np.int32([1, 2])), memoryview(np.int32([3, 4]))],
    }


@pytest.mark.parametrize("push", [False, True])
@pytest.mark.parametrize("no_copy", [False, True])
@pytest.mark.parametrize("case", data_cases(asyncdali))
def test_data(case, no_copy, push):
    found = []
    for library in LIBRARIES:
        data = data_cases(library)[case]
        if push:
            pipe = make(library, lambda lib: lib.fn.external_source(name="in", no_copy=no_copy))
            pipe.feed_input("in", data)
            pipe.feed_input("in", data)
        else:
            pipe = make(library, lambda lib, data=data: lib.fn.external_source(lambda: data, no_copy=no_copy))
        (out,) = pipe.run()
        found.append((content(out), out.layout(), int(out.dtype), len(out)))
    assert found[0] == found[1]


REFUSED = {
    "number": 5, "float": 2.5, "text": "abc", "none": None, "dict": {0: np.ones(3)}, "set": {1}, "scalar": np.float32(3),
    "text array": np.array(["a", "b"]), "objects": np.array([None, 1], object), "dates": np.array(["2020-01-01"], "M8[D]"),
    "mixed types": [np.float32([1]), np.int32([1])], "mixed ranks": [np.float32([1]), np.float32([[1]])],
    "too many": np.zeros((4, 1)), "nested": [[np.zeros(2)], [np.zeros(3)]], "texts": ["a", "b"],
}  # fmt: skip


@pytest.mark.parametrize("case", REFUSED)
def test_data_that_is_refused(case):
    """DALI raises various errors. Ours are subclasses of RuntimeError. After the error the program may feed valid data."""
    for library in LIBRARIES:
        pipe = make(library, lambda lib: lib.fn.external_source(name="in"))
        with pytest.raises(RuntimeError if library is asyncdali else Exception):
            pipe.feed_input("in", REFUSED[case])
        for _ in range(2):
            pipe.feed_input("in", np.float32([1, 2]))
        assert content(pipe.run()[0]) == [1.0, 2.0]


# --------------------------------------------------------------------------------------------------------------- arguments


def gen():
    yield np.zeros(SIZE)


class Both:
    def __iter__(self):
        return iter([np.zeros(SIZE)])

    def __call__(self):
        return np.ones(SIZE)


def no_argument():
    return np.zeros(SIZE)


def one(index):
    return np.zeros(SIZE)


CALLS = {
    "three positional": lambda fn: fn.external_source([1], 1, 2),
    "outputs without source": lambda fn: fn.external_source(num_outputs=2),
    "outputs and name": lambda fn: fn.external_source(gen, num_outputs=2, name="x"),
    "one output is a list": lambda fn: fn.external_source(gen, num_outputs=1),
    "not a source": lambda fn: fn.external_source(5),
    "cycle value": lambda fn: fn.external_source([], cycle="forever"),
    "cycle generator": lambda fn: fn.external_source(gen(), cycle="raise"),
    "cycle callable": lambda fn: fn.external_source(no_argument, cycle="quiet"),
    "cycle=False callable": lambda fn: fn.external_source(no_argument, cycle=False),
    "cycle='no' callable": lambda fn: fn.external_source(no_argument, cycle="no"),
    "cycle no source": lambda fn: fn.external_source(cycle="quiet"),
    "cycle=False no source": lambda fn: fn.external_source(cycle=False),
    "depth without parallel": lambda fn: fn.external_source(one, prefetch_queue_depth=1),
    "hint without parallel": lambda fn: fn.external_source(one, bytes_per_sample_hint=1),
    "depth 0": lambda fn: fn.external_source(one, parallel=True, prefetch_queue_depth=0),
    "hint 0": lambda fn: fn.external_source(one, parallel=True, bytes_per_sample_hint=0),
    "parallel copies": lambda fn: fn.external_source(one, parallel=True, no_copy=False),
    "parallel without argument": lambda fn: fn.external_source(no_argument, parallel=True),
    "parallel samples of an iterable": lambda fn: fn.external_source([1], parallel=True, batch=False),
    "parallel samples of a generator": lambda fn: fn.external_source(gen, parallel=True, batch=False),
    "variadic": lambda fn: fn.external_source(lambda *a: a),
    "keywords": lambda fn: fn.external_source(lambda **k: k),
    "keyword-only": lambda fn: fn.external_source(lambda *, k: k),
    "two arguments": lambda fn: fn.external_source(lambda a, b: a),
    "default argument": lambda fn: fn.external_source(lambda a=0: a),
    "name of another type": lambda fn: fn.external_source(name=5),
    "batch None": lambda fn: fn.external_source(gen, batch=None),
    "blocking with source": lambda fn: fn.external_source(gen, blocking=True),
}


def same_outcome(call):
    """`call(library)` returns as many nodes with both libraries, or raises an error. Our error is of DALI's type, or of a subclass."""
    found = []
    for library in LIBRARIES:
        pipe = library.Pipeline(batch_size=SIZE, num_threads=1, device_id=None)
        with pipe:
            try:
                result = call(library)
                found.append(type(result).__name__ if not isinstance(result, list) else len(result))
            except Exception as error:
                found.append(error)
    ours, theirs = found
    if isinstance(theirs, Exception):
        assert isinstance(ours, type(theirs)), (repr(ours), repr(theirs))
    else:
        assert ours == theirs


@pytest.mark.parametrize("case", CALLS)
def test_call(case):
    same_outcome(lambda library: CALLS[case](library.fn))


OPS = {
    "source twice": lambda ops: ops.ExternalSource(source=gen)(source=gen),
    "layout twice": lambda ops: ops.ExternalSource(layout="A")(source=gen, layout="A"),
    "batch twice": lambda ops: ops.ExternalSource(batch=True)(source=gen, batch=True),
    "parallel twice": lambda ops: ops.ExternalSource(parallel=True)(source=one, parallel=True),
    "cycle without source": lambda ops: ops.ExternalSource(source=gen)(cycle="quiet"),
    "outputs without source": lambda ops: ops.ExternalSource(num_outputs=2)(),
    "outputs and name": lambda ops: ops.ExternalSource(gen, num_outputs=2)(name="x"),
    "outputs and name in the constructor": lambda ops: ops.ExternalSource(gen, num_outputs=2, name="x"),
    "plain": lambda ops: ops.ExternalSource()(),
    "source in the call": lambda ops: ops.ExternalSource()(source=gen),
}


@pytest.mark.parametrize("case", OPS)
def test_class_form(case):
    same_outcome(lambda library: OPS[case](library.ops))


def test_iterable_beats_callable():
    ours, theirs = both(lambda lib, log: lib.fn.external_source(Both()), count=1)
    assert ours == theirs


DECLARED = {
    "dtype": ({"dtype": "FLOAT"}, [np.int32([1, 2])]),
    "ndim": ({"ndim": 2}, [np.float32([[1, 2], [3, 4]])]),
    "layout and rank": ({"layout": "HW"}, [np.float32([[1, 2], [3, 4]])]),
    "type changes": ({}, [np.int32([1, 2]), np.float32([1, 2])]),
    "rank changes": ({}, [np.int32([1, 2]), np.int32([[1], [2]])]),
}


@pytest.mark.parametrize("case", DECLARED)
def test_data_against_the_declaration(case):
    options, fed = DECLARED[case]
    for library in LIBRARIES:
        given = {key: getattr(library.types, value) if key == "dtype" else value for key, value in options.items()}
        with pytest.raises(RuntimeError):
            pipe = make(library, lambda lib, given=given: lib.fn.external_source(name="in", **given))
            for data in [*fed, fed[-1]]:
                pipe.feed_input("in", data)
            for _ in range(len(fed) + 1):
                pipe.run()


@pytest.mark.parametrize("options", [{"ndim": -1}, {"ndim": 3, "layout": "HW"}])
def test_declaration_refused_when_building(options):
    for library in LIBRARIES:
        with pytest.raises(RuntimeError):
            make(library, lambda lib: lib.fn.external_source(name="in", **options))


# -------------------------------------------------------------------------------------------------------------------- push


def test_repeat_last():
    found = []
    for library in LIBRARIES:
        pipe = make(library, lambda lib: lib.fn.external_source(name="in", repeat_last=True, no_copy=True))
        pipe.feed_input("in", np.int32([1, 1]))
        seen = [content(pipe.run()[0]) for _ in range(2)]
        pipe.feed_input("in", np.int32([9, 9]))
        pipe.feed_input("in", np.int32([2, 2, 2]))
        seen += [content(pipe.run()[0]) for _ in range(4)]
        found.append(seen)
    assert found[0] == found[1]


def test_feeding_errors():
    for library in LIBRARIES:
        pipe = make(library, lambda lib: [lib.fn.external_source(name="in"), lib.fn.external_source(gen, name="own")])
        with pytest.raises(RuntimeError):
            pipe.feed_input("own", np.zeros(2))
        with pytest.raises(KeyError):
            pipe.feed_input("other", np.zeros(2))
        with pytest.raises(TypeError):
            pipe.feed_input(5, np.zeros(2))
        with pytest.raises(KeyError):
            pipe.input_feed_count("other")
        assert pipe.input_feed_count("in") == 2


def test_run_with_inputs():
    for library in LIBRARIES:
        pipe = make(library, lambda lib: lib.fn.external_source(name="in"), prefetch_queue_depth=1)
        assert content(pipe.run(**{"in": np.int32([3])})[0]) == [3]
        with pytest.raises(KeyError):
            pipe.run(other=np.zeros(1))
        pipe = make(library, lambda lib: lib.fn.external_source(name="in"))
        with pytest.raises(RuntimeError):
            pipe.run(**{"in": np.int32([3])})


def test_batch_size_clash():
    for library in LIBRARIES:
        pipe = make(library, lambda lib: [lib.fn.external_source(name="a"), lib.fn.external_source(name="b")])
        for _ in range(2):
            pipe.feed_input("a", np.zeros(2))
            pipe.feed_input("b", np.zeros(3))
        with pytest.raises(RuntimeError, match=r"(?s)Batch size clash"):
            pipe.run()


def test_legacy_hook_feeds():
    found = []
    for library in LIBRARIES:

        class Legacy(library.Pipeline):
            def __init__(self, library=library):
                super().__init__(batch_size=2, num_threads=1, device_id=None)
                self.input = library.ops.ExternalSource()
                self.rounds = iter(range(4))

            def define_graph(self):
                self.data = self.input()
                return self.data

            def iter_setup(self):
                self.feed_input(self.data, np.int32([next(self.rounds)] * 2))

        pipe = Legacy()
        pipe.build()
        found.append(epochs(pipe, 1))
    assert found[0] == found[1]


def test_serialized_source_becomes_an_input():
    found = []
    for library in LIBRARIES:
        pipe = library.Pipeline(batch_size=2, num_threads=1, device_id=None, prefetch_queue_depth=1)
        with pipe:
            pipe.set_outputs(library.fn.external_source(gen))
        copy = library.Pipeline.deserialize(pipe.serialize())
        copy.feed_input("__ExternalSource_0", np.int32([5, 6]))
        found.append(content(copy.run()[0]))
    assert found[0] == found[1] == [5, 6]


def drawn(info):
    return np.array([np.random.rand(), random.random()])


def test_generators_in_worker_processes():
    """DALI's forked workers inherit NumPy's generator, so all of them draw the same numbers. Each of our workers has its own seed."""
    np.random.seed(3)
    inherited = set(np.random.rand(64).tolist())
    found = []
    for library in LIBRARIES:
        np.random.seed(3)
        pipe = make(
            library, lambda lib: lib.fn.external_source(drawn, parallel=True, batch=False), py_num_workers=2, py_start_method="fork"
        )
        found.append(np.array([np.array(sample) for _ in range(3) for sample in pipe.run()[0]]))
        del pipe
    ours, theirs = found
    assert set(theirs[:, 0].tolist()) <= inherited
    assert not set(ours[:, 0].tolist()) & inherited
    assert len(set(ours.ravel().tolist())) == ours.size

"""The same programs with DALI and with asyncdali: values, counts, metadata and exception types are equal."""

from __future__ import annotations

import inspect
import warnings

import numpy as np
import pytest

pytest.importorskip("nvidia.dali", reason="parity with DALI needs DALI")

import nvidia.dali as dali
import nvidia.dali.fn
import nvidia.dali.types  # noqa: F401  dali.fn, dali.types

import asyncdali

LIBRARIES = (asyncdali, dali)


def outcome(library, program, runs=3, **options):
    """The outputs of some runs as lists, or the type of the exception."""
    options = {"batch_size": 4, "num_threads": 2, "device_id": None, "seed": 31, **options}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            pipe = library.pipeline_def(**options)(lambda: program(library.fn, library.types))()
            pipe.build()
            result = []
            for _ in range(runs):
                outputs = pipe.run()
                result.append([(int(batch.dtype), batch.layout(), [batch.at(k).tolist() for k in range(len(batch))]) for batch in outputs])
            return result
        except Exception as error:
            return type(error)


def sets(fn, types):
    i = fn.random.uniform(range=[0, 1], shape=[1], seed=3)
    noise = fn.random.normal([i, fn.copy(i), fn.reshape(i, shape=[1])])
    return noise[1], noise[0], fn.random.uniform()


PROGRAMS = {
    "uniform": lambda fn, types: fn.random.uniform(),
    "several": lambda fn, types: (fn.random.uniform(), fn.random.normal(), fn.random.coin_flip(), fn.random.uniform(range=[5.0, 9.0])),
    "order of outputs": lambda fn, types: (lambda a, b: (b, a))(fn.random.uniform(), fn.random.normal()),
    "unused": lambda fn, types: (fn.random.uniform(), fn.random.uniform())[1],
    "explicit seeds": lambda fn, types: (fn.random.uniform(seed=5), fn.random.uniform(), fn.random.uniform(seed=5)),
    "seed minus one": lambda fn, types: (fn.random.uniform(seed=-1), fn.random.uniform()),
    "seed zero": lambda fn, types: (fn.random.uniform(seed=0), fn.random.uniform()),
    "inputs, then arguments by name": lambda fn, types: fn.random.normal(
        fn.random.uniform(shape=[2]), stddev=fn.random.uniform(range=[1.0, 2.0]), mean=fn.random.uniform(range=[5.0, 6.0])),
    "argument inputs": lambda fn, types: fn.random.normal(stddev=fn.random.uniform(), mean=fn.random.uniform(range=[5.0, 6.0])),
    "preserved": lambda fn, types: (fn.random.uniform(preserve=True), fn.random.uniform())[1],
    "sets": sets,
    "shapes": lambda fn, types: (lambda a: (a.shape(), a.shape(dtype=types.FLOAT)))(fn.random.uniform(shape=[2, 3])),
    "scalar shapes": lambda fn, types: fn.random.uniform().shape(),
    "constants": lambda fn, types: (1, 2.5, True, [1, 2], np.float64(3), np.arange(4), np.zeros((2, 2), np.int8)),
    "Constant nodes": lambda fn, types: (types.Constant(5), types.Constant([1, 2]),
                                         types.Constant(np.eye(2, dtype=np.float32), layout="HW"),
                                         types.Constant(2, shape=[3], dtype=types.UINT8)),
    "constant": lambda fn, types: (fn.constant(fdata=[1.5, 2.5], dtype=types.INT16), fn.constant(idata=[7], shape=[2, 2], layout="HW")),
    "reshape": lambda fn, types: (lambda a: (fn.reshape(a, shape=[3, -1], layout="HW"), fn.reshape(a, rel_shape=[0.5, 2.0])))(
        fn.random.uniform(shape=[4, 3])),
    "properties": lambda fn, types: fn.reshape(fn.random.uniform(shape=[2, 2]), layout="HW").property("layout"),
    "ragged": lambda fn, types: fn.random.uniform(shape=fn.random.uniform(range=[1, 9], shape=[1], dtype=types.INT32)),
    "copy": lambda fn, types: fn.copy(fn.random.uniform(shape=[5])),
    # errors
    "returns text": lambda fn, types: "text",
    "returns dict": lambda fn, types: {},
    "returns nothing": lambda fn, types: None,
    "returns nested": lambda fn, types: ([fn.random.uniform()], 1),
    "wide integers": lambda fn, types: np.array([2**40]),
    "unknown argument": lambda fn, types: fn.random.uniform(rnage=[0, 1]),
    "too many inputs": lambda fn, types: fn.copy(fn.random.uniform(), fn.random.uniform()),
    "text as input": lambda fn, types: fn.copy("text"),
    "node as constant": lambda fn, types: fn.random.uniform(dtype=fn.random.uniform()),
    "list of nodes as argument": lambda fn, types: fn.random.uniform(range=[fn.random.uniform(), 1.0]),
    "bad property": lambda fn, types: fn.random.uniform().property("colour"),
    "same names": lambda fn, types: (fn.random.uniform(name="A"), fn.random.normal(name="A")),
    "bool of a node": lambda fn, types: 1 if fn.random.uniform() else 2,
    "iteration over a node": lambda fn, types: list(fn.random.uniform()),
    "hash of a node": lambda fn, types: {fn.random.uniform(): 1},
    "bad device": lambda fn, types: fn.copy(fn.random.uniform(), device="tpu"),
    "gpu argument": lambda fn, types: fn.random.uniform(shape=fn.random.uniform().gpu()),
    "unequal sets": lambda fn, types: fn.random.normal([fn.random.uniform()] * 2, [fn.random.uniform()]),
    "volumes differ": lambda fn, types: fn.reshape(fn.random.uniform(shape=[4]), shape=[3]),
    "missing required": lambda fn, types: fn.get_property(fn.random.uniform()),
}  # fmt: skip


@pytest.mark.parametrize("name", list(PROGRAMS))
def test_programs(name):
    ours, theirs = (outcome(library, PROGRAMS[name]) for library in LIBRARIES)
    if isinstance(theirs, type):
        assert isinstance(ours, type) and issubclass(ours, theirs), (ours, theirs)
    else:
        assert ours == theirs


OPTIONS = [
    {"batch_size": 0}, {"batch_size": -1}, {"batch_size": 1.5}, {"num_threads": 0}, {"num_threads": -1}, {"prefetch_queue_depth": 0},
    {"prefetch_queue_depth": (1, 2)}, {"prefetch_queue_depth": True}, {"prefetch_queue_depth": {"cpu_size": 1}},
    {"prefetch_queue_depth": {"cpu_size": 1, "gpu_size": 1}, "exec_async": False},
    {"prefetch_queue_depth": {"cpu_size": 2, "gpu_size": 2}, "exec_dynamic": True}, {"seed": 1.5}, {"seed": 2**70},
    {"bytes_per_sample": -1},
    {"output_dtype": [1, 2]}, {"output_ndim": -1}, {"output_ndim": 3}, {"output_layout": "HW"}, {"output_ndim": [0, 0]},
    {"output_dtype": "float"}, {"enable_checkpointing": False, "checkpoint": b"x"}, {"enable_checkpointing": True, "checkpoint": b""},
    {"enable_checkpointing": True, "checkpoint": b"\x01\x02"}, {"enable_checkpointing": True, "checkpoint": 3},
    {"enable_checkpointing": True, "prefetch_queue_depth": {"cpu_size": 2, "gpu_size": 2}},
    {"seed": -4}, {"prefetch_queue_depth": 5}, {"exec_pipelined": False, "exec_async": False}, {"exec_dynamic": False},
]  # fmt: skip


@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_options(options):
    ours, theirs = (outcome(library, PROGRAMS["explicit seeds"], **options) for library in LIBRARIES)
    if isinstance(theirs, type):
        assert isinstance(ours, type) and issubclass(ours, theirs), (ours, theirs)
    elif options.get("seed", 1) < 0:
        assert not isinstance(ours, type)
    else:
        assert ours == theirs


def test_signatures():
    ours = list(inspect.signature(asyncdali.Pipeline.__init__).parameters)[1:12]
    theirs = list(inspect.signature(dali.Pipeline.__init__).parameters)[1:12]
    assert ours == theirs


@pytest.mark.parametrize("options", [{}, {"exec_async": False, "exec_pipelined": False}, {"exec_pipelined": False}, {"exec_dynamic": False},
                                     {"prefetch_queue_depth": {"cpu_size": 2, "gpu_size": 3}}, {"stream_policy": 1}], ids=str)  # fmt: skip
def test_properties(options):
    names = ["max_batch_size", "num_threads", "device_id", "seed", "exec_pipelined", "exec_async", "exec_dynamic", "exec_separated",
             "set_affinity", "max_streams", "prefetch_queue_depth", "cpu_queue_size", "gpu_queue_size", "default_cuda_stream_priority",
             "enable_memory_stats", "py_num_workers", "py_start_method"]  # fmt: skip
    options = {key: value for key, value in options.items() if key != "stream_policy"}
    found = []
    for library in LIBRARIES:
        pipe = library.Pipeline(batch_size=2, num_threads=1, seed=3, **options)
        found.append({name: getattr(pipe, name) for name in names})
    assert found[0] == found[1]


def test_public_methods():
    missing = [name for name in vars(dali.Pipeline) if not name.startswith("_") and not hasattr(asyncdali.Pipeline, name)]
    assert not missing


def test_scheduled_calls():
    def drive(library):
        pipe = library.Pipeline(batch_size=2, num_threads=1, device_id=None, seed=3, prefetch_queue_depth=2)
        with pipe:
            pipe.set_outputs(library.fn.random.uniform())
        pipe.build()
        log = [pipe.empty()]
        for _ in range(4):
            pipe.schedule_run()
        while not pipe.empty():
            log.append(pipe.outputs()[0].as_array().tolist())
        for call in (pipe.outputs, pipe.share_outputs, pipe.run):
            try:
                log.append(call() and None)
            except Exception as error:
                log.append(type(error))
        pipe.schedule_run()
        log.append(pipe.share_outputs()[0].as_array().tolist())
        pipe.release_outputs()
        return log

    assert drive(asyncdali) == drive(dali)


def test_current_pipeline():
    def drive(library):
        one = library.Pipeline(batch_size=2, num_threads=1, device_id=None)
        log = [library.Pipeline.current() is None]
        with one as entered:
            log += [entered is one, library.Pipeline.current() is one, library.Pipeline.push_current(one) is one]
            library.Pipeline.pop_current()
        try:
            library.Pipeline.pop_current()
        except Exception as error:
            log.append(type(error))
        return log

    assert drive(asyncdali) == drive(dali)


def test_node_texts():
    def drive(library):
        with library.Pipeline(batch_size=2, num_threads=1, device_id=None):
            a = library.fn.random.uniform()
            b = library.fn.random.normal(name="N")
            c = library.fn.random.coin_flip(a)
            sets = [*library.fn.copy([a, b]), *library.fn.copy([a, b], name="S")]
            nodes = [a, b, c, a.gpu(), *sets, library.types.Constant([1, 2]), library.fn.copy(3), library.fn.copy(a)]
            texts = [repr(node).partition("source=")[0] for node in nodes]  # The text of DALI's source contains an address.
            return texts, [node.name for node in nodes]

    assert drive(asyncdali) == drive(dali)


def test_executor_statistics():
    def drive(library):
        pipe = library.Pipeline(batch_size=4, num_threads=1, device_id=None, seed=1, exec_dynamic=False, enable_memory_stats=True)
        with pipe:
            pipe.set_outputs(library.fn.random.uniform(shape=[100]), library.fn.random.coin_flip(dtype=library.types.UINT8, name="F"))
        pipe.build()
        pipe.run()
        return {name: {key: value for key, value in entry.items() if "reserved" not in key}
                for name, entry in pipe.executor_statistics().items() if "MakeContiguous" not in name}  # fmt: skip

    assert drive(asyncdali) == drive(dali)


@pytest.mark.parametrize("kind", ["BOOL", "UINT8", "INT8", "INT32", "INT64", "UINT16", "FLOAT16"])
def test_constants_are_converted_alike(kind):
    """``fn.constant`` rounds and saturates numbers, and converts NaN, as DALI does."""
    numbers = [0.4, 0.5, 0.6, 1.5, 2.5, -0.5, -1.5, 300.0, -7.0, 0.49999997, float("inf"), -1e20, float("nan"), 1e-30]
    results = []
    for lib in (dali, asyncdali):

        @lib.pipeline_def(batch_size=1, num_threads=1, device_id=None)
        def graph(lib=lib):
            return lib.fn.constant(fdata=numbers, dtype=getattr(lib.types, kind))

        pipe = graph()
        pipe.build()
        results.append(pipe.run()[0].as_array())
    np.testing.assert_array_equal(*results)

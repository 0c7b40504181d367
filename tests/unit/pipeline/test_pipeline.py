"""Pipeline: options, outputs, the families of calls (run, scheduled calls, iteration), start and end."""

from __future__ import annotations

import gc
import inspect
import os
import threading
import warnings
import weakref

import numpy as np
import pytest
from helpers.pipelines import values
from helpers.probes import BarrierProbe, CounterProbe, Probe, SinkProbe, call, fail_at
from helpers.processes import wait_until_gone

from asyncdali import OperatorConcurrency, Pipeline, StreamPolicy, fn, pipeline_def, types
from asyncdali.errors import PipelineClosed

BASE = {"batch_size": 3, "num_threads": 2}


def uniform_pipeline(graph=fn.random.uniform, **options):
    """A pipeline of the outputs that `graph` makes."""
    pipeline = Pipeline(**{**BASE, **options})
    with pipeline:
        made = graph()
    pipeline.set_outputs(*(made if isinstance(made, tuple) else (made,)))
    return pipeline


# --- options


@pytest.mark.parametrize("size, error", [(None, ValueError), (0, ValueError), (-1, ValueError), (2.5, TypeError), (True, TypeError)])
def test_batch_size_is_checked_at_build(size, error):
    pipeline = uniform_pipeline(batch_size=size)
    with pytest.raises(error, match=r"batch.size"):
        pipeline.build()


@pytest.mark.parametrize("count, error", [(None, ValueError), (0, ValueError), (-1, ValueError), (1.5, TypeError)])
def test_num_threads_is_checked_at_build(count, error):
    with pytest.raises(error, match=r"num_threads"):
        uniform_pipeline(num_threads=count).build()


def test_numpy_integers_are_integers():
    pipeline = uniform_pipeline(batch_size=np.int64(2), num_threads=np.int32(1), seed=np.int64(3))
    assert len(pipeline.run()[0]) == 2


def test_queue_depth():
    with pytest.raises(ValueError, match=r"prefetch_queue_depth"):
        uniform_pipeline(prefetch_queue_depth=0).build()
    for wrong in ((1, 2), True, "2", np.int64(2), None):
        with pytest.raises(TypeError, match=r"prefetch_queue_depth"):
            Pipeline(prefetch_queue_depth=wrong)
    with pytest.raises(KeyError, match=r"cpu_size"):
        Pipeline(prefetch_queue_depth={"gpu_size": 2})
    with pytest.raises(KeyError, match=r"gpu_size"):
        Pipeline(prefetch_queue_depth={"cpu_size": 2})


def test_separate_queues():
    depth = {"cpu_size": 2, "gpu_size": 3}
    pipeline = uniform_pipeline(prefetch_queue_depth=depth)
    assert pipeline.exec_separated and not pipeline.exec_dynamic
    assert (pipeline.cpu_queue_size, pipeline.gpu_queue_size, pipeline.prefetch_queue_depth) == (2, 3, depth)
    pipeline.build()
    pipeline.run()
    with pytest.raises(ValueError, match=r"exec_async"):
        Pipeline(prefetch_queue_depth=depth, exec_async=False)
    with pytest.raises(RuntimeError, match=r"No supported executor"):
        uniform_pipeline(prefetch_queue_depth=depth, exec_dynamic=True).build()
    with pytest.raises(ValueError, match=r"gpu_size"):
        uniform_pipeline(prefetch_queue_depth={"cpu_size": 2, "gpu_size": 0}).build()


@pytest.mark.parametrize(
    "options, dynamic",
    [({}, True), ({"exec_async": False}, None), ({"exec_pipelined": False}, None), ({"exec_dynamic": False}, False),
     ({"exec_dynamic": True, "exec_async": False, "exec_pipelined": False}, True)],
)  # fmt: skip
def test_exec_dynamic(options, dynamic):
    assert Pipeline(**BASE, **options).exec_dynamic is dynamic


def test_a_pipeline_without_a_device_needs_no_cuda(monkeypatch):
    import ctypes

    def refuse(name, mode=ctypes.DEFAULT_MODE):
        if mode & os.RTLD_NOLOAD:  # the question whether the library is loaded
            raise OSError(f"{name} is not loaded")
        raise AssertionError(f"library {name} was loaded")

    monkeypatch.setattr(ctypes, "CDLL", refuse)
    monkeypatch.delenv("ASYNCDALI_DEVICE", raising=False)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        pipeline = uniform_pipeline()
        pipeline.run()
    assert pipeline.device_id is None


def test_seed_and_deprecated_options():
    with pytest.warns(UserWarning, match=r"seed=-3") as seen:
        assert Pipeline(**BASE, seed=-3).seed is None
    assert seen[0].filename == __file__
    for name, value in (("max_streams", -1), ("default_cuda_stream_priority", 0)):
        with pytest.warns(DeprecationWarning, match=name) as seen:
            assert getattr(Pipeline(**BASE, **{name: 5}), name) == value
        assert seen[0].filename == __file__
    with pytest.warns(DeprecationWarning, match=r"experimental_exec_dynamic"):
        assert Pipeline(**BASE, experimental_exec_dynamic=False).exec_dynamic is False
    with pytest.warns(DeprecationWarning, match=r"max_batch_size"):
        assert Pipeline(**BASE).batch_size == 3
    for wrong in (1.5, 2**70, "1"):
        with pytest.raises(TypeError, match=r"seed"):
            uniform_pipeline(seed=wrong).build()


def test_other_options_are_checked():
    with pytest.raises(TypeError, match=r"unexpected.*batch_sise.*batch_size"):
        Pipeline(batch_sise=3)
    with pytest.raises(TypeError, match=r"stream_policy"):
        Pipeline(stream_policy=3)
    with pytest.raises(TypeError, match=r"concurrency"):
        Pipeline(concurrency="full")
    with pytest.raises(TypeError, match=r"bytes_per_sample"):
        uniform_pipeline(bytes_per_sample=-1).build()
    with pytest.raises(RuntimeError, match=r"device_id"):
        uniform_pipeline(device_id=-2).build()
    with pytest.raises(ValueError, match=r"py_start_method"):
        Pipeline(py_start_method="thread")
    for flag in ("exec_pipelined", "exec_async", "set_affinity", "enable_checkpointing", "strict", "exec_dynamic"):
        with pytest.raises(TypeError, match=f"{flag} must be True or False, got 'no'"):
            Pipeline(**{flag: "no"})
    assert Pipeline(exec_async=np.bool_(False)).exec_dynamic is None
    with pytest.raises(ValueError, match=r"py_callback_pickler"):
        Pipeline(py_callback_pickler=object())


def test_read_only_properties():
    pipeline = Pipeline(4, 2, None, 7, stream_policy=StreamPolicy.SINGLE, concurrency=OperatorConcurrency.FULL, set_affinity=True)
    assert (pipeline.max_batch_size, pipeline.num_threads, pipeline.device_id, pipeline.seed) == (4, 2, None, 7)
    assert (pipeline.exec_pipelined, pipeline.exec_async, pipeline.exec_separated) == (True, True, False)
    assert (pipeline.stream_policy, pipeline.concurrency) == (StreamPolicy.SINGLE, OperatorConcurrency.FULL)
    assert pipeline.set_affinity is True and pipeline.enable_memory_stats is False
    assert (pipeline.py_num_workers, pipeline.py_start_method) == (1, "fork")
    with pytest.raises(AttributeError):
        pipeline.seed = 3


def test_positional_order_is_dalis():
    names = list(inspect.signature(Pipeline.__init__).parameters)[1:12]
    assert names == [
        "batch_size", "num_threads", "device_id", "seed", "exec_pipelined", "prefetch_queue_depth", "exec_async", "bytes_per_sample",
        "set_affinity", "max_streams", "default_cuda_stream_priority",
    ]  # fmt: skip


# --- outputs


def test_expected_outputs():
    """`output_dtype`, `output_ndim` and `output_layout` are checked when the pipeline runs."""
    graph = lambda: (fn.random.uniform(shape=[2]), fn.random.coin_flip())  # noqa: E731
    pipeline = uniform_pipeline(graph, output_dtype=[types.FLOAT, None], output_ndim=(1, 0), output_layout=None)
    assert pipeline.output_dtype() == [types.FLOAT, None]
    assert pipeline.output_ndim() == [1, 0]
    assert pipeline.output_layout() == [None, None]
    assert pipeline.num_outputs == 2
    pipeline.run()
    for wrong, key in (({"output_dtype": types.FLOAT}, "Output 1.*type"), ({"output_ndim": [2, 0]}, "Output 0.*dimensions"),
                       ({"output_layout": ["", "C"]}, "Output 1.*layout")):  # fmt: skip
        with pytest.raises(RuntimeError, match=key):
            uniform_pipeline(graph, **wrong).run()
    for name, value in (("output_dtype", [types.FLOAT]), ("output_ndim", [1, 2, 3]), ("output_layout", ["A"])):
        with pytest.raises(RuntimeError, match=r"lengths"):
            uniform_pipeline(graph, **{name: value}).build()
    with pytest.raises(ValueError, match=r"NO_TYPE"):
        Pipeline(output_dtype=types.NO_TYPE)
    with pytest.raises(TypeError, match=r"output_dtype"):
        Pipeline(output_dtype="float")
    with pytest.raises(TypeError, match=r"output_ndim"):
        Pipeline(output_ndim=True)
    with pytest.raises(ValueError, match=r"output_ndim"):
        Pipeline(output_ndim=-1)
    with pytest.raises(TypeError, match=r"output_layout"):
        Pipeline(output_layout=3)


def test_set_outputs_before_and_after_build():
    """The last `set_outputs` before `build()` counts. A later one has no effect."""
    pipeline = Pipeline(**BASE)
    with pipeline:
        pipeline.set_outputs(types.Constant(1, device="cpu"))
        pipeline.set_outputs(types.Constant(2, device="cpu"))
    pipeline.build()
    pipeline.set_outputs(types.Constant(3, device="cpu"))
    assert values(pipeline.run()) == [[2, 2, 2]]


def test_define_graph():
    class Mine(Pipeline):
        def define_graph(self):
            return [fn.random.uniform(seed=1), 5]

    pipeline = Mine(**BASE)
    assert values(pipeline.run())[1] == [5, 5, 5]
    other = Pipeline(**BASE)
    other.build(lambda: 6)
    assert values(other.run()) == [[6, 6, 6]]


def test_no_outputs_is_an_error():
    with pytest.raises(NotImplementedError, match=r"outputs"):
        Pipeline(**BASE).build()


def test_the_same_node_twice_and_as_input_and_argument():
    def graph():
        size = fn.random.uniform(range=[1, 4], dtype=types.INT32, shape=[1], seed=5)
        same = fn.reshape(size, shape=size.shape(dtype=types.INT32))
        return size, size, same, fn.random.uniform(shape=size)

    one, two, three, four = uniform_pipeline(graph).run()
    assert values([one]) == values([two]) == values([three])
    assert [shape for (shape,) in one.as_array()] == [shape[0] for shape in four.shape()]


def test_empty_batch_of_shapes():
    assert values(uniform_pipeline(lambda: fn.random.uniform(shape=[0])).run()) == [[[], [], []]]


# --- current pipeline


def test_current_pipeline_is_a_stack_per_thread():
    one, two = Pipeline(**BASE), Pipeline(**BASE)
    seen = []
    with one:
        with two:
            assert Pipeline.current() is two
            thread = threading.Thread(target=lambda: seen.append(Pipeline.current()))
            thread.start()
            thread.join()
        assert Pipeline.current() is one
        assert Pipeline.push_current(two) is one
        Pipeline.pop_current()
        with pytest.raises(ZeroDivisionError), two:
            1 / 0  # noqa: B018
        assert Pipeline.current() is one
    assert Pipeline.current() is None and seen == [None]
    with pytest.raises(AttributeError):
        Pipeline.pop_current()


def test_side_effects_need_a_pipeline():
    with pytest.raises(RuntimeError, match=r"Current Pipeline not set"):
        call(SinkProbe)
    with pytest.raises(RuntimeError, match=r"Current Pipeline not set"):
        fn.random.uniform(preserve=True)


def test_preserved_operators_run():
    """Operators with `preserve=True` and operators without outputs run. Other unused operators do not."""
    ran = []

    def graph():
        call(Probe, hook=lambda k, n: ran.append("unused"))
        call(Probe, hook=lambda k, n: ran.append("preserved"), preserve=True)
        call(SinkProbe, hook=lambda k, n: ran.append("sink"))
        return 1

    pipeline = uniform_pipeline(graph, exec_pipelined=False)
    with pipeline:
        pipeline.add_sink(call(Probe, hook=lambda k, n: ran.append("added")))
    pipeline.run()
    assert sorted(ran) == ["added", "preserved", "sink"]
    with pytest.raises(TypeError, match=r"DataNode"):
        pipeline.add_sink(3)


# --- running


def test_build_is_idempotent_and_runs_nothing():
    ran = []
    pipeline = uniform_pipeline(lambda: call(BarrierProbe, hook=lambda k, n: ran.append(k)))
    assert pipeline.build() is None and pipeline.build() is None
    assert ran == [] and pipeline.empty()


def test_families_of_calls_cannot_be_mixed():
    pipeline = uniform_pipeline()
    pipeline.run()
    for use in (pipeline.schedule_run, pipeline.outputs, pipeline.share_outputs, pipeline.release_outputs):
        with pytest.raises(RuntimeError, match=r"^Mixing pipeline API type"):
            use()
    scheduled = uniform_pipeline()
    scheduled.schedule_run()
    with pytest.raises(RuntimeError, match=r"^Mixing pipeline API type"):
        scheduled.run()
    scheduled.enable_api_check(False)
    scheduled.run()


def test_outputs_without_a_scheduled_run_raise_stop_iteration():
    pipeline = uniform_pipeline()
    for fetch in (pipeline.outputs, pipeline.share_outputs):
        for options in ({}, {"cuda_stream": None}):
            with pytest.raises(StopIteration):
                fetch(**options)


def test_schedule_counts():
    pipeline = uniform_pipeline(lambda: call(Probe), prefetch_queue_depth=2)
    assert pipeline.empty()
    for _ in range(4):
        pipeline.schedule_run()
    got = []
    while not pipeline.empty():
        got.append(values(pipeline.outputs())[0][0])
    assert got == [0, 1, 2, 3, 4]
    with pytest.raises(StopIteration):
        pipeline.outputs()
    pipeline.schedule_run()
    assert values(pipeline.share_outputs())[0][0] == 5
    pipeline.release_outputs()
    pipeline.release_outputs()


def test_schedule_run_waits_only_without_exec_async():
    gate = threading.Event()
    pipeline = uniform_pipeline(lambda: call(BarrierProbe, hook=lambda k, n: gate.wait(300)))
    pipeline.schedule_run()  # a wait would never end
    assert not gate.is_set()
    gate.set()
    pipeline.outputs()
    ran = []
    waits = uniform_pipeline(lambda: call(BarrierProbe, hook=lambda k, n: ran.append(k)), exec_async=False)
    waits.schedule_run()
    assert ran == [0, 1]


@pytest.mark.parametrize("options, first", [({}, 2), ({"prefetch_queue_depth": 5}, 5), ({"exec_pipelined": False}, 1),
                                            ({"prefetch_queue_depth": {"cpu_size": 3, "gpu_size": 2}}, 3)])  # fmt: skip
def test_iterations_launched(options, first):
    pipeline = uniform_pipeline(lambda: call(CounterProbe), **options)
    pipeline.run()
    session = pipeline._core.session
    assert len(session.in_flight) == first - 1
    pipeline.run()
    assert len(session.in_flight) == first - 1


def test_iter_setup_ends_the_epoch():
    class Mine(Pipeline):
        count = 0

        def iter_setup(self):
            if self.count == 3:
                raise StopIteration
            self.count += 1

    pipeline = Mine(**BASE)
    with pipeline:
        pipeline.set_outputs(call(Probe))
    for epoch in range(2):
        pipeline.count = 0
        assert [values(pipeline.run())[0][0] for _ in range(3)] == [3 * epoch + k for k in range(3)]
        for _ in range(2):
            with pytest.raises(StopIteration):
                pipeline.run()
        pipeline.reset()


def test_reset_amid_an_epoch_changes_nothing():
    pipeline = uniform_pipeline(lambda: call(Probe))
    pipeline.run()
    pipeline.reset()
    assert values(pipeline.run())[0][0] == 1


def test_unknown_inputs_and_streams():
    pipeline = uniform_pipeline()
    with pytest.raises((KeyError, RuntimeError), match=r"image"):
        pipeline.run(image=np.zeros(3))
    with pytest.raises(TypeError, match=r"stream"):
        pipeline.run("stream")
    pipeline.run(0)
    with pytest.raises(RuntimeError, match=r"exec_dynamic"):
        uniform_pipeline(exec_dynamic=False).run(0)


# --- randomness


def test_same_seed_same_output_under_all_options():
    graph = lambda: (fn.random.uniform(shape=[5]), fn.copy(fn.random.normal(shape=[3])))  # noqa: E731
    wanted = None
    for options in ({}, {"num_threads": 5}, {"prefetch_queue_depth": 4}, {"exec_pipelined": False}, {"exec_async": False},
                    {"exec_dynamic": False}, {"prefetch_queue_depth": {"cpu_size": 1, "gpu_size": 3}}):  # fmt: skip
        pipeline = uniform_pipeline(graph, seed=11, **options)
        got = [values(pipeline.run()) for _ in range(4)]
        wanted = wanted or got
        assert got == wanted
    assert wanted[0] != wanted[1]


def test_a_sample_does_not_change_with_the_batch_size():
    small = values(uniform_pipeline(seed=3, batch_size=2).run())[0]
    assert values(uniform_pipeline(seed=3, batch_size=7).run())[0][:2] == small


def test_operator_seeds():
    seeded = lambda: fn.random.uniform(seed=4)  # noqa: E731
    assert values(uniform_pipeline(seeded, seed=1).run()) == values(uniform_pipeline(seeded, seed=2).run())
    one, two = values(uniform_pipeline(lambda: (seeded(), seeded())).run())
    assert one == two
    one, two = values(uniform_pipeline(lambda: (fn.random.uniform(), fn.random.uniform()), seed=1).run())
    assert one != two
    assert values(uniform_pipeline().run()) != values(uniform_pipeline().run())  # without a seed every pipeline differs


def test_an_unused_random_operator_changes_nothing():
    def graph(unused):
        if unused:
            fn.random.uniform()
        return fn.random.uniform()

    assert values(uniform_pipeline(lambda: graph(True), seed=1).run()) == values(uniform_pipeline(lambda: graph(False), seed=1).run())


# --- metadata


def test_metadata_without_readers():
    pipeline = uniform_pipeline()
    assert pipeline.reader_meta() == {} and pipeline.epoch_size() == {}
    with pytest.raises(RuntimeError, match=r"does not expose valid metadata"):
        pipeline.reader_meta("R")
    with pytest.raises(RuntimeError, match=r"does not expose valid metadata"):
        pipeline.epoch_size("R")
    assert pipeline.executor_statistics() == {}


def test_executor_statistics():
    graph = lambda: (fn.random.uniform(shape=[100], name="U"), fn.copy(fn.random.coin_flip(dtype=types.UINT8, shape=[7]), name="C"))  # noqa: E731
    pipeline = uniform_pipeline(graph, exec_dynamic=False, enable_memory_stats=True)
    pipeline.run()
    statistics = pipeline.executor_statistics()
    keys = {"real_memory_size", "max_real_memory_size", "reserved_memory_size", "max_reserved_memory_size"}
    assert all(set(entry) == keys for entry in statistics.values())
    (uniform,) = [entry for name, entry in statistics.items() if name.endswith("_U")]
    (copy,) = [entry for name, entry in statistics.items() if name.endswith("_C")]
    assert uniform["real_memory_size"] == [3 * 400] and uniform["max_real_memory_size"] == [400]
    assert copy["real_memory_size"] == [21] and copy["max_real_memory_size"] == [7]
    assert all(reserved >= real for entry in statistics.values()
               for reserved, real in zip(entry["reserved_memory_size"], entry["real_memory_size"], strict=True))  # fmt: skip
    assert uniform_pipeline(graph, enable_memory_stats=True).executor_statistics() == {}


# --- methods that a pipeline does not have


def test_a_pipeline_is_no_container():
    pipeline = uniform_pipeline()
    for use in (iter, len, next, lambda p: p()):
        with pytest.raises(TypeError):
            use(pipeline)
    assert pipeline
    import pickle

    with pytest.raises(TypeError):
        pickle.dumps(pipeline)


# --- the end


def test_a_closed_pipeline():
    pipeline = uniform_pipeline()
    kept = pipeline.run()
    pipeline.close()
    pipeline.close()
    for use in (pipeline.run, pipeline.build, pipeline.reader_meta):
        with pytest.raises(PipelineClosed, match=r"closed"):
            use()
    assert np.isfinite(kept[0].as_array()).all()
    never_built = Pipeline(**BASE)
    never_built.close()
    with pytest.raises(PipelineClosed):
        never_built.build()


def test_outputs_outlive_the_pipeline():
    """Outputs stay valid after the pipeline was closed and freed."""
    pipeline = uniform_pipeline(lambda: fn.copy(fn.random.uniform(shape=[40_000])), seed=6)
    kept = [pipeline.run()[0] for _ in range(6)]
    wanted = [batch.as_array() for batch in kept]
    assert not (wanted[0] == wanted[5]).any()
    pipeline.close()
    del pipeline
    gc.collect()
    for batch, array in zip(kept, wanted, strict=True):
        np.testing.assert_array_equal(batch.as_array(), array)


def test_dropping_the_pipeline_ends_its_threads():
    pipeline = uniform_pipeline()
    pipeline.run()
    threads = [thread for thread in threading.enumerate() if thread.name.startswith(pipeline._core.session.executor.stages.name)]
    gone = weakref.ref(pipeline)
    gc.disable()
    try:
        del pipeline
        wait_until_gone(gone)  # no reference cycle keeps the pipeline
        for thread in threads:
            thread.join(300)
        assert threads and not any(thread.is_alive() for thread in threads)
    finally:
        gc.enable()


def test_close_with_full_queues_is_quick():
    gate = threading.Event()
    pipeline = uniform_pipeline(lambda: fn.copy(call(BarrierProbe, hook=lambda k, n: gate.wait(600))), prefetch_queue_depth=5)
    pipeline.schedule_run()

    def wait():
        with pytest.raises(PipelineClosed):
            pipeline.outputs()

    waiting = threading.Thread(target=wait)
    waiting.start()
    pipeline.close()  # close() gives the callback 0.9 s to return
    waiting.join(300)
    assert not waiting.is_alive()
    gate.set()


def test_build_errors_leave_no_threads():
    before = threading.enumerate()  # a pipeline of another test may still be there
    with pytest.raises(ValueError, match=r"exclude"):
        uniform_pipeline(lambda: fn.random.uniform(range=[0, 1], values=[1])).build()
    assert not [thread for thread in threading.enumerate() if "-worker-" in thread.name and thread not in before]


def test_a_failed_build_can_be_repeated():
    pipeline = uniform_pipeline(fn.random.uniform, output_ndim=[0, 0])
    for _ in range(2):
        with pytest.raises(RuntimeError, match=r"lengths"):
            pipeline.run()


def test_error_at_run_keeps_the_pipeline_usable():
    pipeline = uniform_pipeline(lambda: call(Probe, hook=fail_at(1)))
    assert values(pipeline.run())[0][0] == 0
    with pytest.raises(RuntimeError, match=r"planned failure 1"):
        pipeline.run()
    assert values(pipeline.run())[0][0] == 2


def test_warning_of_the_host_device_names_the_user(monkeypatch):
    from asyncdali.device import select

    monkeypatch.setattr(select, "_warned", set())
    monkeypatch.delenv("ASYNCDALI_DEVICE")
    with pytest.warns(RuntimeWarning, match=r"device_id=0.*host device") as seen:
        uniform_pipeline(device_id=0).run()
    assert seen[0].filename == __file__ and len(seen) == 1
    monkeypatch.setenv("ASYNCDALI_DEVICE", "cuda")
    with pytest.raises(RuntimeError, match=r"ASYNCDALI_DEVICE"):
        uniform_pipeline(device_id=0).build()
    monkeypatch.setenv("ASYNCDALI_DEVICE", "tpu")
    with pytest.raises(ValueError, match=r"ASYNCDALI_DEVICE"):
        uniform_pipeline(device_id=0).build()


def test_pipeline_def_and_pipeline_give_the_same():
    @pipeline_def(**BASE, seed=9)
    def graph():
        return fn.random.uniform(), fn.random.normal()

    other = uniform_pipeline(lambda: (fn.random.uniform(), fn.random.normal()), seed=9)
    assert values(graph().run()) == values(other.run())


def test_a_drawn_seed_is_reported_and_repeats_the_run():
    pipeline = uniform_pipeline(seed=None)
    assert pipeline.seed is None
    first = [values(pipeline.run()) for _ in range(3)]
    again = uniform_pipeline(seed=pipeline.seed)
    assert [values(again.run()) for _ in range(3)] == first
    assert uniform_pipeline(seed=7).seed == 7

"""Methods of a pipeline called from functions that the pipeline calls: RuntimeError immediately, and no data is lost."""

from __future__ import annotations

import asyncio
import gc
import threading
import time
import weakref
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from helpers.pipelines import pipeline_of
from helpers.processes import wait_until, wait_until_gone

from asyncdali import Pipeline, fn, pipeline_def
from asyncdali.system import deadlocks

LENGTH = 5


def batch(k):
    return np.int32([[k], [k], [k]])


CALLS = {
    "run": lambda pipe: pipe.run(),
    "run_async": lambda pipe: pipe.run_async().send(None),
    "schedule_run": lambda pipe: pipe.schedule_run(),
    "outputs": lambda pipe: pipe.outputs(),
    "share_outputs": lambda pipe: pipe.share_outputs(),
    "release_outputs": lambda pipe: pipe.release_outputs(),
    "feed_input": lambda pipe: pipe.feed_input("pushed", batch(0)),
    "checkpoint": lambda pipe: pipe.checkpoint(),
    "reset": lambda pipe: pipe.reset(),
    "close": lambda pipe: pipe.close(),
    "build": lambda pipe: pipe.build(),
    "start_py_workers": lambda pipe: pipe.start_py_workers(),
    "epoch": lambda pipe: next(pipe.epoch()),
    "deserialize_and_build": lambda pipe: pipe.deserialize_and_build(b""),
}


def called(meddle):
    def source(k):
        meddle(k)
        if k >= LENGTH:
            raise StopIteration
        return batch(k)

    return fn.external_source(source)


def generator(meddle):
    def source():
        for k in range(LENGTH):
            meddle(k)
            yield batch(k)

    return fn.external_source(source)


def awaited(meddle):
    async def source(k):
        meddle(k)
        if k >= LENGTH:
            raise StopAsyncIteration
        return batch(k)

    return fn.external_source(source)


def function(meddle):
    def look(sample):
        meddle(int(sample[0]))
        return sample

    return fn.python_function(called(lambda k: None), function=look)


def function_of_batches(meddle):
    def look(samples):
        meddle(int(samples[0][0]))
        return samples

    return fn.python_function(called(lambda k: None), function=look, batch_processing=True)


GRAPHS = {graph.__name__: graph for graph in (called, generator, awaited, function, function_of_batches)}


def synchronously(pipe):
    found = []
    while True:
        try:
            found.append(pipe.run()[0].as_array()[0, 0])
        except StopIteration:
            return found


def in_coroutines(pipe):
    async def all_of_them():
        return [outputs[0].as_array()[0, 0] async for outputs in pipe]

    return asyncio.run(all_of_them())


@pytest.mark.parametrize("consume", [synchronously, in_coroutines])
@pytest.mark.parametrize("graph", GRAPHS)
@pytest.mark.parametrize("call", CALLS)
def test_a_callback_that_calls_its_own_pipeline_gets_an_error_and_nothing_is_lost(call, graph, consume):
    refused = []

    def meddle(k):
        if k == 2:
            with pytest.raises(RuntimeError, match="same pipeline|built already") as error:
                CALLS[call](pipe)
            refused.append(str(error.value))

    pipe = pipeline_of(lambda: GRAPHS[graph](meddle), enable_checkpointing=graph not in ("generator",))
    assert consume(pipe) == list(range(LENGTH))
    assert refused
    pipe.close()


@pytest.mark.parametrize("graph", GRAPHS)
def test_an_error_that_the_callback_does_not_catch_reaches_the_user(graph):
    pipe = pipeline_of(lambda: GRAPHS[graph](lambda k: pipe.run()), prefetch_queue_depth=1)
    with pytest.raises(RuntimeError, match=r"run\(\) was called from a function that the same pipeline calls"):
        pipe.run()
    pipe.close()


@pytest.mark.parametrize("graph", GRAPHS)
def test_other_pipelines_can_be_used_in_callbacks(graph):
    inner = pipeline_of(lambda: (fn.external_source(lambda k: batch(10 * k)), fn.external_source(name="pushed")), enable_checkpointing=True)
    found = []

    def use(k):
        if k == len(found):  # once for each batch, for sources of samples and of batches
            inner.feed_input("pushed", batch(k))
            if not found:
                inner.feed_input("pushed", batch(k))
            found.append(int(inner.run()[0].as_array()[0, 0]))
            assert inner.checkpoint()

    pipe = pipeline_of(lambda: GRAPHS[graph](use))
    inner.feed_input("pushed", batch(0))
    assert synchronously(pipe)[:LENGTH] == list(range(LENGTH))
    assert found[:LENGTH] == [0, 10, 20, 30, 40]
    pipe.close()
    inner.close()


def test_a_coroutine_of_a_source_can_await_another_pipeline():
    inner = pipeline_of(lambda: awaited(lambda k: None))

    async def source(k):
        if k >= LENGTH:
            raise StopAsyncIteration
        return (await inner.run_async())[0].as_array() + 1

    pipe = pipeline_of(lambda: fn.external_source(source))
    assert synchronously(pipe) == [1, 2, 3, 4, 5]
    pipe.close()
    inner.close()


def test_a_coroutine_of_a_source_that_blocks_the_event_loop_of_all_sources_gets_an_error():
    inner = pipeline_of(lambda: awaited(lambda k: None))

    async def source(k):
        return inner.run()[0].as_array()

    pipe = pipeline_of(lambda: fn.external_source(source))
    with pytest.raises(RuntimeError, match="await pipeline.run_async"):
        pipe.run()
    pipe.close()
    inner.close()


@pytest.mark.parametrize("call", sorted(set(CALLS) - {"feed_input", "deserialize_and_build"}))
def test_the_legacy_hook_may_feed_and_nothing_else(call):
    class Hooked(Pipeline):
        fed = 0

        def iter_setup(self):
            with pytest.raises(RuntimeError, match="same pipeline"):
                CALLS[call](self)
            self.feed_input("pushed", batch(self.fed))
            self.fed += 1

    pipe = Hooked(batch_size=3, num_threads=1, enable_checkpointing=True)
    with pipe:
        pipe.set_outputs(fn.external_source(name="pushed"))
    assert [pipe.run()[0].as_array()[0, 0] for _ in range(3)] == [0, 1, 2]
    pipe.close()


@pytest.mark.parametrize("call", sorted(set(CALLS) - {"deserialize_and_build"}))
def test_the_graph_function_of_a_pipeline_that_is_being_built(call):
    class Meddling(Pipeline):
        def define_graph(self):
            with pytest.raises(RuntimeError, match="same pipeline"):
                CALLS[call](self)
            return fn.external_source(batch)

    pipe = Meddling(batch_size=3, num_threads=1, enable_checkpointing=True)
    assert pipe.run()[0].as_array()[0, 0] == 0
    pipe.close()


def test_a_compiled_function_that_returns_to_the_interpreter():
    numba = pytest.importorskip("numba")
    from asyncdali.plugin.numba.fn.experimental import numba_function
    from asyncdali.types import INT32

    refused = []

    def meddle():
        for call in ("run", "close", "feed_input"):
            with pytest.raises(RuntimeError, match="same pipeline"):
                CALLS[call](pipe)
            refused.append(call)

    @numba.njit
    def setup(outs, ins):
        with numba.objmode():
            meddle()
        for k in range(len(outs[0])):
            outs[0][k][0] = ins[0][k][0]

    def run(out, given):
        out[:] = given

    options = {"run_fn": run, "setup_fn": setup, "in_types": [INT32], "ins_ndim": [1], "out_types": [INT32], "outs_ndim": [1]}
    globals()["meddle"] = meddle
    pipe = pipeline_of(lambda: numba_function(fn.external_source(batch), **options))
    assert pipe.run()[0].as_array()[0, 0] == 0
    assert refused[:3] == ["run", "close", "feed_input"]
    pipe.close()


def test_a_callback_may_drop_the_last_reference():
    """A callback may not close the pipeline, but may drop it."""
    others = [pipeline_of(lambda: fn.external_source(batch))]
    others[0].run()
    pipe = pipeline_of(lambda: called(lambda k: others.clear()))
    assert synchronously(pipe) == list(range(LENGTH))
    pipe.close()


@pytest.mark.parametrize("call", ["run", "close", "reset"])
def test_debug_mode(call):
    refused = []

    def source(k):
        with pytest.raises(RuntimeError, match="same pipeline"):
            CALLS[call](pipe)
        refused.append(k)
        return batch(k)

    @pipeline_def(batch_size=3, num_threads=1, debug=True)
    def graph():
        return fn.external_source(source)

    pipe = graph()
    assert [pipe.run()[0].as_array()[0, 0] for _ in range(3)] == [0, 1, 2]
    assert refused == [0, 1, 2]
    pipe.close()


# ------------------------------------------------------------------------------------------------- threads of the callbacks


def joined(call):
    """Run the call on another thread, which the callback joins."""
    thread = threading.Thread(target=call)
    thread.start()
    thread.join()


def joined_through_another(call):
    joined(lambda: joined(call))


def awaited_in_a_pool(call):
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(call).result()


def mapped_in_a_pool(call):
    with ThreadPoolExecutor(1) as pool:
        return list(pool.map(lambda _: call(), [0]))


def left_to_the_pool(call):
    with ThreadPoolExecutor(1) as pool:
        pool.submit(call)


HANDS = [joined, joined_through_another, awaited_in_a_pool, mapped_in_a_pool, left_to_the_pool]
WAITING = ["run", "schedule_run", "reset", "checkpoint", "feed_input", "outputs", "epoch"]


@pytest.mark.parametrize("hand", HANDS)
@pytest.mark.parametrize("graph", GRAPHS)
def test_a_callback_that_waits_for_a_thread_which_runs_the_pipeline(graph, hand):
    """After a moment the call in that thread raises RuntimeError, and no data is lost."""
    refused = []

    def call():
        with pytest.raises(RuntimeError, match=r"would never return|same pipeline") as error:
            pipe.run()
        refused.append(str(error.value))

    def meddle(k):
        if k == 0 and not refused:
            hand(call)

    pipe = pipeline_of(lambda: GRAPHS[graph](meddle))
    assert synchronously(pipe) == list(range(LENGTH))
    assert len(refused) == 1
    pipe.close()


@pytest.mark.parametrize("graph", GRAPHS)
@pytest.mark.parametrize("call", WAITING)
def test_calls_of_a_thread_that_a_callback_waits_for_do_not_block(call, graph):
    came = []

    def meddle(k):
        if k == 0 and not came:
            joined(lambda: came.append(outcome(lambda: CALLS[call](pipe))))

    pipe = pipeline_of(lambda: (GRAPHS[graph](meddle), fn.external_source(name="pushed")), enable_checkpointing=graph != "generator")
    for k in range(3 * LENGTH):
        pipe.feed_input("pushed", batch(k))
    outcome(pipe.run)
    assert came
    pipe.close()


def outcome(call):
    try:
        return call()
    except (RuntimeError, StopIteration) as error:
        return error


@pytest.mark.parametrize("graph", [called, function])
def test_other_consumers_wait_for_a_slow_callback(graph, monkeypatch):
    """Two consumers are started while the callback of another one is busy. Both look for a deadlock, find none, and wait."""
    inside, go, found, looked, look = threading.Event(), threading.Event(), [], set(), deadlocks.DeadlockWait.look

    def noted(patience, notice=True):
        try:
            look(patience, notice)
        finally:
            looked.add(threading.get_ident())

    monkeypatch.setattr(deadlocks.DeadlockWait, "look", noted)

    def meddle(k):
        if k == 0 and not inside.is_set():
            inside.set()
            assert go.wait(300)

    pipe = pipeline_of(lambda: graph(meddle))
    consumers = [threading.Thread(target=lambda: found.append(int(pipe.run()[0].as_array()[0, 0]))) for _ in range(3)]
    consumers[0].start()
    assert inside.wait(300)
    for thread in consumers[1:]:
        thread.start()
    wait_until(lambda: {thread.ident for thread in consumers[1:]} <= looked)
    assert not found
    go.set()
    for thread in consumers:
        thread.join()
    assert sorted(found) == [0, 1, 2]
    pipe.close()


def test_a_function_ahead_of_the_consumer_may_wait_for_a_thread_that_consumes():
    """The thread gets a batch that is complete before the callback returns."""
    found = []

    def look(sample):
        if sample[0] == 2 and not found:
            joined(lambda: found.append(int(pipe.run()[0].as_array()[0, 0])))
        return sample

    pipe = pipeline_of(lambda: fn.python_function(fn.external_source(lambda k: batch(k)), function=look), prefetch_queue_depth=3)
    pipe.enable_api_check(False)
    pipe.schedule_run()
    wait_until(lambda: found)
    assert found == [0]
    pipe.close()


@pytest.mark.parametrize("graph", [called, function])
def test_possible_deadlocks_are_logged(graph, monkeypatch, caplog):
    """A callback that waits for an event is no proven deadlock, because another thread could set the event. The log names the wait."""
    monkeypatch.setattr(deadlocks, "PATIENCE", 0.2)
    over, found = threading.Event(), []

    def call():
        found.append(int(pipe.run()[0].as_array()[0, 0]))
        over.set()

    def meddle(k):
        if k == 0 and not threads:
            threads.append(threading.Thread(target=call))
            threads[0].start()
            limit = time.monotonic() + 300
            while not caplog.messages and time.monotonic() < limit:
                over.wait(0.05)

    threads = []
    pipe = pipeline_of(lambda: graph(meddle))
    assert int(pipe.run()[0].as_array()[0, 0]) == 0
    threads[0].join()
    assert found == [1]
    [message] = caplog.messages
    assert "for a function that the pipeline calls: in " in message and "test_own_callbacks.py:" in message
    pipe.close()


@pytest.mark.parametrize("graph", ["awaited", "function"])
def test_the_search_for_deadlocks_does_not_keep_the_pipeline_alive(graph, monkeypatch):
    """The inspected stacks contain the inspector's own.

    Without the garbage collector this would keep the pipeline and its threads alive.
    """
    monkeypatch.setattr(deadlocks, "FIRST_LOOK", 0.001)
    looked, look = threading.Event(), deadlocks.DeadlockWait.look

    def looking(patience, notice=True):
        look(patience, notice)
        looked.set()

    monkeypatch.setattr(deadlocks.DeadlockWait, "look", looking)
    pipe = pipeline_of(lambda: GRAPHS[graph](lambda k: looked.wait(300)))
    gc.collect()
    gc.disable()
    try:
        pipe.run()
        assert looked.is_set()
        gone = weakref.ref(pipe)
        del pipe
        wait_until_gone(gone)
    finally:
        gc.enable()

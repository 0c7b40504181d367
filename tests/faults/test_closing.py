"""close() while other threads use the pipeline: each of them gets PipelineClosed, and none waits forever."""

from __future__ import annotations

import asyncio
import threading

import numpy as np
import pytest
from helpers.pipelines import pipeline_of

from asyncdali import fn
from asyncdali.errors import PipelineClosed

BATCH = np.zeros((3, 4), np.float32)


def endless():
    while True:
        yield BATCH


async def awaited(k):
    await asyncio.sleep(0)
    return BATCH


async def awaited_sample(info):
    await asyncio.sleep(0)
    return BATCH[0]


async def endless_awaited():
    while True:
        await asyncio.sleep(0)
        yield BATCH


def batch(k):
    return BATCH


def sample(info):
    return BATCH[0]


GRAPHS = {
    "random": lambda: fn.random.uniform(range=(0, 1), shape=[100]),
    "called": lambda: fn.external_source(batch),
    "samples": lambda: fn.external_source(sample, batch=False),
    "function": lambda: fn.python_function(fn.external_source(batch), function=lambda x: x),
    "parallel": lambda: fn.external_source(batch, parallel=True, prefetch_queue_depth=2),
    "parallel-samples": lambda: fn.external_source(sample, parallel=True, batch=False),
    "parallel-iterable": lambda: fn.external_source(endless, parallel=True),
    "awaited": lambda: fn.external_source(awaited),
    "awaited-samples": lambda: fn.external_source(awaited_sample, batch=False),
    "awaited-iterable": lambda: fn.external_source(endless_awaited),
    "pushed": lambda: fn.external_source(name="pushed", blocking=True),
}


def use(pipe, name, outcomes, running):
    """Run until something is raised."""
    try:
        if name == "pushed":
            pipe.feed_input("pushed", BATCH)
        while True:
            pipe.run()
            running.release()
            if name == "pushed":
                pipe.feed_input("pushed", BATCH)
    except BaseException as error:
        outcomes.append(error)
        running.release()


def feed(pipe, outcomes):
    try:
        while True:
            pipe.feed_input("pushed", BATCH)
    except BaseException as error:
        outcomes.append(error)


def told(outcomes):
    return [f"{type(error).__name__}: {error}" for error in outcomes if type(error) is not PipelineClosed]


@pytest.mark.parametrize("name", GRAPHS)
@pytest.mark.parametrize("rounds", [6, pytest.param(200, marks=pytest.mark.slow)])
def test_every_thread_in_run_gets_pipeline_closed(name, rounds):
    for round_ in range(rounds):
        pipe = pipeline_of(GRAPHS[name], py_num_workers=1 if "iterable" in name else 2, prefetch_queue_depth=1 + round_ % 3)
        pipe.build()
        outcomes: list[BaseException] = []
        running = threading.Semaphore(0)
        threads = [threading.Thread(target=use, args=(pipe, name, outcomes, running)) for _ in range(4)]
        for thread in threads:
            thread.start()
        for _ in range(1 + 7 * round_ % 40):
            assert running.acquire(timeout=300)
        pipe.close()
        for thread in threads:
            thread.join(300)
        assert not any(thread.is_alive() for thread in threads)
        assert len(outcomes) == 4 and not told(outcomes), told(outcomes)


@pytest.mark.parametrize("name", ["random", "called", "parallel", "awaited"])
def test_every_coroutine_in_run_async_gets_pipeline_closed(name):
    async def use(pipe, first):
        while True:
            await pipe.run_async()
            first.set()

    async def all_of_them():
        pipe = pipeline_of(GRAPHS[name], py_num_workers=2)
        first = asyncio.Event()
        tasks = [asyncio.ensure_future(use(pipe, first)) for _ in range(4)]
        await first.wait()
        await asyncio.get_running_loop().run_in_executor(None, pipe.close)
        return await asyncio.wait_for(asyncio.gather(*tasks, return_exceptions=True), 30)

    for _ in range(5):
        outcomes = asyncio.run(all_of_them())
        assert len(outcomes) == 4 and not told(outcomes), told(outcomes)


@pytest.mark.parametrize("name", ["random", "called", "parallel"])
def test_scheduled_calls_get_pipeline_closed(name):
    def schedule(pipe, outcomes, running):
        try:
            while True:
                pipe.schedule_run()
                running.release()
                pipe.outputs()
        except BaseException as error:
            outcomes.append(error)

    for round_ in range(6):
        pipe = pipeline_of(GRAPHS[name], py_num_workers=2)
        outcomes: list[BaseException] = []
        running = threading.Semaphore(0)
        thread = threading.Thread(target=schedule, args=(pipe, outcomes, running))
        thread.start()
        for _ in range(1 + 5 * round_):
            assert running.acquire(timeout=300)
        pipe.close()
        thread.join(300)
        assert len(outcomes) == 1 and not told(outcomes), told(outcomes)


def test_feeding_gets_pipeline_closed():
    pipe = pipeline_of(GRAPHS["pushed"])
    pipe.build()
    outcomes: list[BaseException] = []
    threads = [threading.Thread(target=feed, args=(pipe, outcomes)) for _ in range(3)]
    for thread in threads:
        thread.start()
    pipe.close()
    for thread in threads:
        thread.join(300)
    assert len(outcomes) == 3 and not told(outcomes), told(outcomes)


def test_a_source_that_waits_while_the_pipeline_is_closed():
    """The call cannot be interrupted. The run that made the call ends as soon as the call returns."""
    asked, go_on = threading.Event(), threading.Event()

    def slow(k):
        asked.set()
        go_on.wait(300)
        return BATCH

    pipe = pipeline_of(lambda: fn.external_source(slow))
    outcomes: list[BaseException] = []
    thread = threading.Thread(target=use, args=(pipe, "called", outcomes, threading.Semaphore(0)))
    thread.start()
    assert asked.wait(300)
    pipe.close()
    go_on.set()
    thread.join(300)
    assert [type(error) for error in outcomes] == [PipelineClosed]

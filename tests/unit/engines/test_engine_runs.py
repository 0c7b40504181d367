"""Calls of `run()` with engines: batches, checkpoints, statistics, errors, threads and coroutines."""

from __future__ import annotations

import asyncio
import os
import signal
import threading
from contextlib import contextmanager

import numpy as np
import pytest
from helpers.engines import data_files, stream
from helpers.engines import pipeline as made
from helpers.processes import wait_until

from asyncdali import Pipeline, fn

LIMIT = 120
"""Seconds that a thread of a test may take."""


@contextmanager
def pipeline(*arguments, **options):
    pipe = made(*arguments, **options)
    try:
        yield pipe
    finally:
        pipe.close()


@pytest.fixture
def files(tmp_path):
    return data_files(tmp_path)


def reading(files):
    def define():
        data, labels = fn.readers.file(files=files, name="reader", random_shuffle=True, initial_fill=5)
        return data, labels, fn.random.uniform(range=[0, 100])

    return define


def drawn():
    return fn.random.coin_flip(), fn.random.uniform(range=[0, 1], shape=[100, 100, 3])


def outputs_of(pipe):
    return [output.as_array().tobytes() for output in pipe.run()]


def ended(threads):
    for thread in threads:
        thread.join(LIMIT)
    return not any(thread.is_alive() for thread in threads)


@pytest.mark.parametrize("engines, depth", [(1, 2), (1, 1), (2, 4), (2, 3), (3, 2), (1, 5)])
def test_batches_checkpoints_and_statistics_are_those_without_engines(engines, depth):
    with pipeline(drawn, engines, prefetch_queue_depth=depth) as pipe, pipeline(drawn, 0) as reference:
        pipe.build()
        for k in range(150):
            assert outputs_of(pipe) == outputs_of(reference), k
            assert pipe._core.session.iteration == k + 1
            if k in (7, 100, 101, 140):
                assert pipe.checkpoint() == reference.checkpoint()
            if k == 120:
                taken = pipe.statistics()
                assert (taken.consumer.iterations, taken.consumer.samples, taken.queue.in_flight) == (k + 1, 4 * (k + 1), depth - 1)
                assert k + 1 <= sum(item.asked for item in taken.engines) <= k + depth  # an engine has at most two requests
                assert 4 * (k + 1) <= taken.operators[-1].samples <= 4 * (k + depth), (taken.operators[-1].samples, k)


def test_a_checkpoint_resumes_with_engines(files):
    with pipeline(reading(files), 0) as plain, pipeline(reading(files), 2) as pipe:
        for k in range(15):
            assert stream(pipe, 1) == stream(plain, 1)
            if k % 4 == 1:
                assert pipe.checkpoint() == plain.checkpoint()
        with pipeline(reading(files), 2, checkpoint=pipe.checkpoint()) as resumed:
            assert stream(resumed, 5) == stream(plain, 5)


def test_outputs_keep_their_memory():
    with pipeline(drawn, 1) as pipe, pipeline(drawn, 0) as reference:
        pipe.build()
        for _ in range(20):
            pipe.run()
            reference.run()
        kept = [pipe.run()[1] for _ in range(12)]
        wanted = [reference.run()[1].as_array() for _ in range(12)]
        for one, other in zip(kept, wanted):
            np.testing.assert_array_equal(one.as_array(), other)
        assert pipe.statistics().buffers.held_blocks >= 12


def test_an_order_of_outputs_that_differs_from_the_order_of_operators():
    def define():
        first, second = fn.random.coin_flip(), fn.random.uniform(range=[0, 1])
        return second, first, second

    with pipeline(define, 1) as pipe, pipeline(define, 0) as reference:
        pipe.build()
        for _ in range(20):
            assert outputs_of(pipe) == outputs_of(reference)


@pytest.mark.parametrize("engines", [1, 2])
def test_an_engine_that_dies_between_calls(engines):
    with pipeline(drawn, engines) as pipe, pipeline(drawn, 0) as reference:
        pipe.build()
        place = pipe._core.processes.engines.loader.places[0]
        for restarts in range(3):
            for _ in range(10):
                assert outputs_of(pipe) == outputs_of(reference)
            wait_until(lambda restarts=restarts: place.restarts == restarts and place.engine.ready)
            os.kill(place.engine.pid, signal.SIGKILL)
        assert outputs_of(pipe) == outputs_of(reference)
        wait_until(lambda: place.restarts == 3)


def test_errors_keep_their_iterations():
    def fail(value):
        if value < 0.05:
            raise ValueError(f"too small: {value}")
        return value

    def define():
        return fn.python_function(fn.random.uniform(range=[0, 1]), function=fail)

    def errors(engines):
        found = []
        with pipeline(define, engines) as pipe:
            for _ in range(60):
                try:
                    found.append(outputs_of(pipe))
                except RuntimeError as error:
                    found.append(str(error).splitlines()[0])
        return found

    found = errors(1)
    assert found == errors(0) and any(type(item) is str for item in found)


def test_threads_share_the_iterations():
    with pipeline(drawn, 2, prefetch_queue_depth=3) as pipe, pipeline(drawn, 0) as reference:
        pipe.build()
        wanted = sorted(outputs_of(reference) for _ in range(3 * 60 + 1))
        found = [outputs_of(pipe)]

        def consume():
            for _ in range(60):
                found.append(outputs_of(pipe))

        threads = [threading.Thread(target=consume, daemon=True) for _ in range(3)]
        for thread in threads:
            thread.start()
        assert ended(threads)
        assert sorted(found) == wanted
        assert outputs_of(pipe) == outputs_of(reference)


def test_a_legacy_hook_is_called():
    class Hooked(Pipeline):
        calls = 0

        def iter_setup(self):
            self.calls += 1

    pipe = Hooked(batch_size=4, num_threads=1, seed=1, engines=1)
    with pipe:
        pipe.set_outputs(*drawn())
    pipe.build()
    for _ in range(20):
        pipe.run()
    assert pipe.calls == 21
    pipe.close()


def test_statistics_while_another_thread_waits():
    with pipeline(lambda: fn.python_function(fn.random.uniform(range=[0, 1]), function=slow), 1) as pipe:
        pipe.run()
        thread = threading.Thread(target=pipe.run, daemon=True)
        thread.start()
        assert pipe.statistics().queue.in_flight >= 1
        assert ended([thread])
        assert len(pipe._core.session.in_flight) == 1


def slow(value):
    total = 0
    for k in range(300_000):
        total += k & 3
    return value


def test_run_and_run_async_in_turns(files):
    async def later():
        return [[[bytes(output.at(k)) for k in range(len(output))] for output in await pipe.run_async()] for _ in range(4)]

    with pipeline(reading(files), 0) as plain, pipeline(reading(files), 2) as pipe:
        wanted = stream(plain, 12)
        assert stream(pipe, 4) == wanted[:4]
        assert asyncio.run(later()) == wanted[4:8]
        assert stream(pipe, 4) == wanted[8:]


def test_batches_of_different_sizes():
    sizes = [4, 4, 2, 4, 1, 1, 4]

    def define():
        fed = fn.external_source(lambda k: [np.float32(k)] * sizes[k % len(sizes)])
        return fed + 1, fn.random.uniform(fed, range=[0, 1])

    with pipeline(define, 0) as plain, pipeline(define, 2, engine_sources=False) as pipe:
        assert stream(pipe, 14) == stream(plain, 14)
        assert pipe.checkpoint() == plain.checkpoint()

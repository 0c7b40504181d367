"""The fast path of `run()` with engines, which makes no record per iteration (``engines/fast_path.py``)."""

from __future__ import annotations

import os
import signal
import sys
import threading
from contextlib import contextmanager

import numpy as np
import pytest
from helpers.engines import pipeline as made
from helpers.processes import wait_until

from asyncdali import Pipeline, fn

pytestmark = pytest.mark.skipif(sys.version_info < (3, 11), reason="Python 3.10 has no fast path")


@contextmanager
def pipeline(*arguments, **options):
    pipe = made(*arguments, **options)
    try:
        yield pipe
    finally:
        pipe.close()


def drawn():
    return fn.random.coin_flip(), fn.random.uniform(range=[0, 1], shape=[100, 100, 3])


def outputs_of(pipe):
    return [output.as_array().tobytes() for output in pipe.run()]


def fast_path(pipe):
    return pipe._core.session.fast_path


def is_fast(pipe):
    return fast_path(pipe).term > 0


def run_until_fast(pipe):
    """Call `run()` until it takes the fast path. Returns the outputs."""
    found = []
    while not (fast_path(pipe) and is_fast(pipe)):
        found.append(outputs_of(pipe))
        assert len(found) < 100
    return found


@pytest.mark.parametrize("engines, depth", [(1, 2), (1, 1), (2, 4), (2, 3), (3, 2)])
def test_batches_checkpoints_and_statistics_are_those_of_the_usual_path(engines, depth):
    with pipeline(drawn, engines, prefetch_queue_depth=depth) as pipe, pipeline(drawn, 0) as reference:
        pipe.build()
        fast = 0
        for k in range(300):
            fast += is_fast(pipe)
            assert outputs_of(pipe) == outputs_of(reference), k
            assert pipe._core.session.iteration == k + 1
            if k in (7, 100, 101, 290):
                assert pipe.checkpoint() == reference.checkpoint()
            if k == 200:
                taken = pipe.statistics()
                assert (taken.consumer.iterations, taken.consumer.samples, taken.queue.in_flight) == (k + 1, 4 * (k + 1), depth - 1)
                assert sum(item.asked for item in taken.engines) == k + depth
                assert 4 * (k + 1) <= taken.operators[-1].samples <= 4 * (k + depth), (taken.operators[-1].samples, k)
        assert fast > 200  # every 128 iterations, and at each checkpoint, some calls take the usual path


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
        assert is_fast(pipe)


def test_an_iteration_calls_few_functions():
    def calls():
        called = []
        sys.setprofile(lambda frame, event, argument: called.append(frame.f_code.co_name) if event == "call" else None)
        try:
            pipe.run()
        finally:
            sys.setprofile(None)
        return called

    with pipeline(drawn, 1) as pipe:
        pipe.build()
        fewest = min((calls() for _ in range(30)), key=len)  # outputs in new memory take the usual path
        assert len(fewest) <= 16, fewest


@pytest.mark.parametrize("engines", [1, 2])
def test_an_engine_that_dies_between_calls(engines):
    with pipeline(drawn, engines) as pipe, pipeline(drawn, 0) as reference:
        pipe.build()
        for _ in range(3):
            for _ in range(10):
                assert outputs_of(pipe) == outputs_of(reference)
            pid = pipe.statistics().engines[0].pid
            found = run_until_fast(pipe)
            assert found == [outputs_of(reference) for _ in found]
            os.kill(pid, signal.SIGKILL)
        assert outputs_of(pipe) == outputs_of(reference)
        assert pipe.statistics().engines[0].restarts == 3


def test_errors_keep_their_iterations():
    def fail(value):
        if value < 0.05:
            raise ValueError(f"too small: {value}")
        return value

    def define():
        return fn.python_function(fn.random.uniform(range=[0, 1]), function=fail)

    def stream(engines):
        found = []
        with pipeline(define, engines) as pipe:
            for _ in range(60):
                try:
                    found.append(outputs_of(pipe))
                except RuntimeError as error:
                    found.append(str(error).splitlines()[0])
        return found

    found = stream(1)
    assert found == stream(0) and any(type(item) is str for item in found)


def test_threads_share_the_iterations():
    with pipeline(drawn, 2, prefetch_queue_depth=3) as pipe, pipeline(drawn, 0) as reference:
        pipe.build()
        wanted = sorted(outputs_of(reference) for _ in range(3 * 60 + 1))
        found = [outputs_of(pipe)]

        def consume():
            for _ in range(60):
                found.append(outputs_of(pipe))

        threads = [threading.Thread(target=consume) for _ in range(3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
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
    assert pipe.calls == 21 and not is_fast(pipe)
    pipe.close()


def test_a_call_of_another_thread_interrupts_the_wait_of_the_fast_path():
    """Another thread asks for statistics while a call waits in the fast path. The call still gets its batch."""
    with pipeline(lambda: fn.python_function(fn.random.uniform(range=[0, 1]), function=slow), 1) as pipe:
        pipe.build()
        run_until_fast(pipe)
        thread = threading.Thread(target=pipe.run)
        thread.start()
        wait_until(lambda: fast_path(pipe)._waiting)
        assert pipe.statistics().queue.in_flight >= 1
        thread.join()
        assert len(pipe._core.session.in_flight) == 1


def slow(value):
    total = 0
    for k in range(300_000):
        total += k & 3
    return value

"""Time limits of the worker pool. A busy machine may exceed them, so they are marked slow."""

from __future__ import annotations

import os
import signal
import time

import numpy as np
import pytest
from asyncdali_workers import Source, WorkerPool
from helpers import worker_sources as ws

pytestmark = pytest.mark.slow  # the clock is what these tests check


def test_a_dead_worker_is_replaced_within_a_fraction_of_a_second():
    def pid(iteration):
        return np.array([[os.getpid()]])

    with WorkerPool([Source(pid, "batch", 1)], num_workers=1) as pool:
        took = []
        for iteration in range(5):
            victim = pool.pids[0]
            start = time.monotonic()
            os.kill(victim, signal.SIGKILL)
            while pool.receive(pool.submit(0, iteration, 0), 30).outputs[0].values[0, 0] == victim:
                pass
            took.append(time.monotonic() - start)
    assert min(took) < 0.3, took


@pytest.mark.parametrize("method, limit", [("fork", 0.5), ("spawn", 1.5), ("forkserver", 1.5)])
def test_a_pool_starts_and_closes_quickly(method, limit):
    took = []
    for _ in range(2):
        pool = WorkerPool([Source(ws.Counting(), "samples", 4)], num_workers=2, start_method=method)
        start = time.monotonic()
        pool.start()
        took.append(time.monotonic() - start)
        start = time.monotonic()
        pool.close()
        assert time.monotonic() - start < 1
    assert min(took) < limit, took

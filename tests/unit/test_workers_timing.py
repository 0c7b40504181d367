"""Time limits, generous enough for a busy test machine; and checks that no resource grows."""

from __future__ import annotations

import os
import signal
import time

import numpy as np
import pytest
from asyncdali_workers import Source, WorkerPool
from helpers import worker_sources as ws

pytestmark = pytest.mark.slow  # a busy machine would fail them


def test_one_slow_sample_does_not_hold_the_others():
    """0.34 s of waiting per batch on four workers: 0.085 s at best, 0.26 s in slices of two."""

    def source(info):
        time.sleep(0.2 if info.idx_in_batch == 3 else 0.02)
        return np.int64(info.idx_in_epoch)

    with WorkerPool([Source(source, "samples", 8, prefetch=3)], num_workers=4) as pool:
        tickets = [pool.submit(0, i, 0) for i in range(3)]
        pool.receive(tickets.pop(0), 30)  # now the pool knows how slow it is
        for iteration in range(3, 6):
            tickets.append(pool.submit(0, iteration, 0))
            pool.receive(tickets.pop(0), 30)
        start = time.monotonic()
        for iteration in range(6, 16):
            tickets.append(pool.submit(0, iteration, 0))
            batch = pool.receive(tickets.pop(0), 30)
        per_batch = (time.monotonic() - start) / 10
        assert batch.outputs[0].values.tolist() == list(range(8 * 13, 8 * 14))
    assert per_batch < 0.15, per_batch


def test_a_replacement_is_there_soon():
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
def test_starting_is_quick(method, limit):
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


def footprint(pool):
    """Descriptors, memory of this process and of the workers in pages, processes."""
    pages = [int(open(f"/proc/{pid}/statm").read().split()[1]) for pid in [os.getpid(), *pool.pids]]
    return len(os.listdir("/proc/self/fd")), pages, len(pool.pids), [len(os.listdir(f"/proc/{pid}/fd")) for pid in pool.pids]


def endure(batches, settled):
    ragged = ws.Ragged(300)

    def source(info):
        return np.int64([info.idx_in_epoch]), ragged.expected(info.idx_in_epoch)

    with WorkerPool([Source(source, "samples", 8, num_outputs=2, prefetch=3)], num_workers=2) as pool:
        tickets = [pool.submit(0, i, 0) for i in range(3)]
        for iteration in range(batches):
            if iteration == settled:
                before = footprint(pool)
            tickets.append(pool.submit(0, iteration + 3, 0))
            batch = pool.receive(tickets.pop(0), 30)
            assert batch.outputs[0].values[7, 0] == 8 * iteration + 7
            if iteration % 5 == 0:
                pool.cancel(tickets.pop(1))
                tickets.insert(1, pool.submit(0, iteration + 2, 0))
        after = footprint(pool)
        statistics = pool.statistics()
    assert after[0] == before[0] and after[2:] == before[2:]
    assert all(a < b + 500 for a, b in zip(after[1], before[1])), (before, after)  # 2 MB
    assert statistics["slots"] <= 10 and statistics["outstanding"] <= 4
    return before, after, statistics


def test_memory_does_not_grow():
    endure(2000, 1000)


@pytest.mark.slow
def test_memory_does_not_grow_in_a_hundred_thousand_batches():
    before, after, statistics = endure(100_000, 5_000)
    print(before, after, {key: value for key, value in statistics.items() if key != "capacities"})

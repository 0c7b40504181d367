"""The resources of a worker pool do not grow with the number of batches."""

from __future__ import annotations

import os

import numpy as np
import pytest
from asyncdali_workers import Source, WorkerPool
from helpers import worker_sources as ws


def footprint(pool):
    """(descriptors of this process, pages of memory of each process, number of workers, descriptors of each worker)"""
    pages = [int(open(f"/proc/{pid}/statm").read().split()[1]) for pid in [os.getpid(), *pool.pids]]
    return len(os.listdir("/proc/self/fd")), pages, len(pool.pids), [len(os.listdir(f"/proc/{pid}/fd")) for pid in pool.pids]


def run_batches(batches, settled):
    """Run this number of batches, every fifth of them cancelled once. The footprint must not grow after batch number `settled`."""
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


def test_the_footprint_does_not_grow_in_two_thousand_batches():
    run_batches(2000, 1000)


@pytest.mark.slow
def test_the_footprint_does_not_grow_in_a_hundred_thousand_batches():
    before, after, statistics = run_batches(100_000, 5_000)
    print(before, after, {key: value for key, value in statistics.items() if key != "capacities"})

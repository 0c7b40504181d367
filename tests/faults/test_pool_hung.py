"""Callables that take too long."""

from __future__ import annotations

import ctypes
import os
import signal
import time

import numpy as np
import pytest
from asyncdali_workers import Source, WorkerPool, WorkerTimeout
from asyncdali_workers.child import STACK_SIGNAL


@pytest.fixture
def make_pool():
    pools = []

    def make(callback, kind="samples", workers=2, timeout=0.3, **options):
        pool = WorkerPool([Source(callback, kind, 4, name="slow")], num_workers=workers, worker_timeout=timeout, **options)
        pools.append(pool)
        pool.start()
        return pool

    yield make
    for pool in pools:
        pool.close()


def ask(pool, iteration=0):
    return pool.receive(pool.submit(0, iteration, 0), timeout=30)


class HangsAt:
    def __init__(self, where, how):
        self.where, self.how = where, how

    def __call__(self, info):
        if info.idx_in_epoch == self.where:
            getattr(self, self.how)()
        return np.int64(info.idx_in_epoch)

    def asleep(self):
        time.sleep(1000)

    def holding_the_gil(self):
        ctypes.PyDLL(None).sleep(1000)

    def busy(self):
        while True:
            pass


@pytest.mark.parametrize("how", ["asleep", "holding_the_gil", "busy"])
def test_a_hung_callable_is_shown(make_pool, how):
    pool = make_pool(HangsAt(6, how))
    before = set(pool.pids)
    tickets = [pool.submit(0, i, 0) for i in range(4)]
    start = time.monotonic()
    with pytest.raises(WorkerTimeout) as caught:
        pool.receive(tickets[1], timeout=30)
    assert time.monotonic() - start < 5
    text = str(caught.value)
    assert "slow, sample 2 of iteration 1" in text and "0.3 s (worker_timeout)" in text
    assert f"in {how}" in text and "test_pool_hung.py" in text  # the worker's stack
    assert "callbacks.py" not in text and "pytest" not in text.replace("test_pool", "")  # and no more than the callable's
    for iteration in (0, 2, 3):
        assert pool.receive(tickets[iteration], 30).outputs[0].values.tolist() == [4 * iteration + i for i in range(4)]
    while len(pool.pids) < 2:
        ask(pool, 7)
    assert len(before & set(pool.pids)) == 1


def test_two_hang_at_once(make_pool):
    pool = make_pool(HangsAt(0, "asleep"))
    tickets = [pool.submit(0, 0, 0) for _ in range(2)]
    for ticket in tickets:
        with pytest.raises(WorkerTimeout, match="in asleep"):
            pool.receive(ticket, timeout=30)
    assert ask(pool, 1).count == 4


def test_a_worker_that_cannot_show_its_stack_is_killed(make_pool):
    def stubborn(iteration):
        if iteration == 0:
            signal.signal(STACK_SIGNAL, signal.SIG_IGN)
            time.sleep(1000)
        return np.zeros((1, 1))

    pool = make_pool(stubborn, "batch", timeout=0.1)
    with pytest.raises(WorkerTimeout, match="it wrote none"):
        ask(pool)
    assert ask(pool, 1).count == 1


def test_a_stopped_worker_is_replaced(make_pool):
    def stopped(iteration):
        if iteration == 0:
            os.kill(os.getpid(), signal.SIGSTOP)
        return np.zeros((1, 1))

    pool = make_pool(stopped, "batch", timeout=0.1)
    with pytest.raises(WorkerTimeout):
        ask(pool)
    assert ask(pool, 1).count == 1


def test_slow_batches_of_quick_samples_are_no_hang(make_pool):
    """The limit is for one sample, not for a slice of them."""

    def source(info):
        time.sleep(0.06)
        return np.int64(1)

    pool = make_pool(source, workers=1, timeout=0.15)
    assert ask(pool).count == 4


def test_nothing_hangs_while_workers_are_idle(make_pool):
    pool = make_pool(HangsAt(-1, "asleep"), timeout=0.05)
    ask(pool)
    time.sleep(0.1)
    assert ask(pool, 1).count == 4 and pool.statistics()["restarts"] == 0

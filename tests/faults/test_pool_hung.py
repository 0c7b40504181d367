"""Callables that take too long."""

from __future__ import annotations

import ctypes
import os
import signal
import time

import numpy as np
import pytest
from asyncdali_workers import Source, WorkerPool, WorkerTimeout
from asyncdali_workers.processes import overtime
from asyncdali_workers.processes.child import STACK_SIGNAL
from asyncdali_workers.shared.control import SINCE
from helpers.clocks import TIMEOUT, PoolClock
from helpers.processes import wait_until


@pytest.fixture
def make_pool(monkeypatch):
    pools = []

    def make(callback, kind="samples", batch_size=4, workers=2):
        pool = WorkerPool([Source(callback, kind, batch_size, name="slow")], num_workers=workers, worker_timeout=TIMEOUT)
        pools.append(pool)
        pool.start()
        clock = PoolClock(pool)
        monkeypatch.setattr(overtime, "time", clock)
        return pool, clock

    yield make
    for pool in pools:
        pool.close()


def ask(pool, iteration=0):
    return pool.receive(pool.submit(0, iteration, 0), timeout=300)


class HangsAt:
    """Hangs at a sample. A process that hangs has a file in `folder`: the pool's time limit counts from before the call."""

    def __init__(self, where, how, folder):
        self.where, self.how, self.folder = where, how, folder

    def __call__(self, info):
        if info.idx_in_epoch == self.where:
            getattr(self, self.how)()
        return np.int64(info.idx_in_epoch)

    def asleep(self):
        self.arrive()
        time.sleep(1000)

    def holding_the_gil(self):
        self.arrive()
        ctypes.PyDLL(None).sleep(1000)

    def busy(self):
        self.arrive()
        while True:
            pass

    def arrive(self):
        (self.folder / str(os.getpid())).touch()

    def wait_for(self, count):
        """Wait until so many processes hang."""
        wait_until(lambda: len(list(self.folder.iterdir())) == count)


@pytest.mark.parametrize("how", ["asleep", "holding_the_gil", "busy"])
def test_a_hung_callable_is_shown(make_pool, how, tmp_path):
    hangs = HangsAt(6, how, tmp_path)
    pool, clock = make_pool(hangs)
    before = set(pool.pids)
    tickets = [pool.submit(0, i, 0) for i in range(4)]
    for iteration in (0, 2, 3):
        assert pool.receive(tickets[iteration], 300).outputs[0].values.tolist() == [4 * iteration + i for i in range(4)]
    hangs.wait_for(1)
    clock.over()
    with pytest.raises(WorkerTimeout) as caught:
        pool.receive(tickets[1], timeout=300)
    clock.back()
    text = str(caught.value)
    assert "slow, sample 2 of iteration 1" in text and "600.0 s (worker_timeout)" in text
    assert f"in {how}" in text and "test_pool_hung.py" in text  # the worker's stack
    assert "callbacks.py" not in text and "pytest" not in text.replace("test_pool", "")  # the stack has only frames of the callable
    while len(pool.pids) < 2:
        ask(pool, 7)
    assert len(before & set(pool.pids)) == 1


def test_two_callables_hang_at_once(make_pool, tmp_path):
    hangs = HangsAt(0, "asleep", tmp_path)
    pool, clock = make_pool(hangs, batch_size=1)
    tickets = [pool.submit(0, 0, 0) for _ in range(2)]
    hangs.wait_for(2)
    clock.over(busy=2)
    for ticket in tickets:
        with pytest.raises(WorkerTimeout, match="in asleep"):
            pool.receive(ticket, timeout=300)
    clock.back()
    assert ask(pool, 1).count == 1


def test_a_worker_that_cannot_show_its_stack_is_killed(make_pool, tmp_path):
    deaf = tmp_path / "deaf"

    def stubborn(iteration):
        if iteration == 0:
            signal.signal(STACK_SIGNAL, signal.SIG_IGN)
            deaf.touch()
            time.sleep(1000)
        return np.zeros((1, 1))

    pool, clock = make_pool(stubborn, "batch")
    ticket = pool.submit(0, 0, 0)
    wait_until(deaf.exists)
    clock.over(stands=False)
    with pytest.raises(WorkerTimeout, match="the worker wrote none"):
        pool.receive(ticket, timeout=300)
    clock.back()
    assert ask(pool, 1).count == 1


def test_a_stopped_worker_is_replaced(make_pool):
    def stopped(iteration):
        if iteration == 0:
            os.kill(os.getpid(), signal.SIGSTOP)
        return np.zeros((1, 1))

    pool, clock = make_pool(stopped, "batch")
    ticket = pool.submit(0, 0, 0)
    clock.over(stands=False)
    with pytest.raises(WorkerTimeout):
        pool.receive(ticket, timeout=300)
    clock.back()
    assert ask(pool, 1).count == 1


def test_the_limit_is_for_one_sample_and_not_for_a_slice_of_them(make_pool, tmp_path):
    """The time of a sample counts from its own start, not from the start of its slice."""

    def source(info):
        (tmp_path / f"began {info.idx_in_epoch}").touch()
        while not (tmp_path / f"go {info.idx_in_epoch}").exists():
            os.sched_yield()
        return np.int64(1)

    pool, clock = make_pool(source, workers=1)
    ticket = pool.submit(0, 0, 0)
    beginnings = []
    for k in range(4):
        wait_until((tmp_path / f"began {k}").exists)
        beginnings.append(clock.engine._members[0].block[SINCE])
        (tmp_path / f"go {k}").touch()
    assert pool.receive(ticket, timeout=300).count == 4
    assert beginnings == sorted(set(beginnings))


def test_idle_workers_do_not_count_as_hung(make_pool, tmp_path):
    pool, clock = make_pool(HangsAt(-1, "asleep", tmp_path))
    ask(pool)
    clock.over(busy=0)
    pool._dispatcher._look()
    clock.back()
    assert ask(pool, 1).count == 4 and pool.statistics()["restarts"] == 0


@pytest.mark.slow
def test_slow_batches_of_quick_samples_do_not_count_as_hung():
    """This test uses the real clock. A sample takes a twentieth of the limit, and the batch twice the limit."""

    def source(info):
        time.sleep(0.05)
        return np.int64(1)

    with WorkerPool([Source(source, "samples", 40)], num_workers=1, worker_timeout=1.0) as pool:
        assert ask(pool).count == 40 and pool.statistics()["restarts"] == 0

"""Workers and their helper process die at any time, and the batches stay the same."""

from __future__ import annotations

import os
import random
import select
import signal
import threading
import time

import numpy as np
import pytest
from asyncdali_workers import Source, WorkerDied, WorkerPool
from asyncdali_workers.processes import launch, replacement
from helpers import worker_sources as ws
from helpers.processes import wait_for_zygote, wait_until


@pytest.fixture
def make_pool():
    pools = []

    def make(*sources, workers=2, **options):
        pool = WorkerPool(list(sources), num_workers=workers, **options)
        pools.append(pool)
        pool.start()
        wait_for_zygote(pool)
        return pool

    yield make
    for pool in pools:
        pool.close()


def ask(pool, iteration=0, epoch=0, source=0):
    return pool.receive(pool.submit(source, iteration, epoch), timeout=300)


def zygote_of(pool):
    return pool._dispatcher._launcher.process


def kill_and_wait(pid):
    try:
        descriptor = os.pidfd_open(pid)
    except ProcessLookupError:
        return  # the worker is dead, but the pool has not noticed yet
    signal.pidfd_send_signal(descriptor, signal.SIGKILL)
    assert select.select([descriptor], [], [], 300)[0]
    os.close(descriptor)


def until_replaced(pool, count):
    """Receive batches until all workers have been replaced."""
    limit = time.monotonic() + 300
    number = 0
    while len(pool.pids) < count or not pool.statistics()["restarts"]:  # a death is noticed by a waiting thread, or every 64 batches
        ask(pool, number)
        number += 1
        assert time.monotonic() < limit


def open_descriptors():
    return len(os.listdir("/proc/self/fd"))


class Mixed:
    """Uniform, ragged and small outputs that depend on the position, with some work."""

    def __init__(self):
        self.ragged = ws.Ragged(5000)

    def __call__(self, info):
        index = info.idx_in_epoch + 100_000 * info.epoch_idx
        return np.full((20, 50), index, np.int32), self.ragged.expected(index), index % 1000

    def check(self, batch, iteration):
        for i in range(batch.count):
            index = iteration * batch.count + i
            assert (batch.outputs[0].sample(i) == index).all()
            assert np.array_equal(batch.outputs[1].sample(i), self.ragged.expected(index))
            assert batch.outputs[2].sample(i) == index % 1000


@pytest.mark.parametrize("start_method", ["fork", pytest.param("forkserver", marks=pytest.mark.slow), "spawn"])
def test_a_killed_worker_is_replaced(make_pool, start_method):
    source = Mixed()
    pool = make_pool(Source(source, "samples", 8, num_outputs=3, prefetch=3), start_method=start_method)
    tickets = {i: pool.submit(0, i, 0) for i in range(3)}
    for iteration in range(40):
        if iteration in (5, 20):
            kill_and_wait(pool.pids[-1])  # at iteration 20 the other worker may not be replaced yet
        tickets[iteration + 3] = pool.submit(0, iteration + 3, 0)
        source.check(pool.receive(tickets.pop(iteration), 300), iteration)
    until_replaced(pool, 2)
    assert pool.statistics()["restarts"] in (1, 2) and len(set(pool.pids)) == 2


def test_all_workers_die_at_once(make_pool):
    pool = make_pool(Source(ws.Counting(), "samples", 8), workers=3)
    for round in range(3):
        for pid in pool.pids:
            kill_and_wait(pid)
        assert ask(pool, round).outputs[0].sample(7)[0] == 8 * round + 7
        until_replaced(pool, 3)


def endure(pool, source, seconds, interval, seed, zygote):
    """Receive batches for a while as workers are killed. Returns the number of batches and of kills."""
    chance = random.Random(seed)
    tickets = [pool.submit(0, i, 0) for i in range(4)]
    start = last = time.monotonic()
    received = kills = 0
    while time.monotonic() - start < seconds:
        if time.monotonic() - last > interval and pool.pids:
            last = time.monotonic()
            kills += 1
            victim = zygote_of(pool) if zygote and kills % 5 == 0 else chance.choice(pool.pids)
            try:
                os.kill(victim, signal.SIGKILL)
            except ProcessLookupError:
                pass  # the worker has just died
        source.check(pool.receive(tickets.pop(0), 300), received)
        tickets.append(pool.submit(0, received + 4, 0))
        received += 1
    for ticket in tickets:
        source.check(pool.receive(ticket, 300), received)
        received += 1
    return received, kills


@pytest.fixture
def patience(monkeypatch):
    """Raises the limit of failed starts: on a slow machine a process may be killed many times before it is ready."""
    monkeypatch.setattr(replacement, "FAILED_STARTS", 1 << 30)
    monkeypatch.setattr(launch, "FAILED_STARTS", 1 << 30)


def test_workers_and_zygote_die_in_turn(make_pool, patience):
    """Kill before every third batch."""
    source = Mixed()
    pool = make_pool(Source(source, "samples", 16, num_outputs=3, prefetch=4), max_retries=1 << 30)
    tickets = [pool.submit(0, i, 0) for i in range(4)]
    for number in range(30):
        if number % 3 == 0:
            kill_and_wait(zygote_of(pool) if number % 15 == 12 or not pool.pids else pool.pids[number % len(pool.pids)])
        source.check(pool.receive(tickets.pop(0), 300), number)
        tickets.append(pool.submit(0, number + 4, 0))
    for number, ticket in enumerate(tickets, 30):
        source.check(pool.receive(ticket, 300), number)
    until_replaced(pool, 2)
    assert pool.statistics()["outstanding"] == 0


@pytest.mark.slow
def test_random_kills_for_a_minute(make_pool, patience):
    source = Mixed()
    pool = make_pool(Source(source, "samples", 16, num_outputs=3, prefetch=4), max_retries=10)
    ask(pool)
    before = open_descriptors()
    received, kills = endure(pool, source, 60, 0.2, 2, zygote=True)
    print(f"{received} batches, {kills} kills, {pool.statistics()['restarts']} restarts, {pool.statistics()['retries']} retries")
    until_replaced(pool, 2)
    assert open_descriptors() <= before + 1
    assert pool.statistics()["outstanding"] == 0


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(3))
def test_random_deaths_at_every_step_of_a_replacement(make_pool, patience, seed):
    """Deaths are a few milliseconds apart, so they hit every step of a replacement. After every few deaths the test waits for a batch."""
    source, chance = Mixed(), random.Random(seed)
    pool = make_pool(Source(source, "samples", 16, num_outputs=3, prefetch=4), workers=3, max_retries=1 << 30)
    received, over, arrived = 0, threading.Event(), threading.Event()

    def kill():
        while not over.is_set():
            arrived.clear()
            for _ in range(chance.randrange(1, 12)):
                over.wait(chance.choice([0.001, 0.003, 0.01, 0.04]))
                victims = pool.pids if chance.random() < 0.7 else [zygote_of(pool)]
                try:
                    os.kill(chance.choice([pid for pid in victims if pid]), signal.SIGKILL)
                except (ProcessLookupError, IndexError):
                    pass
            arrived.wait()

    killer = threading.Thread(target=kill)
    killer.start()
    try:
        tickets = [pool.submit(0, i, 0) for i in range(4)]
        end = time.monotonic() + 20
        while time.monotonic() < end:
            source.check(pool.receive(tickets.pop(0), 300), received)
            arrived.set()
            tickets.append(pool.submit(0, received + 4, 0))
            received += 1
    finally:
        over.set()
        arrived.set()
        killer.join()
    print(f"{received} batches, {pool.statistics()['restarts']} restarts")
    assert received > 20


@pytest.mark.parametrize("how", ["kill", "exit"])
def test_a_sample_that_kills_its_worker_once_is_repeated(make_pool, tmp_path, how):
    source = ws.KillsItself([5], how, str(tmp_path / "once"))
    pool = make_pool(Source(source, "samples", 4))
    tickets = [pool.submit(0, i, 0) for i in range(4)]
    for iteration, ticket in enumerate(tickets):
        assert pool.receive(ticket, 300).outputs[0].values.tolist() == [4 * iteration + i for i in range(4)]
    statistics = pool.statistics()
    assert statistics["retries"] == statistics["restarts"] == 1


@pytest.mark.parametrize("how, words", [("kill", "SIGKILL"), ("exit", "exited with code 7")])
@pytest.mark.parametrize("retries", [0, 2])
def test_a_sample_that_always_kills_its_worker_is_named(make_pool, how, words, retries):
    pool = make_pool(Source(ws.KillsItself([6], how), "samples", 4, name="mine"), max_retries=retries)
    tickets = [pool.submit(0, i, 0) for i in range(4)]
    for iteration in (0, 2, 3):
        assert pool.receive(tickets[iteration], 300).count == 4
    for ticket in (tickets[1], tickets[1]):
        with pytest.raises(WorkerDied, match=f"mine, sample 2 of iteration 1.*{words}.*{retries + 1} in all"):
            pool.receive(ticket, 300)
    assert isinstance(caught_error(pool, tickets[1]), RuntimeError)
    assert ask(pool, 9).count == 4
    with pytest.raises(WorkerDied):
        ask(pool, 1)


def caught_error(pool, ticket):
    try:
        pool.receive(ticket)
    except Exception as error:
        return error


def test_the_zygote_is_restarted(make_pool):
    pool = make_pool(Source(ws.Counting(), "samples", 4))
    for iteration in range(3):
        kill_and_wait(zygote_of(pool))
        kill_and_wait(pool.pids[0])
        assert ask(pool, iteration).count == 4
        until_replaced(pool, 2)


def test_the_zygote_dies_before_it_reports_a_worker(make_pool, monkeypatch, tmp_path):
    """A worker that was not reported must not start. The next zygote gets the same request, and two workers would share a claim block."""
    from asyncdali_workers.processes import zygote

    once, tell = tmp_path / "untold", zygote.socket.send_fds

    def die_instead(channel, data, descriptors):
        if once.exists():
            return tell(channel, data, descriptors)
        once.write_text(str(zygote.NEWS.unpack(data[0])[2]))
        os.kill(os.getpid(), signal.SIGKILL)

    monkeypatch.setattr(zygote.socket, "send_fds", die_instead)
    pool = make_pool(Source(ws.Counting(), "samples", 8))
    kill_and_wait(pool.pids[0])
    until_replaced(pool, 2)
    untold = int(once.read_text())
    assert untold not in pool.pids
    assert ended(untold)


def test_the_zygote_dies_with_a_request_unread(make_pool, monkeypatch, tmp_path):
    """In this case the socket reports a reset before it returns the last messages of the zygote."""
    from asyncdali_workers.processes import zygote

    once, obey, fork, collect = tmp_path / "told", zygote.Zygote._obey, zygote.fork, launch.ZygoteLauncher.collect

    def die_after_one(self):
        first = not once.exists()
        if first:  # the second request arrives before the first is done
            monkeypatch.setattr(zygote, "fork", lambda *args: select.select([self._channel], [], [], 300) and fork(*args))
        going_on = obey(self)
        if first:
            once.write_text(str(next(pid for _, pid in self._children.values())))
            os.kill(os.getpid(), signal.SIGKILL)
        return going_on

    def collect_when_dead(self):
        if len(self._wanted) == 2:
            ended(self._zygote)
        return collect(self)

    monkeypatch.setattr(zygote.Zygote, "_obey", die_after_one)
    monkeypatch.setattr(launch.ZygoteLauncher, "collect", collect_when_dead)
    pool = make_pool(Source(ws.Counting(), "samples", 8))
    for pid in pool.pids:
        os.kill(pid, signal.SIGKILL)
    limit = time.monotonic() + 300
    while pool.statistics()["restarts"] < 2 or len(pool.pids) < 2:
        ask(pool)
        assert time.monotonic() < limit
    assert int(once.read_text()) in pool.pids


def test_a_worker_dies_while_it_takes_a_task(make_pool, monkeypatch, tmp_path):
    """The worker has written its claim, but not advanced the head of the ring. Another worker takes the task, which must not run twice."""
    from asyncdali_workers.shared import control

    once, started, go_on, claim = tmp_path / "once", tmp_path / "started", tmp_path / "go_on", control.Ring.claim

    def die_halfway(ring, block):
        if ring.head == ring.tail or once.exists():
            return claim(ring, block)
        once.write_text(str(os.getpid()))
        with ring.locked():
            task = control.Task._make(control.TASK.unpack_from(ring._entries, ring.head % control.RING_ENTRIES * control.TASK_SIZE))
            block[control.SEQUENCE], block[control.RING] = ring.head, ring.number
            block[control.SAMPLE], block[control.TASK_ID] = task.first, task.task
            os.kill(os.getpid(), signal.SIGKILL)

    def callback(info):
        with open(started, "a") as file:
            file.write(f"{info.idx_in_epoch} ")
        while not go_on.exists():
            os.sched_yield()
        return np.int32([info.idx_in_epoch])

    monkeypatch.setattr(control.Ring, "claim", die_halfway)
    pool = make_pool(Source(callback, "samples", 1))
    ticket = pool.submit(0, 0, 0)
    wait_until(lambda: once.exists() and once.read_text())
    assert ended(int(once.read_text()))
    pool.submit(0, 1, 0)  # the token of the task wakes the other worker
    wait_until(started.exists)
    pool.ready(ticket)  # lets the pool notice the death
    assert len(pool.pids) == 1 or pool.statistics()["restarts"]
    go_on.touch()
    assert pool.receive(ticket, 300).outputs[0].values.tolist() == [[0]]
    assert started.read_text().split().count("0") == 1
    until_replaced(pool, 2)
    assert pool.statistics()["retries"] == 0


def ended(pid):
    """Wait for the result, with a limit."""
    try:
        descriptor = os.pidfd_open(pid)
    except ProcessLookupError:
        return True
    try:
        return bool(select.select([descriptor], [], [], 300)[0])
    finally:
        os.close(descriptor)


def test_without_zygote_and_fork_replacement_is_unavailable(make_pool, monkeypatch):
    pool = make_pool(Source(ws.Counting(), "samples", 4))
    monkeypatch.setattr(launch, "check_fork_allowed", refuse)
    kill_and_wait(zygote_of(pool))
    kill_and_wait(pool.pids[0])
    while len(pool.pids) > 1:
        ask(pool)
    assert ask(pool, 3).count == 4  # the other worker does all work
    kill_and_wait(pool.pids[0])
    with pytest.raises(WorkerDied, match="cannot be started again: CUDA is there"):
        ask(pool)


def refuse():
    raise RuntimeError("CUDA is there")


def test_children_reaped_by_other_code(make_pool):
    pool = make_pool(Source(ws.Counting(), "samples", 4))
    victim = pool.pids[0]
    os.kill(victim, signal.SIGKILL)
    os.waitpid(victim, 0)
    assert ask(pool).count == 4
    until_replaced(pool, 2)


# ---------------------------------------------------------------------------------------------------------------- streams


def first_values(pool, count, start=0):
    return [int(ask(pool, start + i).outputs[0].sample(0).flat[0]) for i in range(count)]


@pytest.mark.parametrize("every", [1, 3])
def test_a_stream_continues_from_its_snapshot(make_pool, every):
    pool = make_pool(Source(ws.Resumable(), "stream", 3, snapshot_every=every), workers=1)
    assert first_values(pool, 8) == list(range(8))
    kill_and_wait(pool.pids[0])
    batch = ask(pool)
    assert batch.outputs[0].values[0, 0] == 8
    kill_and_wait(pool.pids[0])
    assert first_values(pool, 5) == list(range(9, 14))


@pytest.mark.parametrize("cycle", [None, "quiet", "raise"])
@pytest.mark.parametrize("callback", [ws.generated, [np.full((4, 2), i, np.int32) for i in range(5)]])
def test_a_restartable_stream_is_iterated_again(make_pool, callback, cycle):
    undisturbed = make_pool(Source(callback, "stream", 4, cycle=cycle), workers=1)
    disturbed = make_pool(Source(callback, "stream", 4, cycle=cycle), workers=1)

    def steps(pool, kill):
        found, epoch = [], 0
        for number in range(14):
            if kill and number % 2:
                kill_and_wait(pool.pids[0])
            try:
                found.append(int(ask(pool, number, epoch).outputs[0].sample(0).flat[0]))
            except StopIteration:
                found.append("stop")
                epoch += 1
        return found

    assert steps(undisturbed, False) == steps(disturbed, True)


def test_pending_batches_of_a_stream_survive(make_pool):
    pool = make_pool(Source(ws.generated, "stream", 4, cycle="quiet", prefetch=4), workers=1)
    tickets = [pool.submit(0, i, 0) for i in range(4)]
    for number in range(30):
        if number in (3, 11, 12):
            os.kill(pool.pids[0], signal.SIGKILL)
        assert pool.receive(tickets.pop(0), 300).outputs[0].sample(0)[0] == number % 5
        tickets.append(pool.submit(0, number + 4, 0))
        while not pool.pids:
            pool.ready(tickets[-1])


def test_an_iterator_cannot_be_iterated_again(make_pool):
    lines = iter([np.full((1, 1), i) for i in range(100)])
    pool = make_pool(Source(lines, "stream", 1, name="lines"), Source(ws.Counting(), "samples", 4))
    tickets = [pool.submit(0, i, 0) for i in range(2)]
    assert [int(pool.receive(ticket, 300).outputs[0].values[0, 0]) for ticket in tickets] == [0, 1]
    kill_and_wait(pool.pids[0])
    for _ in range(2):
        with pytest.raises(WorkerDied, match=r"lines: worker 0.*SIGKILL.*list_iterator.*state_dict"):
            ask(pool, 2)
    assert ask(pool, 5, source=1).count == 4


SLOW_START = '''
import os, sys, time
import numpy as np
FOLDER = os.path.dirname(os.path.abspath(__file__))
while os.path.exists(os.path.join(FOLDER, "wait")):
    open(os.path.join(FOLDER, f"importing-{os.getpid()}"), "w").close()
    time.sleep(0.01)

def sample(info):
    return np.int32([info.idx_in_epoch])
'''


@pytest.mark.parametrize("workers", [1, 2])
def test_a_worker_killed_while_starting_is_replaced_later(make_pool, tmp_path, monkeypatch, workers):
    """With one worker, waiting tasks fail, and the next request starts a worker. With two, the other one works until then."""
    (tmp_path / "slow_start_of_a_worker.py").write_text(SLOW_START)
    monkeypatch.syspath_prepend(str(tmp_path))
    import slow_start_of_a_worker

    monkeypatch.setattr(replacement, "LONGEST_PAUSE", 0.0)
    pool = make_pool(Source(slow_start_of_a_worker.sample, "samples", 4), workers=workers, start_method="spawn")
    ask(pool)
    (tmp_path / "wait").touch()
    kill_and_wait(pool.pids[0])
    for number in range(replacement.FAILED_STARTS):
        limit = time.monotonic() + 300
        while not (importing := [pid for pid in pool.pids if (tmp_path / f"importing-{pid}").exists()]):
            assert time.monotonic() < limit, "no new worker imports"
            look(pool, number)
            time.sleep(0.01)
        (tmp_path / f"importing-{importing[0]}").unlink()
        kill_and_wait(importing[0])
    if workers == 1:
        with pytest.raises(WorkerDied, match="before it was ready, 3 times in a row"):
            ask(pool, 10)
            ask(pool, 11)
    else:
        assert ask(pool, 10).outputs[0].sample(0)[0] == 40
    (tmp_path / "wait").unlink()
    limit, batch = time.monotonic() + 300, None
    while batch is None or len(pool.pids) < workers:
        assert time.monotonic() < limit, "the worker is not replaced"
        try:
            batch = ask(pool, 12)
        except WorkerDied:
            assert workers == 1
    assert [int(batch.outputs[0].sample(k)[0]) for k in range(4)] == [48, 49, 50, 51]


def look(pool, number):
    """Let the pool notice deaths."""
    ticket = pool.submit(0, number, 0)
    pool.ready(ticket)
    pool.cancel(ticket)

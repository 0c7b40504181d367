"""The worker pool returns the requested batches, for every kind of source and any shapes of results."""

from __future__ import annotations

import gc
import os
import threading
import time

import numpy as np
import pytest
from asyncdali_workers import BatchInfo, PoolClosed, SampleInfo, Source, WorkerError, WorkerPool
from helpers import worker_sources as ws
from helpers.processes import children, wait_until


@pytest.fixture
def make_pool():
    pools = []

    def make(*sources, workers=2, **options):
        pool = WorkerPool(list(sources), num_workers=workers, **options)
        pools.append(pool)
        pool.start()
        return pool

    yield make
    for pool in pools:
        pool.close()


def ask(pool, iteration=0, epoch=0, source=0):
    return pool.receive(pool.submit(source, iteration, epoch), timeout=300)


def samples(batch, output=0):
    return [batch.outputs[output].sample(i).copy() for i in range(batch.count)]


# ------------------------------------------------------------------------------------------------------------------ kinds


def test_samples_in_order(make_pool):
    pool = make_pool(Source(ws.Counting(), "samples", 7, prefetch=3), workers=3)
    for iteration in range(6):
        batch = ask(pool, iteration, epoch=2)
        assert batch.count == 7
        assert batch.outputs[0].values[:, 0].tolist() == [2000 + iteration * 7 + i for i in range(7)]


def test_many_outstanding_batches(make_pool):
    pool = make_pool(Source(ws.Counting(shape=(5,)), "samples", 16, prefetch=4))
    tickets = [pool.submit(0, i, 0) for i in range(200)]
    for iteration, ticket in enumerate(tickets):
        assert (pool.receive(ticket, 300).outputs[0].values[:, 3] == np.arange(16) + 16 * iteration).all()


def test_more_tasks_than_a_ring_holds(make_pool):
    pool = make_pool(Source(ws.Counting(), "samples", 2))
    tickets = [pool.submit(0, i, 0) for i in range(1500)]
    for iteration in (0, 1499, 700):  # received in any order
        assert pool.receive(tickets[iteration], 300).outputs[0].values[:, 0].tolist() == [2 * iteration, 2 * iteration + 1]


def test_ragged_samples(make_pool):
    source = ws.Ragged()
    pool = make_pool(Source(source, "samples", 9, prefetch=2))
    for iteration in range(8):
        output = ask(pool, iteration).outputs[0]
        assert output.values is None
        assert output.shapes[:, 0].tolist() == [source.size(9 * iteration + i) for i in range(9)]
        for i in range(9):
            assert (output.sample(i) == source.expected(9 * iteration + i)).all()


def test_large_ragged_samples_find_memory(make_pool):
    source = ws.Ragged(largest=900_000)
    pool = make_pool(Source(source, "samples", 8, prefetch=2))
    for iteration in range(4):
        for i, sample in enumerate(samples(ask(pool, iteration))):
            assert (sample == source.expected(8 * iteration + i)).all()
    assert pool.statistics()["overflows"] > 0  # at first a slice has 1 MiB, which is too small


def test_components(make_pool):
    pool = make_pool(Source(ws.pair, "samples", 5, num_outputs=2))
    for iteration in range(3):
        batch = ask(pool, iteration)
        assert (batch.outputs[0].values == (np.arange(5) + 5 * iteration).reshape(5, 1, 1)).all()
        assert batch.outputs[0].dtype == np.float32
        assert batch.outputs[1].values.tolist() == [[i] for i in range(5)]


@pytest.mark.parametrize("large", [False, True])
def test_large_components_beside_small_ones(make_pool, large):
    def source(info):
        return {0: np.full((200, 200 if large else 2), info.idx_in_batch, np.uint8), 1: info.idx_in_epoch, 2: "not asked for"}

    pool = make_pool(Source(source, "samples", 6, num_outputs=2))
    for iteration in range(3):
        batch = ask(pool, iteration)
        assert [int(s[0, 0]) for s in samples(batch)] == list(range(6))
        assert batch.outputs[1].values.tolist() == [6 * iteration + i for i in range(6)]


def test_callables_get_the_position_of_each_sample(make_pool):
    def source(info):
        assert type(info) is SampleInfo
        return np.int64([info.idx_in_epoch, info.idx_in_batch, info.iteration, info.epoch_idx])

    pool = make_pool(Source(source, "samples", 3))
    assert ask(pool, 4, 9).outputs[0].values.tolist() == [[12, 0, 4, 9], [13, 1, 4, 9], [14, 2, 4, 9]]


@pytest.mark.parametrize("info", [False, True])
def test_batch_callables(make_pool, info):
    def source(position):
        if info:
            assert type(position) is BatchInfo
            return np.full((2, 2), 100 * position.epoch_idx + position.iteration, np.int32)
        assert type(position) is int
        return np.full((2, 2), position, np.int32)

    pool = make_pool(Source(source, "batch", 2, batch_info=info))
    for iteration in range(3):
        assert (ask(pool, iteration, 1).outputs[0].values == (100 * info + iteration)).all()


@pytest.mark.parametrize("source, count", [(ws.batch_of, 4), (ws.whole_batch, 4)])
def test_forms_of_a_batch(make_pool, source, count):
    pool = make_pool(Source(source, "batch", 8))
    for iteration in range(3):
        expected = np.array(source(iteration))
        batch = ask(pool, iteration)
        assert batch.count == count
        assert batch.outputs[0].dtype == expected.dtype
        assert np.array_equal(batch.outputs[0].values, expected)


def test_batches_of_varying_length(make_pool):
    pool = make_pool(Source(lambda i: np.arange(i * 3, dtype=np.int32).reshape(i, 3), "batch", 5))
    for count in (2, 5, 0, 1, 3):
        batch = ask(pool, count)
        assert batch.count == len(batch.outputs[0]) == count
        assert batch.outputs[0].values.tolist() == np.arange(count * 3).reshape(count, 3).tolist()


def test_an_empty_list_is_an_empty_batch(make_pool):
    pool = make_pool(Source(lambda i: [], "batch", 5))
    batch = ask(pool)
    assert batch.count == 0 and len(batch.outputs[0]) == 0


def test_batch_components(make_pool):
    pool = make_pool(Source(lambda i: ([np.arange(i + 1), np.arange(2)], np.array([3, 4])), "batch", 5, num_outputs=2))
    batch = ask(pool, 4)
    assert [len(s) for s in samples(batch)] == [5, 2]
    assert batch.outputs[1].values.tolist() == [3, 4]


def test_samples_change_their_shape_and_type(make_pool):
    """The pool predicts shape and type of samples. A wrong prediction is corrected."""

    def source(info):
        kind = [np.int32, np.float64, np.uint8][info.iteration // 3 % 3]
        return np.full((1 + info.iteration // 2 % 4, 2), info.idx_in_epoch % 200, kind)

    pool = make_pool(Source(source, "samples", 6, prefetch=2))
    for iteration in range(40):
        batch = ask(pool, iteration)
        assert batch.outputs[0].dtype == [np.int32, np.float64, np.uint8][iteration // 3 % 3]
        assert batch.outputs[0].shapes.tolist() == [[1 + iteration // 2 % 4, 2]] * 6
        assert [int(s[0, 0]) for s in samples(batch)] == [(6 * iteration + i) % 200 for i in range(6)]


def test_one_sample_of_another_shape(make_pool):
    def source(info):
        return np.full((3 if info.idx_in_epoch == 33 else 2), info.idx_in_epoch)

    pool = make_pool(Source(source, "samples", 8))
    for iteration in range(8):
        batch = ask(pool, iteration)
        assert (batch.outputs[0].values is None) == (iteration == 4)
        assert [s.tolist() for s in samples(batch)] == [source(SampleInfo(8 * iteration + i, 0, 0, 0)).tolist() for i in range(8)]


def test_samples_without_extent(make_pool):
    pool = make_pool(Source(lambda info: np.empty((0, 3), np.int16), "samples", 4))
    for iteration in range(3):
        assert ask(pool, iteration).outputs[0].values.shape == (4, 0, 3)


def test_one_slow_sample_does_not_hold_the_others(tmp_path):
    """Slow samples are separate slices. Sample 2 waits until the seven others are computed; in a slice of two it would block sample 3."""

    def source(info):
        if info.iteration < 3:
            time.sleep(0.02)  # from these batches the pool learns that samples are slow
        elif info.idx_in_batch == 2:
            wait_until(lambda: len(list(tmp_path.iterdir())) == 7)
        else:
            (tmp_path / str(info.idx_in_batch)).touch()
        return np.int64(info.idx_in_epoch)

    with WorkerPool([Source(source, "samples", 8)], num_workers=4) as pool:
        for iteration in range(4):
            batch = pool.receive(pool.submit(0, iteration, 0), 300)
    assert batch.outputs[0].values.tolist() == list(range(24, 32))


# ---------------------------------------------------------------------------------------------------------------- streams


def test_one_worker_iterates_over_a_stream(make_pool):
    def numbered():
        for number in range(6):
            yield np.array([[number, os.getpid()]])

    pool = make_pool(Source(numbered, "stream", 1), Source(numbered, "stream", 1), Source(ws.Counting(), "samples", 4))
    tickets = [(pool.submit(0, i, 0), pool.submit(1, i, 0), pool.submit(2, i, 0)) for i in range(6)]
    pids = [set(), set()]
    for number, (one, other, general) in enumerate(tickets):
        for stream, ticket in enumerate((one, other)):
            value, pid = pool.receive(ticket, 300).outputs[0].values[0].tolist()
            assert value == number
            pids[stream].add(pid)
        assert pool.receive(general, 300).outputs[0].values[:, 0].tolist() == [4 * number + i for i in range(4)]
    assert len(pids[0]) == len(pids[1]) == 1 and pids[0] != pids[1]
    assert pids[0] | pids[1] == set(pool.pids)


def pulls(pool, count, epochs=None):
    found = []
    for number in range(count):
        try:
            found.append(int(ask(pool, number, epochs[number] if epochs else 0).outputs[0].sample(0).flat[0]))
        except StopIteration:
            found.append("stop")
    return found


@pytest.mark.parametrize("callback", [ws.generated, [np.full((4, 2), i, np.int32) for i in range(5)]])
def test_cycles(make_pool, callback):
    plain = make_pool(Source(callback, "stream", 4), workers=1)
    assert pulls(plain, 8, [0] * 6 + [1, 1]) == [0, 1, 2, 3, 4, "stop", "stop", "stop"]
    quiet = make_pool(Source(callback, "stream", 4, cycle="quiet"), workers=1)
    assert pulls(quiet, 8) == [0, 1, 2, 3, 4, 0, 1, 2]
    loud = make_pool(Source(callback, "stream", 4, cycle="raise"), workers=1)
    assert pulls(loud, 10, [0] * 7 + [1, 1, 1]) == [0, 1, 2, 3, 4, "stop", "stop", 0, 1, 2]


def test_an_empty_stream_stops_even_when_it_cycles(make_pool):
    pool = make_pool(Source([], "stream", 4, cycle="quiet"), workers=1)
    assert pulls(pool, 3) == ["stop"] * 3


def test_each_stream_needs_at_most_one_worker():
    with pytest.warns(Warning, match="There will be run only 1 worker"):
        pool = WorkerPool([Source(ws.generated, "stream", 4)], num_workers=3)
    assert pool.num_workers == 1


def test_snapshots(make_pool):
    pool = make_pool(Source(ws.Resumable(), "stream", 3, snapshot_every=2), workers=1)
    batches = [ask(pool, i) for i in range(5)]
    assert [batch.snapshot is not None for batch in batches] == [False, True, False, True, False]
    assert [batch.pulls for batch in batches] == [1, 2, 3, 4, 5]
    import pickle

    resumed = make_pool(Source(ws.Resumable(), "stream", 3, state=pickle.loads(batches[3].snapshot), asks=(("batch", 2),)), workers=1)
    assert pulls(resumed, 2) == [6, 7]


def test_encoded_snapshots(make_pool):
    source = Source(ws.Resumable(), "stream", 3, snapshot_every=1, encode_state=lambda state: b"at %d" % state["position"])
    pool = make_pool(source, workers=1)
    assert [ask(pool, i).snapshot for i in range(2)] == [b"at 1", b"at 2"]


# -------------------------------------------------------------------------------------------------------- memory, lifetimes


def test_views_outlive_later_batches_and_the_pool(make_pool):
    pool = make_pool(Source(ws.Counting(shape=(100,)), "samples", 8, prefetch=2))
    kept = [ask(pool, i).outputs[0].values for i in range(30)]
    pool.close()
    for iteration, values in enumerate(kept):
        assert (values[:, 50] == np.arange(8) + 8 * iteration).all()
    assert kept[0].flags.writeable


def test_slots_are_used_again(make_pool):
    pool = make_pool(Source(ws.Counting(shape=(1000,)), "samples", 16, prefetch=2))
    for iteration in range(200):
        ask(pool, iteration)
    assert pool.statistics()["slots"] <= 4
    assert pool.statistics()["overflows"] == 0


def test_slots_do_not_keep_their_first_layout(make_pool):
    """Before the size of a sample is known, each worker writes to a separate part of the slot. Later these pages are freed."""
    pool = make_pool(Source(ws.Counting(shape=(18_000,)), "samples", 2, prefetch=2))
    for iteration in range(20):
        batch = ask(pool, iteration)
    found = pool.statistics()
    assert found["used_bytes"] < 1.25 * found["slots"] * batch.outputs[0].values.nbytes


def test_memory_is_given_back_after_a_peak(make_pool):
    pool = make_pool(Source(ws.Returns(lambda: np.full(50_000, 7, np.uint8)), "samples", 16))
    batches = [ask(pool, i) for i in range(40)]
    peak = pool.statistics()["used_bytes"]
    assert peak > 38 * 16 * 50_000  # the first batches used only a part of their slots
    del batches
    for iteration in range(200):
        ask(pool, iteration)
    assert pool.statistics()["used_bytes"] < peak / 10


def test_a_batch_as_one_array_is_not_copied(make_pool):
    pool = make_pool(Source(ws.Counting(shape=(20_000,), dtype=np.uint8), "samples", 8))
    for iteration in range(3):
        output = ask(pool, iteration).outputs[0]
    assert output.values.flags.c_contiguous and output.values.ctypes.data == output.addresses[0]
    assert np.diff(output.addresses).tolist() == [20_000] * 7


def test_capacities(make_pool):
    pool = make_pool(Source(ws.Counting(), "samples", 10, prefetch=3, bytes_per_sample_hint=1_000_000), workers=4)
    statistics = pool.statistics()
    assert statistics["capacities"] == [3_002_368] * 12  # ceil(10 / 4) samples of a million bytes, rounded up to pages
    assert statistics["per_sample_capacities"] == [3_002_368 // 3] * 12
    small = make_pool(Source(ws.Counting(), "samples", 10), workers=2)
    assert small.statistics()["capacities"] == [1 << 20] * 2


# ------------------------------------------------------------------------------------------------------- the end, cancelling


def test_the_end_of_data(make_pool):
    pool = make_pool(Source(ws.Counting(iterations=2), "samples", 4))
    tickets = [pool.submit(0, i, 0) for i in range(4)]
    assert [pool.receive(ticket, 300).count for ticket in tickets[:2]] == [4, 4]
    for ticket in tickets[2:]:
        with pytest.raises(StopIteration):
            pool.receive(ticket, 300)
    assert ask(pool, 0, 1).outputs[0].values[0, 0] == 1000


def test_cancelled_tickets_do_not_run(make_pool, tmp_path):
    gate, entered = tmp_path / "gate", tmp_path / "entered"
    os.mkfifo(gate)
    os.mkfifo(entered)

    def source(iteration):
        if iteration == 0:
            open(entered, "w").close()
            open(gate).close()  # waits until another process opens the other end
        return np.full((1, 1), iteration)

    pool = make_pool(Source(source, "batch", 1), workers=1)
    tickets = [pool.submit(0, i, 0) for i in range(4)]
    open(entered).close()
    for ticket in tickets[:3]:
        pool.cancel(ticket)
    open(gate, "w").close()
    assert pool.receive(tickets[3], 300).outputs[0].values[0, 0] == 3
    assert pool.statistics()["workers"][0]["tasks"] == 2  # the ticket that had begun, and the last one
    with pytest.raises(WorkerError, match="cancelled"):
        pool.receive(tickets[0])


def test_errors_of_cancelled_tickets_are_dropped(make_pool):
    pool = make_pool(Source(ws.FailsAt(range(8), ValueError("no")), "samples", 4))
    for ticket in [pool.submit(0, i, 0) for i in range(2)]:
        pool.cancel(ticket)
    assert ask(pool, 2).outputs[0].values.tolist() == [8, 9, 10, 11]


def test_ready(make_pool, tmp_path):
    gate = tmp_path / "gate"
    os.mkfifo(gate)

    def source(iteration):
        open(gate).close()
        return np.zeros((1, 1))

    pool = make_pool(Source(source, "batch", 1), workers=1)
    ticket = pool.submit(0, 0, 0)
    assert not pool.ready(ticket)
    with pytest.raises(TimeoutError):
        pool.receive(ticket, timeout=0.01)
    open(gate, "w").close()
    pool.receive(ticket, timeout=300)
    assert pool.ready(ticket)


def test_several_threads(make_pool):
    pool = make_pool(Source(ws.Counting(), "samples", 4))
    wrong = []

    def consume(start):
        for iteration in range(start, start + 300, 3):
            if ask(pool, iteration).outputs[0].values[:, 0].tolist() != [4 * iteration + i for i in range(4)]:
                wrong.append(iteration)

    threads = [threading.Thread(target=consume, args=(start,)) for start in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(300)
    assert not wrong and not any(thread.is_alive() for thread in threads)


def test_closed_pools_raise_an_error(make_pool):
    pool = make_pool(Source(ws.Counting(), "samples", 4))
    pending = pool.submit(0, 0, 0)
    pool.close()
    pool.close()
    assert pool.closed and pool.pids == []
    with pytest.raises(PoolClosed):
        pool.submit(0, 0, 0)
    with pytest.raises(PoolClosed):
        pool.receive(pending)
    with pytest.raises(PoolClosed, match="not been started"):
        WorkerPool([Source(ws.Counting(), "samples", 4)], num_workers=1).submit(0, 0, 0)


def test_dropping_a_pool_ends_its_workers():
    pool = WorkerPool([Source(ws.Counting(), "samples", 4)], num_workers=2)
    pool.start()
    descriptors = [os.pidfd_open(pid) for pid in pool.pids]
    del pool
    gc.collect()
    import select

    for descriptor in descriptors:
        assert select.select([descriptor], [], [], 300)[0]
        os.close(descriptor)


def test_pools_leave_no_descriptors_or_processes():
    def cycle():
        pool = WorkerPool([Source(ws.Counting(), "samples", 4), Source(ws.generated, "stream", 4)], num_workers=2)
        pool.start()
        ask(pool)
        pool.close()

    cycle()
    before = sorted(os.listdir("/proc/self/fd"))
    for _ in range(5):
        cycle()
    assert sorted(os.listdir("/proc/self/fd")) == before
    assert not children()


@pytest.mark.parametrize(
    "wrong, error",
    [
        ({"kind": "other"}, ValueError), ({"batch_size": 0}, ValueError), ({"kind": "stream", "cycle": "yes"}, ValueError),
        ({"callback": 3}, TypeError), ({"callback": 3, "kind": "stream"}, TypeError),
    ],
)  # fmt: skip
def test_sources_are_checked(wrong, error):
    arguments = {"callback": ws.Counting(), "kind": "samples", "batch_size": 4} | wrong
    with pytest.raises(error):
        WorkerPool([Source(**arguments)], num_workers=1)


@pytest.mark.parametrize(
    "wrong",
    [{"num_workers": 0}, {"num_workers": 2.0}, {"start_method": "thread"}, {"worker_timeout": 0}, {"max_retries": -1}, {"pickler": 1}],
)
def test_arguments_are_checked(wrong):
    with pytest.raises(ValueError):
        WorkerPool([Source(ws.Counting(), "samples", 4)], **({"num_workers": 1} | wrong))

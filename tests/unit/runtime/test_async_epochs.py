"""Iterators over an epoch, and awaited runs: cancelled waits, failed iterations, tasks that share an iterator, event loops that stop."""

import asyncio
import gc
import threading

import numpy as np
import pytest
from helpers.iterators import numbered_files

from asyncdali import Pipeline, fn, pipeline_def

LIMIT = 60
"""Seconds after which a wait of these tests has failed."""


class Gated:
    """Counts. Batch `at` waits for the event `open`; `asked` is set when it does."""

    def __init__(self, count=8, at=None):
        self.count, self.at = count, at
        self.open, self.asked = threading.Event(), threading.Event()

    def __call__(self, info):
        if info.iteration >= self.count:
            raise StopIteration
        if info.iteration == self.at and info.idx_in_batch == 0:
            self.asked.set()
            assert self.open.wait(LIMIT)
        return np.int32([info.idx_in_epoch])


class FailsOnce(Gated):
    """Batch 3 fails at the first request."""

    failed = False

    def __call__(self, info):
        if info.iteration == 3 and not self.failed:
            self.failed = True
            raise ValueError("a temporary failure")
        return super().__call__(info)


def refused(x):
    if int(x[0]) == 12:
        raise ValueError("a bad sample")
    return x


def made(source, function=None, **options):
    @pipeline_def(**{"batch_size": 4, "num_threads": 1, "prefetch_queue_depth": 1, **options})
    def graph():
        x = fn.external_source(source, batch=False)
        return fn.python_function(x, function=function, num_outputs=1) if function else x

    pipe = graph()
    pipe.build()
    return pipe


def values(batch):
    return np.asarray(batch[0].as_tensor()).ravel().tolist()


def batches(count):
    return [[4 * k + j for j in range(4)] for k in range(count)]


def run(main):
    """Run a coroutine with a limit."""
    return asyncio.run(asyncio.wait_for(main, LIMIT))


async def reached(event):
    """Wait for a threading.Event without blocking the event loop."""
    assert await asyncio.get_running_loop().run_in_executor(None, event.wait, LIMIT)


# --- cancelled waits


@pytest.mark.parametrize("way", ["cancel", "wait_for", "timeout", "again and again"])
def test_a_cancelled_wait_loses_nothing(way):
    source = Gated(at=3)
    found = []

    async def cancelled(iterator):
        if way in ("cancel", "again and again"):
            task = asyncio.ensure_future(anext(iterator))
            await reached(source.asked)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
        elif way == "wait_for":
            with pytest.raises(asyncio.TimeoutError):
                await asyncio.wait_for(anext(iterator), 0.01)
        else:
            timeout = getattr(asyncio, "timeout", None)  # Python 3.11
            if timeout is None:
                pytest.skip("needs asyncio.timeout")
            with pytest.raises(TimeoutError):
                async with timeout(0.01):
                    await anext(iterator)

    async def main():
        iterator = aiter(made(source))
        for _ in range(3):
            found.append(values(await anext(iterator)))
        for _ in range(5 if way == "again and again" else 1):
            await cancelled(iterator)
        source.open.set()
        found.extend([values(batch) async for batch in iterator])

    run(main())
    assert found == batches(8)


@pytest.mark.parametrize("options", [{}, {"prefetch_queue_depth": 3}, {"py_num_workers": 0, "num_threads": 2}])
def test_a_wait_cancelled_at_any_step(options):
    """Each call is cancelled after another number of steps of the event loop. Every batch comes once, in order."""
    found, cancelled = [], 0

    async def main():
        nonlocal cancelled
        pipe = made(Gated(60), lambda x: x, **options)
        iterator, steps = aiter(pipe), 0
        while True:
            task = asyncio.ensure_future(anext(iterator))
            for _ in range(steps):
                await asyncio.sleep(0)
            steps = (steps + 1) % 23
            if cancelled % 40 != 39:  # now and then a call is left alone, so that the test ends
                task.cancel()
            try:
                found.append(values(await task))
            except asyncio.CancelledError:
                cancelled += 1
                continue
            except StopAsyncIteration:
                return len(pipe._core.session.in_flight)
            cancelled += cancelled % 40 == 39

    left = run(main())
    assert found == batches(60) and cancelled > 20 and left == 0


def test_tasks_cancelled_by_a_group():
    source, found = Gated(at=3), []

    async def one(pipe):
        found.append(values(await pipe.run_async()))

    async def main():
        pipe = made(source)
        tasks = [asyncio.ensure_future(one(pipe)) for _ in range(6)]
        await reached(source.asked)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        source.open.set()
        while True:
            try:
                await one(pipe)
            except StopAsyncIteration:
                return

    run(main())
    assert sorted(found) == batches(8)


# --- failed iterations


def test_iterators_continue_after_the_error_of_a_source():
    def loop(step, end):
        found, errors = [], 0
        while True:
            try:
                found.append(values(step()))
            except ValueError:
                errors += 1
            except end:
                return found, errors

    iterator = made(FailsOnce()).epoch()
    assert loop(lambda: next(iterator), StopIteration) == (batches(8), 1)
    assert loop(made(FailsOnce()).run, StopIteration) == (batches(8), 1)
    with asyncio.Runner() if hasattr(asyncio, "Runner") else pytest.skip("needs asyncio.Runner") as runner:
        awaited = aiter(made(FailsOnce()))
        assert loop(lambda: runner.run(_next(awaited)), StopAsyncIteration) == (batches(8), 1)


async def _next(iterator):
    return await anext(iterator)


def test_iterators_continue_after_a_failed_iteration():
    wanted = batches(3) + batches(8)[4:]
    found = []
    iterator = made(Gated(), refused).epoch()
    for _ in range(9):
        try:
            found.append(values(next(iterator)))
        except RuntimeError as error:
            assert "a bad sample" in str(error)
        except StopIteration:
            break
    assert found == wanted

    async def main():
        found = []
        iterator = aiter(made(Gated(), refused))
        while True:
            try:
                found.append(values(await anext(iterator)))
            except RuntimeError as error:
                assert "a bad sample" in str(error)
            except StopAsyncIteration:
                return found

    assert run(main()) == wanted


# --- ends


def test_an_ended_iterator_stays_ended_and_a_closed_one_too():
    async def main():
        pipe = made(Gated(2))
        iterator = aiter(pipe)
        assert [values(batch) async for batch in iterator] == batches(2)
        with pytest.raises(StopAsyncIteration):
            await anext(iterator)
        closed = aiter(pipe)
        assert values(await anext(closed)) == batches(1)[0]
        await closed.aclose()
        with pytest.raises(StopAsyncIteration):
            await anext(closed)
        return [values(batch) async for batch in pipe]

    assert run(main()) == batches(2)[1:]
    pipe = made(Gated(2))
    iterator = pipe.epoch()
    assert next(iterator) and iterator.close() is None and list(iterator) == []
    assert [values(batch) for batch in pipe.epoch()] == batches(2)[1:]


@pytest.mark.parametrize("shared", [True, False], ids=["one iterator", "an iterator each"])
def test_tasks_that_share_an_epoch(tmp_path, shared):
    """The tasks get the batches of one epoch, also if both wait for its last batch; the next epoch is whole."""
    files = numbered_files(tmp_path, 12)

    @pipeline_def(batch_size=4, num_threads=1, prefetch_queue_depth=2)
    def graph():
        return fn.readers.file(files=files, labels=list(range(12)), name="reader")[1]

    async def take(iterator, found):
        async for batch in iterator:
            found.append(values(batch))

    async def main():
        pipe = graph()
        pipe.build()
        epochs = []
        for _ in range(3):
            found = []
            one = aiter(pipe)
            await asyncio.gather(take(one, found), take(one if shared else aiter(pipe), found))
            epochs.append(sorted(found))
        return epochs

    assert run(main()) == [batches(3)] * 3


# --- event loops that stop


def _waiting(pipe, source):
    """An event loop that was stopped while a task waits for the gated batch."""
    loop = asyncio.new_event_loop()
    task = loop.create_task(pipe.run_async())
    loop.run_until_complete(reached(source.asked))
    return loop, task


@pytest.mark.parametrize("what", ["stopped", "closed", "forgotten"])
def test_a_loop_that_stops_does_not_stop_others(what):
    source = Gated(at=3)
    pipe = made(source)
    found = [values(pipe.run()) for _ in range(3)]
    loop, task = _waiting(pipe, source)
    if what != "stopped":
        loop.run_until_complete(loop.shutdown_default_executor())
        task._log_destroy_pending = False
        loop.close()
    if what == "forgotten":
        del loop, task
        gc.collect()
    source.open.set()

    async def rest(count):
        return [values(await pipe.run_async()) for _ in range(count)]

    found += run(rest(4 if what == "stopped" else 5))
    if what == "stopped":
        found.append(values(loop.run_until_complete(asyncio.wait_for(task, LIMIT))))
        loop.close()
    assert found == batches(8)
    pipe.close()


def test_a_blocked_loop_queues_again():
    """Another loop takes the batch that a task of a blocked loop does not take. The blocked task gets the next one."""
    source = Gated(at=0)
    pipe = made(source)
    blocked, free = threading.Event(), threading.Event()
    found = []

    async def first():
        task = asyncio.ensure_future(pipe.run_async())
        await reached(source.asked)
        blocked.set()
        assert free.wait(LIMIT)  # this loop is blocked
        found.append(values(await task))

    thread = threading.Thread(target=run, args=(first(),))
    thread.start()
    assert blocked.wait(LIMIT)
    source.open.set()

    async def second():
        return [values(await pipe.run_async()) for _ in range(3)]

    taken = run(second())
    free.set()
    thread.join(LIMIT)
    assert not thread.is_alive() and taken == batches(3) and found == batches(4)[3:]


def test_two_runs_of_asyncio_and_two_loops():
    pipe = made(Gated())

    async def some(count):
        return [values(await pipe.run_async()) for _ in range(count)]

    assert run(some(2)) + run(some(2)) == batches(4)
    found = []
    threads = [threading.Thread(target=lambda: found.extend(run(some(2)))) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(LIMIT)
    assert sorted(found) == batches(8)[4:]


def test_a_place_in_the_queue_that_no_coroutine_has_left_is_skipped():
    """Exceptions of signals' handlers may come in every attempt to leave. The place stayed first, and all later calls waited."""
    pipe = Pipeline(2, 1, seed=5)
    with pipe:
        pipe.set_outputs(fn.random.uniform(range=[0, 1]))
    pipe.build()
    session = pipe._core.session

    async def ends():
        session.delivery.turn().join()

    async def returns():
        await asyncio.create_task(ends())  # of a task that has ended
        await pipe.run_async()
        session.delivery.turn().join()  # of an earlier call of this task
        return await pipe.run_async()

    async def limited():
        return await asyncio.wait_for(returns(), 60)

    assert len(asyncio.run(limited())) == 1
    assert not session.delivery._turns._waiting
    pipe.close()

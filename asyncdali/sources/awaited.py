"""Asynchronous sources (`async def` callables and asynchronous iterators), on their own event loop."""

from __future__ import annotations

import asyncio
import concurrent.futures
import logging
import os
import threading
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from contextvars import ContextVar
from functools import partial
from typing import Any

from asyncdali_workers import SampleInfo
from asyncdali_workers.interrupts import uninterrupted
from asyncdali_workers.processes.python import keep_standard_descriptors
from asyncdali_workers.worker.states import replay

from ..errors import because
from ..system.deadlocks import DeadlockWait, runs_thread, waits_for_thread
from ..system.descriptors import LOOP_DESCRIPTORS, require_descriptors
from .group import Group
from .ports import Port
from .prefetch import AheadPuller
from .samples import Answer, FailedSample, kept_async, of_samples, raise_last
from .snapshots import Position, load_snapshot

log = logging.getLogger("asyncdali")


class SourceLoop:
    """The event loop for users' coroutines: one per process, on its own thread, so that coroutines cannot delay the executor's loop."""

    def __init__(self) -> None:
        keep_standard_descriptors()
        require_descriptors(LOOP_DESCRIPTORS, "the event loop of `async def` sources cannot be started")
        self.loop = asyncio.new_event_loop()
        self.thread = threading.Thread(target=self._run, name="asyncdali-source-loop", daemon=True)
        self.thread.start()

    def _run(self) -> None:
        while True:
            try:
                return self.loop.run_forever()
            except (SystemExit, KeyboardInterrupt):  # a source's own task raised it, and keeps it for the callers that wait for the task
                log.debug("a task on the loop of the sources has ended with an exit", exc_info=True)

    def submit(self, work: Coroutine[object, object, object]) -> concurrent.futures.Future[object]:
        """Run a coroutine. May be called from any thread."""
        return asyncio.run_coroutine_threadsafe(work, self.loop)


_lock = threading.Lock()
_shared: tuple[int, SourceLoop] | None = None


def source_loop() -> SourceLoop:
    """The process's loop. A forked child gets its own."""
    global _shared
    with _lock:
        if _shared is None or _shared[0] != os.getpid():
            with uninterrupted():  # an interrupt would leak the loop's thread and descriptors
                _shared = (os.getpid(), SourceLoop())
        return _shared[1]


class _End:
    """Returned by a coroutine at the end of the data, because StopIteration cannot leave a coroutine."""


class _Exit:
    """Returned by a coroutine that SystemExit or KeyboardInterrupt has ended. A task that raises such an error ends the event loop."""

    def __init__(self, error: BaseException):
        self.error = error


async def _held(call: Callable[..., Awaitable[object]], *args: object) -> object:
    """The result of a function that is awaited. An exit is returned as :class:`_Exit`."""
    try:
        return await call(*args)
    except (SystemExit, KeyboardInterrupt) as error:
        return _Exit(error)


def _released(result: object) -> object:
    """Raise the exit that :func:`_held` has returned."""
    if isinstance(result, _Exit):
        try:
            raise result.error
        finally:
            del result  # the error's traceback holds this frame
    return result


_callers: ContextVar[tuple[object, ...]] = ContextVar("asyncdali_callers", default=())
"""Keys of the sources whose callbacks run in the current coroutine. A source that runs another pipeline comes before the sources of that
pipeline."""


class AwaitedPuller(AheadPuller):
    """Awaits the source. Samples of a batch run concurrently, at most `max_concurrency` at a time; iterators run one item after another."""

    kind = "awaited"

    def __init__(self, group: Group, ports: dict[str, Port], batch_size: int):
        super().__init__(group, ports, batch_size)
        self._places = asyncio.Semaphore(group.max_concurrency)
        self._in_turn = asyncio.Lock()
        self._key_of_calls = object()
        self._partial: list[Any] = []
        self._failed = False  # whether the source has failed for a sample in `_partial`
        self._kept: list[Any] = []  # a batch that arrived before it was requested
        self._ended_round: int | None = None  # the last round in which the source has ended

    def _ask(self, iteration: int) -> Awaited:
        return Awaited(partial(self._guarded, iteration, self.epoch, self._round))

    def _answer(self, asked: Awaited) -> Answer:
        try:
            result = asked.result()
        finally:
            del asked
        if isinstance(result, _Exit):
            self._answered(self._key())  # the next call asks again
            _released(result)
        if result is _End:
            raise StopIteration
        data, state = result
        if self.snapshots is not None:
            self.snapshots.pulled(state)
        return self._result_by_node(data)

    def again(self, iteration: int, epoch: int) -> Answer:
        return self._result_by_node(self._waited_for(self._at, iteration, epoch))

    def sample(self, info: SampleInfo) -> object:
        return self._waited_for(self.group.callback, info)

    def _waited_for(self, call: Callable[..., Awaitable[object]], *args: object) -> object:
        async def waited() -> object:
            _callers.set((*_callers.get(), self._key_of_calls))
            try:
                return await call(*args)
            except Exception as error:
                if not is_end(error):
                    raise
                return _End

        result: object = _released(Awaited(partial(_held, waited)).result())
        if result is _End:
            raise StopIteration
        return result

    def _cancel(self, asked: Awaited) -> None:
        asked.cancel()

    # --- on the source loop

    def awaited_here(self) -> bool:
        return self._key_of_calls in _callers.get()

    async def _guarded(self, iteration: int, epoch: int, number: int) -> Any:
        _callers.set((*_callers.get(), self._key_of_calls))  # each task has its own context
        try:
            if self.description.resumable:
                return await self._at(iteration, epoch), None
            async with self._in_turn:
                if self._ended_round == number:
                    return _End  # this request was made before the end was known
                result = self._kept.pop() if self._kept else await self._next()
                return result, None if self.snapshots is None else self.snapshots.due()
        except (Exception, SystemExit, KeyboardInterrupt) as error:
            if self.snapshots is not None:
                self.snapshots.interrupted()
            if not isinstance(error, Exception):
                return _Exit(error)
            if not is_end(error):
                raise
            self._partial = []
            self._ended_round = number
            return _End

    async def _at(self, iteration: int, epoch: int) -> Any:
        callback, size = self.group.callback, self.batch_size
        if self.group.batch:
            return await callback(self._argument(iteration, epoch))
        infos = [SampleInfo(iteration * size + k, k, iteration, epoch) for k in range(size)]
        try:
            return await self._all(callback, infos)
        except Exception as error:
            if not self.keeps_errors or is_end(error):
                raise
        return of_samples(await self._all(partial(kept_async, callback, is_end), infos))

    async def _all(self, callback: Any, infos: Sequence[SampleInfo]) -> list[object]:
        """The samples at the positions `infos`. Of several errors the first is raised; errors come before an end."""
        tasks = [asyncio.ensure_future(self._placed(callback, info)) for info in infos]
        try:
            return list(map(_released, await asyncio.gather(*tasks)))
        except BaseException:
            for task in tasks:
                task.cancel()
            done = await asyncio.gather(*tasks, return_exceptions=True)
            ends = (k for k, one in enumerate(done) if isinstance(one, Exception) and is_end(one))
            # Later batches are requested concurrently. Their end is at sample 0, and must not replace the count of the incomplete batch.
            self.left_over = max(self.left_over, next(ends, 0))
            try:
                _raise_first(done)
            finally:
                del task, tasks, done  # they hold the error, whose traceback holds this frame
            raise

    async def _placed(self, callback: Any, info: SampleInfo) -> Any:
        async with self._places:
            return await _held(callback, info)

    async def _next(self) -> Any:
        if self.group.batch:
            return await self.group.callback()
        while len(self._partial) < self.batch_size:
            try:
                self._partial.append(await self.group.callback())
            except Exception as error:
                if is_end(error):
                    raise_last(self._partial)
                    self.left_over = len(self._partial)
                if is_end(error) or not self.keeps_errors:
                    raise
                self._partial.append(FailedSample(error))
                self._failed = True
        got, failed, self._partial, self._failed = self._partial, self._failed, [], False
        return of_samples(got) if failed else got

    # --- snapshots

    def _resume(self, position: Position) -> None:
        if position.state is not None:
            load_snapshot(self.group, position.state)
        self._kept = replay(position.asks, self._asked_again, self.group.name)
        self.left_over = 0

    def _asked_again(self) -> object:
        try:
            return self._waited_for(self._next)
        except StopIteration:
            self._partial = []
            raise


def _raise_first(results: list[object]) -> None:
    """The failure to report if a batch has several: errors come before an end; among errors, the first."""
    error = next((item for item in results if isinstance(item, Exception) and not is_end(item)), None)
    try:
        if error is not None:
            raise error
    finally:
        del results, error


def is_end(error: BaseException) -> bool:
    """Whether a coroutine has ended the data. Python turns a StopIteration that leaves a coroutine into a RuntimeError."""
    ends = (StopIteration, StopAsyncIteration)
    return isinstance(error, ends) or (isinstance(error, RuntimeError) and isinstance(error.__cause__, ends))


class _Failed:
    """The error of a coroutine. Futures would replace TimeoutError and CancelledError by errors of their own, without a traceback."""

    def __init__(self, error: BaseException):
        self.error = error


async def _outcome(work: Callable[[], Coroutine[object, object, object]], ours: list[bool]) -> object:
    """The result of the coroutine that `work` makes, or its error as :class:`_Failed`. `ours` is not empty if we have cancelled it.

    The coroutine is made here: a task that is cancelled before its first step makes none, so Python reports none as never awaited.
    """
    try:
        return await work()
    except asyncio.CancelledError as error:
        if ours:
            raise
        text = "an asynchronous source ended with CancelledError: it raised this error, or a task that it waits for was cancelled"
        return _Failed(because(RuntimeError(text), error))
    except Exception as error:
        return _Failed(error)


class Awaited:
    """A running coroutine on the source loop; `work` makes the coroutine."""

    def __init__(self, work: Callable[[], Coroutine[object, object, object]]):
        done: list[bool] = []
        self._done = done
        gate = self._gate = threading.Lock()
        gate.acquire()

        def wake(_: object) -> None:  # not a method: the future keeps its callbacks, and would keep this object and its error alive
            done.append(True)
            gate.release()

        loop = source_loop()
        self.thread = loop.thread
        self._ours: list[bool] = []  # whether we have cancelled the coroutine
        self._future = loop.submit(_outcome(work, self._ours))
        self._future.add_done_callback(wake)

    def result(self) -> Any:
        """The coroutine's result or error. Signals interrupt the wait, and the wait may be repeated.

        ``Future.result`` does not allow this: an interrupt inside it can leave its lock held, or be replaced by another error.
        """
        if not self._done and threading.current_thread() is source_loop().thread:
            raise RuntimeError(
                "run() was called in a coroutine of an asynchronous source, for a pipeline that has asynchronous sources, too: the call "
                "would "
                "block the event loop that both need. Use `await pipeline.run_async()` there."
            )
        patience = DeadlockWait(runs_thread(self.thread))
        while not self._done and not self._gate.acquire(timeout=patience.seconds()):
            patience.look(notice=False)
        found = None
        with uninterrupted():
            try:
                found = self._future.result()
                if isinstance(found, _Failed):
                    raise found.error
                return found
            finally:
                del self, found  # the future keeps its error, whose traceback holds this frame

    def cancel(self) -> None:
        with uninterrupted():
            self._ours.append(True)
            self._future.cancel()


waits_for_thread(Awaited.result, lambda awaited: None if awaited._done else awaited.thread)

"""Remote batches are fetched before they are needed, on threads that end with the pipeline.

``prefetch_queue_depth`` batches are fetched at the same time, each on its own thread. A second order that runs ahead predicts these
batches. ``close()`` calls every operator's ``stop()`` first: it cancels the requests of asynchronous file systems (``requests``) and wakes
waiting callers. Then the threads are joined. A synchronous file system cannot be interrupted: its thread ends with the answer, and
``close()`` does not wait for it.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future, InvalidStateError
from contextlib import AbstractContextManager, suppress
from typing import Any, Generic, TypeVar

import numpy as np
from asyncdali_workers.interrupts import uninterrupted

from ...errors import PipelineClosed
from ...sampling.order import OrderPosition, SampleOrder
from .requests import Requests

_Result = TypeVar("_Result")

_PATIENCE = 0.9
"""Most seconds that closing may take. Only file systems that are not asynchronous need this time."""


class Fetches:
    """Calls that wait for remote files, each on its own thread. Stopping wakes their waiting callers immediately."""

    def __init__(self, redirects: bool = False) -> None:
        """`redirects`: web servers may redirect these requests to other hosts."""
        self._requests = Requests(redirects)
        self._lock = threading.Lock()
        self._running: dict[Future[Any], threading.Thread] = {}

    def begin(self, call: Callable[[], _Result]) -> Future[_Result]:
        """Start a call; PipelineClosed after :meth:`stop`."""
        future: Future[_Result] = Future()

        def work() -> None:
            try:
                with self._requests.governed():
                    found = call()
            except BaseException as error:  # raised where the result is requested
                _fail(future, error)
            else:
                with suppress(InvalidStateError):  # it was cancelled in the meantime
                    future.set_result(found)
            with self._lock:
                del self._running[future]

        thread = threading.Thread(target=work, name="asyncdali-fetch", daemon=True)
        with self._lock:
            if self._requests.given_up.is_set():
                raise PipelineClosed("the pipeline was closed")
            with uninterrupted():  # the thread removes itself from the running ones, and `close` joins it
                thread.start()
                self._running[future] = thread
        return future

    def on_this_thread(self) -> AbstractContextManager[None]:
        """While the block runs, :meth:`stop` also cancels the remote requests of the calling thread."""
        return self._requests.governed()

    def stop(self) -> None:
        """Cancel the running calls: their requests end, and waiting callers get PipelineClosed."""
        self._requests.give_up()
        with self._lock:
            running = list(self._running)
        for future in running:
            _fail(future, PipelineClosed("the pipeline was closed while it waited for remote files"))

    def close(self) -> None:
        """Stop, and wait for the threads. Threads inside a synchronous file system are not waited for; they end with its answer."""
        self.stop()
        deadline = time.monotonic() + _PATIENCE
        with self._lock:
            threads = list(self._running.values())
        for thread in threads:
            if thread is not threading.current_thread():
                thread.join(max(0.0, deadline - time.monotonic()))


def _fail(future: Future[_Result], error: BaseException) -> None:
    with suppress(InvalidStateError):  # it was cancelled in the meantime
        future.set_exception(error)


class BatchesAhead(Generic[_Result]):
    """The results of `fetch` for the batches of `order`, `depth` of which are fetched at a time.

    The order predicts the following batches (None for a depth of 1). If a batch has other indices (another batch size, a restored
    checkpoint), it is fetched when it is requested, and prediction starts again behind it.
    """

    def __init__(self, order: SampleOrder | None, depth: int, fetch: Callable[[np.ndarray], _Result], fetches: Fetches):
        self._order, self._depth, self._fetch, self._fetches = order, depth, fetch, fetches
        self._ahead: deque[tuple[np.ndarray, Future[_Result]]] = deque()
        self._next: OrderPosition | None = None  # the position after the requested batches

    def get(self, indices: np.ndarray, behind: OrderPosition, first: int = 0, whole: int = 0) -> _Result:
        """``fetch(indices)``; raises its error. `behind` is the position behind this batch.

        Where a batch is a part of an iteration of `whole` samples, from sample `first` on, those guessed are such parts, too.
        """
        guessed = bool(self._ahead) and np.array_equal(self._ahead[0][0], indices)
        found = self._ahead.popleft()[1] if guessed else self._begin(indices)
        if self._order is not None:
            if not guessed or self._next is None:
                self._ahead.clear()
                self._next = behind
            while len(self._ahead) < self._depth - 1:
                coming, self._next = self._order.take(self._next, whole or len(indices))
                coming = coming[first : first + len(indices)]
                self._ahead.append((coming, self._begin(coming)))
        try:
            return found.result()
        finally:
            del found  # the future keeps its error, whose traceback holds this frame

    def _begin(self, indices: np.ndarray) -> Future[_Result]:
        return self._fetches.begin(lambda: self._fetch(indices))

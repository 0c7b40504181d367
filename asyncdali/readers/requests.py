"""Remote requests that can be given up: what one thread waits for, another may end.

A thread whose calls are :meth:`Requests.governed` gets PipelineClosed out of :func:`run`, :func:`pause` and :func:`check` once these
requests are given up. Other threads (the user's, in ``build()``) wait as long as it takes.
"""

from __future__ import annotations

import threading
from collections.abc import Coroutine, Iterator
from concurrent.futures import CancelledError, Future
from concurrent.futures import TimeoutError as NotYet
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from ..errors import PipelineClosed

if TYPE_CHECKING:
    import asyncio

_here = threading.local()


class Requests:
    """The requests of one reader."""

    def __init__(self, redirects: bool = False) -> None:
        self.redirects = redirects
        self._lock = threading.Lock()
        self._running: set[Future[Any]] = set()
        self.given_up = threading.Event()

    @contextmanager
    def governed(self) -> Iterator[None]:
        """What the calling thread asks for meanwhile belongs to these requests."""
        before = getattr(_here, "requests", None)
        _here.requests = self
        try:
            yield
        finally:
            _here.requests = before

    def give_up(self) -> None:
        """End those that run, and refuse others from now on. Only file systems that are not asynchronous finish what they do."""
        with self._lock:
            self.given_up.set()
            running = list(self._running)
        for future in running:
            future.cancel()

    @contextmanager
    def running(self, future: Future[Any]) -> Iterator[None]:
        """`future` is one of them meanwhile."""
        with self._lock:
            self._running.add(future)
            too_late = self.given_up.is_set()
        if too_late:
            future.cancel()
        try:
            yield
        finally:
            with self._lock:
                self._running.discard(future)


def redirects_allowed() -> bool:
    """Whether web servers may send this thread's requests to other hosts."""
    requests = getattr(_here, "requests", None)
    return requests is not None and requests.redirects


def check() -> None:
    """PipelineClosed if this thread's requests have been given up."""
    requests = getattr(_here, "requests", None)
    if requests is not None and requests.given_up.is_set():
        raise PipelineClosed("the pipeline was closed while it waited for remote files")


def pause(seconds: float) -> None:
    """Wait; PipelineClosed if this thread's requests are given up meanwhile."""
    requests = getattr(_here, "requests", None)
    (threading.Event() if requests is None else requests.given_up).wait(seconds)
    check()


def run(work: Coroutine[Any, Any, Any], loop: asyncio.AbstractEventLoop) -> Any:
    """The result of a coroutine on the loop of another thread. It is cancelled if this thread is interrupted or its requests given up."""
    import asyncio  # it takes its time

    future = asyncio.run_coroutine_threadsafe(work, loop)
    requests = getattr(_here, "requests", None)
    try:
        if requests is None:
            return _result(future)
        with requests.running(future):
            return _result(future)
    except CancelledError:
        check()
        raise
    except BaseException:  # Ctrl-C; nothing happens if it is an error of its own
        future.cancel()
        raise


def _result(future: Future[Any]) -> Any:
    while True:
        try:
            return future.result(0.5)  # a signal just before the wait would go unnoticed until its end
        except NotYet:
            if future.done():  # the coroutine's own
                raise

"""Remote requests that another thread can cancel.

When the requests are cancelled, a thread inside :meth:`Requests.governed` gets PipelineClosed from :func:`run`, :func:`pause` and
:func:`check`. Other threads (the user's, in ``build()``) wait as long as it takes.
"""

from __future__ import annotations

import threading
from collections.abc import Coroutine, Iterator
from concurrent.futures import CancelledError, Future
from concurrent.futures import TimeoutError as NotYet
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from ...errors import PipelineClosed

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
        """While the block runs, requests of the calling thread belong to this object."""
        before = getattr(_here, "requests", None)
        _here.requests = self
        try:
            yield
        finally:
            _here.requests = before

    def give_up(self) -> None:
        """Cancel running requests and refuse new ones. Only synchronous file systems finish their work."""
        with self._lock:
            self.given_up.set()
            running = list(self._running)
        for future in running:
            future.cancel()

    @contextmanager
    def running(self, future: Future[object]) -> Iterator[None]:
        """While the block runs, `future` is one of the requests."""
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
    """Whether web servers may redirect this thread's requests to other hosts."""
    requests = getattr(_here, "requests", None)
    return requests is not None and requests.redirects


def check() -> None:
    """Raise PipelineClosed if this thread's requests have been cancelled."""
    requests = getattr(_here, "requests", None)
    if requests is not None and requests.given_up.is_set():
        raise PipelineClosed("the pipeline was closed while it waited for remote files")


def pause(seconds: float) -> None:
    """Wait. PipelineClosed if this thread's requests are cancelled in the meantime."""
    requests = getattr(_here, "requests", None)
    (threading.Event() if requests is None else requests.given_up).wait(seconds)
    check()


def run(work: Coroutine[Any, Any, Any], loop: asyncio.AbstractEventLoop) -> Any:
    """The result of a coroutine on another thread's loop. It is cancelled when this thread is interrupted or its requests are cancelled."""
    import asyncio  # a slow import

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
    except BaseException:  # Ctrl-C; after an error of the coroutine itself this does nothing
        future.cancel()
        raise


def _result(future: Future[object]) -> object:
    while True:
        try:
            return future.result(0.5)  # short waits: a signal just before a wait is noticed when the wait ends
        except NotYet:
            if future.done():  # the coroutine raised this TimeoutError
                raise

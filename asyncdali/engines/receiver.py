"""The thread that talks to the engines of a pipeline for a GPU, in place of the loop's thread.

Beside a thread that runs pure Python, each return to the interpreter may take a switch interval (5 ms). An event loop returns several times
per message: for the descriptor, for its queue of calls, and from each call of a socket. This thread returns once. While it
holds the interpreter lock, it handles all messages and calls that have arrived, and plans the segments of the GPU that may start.
"""

from __future__ import annotations

import ctypes
import heapq
import itertools
import logging
import os
import threading
from collections import deque
from collections.abc import Callable
from time import monotonic
from typing import Any

import numpy as np

from ..compiled.addresses import address_of
from .channel import library

log = logging.getLogger("asyncdali")

_POLLED = np.dtype([("descriptor", "i4"), ("events", "i2"), ("found", "i2")])
"""struct pollfd."""
_POLLIN = 1
_ONE = (1).to_bytes(8, "little")
_LONGEST = 3600.0
"""Longest wait, in seconds. A timer or a call ends a wait earlier."""

_poll_held = library.poll  # keeps the interpreter lock: for a check without waiting
_poll = ctypes.CDLL(None).poll
for _function in (_poll_held, _poll):
    _function.argtypes, _function.restype = (ctypes.c_void_p, ctypes.c_ulong, ctypes.c_int), ctypes.c_int


class Receiver:
    """Calls functions on its own thread: when requested, when a descriptor is readable, and at a time."""

    def __init__(self, name: str):
        self._calls: deque[tuple[Callable[..., object], tuple[Any, ...]]] = deque()
        self._readers: dict[int, tuple[Callable[..., object], tuple[Any, ...]]] = {}
        self._timers: list[tuple[float, int, Callable[..., object], tuple[Any, ...]]] = []
        self._numbers = itertools.count()
        self._wake = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)
        self._pid = os.getpid()
        self._polled = np.empty(0, _POLLED)
        self._asleep = self._closed = False
        self._changed()
        self._thread = threading.Thread(target=self._run, name=f"{name}-engines", daemon=True)
        self._thread.start()

    def is_current(self) -> bool:
        """Whether the caller is on this thread."""
        return threading.current_thread() is self._thread

    def call(self, function: Callable[..., object], *args: Any) -> None:
        """Request a call of `function`. May be called from any thread."""
        self._calls.append((function, args))
        if self._asleep:
            library.write(self._wake, _ONE, 8)

    def call_later(self, seconds: float, function: Callable[..., object], *args: Any) -> None:
        """Request a call of `function` in some seconds. May be called from any thread."""
        self.call(self._at, monotonic() + seconds, function, args)

    def add_reader(self, descriptor: int, function: Callable[..., object], *args: Any) -> None:
        """Call `function` whenever `descriptor` is readable. To be called on this thread."""
        self._readers[descriptor] = function, args
        self._changed()

    def remove_reader(self, descriptor: int) -> None:
        """Undo :meth:`add_reader`. To be called on this thread."""
        self._readers.pop(descriptor, None)
        self._changed()

    def close(self) -> None:
        """End the thread after the calls that were requested. Idempotent."""
        if not self._closed and self._pid == os.getpid():
            self.call(self._end)

    def join(self, timeout: float) -> None:
        """After :meth:`close`, wait for the end of the thread."""
        if not self.is_current() and self._pid == os.getpid():
            self._thread.join(timeout)

    def _end(self) -> None:
        self._closed = True

    def _at(self, time: float, function: Callable[..., object], args: tuple[Any, ...]) -> None:
        heapq.heappush(self._timers, (time, next(self._numbers), function, args))

    def _changed(self) -> None:
        wanted = [(descriptor, _POLLIN, 0) for descriptor in (self._wake, *self._readers)]
        self._polled = np.array(wanted, _POLLED)

    def _run(self) -> None:
        while True:
            while self._calls:
                self._make(*self._calls.popleft())
            if self._closed:
                break
            while self._timers and self._timers[0][0] <= monotonic():
                self._make(*heapq.heappop(self._timers)[2:])
            self._look()
        os.close(self._wake)

    def _look(self) -> None:
        """Call the readers of readable descriptors. Wait if there are none."""
        polled = self._polled
        at, count = address_of(polled), len(polled)
        found = _poll_held(at, count, 0)
        if not found:
            seconds = min(_LONGEST, self._timers[0][0] - monotonic()) if self._timers else _LONGEST
            self._asleep = True  # from here on a call wakes this thread
            found = 0 if self._calls else _poll(at, count, max(0, int(seconds * 1000) + 1))
            self._asleep = False
        if found <= 0:
            return
        for descriptor in polled["descriptor"][polled["found"] != 0].tolist():
            if descriptor == self._wake:
                library.read(self._wake, ctypes.create_string_buffer(8), 8)
            elif descriptor in self._readers:  # an earlier reader may have removed it
                self._make(*self._readers[descriptor])

    @staticmethod
    def _make(function: Callable[..., object], args: tuple[Any, ...]) -> None:
        try:
            function(*args)
        except BaseException:  # a bug in the runtime: the thread must not end silently
            log.exception("unexpected error on the thread of the engines")

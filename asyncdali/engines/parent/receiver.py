"""The thread that talks to the engines of a pipeline for a GPU, in place of the loop's thread.

Beside a thread that runs pure Python, each return to the interpreter may take a switch interval (5 ms). An event loop returns several times
per message: for the descriptor, for its queue of calls, and from each call of a socket. This thread returns once. While it
holds the interpreter lock, it handles all messages, ends of jobs and calls that have arrived, and plans the segments of the GPU that may
start.

A call of ``run()`` that waits does this work itself (:meth:`Receiver.help`), because each waiting thread would wait for the interpreter.
"""

from __future__ import annotations

import contextlib
import contextvars
import ctypes
import heapq
import itertools
import logging
import os
import platform
import select
import threading
from collections import deque
from collections.abc import Callable
from time import monotonic
from typing import TYPE_CHECKING, Any

import numpy as np
from asyncdali_workers.interrupts import only_ctrl_c, uninterrupted
from asyncdali_workers.shared.calls import ENGINES, needed

from ...compiled.addresses import address_of
from ...system import forks
from ...system.deadlocks import FIRST_LOOK
from ..wire.channel import library

if TYPE_CHECKING:
    from ...device.cuda.gates import CompletionWatch
    from ...runtime.order.record import Record

log = logging.getLogger("asyncdali")

_POLLED = np.dtype([("descriptor", "i4"), ("events", "i2"), ("found", "i2")])
"""struct pollfd."""
_POLLIN = 1
_ONE = (1).to_bytes(8, "little")
_LONGEST = 3600.0
"""Longest wait, in seconds. A timer or a call ends a wait earlier."""


class _EpollEvent(ctypes.Structure):
    """struct epoll_event."""

    _pack_ = 1 if platform.machine() == "x86_64" else 8
    _fields_ = (("events", ctypes.c_uint32), ("data", ctypes.c_uint64))


_MODIFY = 3
"""EPOLL_CTL_MOD."""

_poll_held = library.poll  # keeps the interpreter lock: for a check without waiting
_poll = ctypes.CDLL(None).poll
for _function in (_poll_held, _poll):
    _function.argtypes, _function.restype = (ctypes.c_void_p, ctypes.c_ulong, ctypes.c_int), ctypes.c_int
_control = library.epoll_ctl  # select.epoll would release the interpreter lock
_control.argtypes = (ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.POINTER(_EpollEvent))


class Receiver:
    """Calls functions on its own thread: when requested, when a descriptor is readable, and at a time."""

    def __init__(self, name: str):
        self._calls: deque[tuple[Callable[..., object], tuple[Any, ...]]] = deque()
        self._readers: dict[int, tuple[Callable[..., object], tuple[Any, ...]]] = {}
        self._timers: list[tuple[float, int, Callable[..., object], tuple[Any, ...]]] = []
        self._numbers = itertools.count()
        self._pid = forks.pid
        with needed("eventfd2", ENGINES):
            self._wake = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)
            self._told = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)
        self._helping = threading.Lock()
        self._helper = 0
        """The calling thread that does the work of this thread. 0: none."""
        # This thread waits for `_all`, a helper for `_own`. While a caller helps, `_all` does not report `_own`.
        self._own, self._all = select.epoll(), select.epoll()
        self._all.register(self._wake, select.EPOLLIN)
        self._all.register(self._own, select.EPOLLIN)
        self._waits = np.array([(self._all.fileno(), _POLLIN, 0)], _POLLED)
        self._helper_waits = np.array([(self._own.fileno(), _POLLIN, 0), (self._told, _POLLIN, 0)], _POLLED)
        self._reported = _EpollEvent(select.EPOLLIN, 0), _EpollEvent(0, 0)
        self._polled = np.empty(0, _POLLED)
        self._asleep = self._closed = False
        self._thread = threading.Thread(target=self._run, name=f"{name}-engines", daemon=True)
        self._thread.start()

    def is_current(self) -> bool:
        """Whether the caller is on this thread."""
        return threading.current_thread() is self._thread

    def call(self, function: Callable[..., object], *args: object) -> None:
        """Request a call of `function`. May be called from any thread."""
        self._calls.append((function, args))
        if self._asleep:
            library.write(self._wake, _ONE, 8)

    def call_later(self, seconds: float, function: Callable[..., object], *args: object) -> None:
        """Request a call of `function` in some seconds. May be called from any thread."""
        self.call(self._at, monotonic() + seconds, function, args)

    def add_reader(self, descriptor: int, function: Callable[..., object], *args: object) -> None:
        """Call `function` whenever `descriptor` is readable. To be called on this thread, or in a call of a reader.

        A caller that helps may call `function`, too. The same descriptor may then have another call of `function` at the same time."""
        self._readers[descriptor] = function, args
        self._own.register(descriptor, select.EPOLLIN)
        self._changed()

    def remove_reader(self, descriptor: int) -> None:
        """Undo :meth:`add_reader`. To be called on this thread, or in a call of a reader."""
        if self._readers.pop(descriptor, None) is not None:
            with contextlib.suppress(OSError):  # closed already
                self._own.unregister(descriptor)
            self._changed()

    # --- on a thread that waits for an iteration

    def help(self, record: Record, watch: CompletionWatch | None = None) -> None:
        """Do the work of this thread on the calling thread, until an iteration is finished, a signal comes, or some time has passed.

        With a `watch`, until the GPU has made the iteration's batches, too. Calls and timers stay on this thread. The device must be
        entered."""
        if forks.pid != self._pid or not only_ctrl_c():
            return
        # The wait is short, so an interrupt can wait until this thread works again.
        with uninterrupted():
            if not self._helping.acquire(blocking=False):
                return
            try:
                if not self._closed:
                    record.on_finished(self._tell)
                    # numpy's treatment of errors belongs to the context, and the user's must not apply here.
                    contextvars.Context().run(self._help, record, watch)
            finally:
                self._helping.release()

    def _help(self, record: Record, watch: CompletionWatch | None) -> None:
        at, until = address_of(self._helper_waits), monotonic() + FIRST_LOOK
        left = FIRST_LOOK
        self._helper = threading.get_ident()
        _control(self._all.fileno(), _MODIFY, self._own.fileno(), self._reported[1])
        try:
            while left > 0:
                more = self._serve()
                left = until - monotonic()
                if more:  # serve everything that has come, also when the iteration is finished: this thread has the interpreter
                    continue
                if left <= 0:
                    return
                if record.finished:
                    if watch is None or watch.over(record.outputs) or watch.wait(at, len(self._helper_waits), left):
                        return
                elif _poll(at, len(self._helper_waits), int(1000 * left) + 1) < 0:
                    return
                if self._helper_waits["found"][1]:
                    library.read(self._told, ctypes.create_string_buffer(8), 8)
        finally:
            self._helper = 0
            _control(self._all.fileno(), _MODIFY, self._own.fileno(), self._reported[0])

    def _tell(self) -> None:
        """The iteration of a helper is finished."""
        if self._helper not in (0, threading.get_ident()):
            library.write(self._told, _ONE, 8)

    def close(self) -> None:
        """End the thread after the calls that were requested. Idempotent."""
        if not self._closed and self._pid == forks.pid:
            self.call(self._end)

    def join(self, timeout: float) -> None:
        """After :meth:`close`, wait for the end of the thread."""
        if not self.is_current() and self._pid == forks.pid:
            self._thread.join(timeout)

    def _end(self) -> None:
        self._closed = True

    def _at(self, time: float, function: Callable[..., object], args: tuple[object, ...]) -> None:
        heapq.heappush(self._timers, (time, next(self._numbers), function, args))

    def _changed(self) -> None:
        self._polled = np.array([(descriptor, _POLLIN, 0) for descriptor in self._readers], _POLLED)

    def _run(self) -> None:
        while True:
            while self._calls:
                self._make(*self._calls.popleft())
            if self._closed:
                break
            while self._timers and self._timers[0][0] <= monotonic():
                self._make(*heapq.heappop(self._timers)[2:])
            self._look()
        with self._helping:  # no caller helps any more
            for descriptor in (self._own, self._all):
                descriptor.close()
            for number in (self._wake, self._told):
                os.close(number)

    def _look(self) -> None:
        """Call the readers of readable descriptors. Wait if there are none."""
        at = address_of(self._waits)
        found = _poll_held(at, 1, 0)
        if not found:
            seconds = min(_LONGEST, self._timers[0][0] - monotonic()) if self._timers else _LONGEST
            self._asleep = True  # from here on a call wakes this thread
            found = 0 if self._calls else _poll(at, 1, max(0, int(seconds * 1000) + 1))
            self._asleep = False
        if found > 0:
            library.read(self._wake, ctypes.create_string_buffer(8), 8)
            if not self._helper:
                self._serve()

    def _serve(self) -> bool:
        """Call the readers of readable descriptors. Returns whether there were any."""
        polled = self._polled.copy()  # another thread may poll at the same time
        if _poll_held(address_of(polled), len(polled), 0) <= 0:
            return False
        for descriptor in polled["descriptor"][polled["found"] != 0].tolist():
            if descriptor in self._readers:  # an earlier reader may have removed it
                self._make(*self._readers[descriptor])
        return True

    @staticmethod
    def _make(function: Callable[..., object], args: tuple[object, ...]) -> None:
        try:
            function(*args)
        except BaseException:  # a bug in the runtime: the thread must not end silently
            log.exception("unexpected error on the thread of the engines")

"""Single waits for the GPU's work on an iteration and for something else: for the iteration itself, or for messages."""

from __future__ import annotations

import time
from collections.abc import Sequence

import numpy as np

from ...batch import Batch
from ...compiled import gate as kernels
from ...compiled.addresses import address_of
from ...compiled.job_tables import GATE, WATCH
from ...compiled.watch import wait_for_first
from . import command_tables as tables
from .arrays import pending_events
from .driver import Driver
from .memory import CudaEvent

_SLICE = 50_000_000
"""Nanoseconds after which a wait returns to Python, which then handles signals."""


class CompletionGate:
    """Opened by the thread that finishes an iteration. The waiting thread also waits until the GPU has made the iteration's batches.

    The waiting thread enters the interpreter once, after both events. Its device must be the batches' device.
    """

    def __init__(self, driver: Driver):
        self._driver = driver
        self._block = np.zeros(GATE.words, np.int64)
        self._address = address_of(self._block)
        self._events: list[CudaEvent] = []
        self._commands: np.ndarray | None = None  # compiled code reads it
        kernels.make(self._address)

    def open(self, batches: Sequence[Batch]) -> None:
        """Open the gate. The waiting thread continues when the GPU has made `batches`."""
        events = pending_events(batches)
        words: list[int] = []
        for event in events:
            words += tables.SYNCHRONIZE_COMMAND.entries(kind=tables.SYNCHRONIZE, event=event.handle)
        commands = np.array(words, np.int64)
        self._events, self._commands = events, commands
        begin = address_of(commands)
        kernels.open_gate(self._address, begin, begin + commands.nbytes)

    def wait(self, seconds: float) -> bool:
        """Whether the gate was passed within some seconds. A failed wait passes, too: asking for the event gives the error."""
        left, (perform, driver) = int(seconds * 1e9), self._driver.performer()
        while left > 0:
            part = min(left, _SLICE)
            deadline = divmod(time.monotonic_ns() + part, 1_000_000_000)
            self._block[GATE.word.deadline_0], self._block[GATE.word.deadline_1] = deadline
            result = kernels.pass_gate(self._address, perform, driver)
            if result != kernels.LATE:
                if result == kernels.DONE:
                    for event in self._events:
                        event.passed()
                return True
            left -= part
        return False


class CompletionWatch:
    """A wait for the GPU's work on an iteration that ends early if a message comes. The device must be the batches' device."""

    def __init__(self, driver: Driver):
        self._driver = driver
        self._events: list[CudaEvent] = []

    def over(self, batches: Sequence[Batch]) -> bool:
        """Whether the GPU has made `batches`, asked without releasing the interpreter lock. Otherwise :meth:`wait` waits for them."""
        self._events = [event for event in pending_events(batches) if not event.done()]
        return not self._events

    def wait(self, descriptors: int, count: int, seconds: float) -> bool:
        """Wait for the batches without the interpreter, for some seconds, or until one of `count` struct pollfd is readable.

        Whether the GPU has made the batches. A wait that failed counts, because asking for the event gives the error, and so does a wait
        that a signal ended.
        """
        words: list[int] = []
        for event in self._events:
            words += tables.QUERY_COMMAND.entries(kind=tables.QUERY, event=event.handle)
        commands, (perform, driver) = np.array(words, np.int64), self._driver.performer()
        begin = address_of(commands)
        watch, _ = WATCH.make(
            perform=perform, driver=driver, begin=begin, end=begin + commands.nbytes, descriptors=descriptors, count=count,
            nanoseconds=int(seconds * 1e9), pause_0=0, pause_1=0,
        )  # fmt: skip
        result = wait_for_first(address_of(watch))
        if result == kernels.DONE:
            for event in self._events:
                event.passed()
        return result != kernels.LATE

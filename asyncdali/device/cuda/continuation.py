"""The commands of an iteration behind its decoded pictures, recorded while they are decoded.

The problem. The launches of an iteration need no result of the decoders, only that they have finished. If they are recorded when the last
decoder has finished, the GPU waits until a thread has entered the interpreter. Beside a thread that runs pure Python this takes a switch
interval (5 ms), and the call of ``run()`` that waits for the iteration then waits for another one.

The solution. The thread that starts the decoders also records the launches, of all segments that follow (:meth:`Continuation.add`). The
thread that decodes last executes them in compiled code, and opens a gate (:mod:`asyncdali.compiled.joint`). A call of ``run()`` waits at
the gate for the GPU's work, and then does the bookkeeping itself. If a decoder fails, nothing is executed, and the iteration is queued as
if nothing had been recorded.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from ...compiled import gate
from ...compiled import joint as joints
from ...compiled.addresses import address_of
from ...compiled.job_tables import GATE, JOINT
from ...compiled.tables import table_of
from . import command_tables as tables
from .commands import Commands, TakenCommands
from .driver import DriverError

if TYPE_CHECKING:
    from ..joint import Joint
    from .device import CudaDevice
    from .memory import CudaEvent

_word = JOINT.word
_SLICE = 50_000_000
"""Nanoseconds after which a wait returns to Python, which then handles signals."""


class Continuation:
    """Commands of several segments, in order. As an event it is over when they were executed, or will not be."""

    def __init__(self, device: CudaDevice, joint: Joint):
        """`joint`: of the decoders. The calling thread counts as one of its jobs until :meth:`close`."""
        self._device, self._joint = device, joint
        self._words: list[int] = [*tables.ENTER_COMMAND.entries(kind=tables.ENTER, context=device.context)]
        self._parts: list[TakenCommands] = []
        self._ends: list[int] = []
        self._events: list[CudaEvent] = []
        self._open = True
        self._changing = threading.Lock()
        self._table = joint.table
        self._gate = np.zeros(GATE.words, np.int64)
        gate.make(address_of(self._gate))
        self._commands = np.empty(0, np.int64)
        self._rest: np.ndarray | None = None
        self._failure: DriverError | None = None
        self._executed = 0  # parts that were executed
        self._over = False
        self._calls: list[Callable[[], None]] = []

    # --- recording

    def add(self, commands: Commands, event: CudaEvent, awaited: bool) -> int | None:
        """Take commands, of which the last records `event`, which a call of ``run()`` waits for if it is `awaited`.

        Returns their number, for :meth:`check`; None: it is too late."""
        with self._changing:
            if not self._open:
                return None
            part = commands.take()
            self._words += part.words
            self._ends.append(len(self._words))
            self._parts.append(part)
            if awaited:
                self._events.append(event)
            return len(self._parts) - 1

    def close(self) -> None:
        """Everything is recorded. The commands are executed here if the decoders have ended."""
        with self._changing:
            if not self._open:
                return
            self._open = False
            if self._parts:
                self._arm()
        self._joint.leave()

    def _arm(self) -> None:
        function, driver = self._device.driver.performer()
        self._joint.brief = all(part.brief for part in self._parts)
        commands, zeros = table_of(self._words), table_of(self._joint.zeros)
        waits: list[int] = []
        for event in self._events:
            waits += tables.SYNCHRONIZE_COMMAND.entries(kind=tables.SYNCHRONIZE, event=event.handle)
        behind = table_of(waits)
        self._commands = commands
        self._joint.keep = commands, zeros, behind, self._gate
        begin, after = address_of(commands), address_of(behind)
        table, word = self._table, _word
        table[word.perform], table[word.driver] = function, driver
        table[word.begin], table[word.end] = begin, begin + commands.nbytes
        table[word.zeros], table[word.checks] = address_of(zeros), len(zeros) // 2
        table[word.gate], table[word.waits], table[word.waits_end] = address_of(self._gate), after, after + behind.nbytes

    def stop(self) -> None:
        """Do not execute the commands, because the pipeline is being closed."""
        self._table[_word.stop] = 1

    # --- the end

    def settle(self) -> bool:
        """Called when the decoders have ended: whether all commands were executed, or one of them failed (:meth:`check`)."""
        state = int(self._table[_word.state])
        if state == joints.NOT_EXECUTED:
            return False
        if state == joints.EXECUTED:
            self._executed = len(self._parts)
        else:
            self._fails(self._device.driver.failure(self._commands, int(self._table[_word.result])), 0)
        return True

    def _fails(self, error: DriverError, first: int) -> None:
        """A command failed. The commands that were executed begin at the word `first`."""
        self._failure, place = error, error.place + first
        self._executed = sum(end <= place for end in self._ends)
        begin = self._ends[self._executed - 1] if self._executed else self._ends[0] - len(self._parts[0].words)
        owners = self._parts[self._executed].owners
        error.owner = next((owner for at, owner in reversed(owners) if at + begin <= place), None)

    def resume(self) -> None:
        """The first part was executed in another way: execute the others."""
        first = self._ends[0]
        self._executed = len(self._parts)
        commands = self._rest = table_of(self._words[first:])
        if len(commands):
            try:
                self._device.driver.perform(commands)
            except DriverError as error:
                self._fails(error.with_traceback(None), first)

    def check(self, number: int) -> None:
        """Raise the error if the commands with this number were not executed."""
        if number >= self._executed:
            if self._failure is None:
                raise RuntimeError("the commands of an earlier segment of this iteration were not queued")
            raise self._failure
        part = self._parts[number]
        for buffer in part.buffers:
            buffer.stream_is_behind()
        part.buffers.clear()  # they return to the pool with their last batch
        part.kept.clear()

    def end(self) -> None:
        """The commands were executed, or will not be."""
        self._over = True
        self._words = []  # a call of ``run()`` may still execute the commands behind the gate
        self._make_calls()

    # --- as an event

    def is_over(self) -> bool:
        return self._over

    def when_done(self, call: Callable[[], None]) -> None:
        self._calls.append(call)
        if self._over:
            self._make_calls()

    def _make_calls(self) -> None:
        while True:
            try:
                call = self._calls.pop(0)  # each call is popped, and made, exactly once
            except IndexError:
                return
            call()

    def wait(self) -> None:
        over = threading.Event()
        self.when_done(over.set)
        over.wait()

    # --- for a call of ``run()``

    def pass_gate(self, seconds: float, complete: bool) -> bool:
        """Wait for the commands, with `complete` also until the GPU has executed them; at most for some seconds. The calling thread's
        device must be this one. Whether they were executed, or will not be: then :meth:`report` goes on."""
        events, driver = self._events, self._device.driver
        perform, calls = driver.performer()
        left = int(seconds * 1e9)
        while left > 0:
            part = min(left, _SLICE)
            deadline = divmod(time.monotonic_ns() + part, 1_000_000_000)
            self._gate[GATE.word.deadline_0], self._gate[GATE.word.deadline_1] = deadline
            result = gate.pass_gate(address_of(self._gate), perform if complete else 0, calls)
            if result != gate.LATE:
                if complete and result == gate.DONE and int(self._table[_word.state]) == joints.EXECUTED:
                    for event in events:
                        event.passed()
                return True
            left -= part
        return False

    def report(self) -> None:
        """Report the decoders' jobs, unless another thread has done so or does so."""
        self._joint.report()

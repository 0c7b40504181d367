"""Raw iterations that are finished late, without a clock: a held one is finished when the consumer has nothing else to wait for."""

from __future__ import annotations

import threading

from asyncdali.runtime.order import placement
from asyncdali.runtime.order.record import Record


class Gated(Record):
    """A record whose gate decides when it is finished."""

    __slots__ = ("gate",)

    def finish(self):
        self.gate.finish(self)

    def wait(self, gate=None):
        self.gate.awaits(self)
        super().wait(gate)


class Gate:
    """Holds the raw iterations of the part `core` for which `slow(number)` is true.

    A held one is finished when every iteration that the consumer waits for is held, or by :meth:`open`.
    """

    def __init__(self, monkeypatch, core, slow):
        self._slow, self._lock = slow, threading.RLock()
        self._held, self._awaited, self._free = [], (), set()
        self.most_held = 0
        executor = core.built().executor
        make, wait = executor.new_record, placement.wait_for_any

        def new_record(index, size):
            usual = make(index, size)
            record = Gated(index, size, len(usual.edges))
            record.weight, record.gate = usual.weight, self
            return record

        def wait_for_any(records):
            with self._lock:
                self._awaited = [record for record in records if isinstance(record, Gated)]
                self._look()
            try:
                wait(records)
            finally:
                self._awaited = ()

        monkeypatch.setattr(executor, "new_record", new_record)
        monkeypatch.setattr(placement, "wait_for_any", wait_for_any)

    def finish(self, record):
        with self._lock:
            if self._slow(record.index) and record.error is None and record.index not in self._free:
                self._held.append(record)
                self.most_held = max(self.most_held, len(self._held))
                self._look()
                return
        Record.finish(record)

    def awaits(self, record):
        """A caller waits for this iteration alone, to repair another one."""
        with self._lock:
            self._free.add(record.index)
            if record in self._held:
                self._held.remove(record)
                Record.finish(record)

    def _look(self):
        if self._awaited and all(record in self._held for record in self._awaited):
            self.open(1)

    def open(self, most=1000):
        """Finish the oldest held ones."""
        with self._lock:
            ready = sorted(self._held, key=lambda record: record.index)[:most]
            self._held = [record for record in self._held if record not in ready]
        for record in ready:
            Record.finish(record)

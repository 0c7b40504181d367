"""The buffer for answers, which survives an interrupt.

Records are processed one by one and removed all together, and processing a record twice has no further effect. So a KeyboardInterrupt
between any two steps loses nothing.
"""

from __future__ import annotations

import os
from collections.abc import Callable

from ..shared.records import DONE, DONE_SIZE, Done
from .queues import Queues

LANDING = 512 * DONE_SIZE


class Landing:
    """results: the pipe. `note` gets each record."""

    def __init__(self, results: int, note: Callable[[Done], None], queues: Queues):
        self._results, self._note, self._queues = results, note, queues
        self._landing = bytearray(LANDING)
        self._view = memoryview(self._landing)
        self._kinds = memoryview(self._landing).cast("I")
        self._cursor = 0

    def drain(self) -> bool:
        """Read and process all available answers. Returns whether there were any. Needs the pool's lock."""
        progress = False
        while True:
            self._read()
            end = self._cursor
            if end:
                self._landing[:end] = bytes(end)
                self._cursor = 0
                progress = True
                if end < LANDING:
                    break
            try:
                os.readv(self._results, [self._view])
            except BlockingIOError:
                break
        if progress:
            self._queues.flush()
        return progress

    def _read(self) -> None:
        """Process the records in the buffer."""
        while self._cursor < LANDING and self._kinds[self._cursor // 4]:
            self._note(Done._make(DONE.unpack_from(self._landing, self._cursor)))
            self._cursor += DONE_SIZE

"""Bytes that arrive on a socket. Small pieces come by way of a buffer, so a request and the head of an answer take one system call each."""

from __future__ import annotations

from collections.abc import Callable

BUFFER = 16 << 10
"""Bytes of the buffer. The head of an answer has about 5 KB. Bytes of a payload that come with the head are copied once more."""


class Inflow:
    """Reads of a socket that does not block. `receive` reads up to all bytes of a memory from it, and returns their number.

    Attributes:
        waiting: bytes in the buffer.
        dry: whether the last read has emptied the socket. Another read would cost an exception.
    """

    def __init__(self, receive: Callable[[memoryview], int]):
        self._receive = receive
        self._buffer = memoryview(bytearray(BUFFER))
        self._start = self.waiting = 0
        self.dry = False

    def take(self, target: memoryview) -> int:
        """Fill the first bytes of `target` and return their number. 0: the connection has ended. BlockingIOError: nothing has come."""
        if not self.waiting:
            if target.nbytes >= BUFFER:
                count = self._receive(target)
                self.dry = count < target.nbytes
                return count
            self._start, self.waiting = 0, self._receive(self._buffer)
            self.dry = self.waiting < BUFFER
        count = min(self.waiting, target.nbytes)
        target[:count] = self._buffer[self._start : self._start + count]
        self._start += count
        self.waiting -= count
        return count

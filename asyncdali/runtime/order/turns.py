"""A first-come, first-served queue for coroutines of any event loop and thread.

A coroutine can only take its turn while its event loop runs. A loop may be stopped or closed with a task pending (a notebook, a test's
fixture), or be blocked by a function. So a place whose turn has come, and which does not take a ready iteration, loses its turn to the next
place on another loop. A coroutine that finds its turn lost queues again.
"""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from collections.abc import Callable

from asyncdali_workers.interrupts import uninterrupted

PAUSE = 0.05
"""Seconds after which a waiting place looks whether the first place takes its turn. The second look that finds it idle ends its turn."""

LOOK = 1.0
"""Seconds after which a waiting place looks whether the first place is over."""


class Turn:
    """One coroutine's place in the queue, from :meth:`join` to :meth:`leave`, which may both be repeated after an interrupt.

    `ready` tells whether the place whose turn has come could continue.
    """

    def __init__(self, turns: Turns, ready: Callable[[], bool]):
        self._turns = turns
        self._ready = ready
        self.loop = asyncio.get_running_loop()
        self._come: asyncio.Future[None] = self.loop.create_future()
        self.task = asyncio.current_task()

    def is_over(self, other: Turn) -> bool:
        """Whether the coroutine has ended without leaving, because exceptions of signals' handlers came in all its attempts: its task has
        ended, or is in the call of `other` now."""
        return self is not other and self.task is not None and (self.task is other.task or self.task.done())

    def join(self) -> None:
        """Queue at the end, unless the place is in the queue already."""
        self._turns.join(self)

    def leave(self) -> None:
        """Give up the place, whether the turn has come or not."""
        self._turns.leave(self)

    async def come(self) -> None:
        """Wait for the turn. Cancelling the wait keeps the place."""
        seen: Turn | None = None  # the first place, if it was idle at the last look
        while True:
            first, several = self._turns.look(self)
            if first is self:
                return
            if self._come.done():  # the turn had come, and was lost while this loop stood still
                self._come = self.loop.create_future()
            await asyncio.wait((self._come,), timeout=PAUSE if several else LOOK)
            idle = first if first.loop is not self.loop and self._turns.is_first(first) and self._ready() else None
            if idle is not None and idle is seen:
                self._turns.pass_over(idle)
            seen = idle

    @property
    def is_mine(self) -> bool:
        """Whether the turn has come and was not lost."""
        return self._turns.is_first(self)

    def wake(self) -> bool:
        """Wake the coroutine, because its turn has come. Returns False if its loop is closed."""
        try:
            self.loop.call_soon_threadsafe(self._arrived)
        except RuntimeError:
            return False
        return True

    def _arrived(self) -> None:
        if not self._come.done():
            self._come.set_result(None)


class Turns:
    """The queue. The first place has its turn until it leaves, or is passed over."""

    def __init__(self) -> None:
        self._waiting: deque[Turn] = deque()
        self._lock = threading.RLock()  # the garbage collector may close a dropped coroutine, which leaves, on a thread that holds it

    def look(self, turn: Turn) -> tuple[Turn, bool]:
        """Queue `turn` again if it was passed over. Returns the place whose turn has come, and whether the places have several loops."""
        with self._lock:
            self.join(turn)
            while self._waiting[0].is_over(turn):
                self._waiting.popleft()
            first = self._waiting[0]
            return first, any(other.loop is not first.loop for other in tuple(self._waiting))

    def is_first(self, turn: Turn) -> bool:
        """Whether the turn of a place has come."""
        with self._lock:
            return bool(self._waiting) and self._waiting[0] is turn

    def join(self, turn: Turn) -> None:
        """Queue at the end, unless the place is in the queue already."""
        with self._lock:
            if turn not in self._waiting:
                self._waiting.append(turn)

    def leave(self, turn: Turn) -> None:
        """Give up a place, whether its turn has come or not. The next place is woken."""
        with self._lock:
            if turn not in self._waiting:
                return  # it was passed over
            with uninterrupted():  # the next place would wait
                had_turn = self._waiting[0] is turn
                self._waiting.remove(turn)
                while had_turn and self._waiting and not self._waiting[0].wake():
                    self._waiting.popleft()  # its loop was closed while the wait was pending

    def pass_over(self, turn: Turn) -> None:
        """The place has its turn and does not take it: the next place gets the turn."""
        with self._lock:
            if self._waiting and self._waiting[0] is turn:
                self.leave(turn)
                turn.wake()  # a loop that was only blocked finds its turn lost, and queues again

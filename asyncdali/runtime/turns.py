"""A first-come, first-served queue for coroutines of any event loop and thread."""

from __future__ import annotations

import asyncio
import threading
from collections import deque


class Turn:
    """One coroutine's place in the queue. ``async with Turn(turns)`` waits for the turn and then gives it up."""

    def __init__(self, turns: Turns):
        self._turns = turns
        self._loop = asyncio.get_running_loop()
        self._come: asyncio.Future[None] = self._loop.create_future()
        turns.join(self)  # now, so that the order is that of the calls

    async def __aenter__(self) -> None:
        try:
            await self._come
        except BaseException:  # cancelled while waiting
            self._turns.leave(self)
            raise

    async def __aexit__(self, *exc: object) -> None:
        self._turns.leave(self)

    def wake(self) -> bool:
        """Wake the coroutine, because its turn has come. Returns False if its loop is closed."""
        try:
            self._loop.call_soon_threadsafe(self._arrived)
        except RuntimeError:
            return False
        return True

    def _arrived(self) -> None:
        if not self._come.done():
            self._come.set_result(None)


class Turns:
    """The queue. The first place has its turn until it leaves."""

    def __init__(self) -> None:
        self._waiting: deque[Turn] = deque()
        self._lock = threading.Lock()

    def join(self, turn: Turn) -> None:
        with self._lock:
            self._waiting.append(turn)
            first = len(self._waiting) == 1
        if first:
            turn._arrived()  # same loop: no need for a call from another thread

    def leave(self, turn: Turn) -> None:
        """Give up a place, whether its turn has come or not. The next place is woken."""
        with self._lock:
            if turn not in self._waiting:
                return  # its loop was closed, and the place was given up for it
            had_turn = self._waiting[0] is turn
            self._waiting.remove(turn)
            while had_turn and self._waiting and not self._waiting[0].wake():
                self._waiting.popleft()  # its loop was closed while the wait was pending

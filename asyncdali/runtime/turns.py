"""First come, first served, for coroutines of any event loop and thread."""

from __future__ import annotations

import asyncio
import threading
from collections import deque


class Turn:
    """One coroutine's place in the queue: ``async with Turn(turns)`` waits for it and gives it up."""

    def __init__(self, turns: Turns):
        self._turns = turns
        self._loop = asyncio.get_running_loop()
        self._come: asyncio.Future[None] = self._loop.create_future()
        turns.join(self)  # at once: the order is that of the calls

    async def __aenter__(self) -> None:
        try:
            await self._come
        except BaseException:  # cancelled while waiting
            self._turns.leave(self)
            raise

    async def __aexit__(self, *exc: object) -> None:
        self._turns.leave(self)

    def wake(self) -> bool:
        """Tell the coroutine that its turn has come; False if its loop is closed."""
        try:
            self._loop.call_soon_threadsafe(self._arrived)
        except RuntimeError:
            return False
        return True

    def _arrived(self) -> None:
        if not self._come.done():
            self._come.set_result(None)


class Turns:
    """The queue. The first in it has its turn until it leaves."""

    def __init__(self) -> None:
        self._waiting: deque[Turn] = deque()
        self._lock = threading.Lock()

    def join(self, turn: Turn) -> None:
        with self._lock:
            self._waiting.append(turn)
            first = len(self._waiting) == 1
        if first:
            turn._arrived()  # on its own loop: no need to go through the queue of calls

    def leave(self, turn: Turn) -> None:
        """Give up a place, whether its turn had come or not; the next in the queue is woken."""
        with self._lock:
            if turn not in self._waiting:
                return  # given up for it: its loop was closed
            had_turn = self._waiting[0] is turn
            self._waiting.remove(turn)
            while had_turn and self._waiting and not self._waiting[0].wake():
                self._waiting.popleft()  # its loop was closed with the wait still in it

"""Going through an iterable again and again: what happens at its end."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any


class Rounds:
    """Items of the iterators that `start` makes; `policy` is what happens at the end of one.

    None: StopIteration for ever. "quiet": the next round begins at once (StopIteration if it is empty). "raise": one
    StopIteration, and the next round is ready.
    """

    def __init__(self, start: Callable[[], Iterator[Any]], policy: str | None):
        self._start = start
        self._policy = policy
        self._iterator = start()

    def enter_again(self) -> None:
        """Begin a round now."""
        self._iterator = self._start()

    def next(self) -> Any:
        """The next item."""
        try:
            return next(self._iterator)
        except StopIteration:
            if self._policy is None:
                raise
            self._iterator = self._start()
            if self._policy == "raise":
                raise
            return next(self._iterator)


class AsyncRounds:
    """As :class:`Rounds`, for asynchronous iterators; the end is StopAsyncIteration."""

    def __init__(self, start: Callable[[], AsyncIterator[Any]], policy: str | None):
        self._start = start
        self._policy = policy
        self._iterator = start()

    def enter_again(self) -> None:
        """Begin a round now."""
        self._iterator = self._start()

    async def next(self) -> Any:
        """The next item."""
        try:
            return await anext(self._iterator)
        except StopAsyncIteration:
            if self._policy is None:
                raise
            self._iterator = self._start()
            if self._policy == "raise":
                raise
            return await anext(self._iterator)

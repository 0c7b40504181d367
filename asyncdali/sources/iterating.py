"""Repeated iteration over an iterable, with a policy for its end."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator


class Rounds:
    """Items of the iterators that `start` makes. `policy` decides what happens at the end of an iterator.

    None: StopIteration from then on. "quiet": the next round begins immediately (StopIteration if it is empty). "raise": one StopIteration,
    then the next round.
    """

    def __init__(self, start: Callable[[], Iterator[object]], policy: str | None):
        self._start = start
        self._policy = policy
        self._iterator = start()

    def enter_again(self) -> None:
        """Begin a round."""
        self._iterator = self._start()

    def next(self) -> object:
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
    """Like :class:`Rounds`, for asynchronous iterators. The end is StopAsyncIteration."""

    def __init__(self, start: Callable[[], AsyncIterator[object]], policy: str | None):
        self._start = start
        self._policy = policy
        self._iterator = start()

    def enter_again(self) -> None:
        """Begin a round."""
        self._iterator = self._start()

    async def next(self) -> object:
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

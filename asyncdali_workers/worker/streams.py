"""A stream in its worker: ordered pulls, its end, snapshots, and how a replacement catches up."""

from __future__ import annotations

import itertools
import pickle
import struct
from collections.abc import Iterator, Sequence
from typing import Any

from ..shared.control import DISCARD, NEVER, PULLED, STATE, STATE_SIZE, STOPPED, Block
from ..source import Source, is_generator_function, is_iterable
from .states import BATCH, END, replay, restore
from .writing import Arena

SNAPSHOT = struct.Struct("<qq")  # sizes of the user's snapshot and of the replacement's


class SourceStream:
    """One stream source, made in the worker that runs it. It goes to its position at the first pull."""

    def __init__(self, source: Source, block: Block, arena: Arena):
        self.source = source
        self._block = block
        self._arena = arena
        self._iterator: Iterator[Any] | None = None
        self._stopped = NEVER  # the epoch in which the end was met
        self.pulls = 0
        self._since = 0  # batches since the last snapshot
        self._interrupted = False  # an end or an error was met since then
        self._kept: list[Any] = []  # a batch that arrived before it was requested
        self._fresh = False  # nothing has been pulled from this iterator yet

    def pull(self, epoch: int) -> object:
        """The next batch. Raises StopIteration at the end."""
        self.prepare()
        try:
            batch = self._kept.pop() if self._kept else self._ask(epoch)
        except Exception:
            self._interrupted = True
            raise
        self.pulls += 1
        self._since += 1
        return batch

    def _ask(self, epoch: int) -> object:
        if self._stopped != NEVER and not (self.source.cycle is not None and epoch > self._stopped):
            raise StopIteration
        self._stopped = NEVER
        try:
            batch = self._next()
        except StopIteration:
            self._end(epoch)
            if self.source.cycle != "quiet":
                raise
            try:
                batch = self._next_of_new()
            except StopIteration:
                self._stopped = epoch  # requests made ahead get the end as well, because their batches would be dropped
                raise
        return batch

    def _next(self) -> object:
        assert self._iterator is not None
        self._fresh = False
        return next(self._iterator)

    def _next_of_new(self) -> object:
        """The first batch of a new round. An empty round is the end of the stream."""
        return self._next()

    def _end(self, epoch: int) -> None:
        if self.source.cycle is None:
            self._stopped = epoch
            return
        self._iterator = self._iterate()
        if self.source.cycle == "raise":
            self._stopped = epoch

    def _iterate(self) -> Iterator[object]:
        callback = self.source.callback
        if is_generator_function(callback) or not is_iterable(callback):
            return iter(callback())
        return iter(callback)

    # ----------------------------------------------------------------------------------------------------------- positions

    def prepare(self) -> None:
        """At the first pull: make the iterator and bring it to its position."""
        if self._iterator is not None:
            return
        try:
            self._prepare()
        except BaseException:
            self._iterator = None  # its position is unknown; the next pull raises again
            raise

    def _prepare(self) -> None:
        source, block = self.source, self._block
        state, asks = source.state, source.asks
        self.pulls = block[PULLED]
        if block[STATE_SIZE]:
            state, asks = pickle.loads(self._read_state()), ()
        self._stopped = NEVER
        self._enter(state)
        self._repeat(asks)
        self._discard(block[DISCARD])
        self._since += block[DISCARD]
        if block[STOPPED] != NEVER:
            self._stopped = block[STOPPED]
            self._interrupted = True
            if source.cycle == "raise" and not self._fresh:
                self._iterator = self._iterate()  # the lost worker also made a new iterator when this epoch ended

    def _enter(self, state: object) -> None:
        """Make the iterator, at `state`."""
        callback = self.source.callback
        if state is not None and hasattr(callback, "load_state_dict"):
            restore(callback, state, self._begin, self.source.name)
            return
        self._begin()
        if state is None:
            return
        if not hasattr(self._iterator, "load_state_dict"):
            raise TypeError(f"the checkpoint has a state for the source, but {type(callback).__name__} has no load_state_dict()")
        restore(self._iterator, state, lambda: None, self.source.name)

    def _begin(self) -> None:
        self._iterator = self._iterate()
        self._fresh = True

    def _repeat(self, asks: Sequence[tuple[str, int]]) -> None:
        """Requests from before the stream was saved. Their epochs are over, so their numbers are below all future ones."""
        first = -2 - sum(count for outcome, count in asks if outcome == END)  # NEVER is -1
        epochs = itertools.count(first)
        epoch = next(epochs)

        def ask() -> object:
            nonlocal epoch
            try:
                return self._ask(epoch)
            except StopIteration:
                epoch = next(epochs)
                raise

        self._kept = replay(asks, ask, self.source.name)
        self._since = sum(count for outcome, count in asks if outcome == BATCH)
        self._interrupted = any(outcome != BATCH for outcome, _ in asks)

    def _discard(self, count: int) -> None:
        for _ in range(count):
            try:
                self._next()
            except StopIteration:
                if self.source.cycle is None:
                    return
                self._iterator = self._iterate()
                try:
                    self._next()
                except StopIteration:
                    return

    def _read_state(self) -> bytes:
        offset, size = self._block[STATE], self._block[STATE_SIZE]
        start = offset % 4096
        mapping = self._arena.at(offset - start, start + size)
        stored: bytes = mapping.bytes[start : start + size].tobytes()
        return stored

    def snapshot(self) -> bytes:
        """The state after this pull: encoded for the user, and pickled for a replacement if that form differs."""
        source = self.source
        if not source.snapshot_every or (self._since < source.snapshot_every and not self._interrupted):
            return b""
        state_dict = getattr(source.callback, "state_dict", None) or getattr(self._iterator, "state_dict", None)
        if state_dict is None:
            return b""
        state = state_dict()
        self._since, self._interrupted = 0, False
        own = pickle.dumps(state)
        users = own if source.encode_state is None else bytes(source.encode_state(state))
        second = b"" if source.encode_state is None else own
        return SNAPSHOT.pack(len(users), len(second)) + users + second


def read_snapshot(data: bytes) -> tuple[bytes, bytes]:
    """(the user's, a replacement's)"""
    first, second = SNAPSHOT.unpack_from(data)
    users = data[SNAPSHOT.size : SNAPSHOT.size + first]
    return users, data[SNAPSHOT.size + first : SNAPSHOT.size + first + second] or users

"""Sources with a state, importable, so that every start method and a fresh process find them. Their batches are one number."""

from __future__ import annotations

import numpy as np


def batch(number):
    return np.int32([[number]])


class Numbered:
    """Base of sources of batches of numbers. `batch` may be replaced."""

    batch = staticmethod(batch)


class Counted(Numbered):
    """0, 1, ... `length` - 1; ``__iter__`` is a generator, which begins again when it has ended."""

    def __init__(self, length):
        self.length, self.index = length, 0

    def __iter__(self):
        while self.index < self.length:
            self.index += 1
            yield self.batch(self.index - 1)
        self.index = 0

    def state_dict(self):
        return {"index": self.index}

    def load_state_dict(self, state):
        self.index = state["index"]


class Numbers(Numbered):
    """An iterable that is its own iterator. It counts the rounds, which are part of the numbers."""

    def __init__(self, length):
        self.length, self.index, self.rounds = length, 0, 0

    def __iter__(self):
        return self

    def __next__(self):
        if self.index >= self.length:
            self.index, self.rounds = 0, self.rounds + 1
            raise StopIteration
        self.index += 1
        return self.batch(100 * self.rounds + self.index - 1)

    def state_dict(self):
        return {"index": self.index, "rounds": self.rounds}

    def load_state_dict(self, state):
        self.index, self.rounds = state["index"], state["rounds"]


class Rewinding(Numbers):
    """``__iter__`` starts at the beginning: the `ExternalInputIterator` of DALI's documentation, with a state."""

    def __iter__(self):
        self.index = 0
        return self


class SelfRewinding(Rewinding):
    """An iterator that rewinds itself at its end. It continues after a reset without `cycle`."""

    def __next__(self):
        if self.index >= self.length:
            self.__iter__()
            self.rounds += 1
            raise StopIteration
        return super().__next__()


class Endless(Numbered):
    """first, first + 1, ..."""

    def __init__(self, first):
        self.next = first

    def __iter__(self):
        return self

    def __next__(self):
        self.next += 1
        return self.batch(self.next - 1)

    def state_dict(self):
        return {"next": self.next}

    def load_state_dict(self, state):
        self.next = state["next"]


class Broken(Numbered):
    """Like :class:`Counted`, but it fails once, at `at`. A generator ends after the error."""

    def __init__(self, length, at, generator):
        self.length, self.at, self.generator = length, at, generator
        self.index, self.failed = 0, False

    def __iter__(self):
        return self._generate() if self.generator else self

    def __next__(self):
        if self.index == self.at and not self.failed:
            self.failed = True
            raise ValueError(f"batch {self.at}")
        if self.index >= self.length:
            self.index = 0
            raise StopIteration
        self.index += 1
        return self.batch(self.index - 1)

    def _generate(self):
        while True:
            try:
                item = self.__next__()
            except StopIteration:
                return
            yield item

    def state_dict(self):
        return {"index": self.index, "failed": self.failed}

    def load_state_dict(self, state):
        self.index, self.failed = state["index"], state["failed"]

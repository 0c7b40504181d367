"""Sources for tests of the worker pool, at module level so that every start method can carry them."""

from __future__ import annotations

import os
import signal

import numpy as np


class Counting:
    """Samples that contain their position. StopIteration after `iterations`."""

    def __init__(self, iterations=None, shape=(1,), dtype=np.int64):
        self.iterations, self.shape, self.dtype = iterations, shape, dtype

    def __call__(self, info):
        if self.iterations is not None and info.iteration >= self.iterations:
            raise StopIteration
        return np.full(self.shape, info.idx_in_epoch + 1000 * info.epoch_idx, self.dtype)


class Ragged:
    """Bytes whose length and content depend on the position."""

    def __init__(self, largest=3000):
        self.largest = largest

    def size(self, index):
        return (index * 479_001_599) % self.largest + 1

    def expected(self, index):
        return np.arange(self.size(index), dtype=np.uint8) + np.uint8(index % 251)

    def __call__(self, info):
        return self.expected(info.idx_in_epoch)


def pair(info):
    return np.full((2, 3), info.idx_in_epoch, np.float32), np.int32([info.idx_in_batch])


def batch_of(iteration):
    return [np.full((2,), 10 * iteration + i, np.int32) for i in range(4)]


def whole_batch(iteration):
    return np.full((4, 3), iteration, np.int16)


def generated():
    for number in range(5):
        yield np.full((4, 2), number, np.int32)


class Resumable:
    """A stream with a state."""

    def __init__(self, length=50):
        self.position, self.length = 0, length

    def __iter__(self):
        while self.position < self.length:
            self.position += 1
            yield np.full((3, 1), self.position - 1, np.int64)

    def state_dict(self):
        return {"position": self.position}

    def load_state_dict(self, state):
        self.position = state["position"]


class CustomError(Exception):
    def __init__(self, code, text):
        super().__init__(code, text)
        self.code = code


class Awkward(Exception):
    """An exception that cannot be made again from its arguments."""

    def __init__(self, one, two, three):
        super().__init__(one)


class FailsAt:
    """Raises `error` for the samples in `where`, positions in the epoch."""

    def __init__(self, where, error):
        self.where, self.error = set(where), error

    def __call__(self, info):
        if info.idx_in_epoch in self.where:
            raise self.error
        return np.int64(info.idx_in_epoch)


class Returns:
    """Returns the same value for each position, made by a function at each call."""

    def __init__(self, make):
        self.make = make

    def __call__(self, position):
        return self.make()


class KillsItself:
    """Ends its process at some samples. With `once`, only if the file does not exist yet."""

    def __init__(self, where, how="kill", once=None):
        self.where, self.how, self.once = set(where), how, once

    def __call__(self, info):
        if info.idx_in_epoch in self.where and not (self.once and os.path.exists(self.once)):
            if self.once:
                with open(self.once, "w"):
                    pass
            if self.how == "kill":
                os.kill(os.getpid(), signal.SIGKILL)
            os._exit(7)
        return np.int64(info.idx_in_epoch)

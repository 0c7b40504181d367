"""Sources for worker processes, importable, so that every start method finds them."""

from __future__ import annotations

import asyncio
import os

import numpy as np

SIZE = 4


def position(info):
    """The position that a callable got, as numbers."""
    if isinstance(info, int):
        return [info]
    return [getattr(info, name) for name in ("idx_in_epoch", "idx_in_batch", "iteration", "epoch_idx") if hasattr(info, name)]


def iteration_of(info):
    return info if isinstance(info, int) else info.iteration


class Positions:
    """The position as data: int32 of `width` columns; ends after `length` iterations."""

    def __init__(self, length=3, batch=False, ragged=False, outputs=1, trailing=0):
        self.length, self.batch, self.ragged, self.outputs, self.trailing = length, batch, ragged, outputs, trailing

    def __call__(self, info):
        iteration = iteration_of(info)
        if self._over(info, iteration):
            raise StopIteration
        data = np.int32(position(info))
        if self.ragged:
            data = np.resize(data, 1 + (iteration * 7 + getattr(info, "idx_in_batch", 0)) % 5)
        if self.batch:
            data = [data + k for k in range(SIZE)] if self.ragged else np.stack([data + k for k in range(SIZE)])
        if self.outputs == 1:
            return data
        return data, (np.float32([iteration]) if not self.batch else np.full((SIZE, 1), iteration, np.float32))

    def _over(self, info, iteration):
        if hasattr(info, "idx_in_epoch"):
            return info.idx_in_epoch >= self.length * SIZE + self.trailing
        return iteration >= self.length


class Failing(Positions):
    """Raises KeyError at sample `at` of the epoch, the first time in all processes (a file remembers it)."""

    def __init__(self, at, marker, **options):
        super().__init__(**options)
        self.at, self.marker = at, str(marker)

    def __call__(self, info):
        if info.idx_in_epoch == self.at:
            try:
                os.close(os.open(self.marker, os.O_CREAT | os.O_EXCL))
            except FileExistsError:
                pass
            else:
                raise KeyError(f"sample {self.at}")
        return super().__call__(info)


async def awaited(info):
    """An asynchronous callable of samples."""
    await asyncio.sleep(0)
    if info.iteration >= 3:
        raise StopAsyncIteration
    return np.int32(position(info))


def batches(length):
    return [np.int32([[100 * k + j] for j in range(SIZE)]) for k in range(length)]


def batch_generator():
    yield from batches(3)


class Walk:
    """An iterator with a state: a random walk."""

    def __init__(self, seed=5, length=None):
        self.random = np.random.default_rng(seed)
        self.pulls, self.length = 0, length

    def __iter__(self):
        return self

    def __next__(self):
        if self.pulls == self.length:
            raise StopIteration
        self.pulls += 1
        return self.random.random((SIZE, 2))

    def state_dict(self):
        return {"random": self.random.bit_generator.state, "pulls": self.pulls}

    def load_state_dict(self, state):
        self.random.bit_generator.state = state["random"]
        self.pulls = state["pulls"]


class EncodedPhotos:
    """DALI's tutorial: encoded pictures and labels by position, in a different order for every epoch."""

    def __init__(self, files, batch_size):
        self.files, self.batch_size = list(files), batch_size
        self.full_iterations = len(self.files) // batch_size
        self.order, self.last_epoch = None, None

    def __call__(self, sample_info):
        if sample_info.iteration >= self.full_iterations:
            raise StopIteration
        if self.last_epoch != sample_info.epoch_idx:
            self.last_epoch = sample_info.epoch_idx
            self.order = np.random.default_rng(seed=42 + sample_info.epoch_idx).permutation(len(self.files))
        index = self.order[sample_info.idx_in_epoch]
        return np.fromfile(self.files[index], dtype=np.uint8), np.int32([index])

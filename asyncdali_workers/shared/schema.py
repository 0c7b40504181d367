"""The expected layout of a batch, so that workers can write samples to their final place.

A slot is one batch's part of the shared file. Its first page has the text of the schema. Then each output of equal samples has a region for
a full batch. The rest is the *area*, which is divided among the slices for all data that is not as expected.
"""

from __future__ import annotations

import functools
import json
import math
from typing import Any

import numpy as np

from .system import PAGE, up

ALIGNMENT = 64
TEXT = 16  # offset of the text in the first page, behind its length
LONGEST_TEXT = PAGE - TEXT


class Expected:
    """An output whose samples all have this type and shape. Sample k is at ``start + k * sample_bytes`` of the slot."""

    __slots__ = ("dtype", "sample_bytes", "shape", "start")

    def __init__(self, dtype: np.dtype, shape: tuple[int, ...], start: int):
        self.dtype, self.shape, self.start = dtype, shape, start
        self.sample_bytes = math.prod(shape) * dtype.itemsize


class BatchSchema:
    """Expected outputs of a source; None for an output whose samples differ."""

    __slots__ = ("end", "number", "outputs", "text")

    def __init__(self, number: int, outputs: list[tuple[np.dtype, tuple[int, ...]] | None], batch_size: int):
        self.number = number
        self.outputs: list[Expected | None] = []
        self.end = PAGE
        for output in outputs:
            expected = None if output is None else Expected(*output, self.end)
            if expected is not None:
                self.end = up(self.end + expected.sample_bytes * batch_size, ALIGNMENT)
            self.outputs.append(expected)
        self.end = up(self.end, PAGE)
        self.text = json.dumps([None if o is None else [o.dtype.str, o.shape, o.start] for o in self.outputs]).encode()

    @property
    def key(self) -> list[tuple[np.dtype, tuple[int, ...]] | None]:
        return [None if o is None else (o.dtype, o.shape) for o in self.outputs]

    def write(self, page: np.ndarray) -> None:
        page[:8].view(np.int64)[0] = len(self.text)
        page[TEXT : TEXT + len(self.text)] = np.frombuffer(self.text, np.uint8)


def read_schema(page: np.ndarray) -> list[Expected | None]:
    length = int(page[:8].view(np.int64)[0])
    listed: Any = json.loads(page[TEXT : TEXT + length].tobytes())
    return [None if item is None else Expected(np.dtype(item[0]), tuple(item[1]), item[2]) for item in listed]


@functools.lru_cache(256)
def dense_shapes(count: int, shape: tuple[int, ...]) -> np.ndarray:
    """The shapes of `count` equal samples, int64[count, ndim]. The array is shared, so it is read-only."""
    shapes = np.empty((count, len(shape)), np.int64)
    shapes[:] = shape
    shapes.flags.writeable = False
    return shapes

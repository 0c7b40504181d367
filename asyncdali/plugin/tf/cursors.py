"""Batches of a pipeline by position: batch n is what the n-th run of a fresh pipeline gives."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable
from typing import Any

import numpy as np

from ...pipeline.rewinding import seek
from .signature import arrays_of

_WINDOW = 32
"""How far tf.data may be ahead of itself: maps that it makes parallel ask out of order."""

_CURSORS = 4
"""Iterators of one data set that go on side by side without seeking."""


class _Cursor:
    """One pipeline, its position, and batches that were passed over."""

    def __init__(self, pipeline: Any):
        self.pipeline = pipeline
        self.position = 0
        self.passed: OrderedDict[int, list[np.ndarray]] = OrderedDict()

    def reaches(self, position: int) -> bool:
        """Whether a batch is here, or a few runs away."""
        return position in self.passed or 0 <= position - self.position < _WINDOW

    def seek(self, position: int) -> None:
        seek(self.pipeline, position)
        self.position = position
        self.passed.clear()

    def batch(self, position: int) -> list[np.ndarray]:
        while position not in self.passed:
            at, self.position = self.position, self.position + 1  # an error is that batch's: the pipeline moves on
            self.passed[at] = arrays_of(self.pipeline.run())
        if len(self.passed) > _WINDOW:
            self.passed.popitem(last=False)
        return self.passed.pop(position)


class Cursors:
    """`make` makes pipelines of equal streams; each place that is read from has one.

    They end with their owner (:meth:`release`). Whoever asks later, because TensorFlow goes on reading ahead for a moment or has kept what
    was made of the data set, still gets its batch: of a pipeline that ends with the call.
    """

    def __init__(self, make: Callable[[], Any]):
        self.make = make
        self._lock = threading.Lock()
        self._owned = True
        self._cursors: list[_Cursor] = []  # the one used last is the last

    def batch(self, position: int) -> list[np.ndarray]:
        """Batch `position`: the next one of a cursor, or after seeking. Raises the errors of the pipeline, each for its own batch."""
        try:
            with self._lock:
                return self._cursor(position).batch(position)
        finally:
            self._sweep()

    def _cursor(self, position: int) -> _Cursor:
        near = [cursor for cursor in self._cursors if cursor.reaches(position)]
        if near:
            cursor = min(near, key=lambda item: abs(position - item.position))
        elif len(self._cursors) < _CURSORS:
            cursor = _Cursor(self.make())
        else:
            cursor = self._cursors[0]
        if cursor in self._cursors:
            self._cursors.remove(cursor)
        self._cursors.append(cursor)
        if not cursor.reaches(position):
            cursor.seek(position)
        return cursor

    def peek_first(self) -> list[np.ndarray]:
        """Batch 0, which stays to be read."""
        with self._lock:
            cursor = self._cursor(0)
            first = cursor.batch(0)
            cursor.passed[0] = first
            return first

    def release(self) -> None:
        """The owner is gone: close the pipelines, now or when the call that uses them returns. The collector of garbage may call this
        anywhere, also within :meth:`batch` on the same thread, so it waits for nothing."""
        self._owned = False
        self._sweep()

    def _sweep(self) -> None:
        while not self._owned and self._cursors and self._lock.acquire(blocking=False):
            try:
                while self._cursors:
                    self._cursors.pop().pipeline.close()
            finally:
                self._lock.release()

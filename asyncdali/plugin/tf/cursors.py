"""Batches of a pipeline by position. Batch n is the result of the n-th run of a fresh pipeline."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable
from typing import Any

import numpy as np

from ...pipeline.replay.rewinding import seek
from .signature import arrays_of

_WINDOW = 32
"""The distance by which tf.data may request batches out of order: parallel maps do not keep the order."""

_CURSORS = 4
"""Iterators of one data set that can run side by side without seeking."""


class _Cursor:
    """One pipeline, its position, and the batches that were skipped."""

    def __init__(self, pipeline: Any):
        self.pipeline = pipeline
        self.position = 0
        self.passed: OrderedDict[int, list[np.ndarray]] = OrderedDict()

    def reaches(self, position: int) -> bool:
        """Whether a batch is kept here, or needs only a few runs."""
        return position in self.passed or 0 <= position - self.position < _WINDOW

    def seek(self, position: int) -> None:
        seek(self.pipeline, position)
        self.position = position
        self.passed.clear()

    def batch(self, position: int) -> list[np.ndarray]:
        while position not in self.passed:
            at, self.position = self.position, self.position + 1  # advance first: after an error the pipeline has left this batch behind
            self.passed[at] = arrays_of(self.pipeline.run())
        if len(self.passed) > _WINDOW:
            self.passed.popitem(last=False)
        return self.passed.pop(position)


class Cursors:
    """Pipelines with equal streams, made by `make`. Each position that is read from has its own pipeline.

    The pipelines end with their owner (:meth:`release`). A later request still gets its batch, from a pipeline that ends with the call.
    TensorFlow may request batches later: it reads ahead for a moment, or keeps data sets derived from this one.
    """

    def __init__(self, make: Callable[[], Any]):
        self.make = make
        self._lock = threading.Lock()
        self._owned = True
        self._cursors: list[_Cursor] = []  # the cursor used last is at the end

    def batch(self, position: int) -> list[np.ndarray]:
        """Batch `position`: the next batch of a cursor, or after seeking. Each error of the pipeline is raised for its own batch."""
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
        """Batch 0. It can still be read afterwards."""
        with self._lock:
            cursor = self._cursor(0)
            first = cursor.batch(0)
            cursor.passed[0] = first
            return first

    def release(self) -> None:
        """Close the pipelines when their owner is gone: now, or when the call that uses them returns.

        Garbage collection may call this method anywhere, also within :meth:`batch` on the same thread. So this method never waits.
        """
        self._owned = False
        self._sweep()

    def _sweep(self) -> None:
        while not self._owned and self._cursors and self._lock.acquire(blocking=False):
            try:
                while self._cursors:
                    self._cursors.pop().pipeline.close()
            finally:
                self._lock.release()

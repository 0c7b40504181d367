"""Feeds: the contents of a batch while they are computed, for the only operator that reads the batch.

*Rows.* A decoder computes a picture row by row, and a resize reads it row by row. With a feed between them, rows lie in a ring buffer of
some tens of rows in the thread's scratch, and stay in the cache. The decoder's step calls the reader's compiled function after each band of
rows; the step of the reader skips these samples. The sample is never stored whole.

*Windows.* An operator that cuts a window out of each sample, like ``crop``, lets the decoder decode only the windows, into its own output.
It then has no step. Its output has a feed again, so rows of the windows may go to a resize.

The segment sets :attr:`Operator.feeds` in ``build()`` if only one operator reads the output. `plan` of the decoder then gives the
output batch a :class:`RowFeed`, and `plan` of the reader may use it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from ..compiled.addresses import address_of
from ..compiled.feed_tables import FEED, STATE_BYTES
from .steps import Step

if TYPE_CHECKING:
    from ..batch import Batch

BAND = 17
"""Most rows that are computed between two calls of the reader: a row of MCUs, and one row that waited for the chroma below it."""


Narrow: TypeAlias = "Callable[[Batch, np.ndarray, np.ndarray], Callable[[], np.ndarray]]"


class RowFeed:
    """A batch's contents, offered to the only operator that reads the batch.

    able     able() returns bool[samples]: whether the sample's rows can be delivered in order, from the first to the last
    held     bytes of each sample in memory, int64[samples], once a reader has used the feed; else None
    narrow   narrow(batch, anchors, extents) -> `able` of the windows: makes the step compute windows of the samples into `batch`; or None
    """

    def __init__(self, step: Step, field: int, able: Callable[[], np.ndarray], narrow: Narrow | None = None):
        self._step, self._field, self._narrow = step, field, narrow
        self.able = able
        self.held: np.ndarray | None = None

    def take(
        self, function: int, context: np.ndarray, capacities: np.ndarray, row_bytes: np.ndarray, scratch: int, sizes: np.ndarray
    ) -> None:
        """Register `function` to be called with the rows of the samples whose `capacities` are not 0.

        context     the reader's table
        capacities  int64[samples], rows that a ring buffer must hold; `row_bytes`: bytes of each row; `sizes`: bytes of the whole sample
        scratch     bytes that the reader needs in each thread
        """
        step = self._step
        begin = -(-step.scratch_bytes // 64) * 64
        table, keep = FEED.make(function=function, context=context, capacities=capacities, scratch=begin)
        step.context[self._field] = address_of(table)
        step.scratch_bytes = begin + STATE_BYTES + scratch
        step.keep = (*step.keep, table, keep)
        self.held = np.where(capacities > 0, capacities * row_bytes, sizes)

    def cut(self, output: Batch, anchors: np.ndarray, extents: np.ndarray) -> RowFeed | None:
        """Have windows of the samples computed into `output`, the reader's batch. Returns the feed of `output`; None if that is impossible.

        anchors, extents   int64[samples, 2] as (y, x); each window has pixels and lies within its sample
        """
        if self._narrow is None:
            return None
        able = self._narrow(output, anchors, extents)
        self.held = np.zeros(len(output), np.int64)
        return RowFeed(self._step, self._field, able)

"""The view that `plan` has while its plan becomes a template: the inputs and the iteration, reduced to what the template's key covers.

A template serves every iteration with an equal key. So `plan` must depend on the key alone. A :class:`View` has shapes, type, layout, and
contents where the key has them. It has nothing else: names of files, memory, or scans of headers raise :class:`Uncovered`. Addresses are
:class:`~asyncdali.compiled.tables.Handle`: tables take them, arithmetic does not. The origins of samples can be passed on to an output,
and cannot be read.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ...batch import Batch
from ...compiled.tables import Handle
from ...operators.base import Iteration


class Uncovered(BaseException):
    """A plan reads something that the key does not cover. It is no Exception, so that a plan does not take it for a wrong input."""


class OriginsOf:
    """Stands for the origins of the samples of the batch on `edge`."""

    __slots__ = ("edge",)

    def __init__(self, edge: int):
        self.edge = edge


class View(Batch):
    """A batch as `plan` sees it while its plan becomes a template. Slots of other attributes stay empty."""

    __slots__ = ("_elements",)

    def __init__(self, batch: Batch, edge: int, contents: bool):
        """`contents`: whether the key has the contents."""
        self.shapes, self.dtype, self.layout, self.device = batch.shapes, batch.dtype, batch.layout, batch.device
        self.contiguous, self.extents = batch.contiguous, None
        self._addresses: Any = Handle(edge, len(batch.shapes))
        named = batch.source_info is not None
        self.source_info: Any = (batch.source_info if isinstance(batch.source_info, OriginsOf) else OriginsOf(edge)) if named else None
        self.rows, self.feed, self.links = None, None, ()  # such batches have no key
        self._elements = None if batch.values is None else batch.values.size
        if contents or batch.values is None:
            self.values = batch.values

    def has_small_values(self, most: int) -> bool:
        return self._elements is not None and self._elements <= most

    def __getattr__(self, name: str) -> Any:
        raise Uncovered(name)


class Now(Iteration):
    """A whole iteration as `plan` sees it. `position`: of an operator that places it; None: the plan may not read it."""

    def __init__(self, batch_size: int, position: object):
        self.batch_size, self.prepared, self.first, self.whole = batch_size, None, 0, 0
        if position is not None:
            self.position = position

    def __getattr__(self, name: str) -> Any:
        raise Uncovered(f"iteration.{name}")


def is_plain(batch: Batch) -> bool:
    """Whether an output is a new batch that has shapes only."""
    if batch.owner is not None or batch.values is not None or batch.alias_of is not None or batch.links or batch.feed is not None:
        return False
    known = batch.source_info is None or isinstance(batch.source_info, OriginsOf)
    return batch.rows is None and batch.reused is False and known and type(batch) is Batch


def overlaps(array: np.ndarray, ranges: np.ndarray) -> bool:
    """Whether a word of `array` lies in one of `ranges`, int64[n, 2]: an address that no table declares."""
    dense = np.ascontiguousarray(array).reshape(-1).view(np.uint8)
    words = dense[: dense.size // 8 * 8].view(np.int64)
    return bool(((words[:, None] >= ranges[:, 0]) & (words[:, None] < ranges[:, 1])).any())

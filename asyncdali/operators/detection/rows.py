"""Batches of rows that lie one sample after another in one array: boxes, labels, polygons of which each sample has its own number."""

from __future__ import annotations

import numpy as np

from ...batch import Batch, storage_dtype
from ...compiled.memory import address_of
from ...types import DALIDataType


def rows_batch(values: np.ndarray, firsts: np.ndarray, counts: np.ndarray, dtype: DALIDataType, layout: str = "") -> Batch:
    """A batch of `counts` rows each of `values`, which begin at `firsts` (int64[samples + 1], of which the last is not looked at)."""
    values = np.ascontiguousarray(values)
    tail = np.broadcast_to(np.array(values.shape[1:], np.int64), (len(counts), values.ndim - 1))
    shapes = np.concatenate([counts[:, None], tail], axis=1).astype(np.int64)
    row = int(np.prod(values.shape[1:])) * storage_dtype(dtype).itemsize
    return Batch(shapes, dtype, layout, address_of(values) + row * firsts[: len(counts)], values)


def elements_batch(values: np.ndarray, shapes: np.ndarray, dtype: DALIDataType, layout: str = "") -> Batch:
    """A batch of samples of `shapes`, whose elements lie one after another in `values`."""
    values = np.ascontiguousarray(values)
    begins = first_rows(shapes.prod(axis=1))[:-1]
    return Batch(shapes, dtype, layout, address_of(values) + begins * storage_dtype(dtype).itemsize, values)


def first_rows(counts: np.ndarray) -> np.ndarray:
    """int64[samples + 1]: where the rows of each sample begin, and the number of all."""
    return np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)


def all_rows(batch: Batch) -> np.ndarray:
    """The rows of all samples, one after another: [all, ...]. Samples must have the same extents but for the first."""
    if not len(batch):
        return np.zeros((0,) * max(batch.ndim, 1), storage_dtype(batch.dtype))
    return np.concatenate([batch.sample(i) for i in range(len(batch))])

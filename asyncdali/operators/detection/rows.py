"""Batches of rows in one contiguous array, sample after sample: boxes, labels, polygons. Each sample has its own number of rows."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ...batch import Batch, storage_dtype
from ...compiled.addresses import address_of
from ...types import DALIDataType


def rows_batch(values: np.ndarray, firsts: np.ndarray, counts: np.ndarray, dtype: DALIDataType, layout: str = "") -> Batch:
    """A batch over `values`, with `counts` rows per sample that start at `firsts` (int64[samples + 1]; the last entry is not used)."""
    values = np.ascontiguousarray(values)
    shapes = np.empty((len(counts), values.ndim), np.int64)
    shapes[:, 0] = counts
    shapes[:, 1:] = values.shape[1:]
    row = math.prod(values.shape[1:]) * storage_dtype(dtype).itemsize
    return Batch(shapes, dtype, layout, address_of(values) + row * firsts[: len(counts)], values)


def first_rows(counts: np.ndarray) -> np.ndarray:
    """int64[samples + 1]: the first row of each sample, and the total number of rows."""
    firsts = np.zeros(len(counts) + 1, np.int64)
    np.cumsum(counts, out=firsts[1:])
    return firsts


def taken_rows(rows: np.ndarray, firsts: np.ndarray, counts: np.ndarray, indices: np.ndarray, gather: Any) -> np.ndarray:
    """The rows that samples keep, for :func:`rows_batch`: row k of a sample is its row ``indices[first + k]``, k < count.

    `gather` is ``rows_kernels.gather_rows``; see there.
    """
    rows = np.ascontiguousarray(rows)
    taken = np.empty_like(rows)
    size = math.prod(rows.shape[1:]) * rows.itemsize
    gather(len(counts), address_of(firsts), address_of(counts), address_of(indices), address_of(rows), address_of(taken), size)
    return taken


def all_rows(batch: Batch) -> np.ndarray:
    """The rows of all samples in one array: [all, ...]; possibly a view. Samples must have the same extents except for the first."""
    if not len(batch):
        return np.zeros((0,) * max(batch.ndim, 1), storage_dtype(batch.dtype))
    if batch.values is not None:
        return batch.values.reshape(-1, *batch.values.shape[2:])
    return np.concatenate([batch.sample(i) for i in range(len(batch))])

"""Broadcasting of a whole batch, vectorised: output shapes, and the loop structure of each sample.

Neighbouring dimensions form one *group* if every input is treated alike over all of them: the input is as large as the output, or has one
element for all. The last two groups are the rows and elements of a kernel (``expressions_code``); the step that calls the kernel loops over
the other groups.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ..base import SampleError
from .expressions_tables import WALK_HEAD

TILE = 256
"""Least elements of a tile; rows shorter than a quarter of it are tiled."""


@dataclass
class Walk:
    """Output shapes, records (WALK_HEAD) without kernels, number of groups, and the samples (an index) of each code variant.

    `rows`: every sample is one row, because its inputs have equal shapes or one element.
    """

    shapes: np.ndarray
    records: np.ndarray
    groups: int
    variants: list[tuple[int, np.ndarray | slice]]
    rows: bool


def walk(shapes: Sequence[np.ndarray], itemsizes: Sequence[int]) -> Walk:
    """Combine inputs of `shapes` (each int64[samples, ndim]); SampleError for shapes that cannot be broadcast."""
    first = shapes[0]
    if all(other is first or (other.shape == first.shape and (other == first).all()) for other in shapes[1:]):
        return _alike(first, itemsizes)
    padded = _padded(shapes)
    result = _broadcast(padded)
    unit = result == 1
    single = (padded == 1) & ~unit
    codes = (single * (1 << np.arange(len(shapes)))[:, None, None]).sum(0)
    codes[unit] = -1
    if len(codes) and (codes == codes[0]).all():
        patterns, member = codes[:1], np.zeros(len(codes), np.int64)
    else:
        patterns, member = np.unique(codes, axis=0, return_inverse=True)
    groups = [_groups(pattern) for pattern in patterns]
    count = max([2, *(len(item) for item in groups)])
    records = np.zeros((len(result), WALK_HEAD.words + count * (1 + len(shapes))), np.int64)
    variants: list[tuple[int, np.ndarray | slice]] = []
    for index, grouped in enumerate(groups):
        samples: np.ndarray | slice = slice(None) if len(groups) == 1 else np.flatnonzero(member.reshape(-1) == index)
        records[samples] = _records(padded[:, samples], result[samples], grouped, patterns[index], count, itemsizes)
        last = int(patterns[index][grouped[-1][-1]]) if grouped else 0
        variants.append((last, samples))
    return Walk(result, records, count, variants, all(len(item) <= 1 for item in groups))


def _alike(shapes: np.ndarray, itemsizes: Sequence[int]) -> Walk:
    """All inputs have the same shapes: one row."""
    records = np.zeros((len(shapes), WALK_HEAD.words + 2 * (1 + len(itemsizes))), np.int64)
    extents, strides = records[:, WALK_HEAD.words :][:, :2], records[:, WALK_HEAD.words :][:, 2:]
    extents[:, 0], extents[:, 1] = 1, shapes.prod(axis=1)
    strides[:, 1::2] = itemsizes
    return Walk(shapes, records, 2, [(0, slice(None))], True)


def _padded(shapes: Sequence[np.ndarray]) -> np.ndarray:
    """int64[inputs, samples, ndim]: shapes aligned at their last dimension."""
    ndim = max(shape.shape[1] for shape in shapes)
    padded = np.ones((len(shapes), len(shapes[0]), ndim), np.int64)
    for k, shape in enumerate(shapes):
        padded[k, :, ndim - shape.shape[1] :] = shape
    return padded


def _broadcast(padded: np.ndarray) -> np.ndarray:
    """Output shapes. An extent of 1 is stretched to any other extent, including 0."""
    result: np.ndarray = np.where(padded == 1, -1, padded).max(axis=0)
    result[result < 0] = 1
    wrong = ((padded != 1) & (padded != result)).any(axis=(0, 2))
    if wrong.any():
        sample = int(np.flatnonzero(wrong)[0])
        distinct = list(dict.fromkeys(tuple(row.tolist()) for row in padded[:, sample]))
        raise SampleError(sample, f"Can't broadcast shapes {' and '.join(map(_text, distinct))}: extents must be equal, or one of them 1")
    return result


def _text(shape: tuple[int, ...]) -> str:
    return f"({' x '.join(map(str, shape))})"


def _groups(pattern: np.ndarray) -> list[list[int]]:
    """Groups of dimensions. Dimensions of extent 1 (code -1) are left out."""
    groups: list[list[int]] = []
    for dim, code in enumerate(pattern.tolist()):
        if code < 0:
            continue
        if groups and pattern[groups[-1][-1]] == code:
            groups[-1].append(dim)
        else:
            groups.append([dim])
    return groups


def _records(
    padded: np.ndarray, result: np.ndarray, groups: list[list[int]], pattern: np.ndarray, count: int, itemsizes: Sequence[int]
) -> np.ndarray:
    """Records of samples that have these groups: `count` extents and strides. Missing outer groups have extent 1.

    padded, result   shapes of the inputs int64[inputs, samples, ndim], and of the output int64[samples, ndim]
    """
    head, missing = WALK_HEAD.words, count - len(groups)
    records = np.zeros((len(result), head + count * (1 + len(itemsizes))), np.int64)
    records[:, head : head + count] = 1
    for place, dims in enumerate(groups, missing):
        records[:, head + place] = result[:, dims].prod(axis=1)
    codes = [int(pattern[dims[-1]]) for dims in groups]
    for k, itemsize in enumerate(itemsizes):
        extents = padded[k]
        for place, dims in enumerate(groups, missing):
            if not codes[place - missing] >> k & 1:
                stride = extents[:, dims[-1] + 1 :].prod(axis=1) * itemsize
                records[:, head + count * (1 + k) + place] = stride
    if len(groups) >= 2 and _tileable(codes[-2], codes[-1]):
        short = records[:, head + count - 1]
        many = records[:, head + count - 2]
        rows = -(-TILE // np.maximum(short, 1))
        records[:, WALK_HEAD.word.tile_rows] = np.where((short > 0) & (short * 4 < TILE) & (many >= 2 * rows), rows, 0)
    return records


def _tileable(rows: int, elements: int) -> bool:
    """Whether short rows can be merged into long ones: no input has one element per row that changes from row to row."""
    return not elements & ~rows and bool(rows & ~elements)

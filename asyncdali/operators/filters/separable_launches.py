"""Separable filters on a GPU: images tile by tile in one launch; volumes and wide windows axis by axis through device memory."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from ...batch import Batch, storage_dtype
from ...device.launch import Entry, Kernel, Launch, Scratch, element_type, grid_of
from .plane_tables import AXES, PLANES
from .separable_tables import SEPARABLE_LINE, SEPARABLE_TILE, WINDOWS
from .windows import Windows

_SOURCE = Path(__file__).with_name("separable_kernels.cu")
_TILE, _LANES = 32, 64  # As in separable_kernels.cu.
_ROWS = (64, 160)
"""Most rows of intermediate results per block: 16 or 40 KB of shared memory."""
_DEPTH, _HEIGHT, _WIDTH = range(len(AXES))


def separable_launches(
    source: Batch, output: Batch, records: np.ndarray, windows: Windows, factors: np.ndarray
) -> list[Launch]:
    """The launches for a batch. The arguments are those of ``separable_kernels.make_separable_step``."""
    count, terms = factors.shape
    if not count:
        return []
    weights, described = windows.weights, windows.described
    names = (("IN", element_type(storage_dtype(source.dtype))), ("OUT", element_type(storage_dtype(output.dtype))))
    values: dict[str, Any] = {
        "inputs": source.addresses, "outputs": output.addresses, "records": records, "windows": described, "factors": factors,
        "terms": terms, "weights": weights, "samples": count,
    }  # fmt: skip
    needed = _TILE + int(described[:, WINDOWS.word.height_taps].max()) - 1
    rows = next((rows for rows in _ROWS if needed <= rows), 0)
    word = PLANES.word
    if rows and (records[:, word.in_depth] == 1).all():
        across = -(-records[:, word.in_width] * records[:, word.channels] // _LANES)
        tiles = records[:, word.planes] * across * -(-records[:, word.in_height] // _TILE)
        kernel = Kernel(_SOURCE, "tile", (*names, ("ROWS", rows)))
        return [Launch(kernel, SEPARABLE_TILE.entries(**values), grid_of(int(tiles.max()), count, 1))]
    return _line_launches(Kernel(_SOURCE, "line", (*names, ("ROWS", _ROWS[0]))), values, records, terms)


def _line_launches(kernel: Kernel, values: dict[str, Any], records: np.ndarray, terms: int) -> list[Launch]:
    elements = records.prod(axis=1)
    before = np.ascontiguousarray(elements.cumsum() - elements, np.int64)
    total = 4 * int(elements.sum())
    axes = [_WIDTH, _HEIGHT, *([_DEPTH] if (records[:, PLANES.word.in_depth] > 1).any() else [])]
    kept = [Scratch(total) for _ in axes[1:]]
    sums: Entry = Scratch(total) if terms > 1 else 0
    grid = grid_of(int(elements.max()), len(records))
    launches = []
    for term in range(terms):
        for k, axis in enumerate(axes):
            through = {"source": kept[k - 1] if k else 0, "target": kept[k] if k < len(kept) else 0, "sums": sums, "before": before}
            launches.append(Launch(kernel, SEPARABLE_LINE.entries(**values, **through, axis=axis, term=term), grid))
    return launches

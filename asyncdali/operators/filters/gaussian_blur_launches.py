"""Separable filters on a GPU: images tile by tile in one launch; volumes and wide windows axis by axis through device memory.

Images of up to four channels with windows of up to 31 elements have a kernel of their own (``gaussian_blur_small_kernels.cu``). If all
windows of a batch have one size, the size is a constant of that kernel.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from ...batch import Batch, storage_dtype
from ...compiled.addresses import address_of, products
from ...device.launch import Entry, Kernel, Launch, Scratch, element_type, grid_of
from . import gaussian_blur_survey_kernels
from .gaussian_blur_tables import SEPARABLE_LINE, SEPARABLE_TILE, SURVEY, WINDOWS
from .planes_tables import AXES, PLANES
from .windows import FilterWindows

_SOURCE, _SMALL = (Path(__file__).with_name(f"{name}_kernels.cu") for name in ("gaussian_blur", "gaussian_blur_small"))
_TILE, _LANES = 32, 64  # As in gaussian_blur_kernels.cu.
_ROWS = (64, 160)
"""Most rows of intermediate results per block: 16 or 40 KB of shared memory."""
_DEPTH, _HEIGHT, _WIDTH = range(len(AXES))
_COLUMNS, _RUN = 96, 8  # As in gaussian_blur_small_kernels.cu.
_LONGEST = (9, 17, 31)
"""Bounds of windows whose sizes differ; larger windows have another kernel."""
_SHARED = 48 << 10
"""Bytes of shared memory that a block may declare."""


def gaussian_blur_launches(
    source: Batch, output: Batch, records: np.ndarray, windows: FilterWindows, factors: np.ndarray, axes: int
) -> list[Launch]:
    """The launches for a batch. The arguments are those of ``gaussian_blur_kernels.make_separable_step``."""
    count, terms = factors.shape
    if not count:
        return []
    weights, described = windows.weights, windows.described
    names = (("IN", element_type(storage_dtype(source.dtype))), ("OUT", element_type(storage_dtype(output.dtype))))
    values: dict[str, Any] = {
        "inputs": source.addresses, "outputs": output.addresses, "records": records, "windows": described, "factors": factors,
        "terms": terms, "weights": weights, "samples": count,
    }  # fmt: skip
    records_at, found = address_of(records), SURVEY.zeros(1)[0]
    gaussian_blur_survey_kernels.survey(records_at, count, address_of(described), len(described), address_of(found))
    word = SURVEY.word
    needed = _TILE + int(found[word.height_taps]) - 1
    rows = next((rows for rows in _ROWS if needed <= rows), 0)
    flat = axes < len(AXES)
    if flat:
        small = _small_windows(records, described, found, _staged_bytes(storage_dtype(source.dtype)))
        if small is not None:
            sizes = dict(small)
            tiles = gaussian_blur_survey_kernels.most_tiles(records_at, count, _COLUMNS // sizes["CHANNELS"], sizes["DOWN"], 0)
            kernel = Kernel(_SMALL, "small_windows", (*names, *small, ("SINGLE", int(terms == 1))))
            return [Launch(kernel, SEPARABLE_TILE.entries(**values), grid_of(tiles, count, 1))]
    if rows and flat:
        tiles = gaussian_blur_survey_kernels.most_tiles(records_at, count, _LANES, _TILE, 1)
        kernel = Kernel(_SOURCE, "tile", (*names, ("ROWS", rows)))
        return [Launch(kernel, SEPARABLE_TILE.entries(**values), grid_of(tiles, count, 1))]
    return _line_launches(Kernel(_SOURCE, "line", (*names, ("ROWS", _ROWS[0]))), values, records, terms, axes)


def _staged_bytes(dtype: np.dtype) -> int:
    """Bytes of an element in shared memory: small integers as they are, other types as float32."""
    return dtype.itemsize if dtype.kind in "iu" and dtype.itemsize < 4 else 4


def _small_windows(
    records: np.ndarray, described: np.ndarray, found: np.ndarray, staged: int
) -> tuple[tuple[str, int], ...] | None:  # fmt: skip
    """Macros of the kernel for small windows, or None if the batch needs another kernel."""
    channels = int(records[0, PLANES.word.channels])
    longest = next((size for size in _LONGEST if found[SURVEY.word.longest] <= size), 0)
    if not longest or not 1 <= channels <= 4 or not found[SURVEY.word.same_channels]:
        return None
    # A batch of one sample always has a single size. Fixed sizes would then compile a kernel for every size that appears.
    fixed = len(records) > 1 and bool(found[SURVEY.word.same_taps])
    first = described[0]
    taps_x, taps_y = (int(first[WINDOWS.word.width_taps]), int(first[WINDOWS.word.height_taps])) if fixed else (0, 0)
    margin_x, margin_y = (taps_x or longest) - 1, (taps_y or longest) - 1
    for down in (64, 32, 16):
        row = (_COLUMNS + margin_x * channels) * staged
        if (down + margin_y) * 4 * ((row + 6) // 4 + 1 + _COLUMNS + 2) <= _SHARED:
            return ("CHANNELS", channels), ("TAPS_X", taps_x), ("TAPS_Y", taps_y), ("LONGEST", longest), ("DOWN", down)
    return None


def _line_launches(kernel: Kernel, values: dict[str, object], records: np.ndarray, terms: int, number: int) -> list[Launch]:
    elements = products(records)
    before = np.ascontiguousarray(elements.cumsum() - elements, np.int64)
    total = 4 * int(elements.sum())
    axes = [_WIDTH, _HEIGHT, *([_DEPTH] if number == len(AXES) else [])]
    kept = [Scratch(total) for _ in axes[1:]]
    sums: Entry = Scratch(total) if terms > 1 else 0
    grid = grid_of(int(elements.max()), len(records))
    launches = []
    for term in range(terms):
        for k, axis in enumerate(axes):
            through = {"source": kept[k - 1] if k else 0, "target": kept[k] if k < len(kept) else 0, "sums": sums, "before": before}
            launches.append(Launch(kernel, SEPARABLE_LINE.entries(**values, **through, axis=axis, term=term), grid))
    return launches

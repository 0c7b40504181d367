"""jpeg_compression_distortion: tables of quantisation, records, and the launches of a batch on a GPU."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from ...batch import Batch
from ...device.launch import PACK, Kernel, Launch, Scratch, grid_of, row_grid
from .jpeg_distortion_tables import DISTORTION_GPU, DISTORTION_RECORD

_SOURCE = Path(__file__).with_name("jpeg_distortion_kernels.cu")
_UNIT, _UNITS = 16, 4  # As in jpeg_distortion_kernels.cu.
_UNIT_BYTES = _UNIT * _UNIT * 3 // 2
_LUMA = (
    (16, 11, 10, 16, 24, 40, 51, 61), (12, 12, 14, 19, 26, 58, 60, 55), (14, 13, 16, 24, 40, 57, 69, 56), (14, 17, 22, 29, 51, 87, 80, 62),
    (18, 22, 37, 56, 68, 109, 103, 77), (24, 35, 55, 64, 81, 104, 113, 92), (49, 64, 78, 87, 103, 121, 120, 101),
    (72, 92, 95, 98, 112, 100, 103, 99),
)  # fmt: skip
_CHROMA = ((17, 18, 24, 47), (18, 21, 26, 66), (24, 26, 56, 99), (47, 66, 99, 99))
"""The tables of the JPEG standard (ITU-T T.81, annex K.1); chroma's other factors are 99."""


def divisors_of(qualities: np.ndarray) -> np.ndarray:
    """int32[samples, 2, 64]: factors of luma and chroma for qualities 1 to 100, as libjpeg scales them."""
    tables = np.full((2, 8, 8), 99, np.int64)
    tables[0], tables[1, :4, :4] = _LUMA, _CHROMA
    percent = np.where(qualities < 50, 5000 // qualities, 200 - 2 * qualities)
    return ((tables.reshape(1, 2, 64) * percent[:, None, None] + 50) // 100).clip(1, 255).astype(np.int32)


def distortion_records(source: Batch) -> np.ndarray:
    """DISTORTION_RECORDs of a batch of images or sequences."""
    word = DISTORTION_RECORD.word
    records = DISTORTION_RECORD.ones(len(source))
    extents = source.shapes[:, -3:-1]
    if source.ndim == 4:
        records[:, word.frames] = source.shapes[:, 0]
    records[:, DISTORTION_RECORD.span("height", "width")] = extents
    records[:, DISTORTION_RECORD.span("down", "across")] = -(-extents // _UNIT)
    units = records[:, word.frames] * records[:, word.down] * records[:, word.across]
    records[:, word.begin] = _UNIT_BYTES * (units.cumsum() - units)
    return records


def distortion_launches(source: Batch, output: Batch, records: np.ndarray, divisors: np.ndarray) -> list[Launch]:
    """The launches for a batch with the divisors of :func:`divisors_of`."""
    count, word = len(records), DISTORTION_RECORD.word
    if not count:
        return []
    units = records[:, word.frames] * records[:, word.down] * records[:, word.across]
    entries = DISTORTION_GPU.entries(
        inputs=source.addresses, outputs=output.addresses, records=records, divisors=divisors,
        planes=Scratch(_UNIT_BYTES * int(units.sum())), samples=count,
    )  # fmt: skip
    pairs = int((records[:, word.frames] * (records[:, word.height] // 2 + 1)).max())
    packs = -(-int(records[:, word.width].max()) // PACK)
    return [
        Launch(Kernel(_SOURCE, "distort"), entries, grid_of(int(units.max()), count, _UNITS)),
        Launch(Kernel(_SOURCE, "color"), entries, row_grid(pairs, packs, count)),
    ]

"""clahe: tables for CIELAB in integers, records, and the launches of a batch on a GPU.

Tables and arithmetic are those of OpenCV's 8-bit colours.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path

import numpy as np

from ...batch import Batch
from ...device.launch import Kernel, Launch, Scratch, grid_of
from .clahe_tables import CLAHE_GPU, CLAHE_RECORD

_SOURCE = Path(__file__).with_name("clahe_kernels.cu")
_VALUES = 256
_LIGHT = 8 * 255  # the largest value of linear light
_LIGHTS = 3072  # sums of light are at most 3/2 of the largest value
_ROOT = 1 << 15  # stands for a root of 1.0
_BASE = 1 << 14  # stands for a luminance of 1.0
_F = np.float32


@cache
def lab_tables() -> dict[str, np.ndarray]:
    """The tables ``linear``, ``roots``, ``luminances`` and ``srgb`` (clahe_tables.py), by the formulas of sRGB and CIELAB."""
    values = (np.arange(_VALUES) / 255).astype(_F).astype(np.float64)
    linear = np.where(values <= 0.04045, values / 12.92, ((values + 0.055) / 1.055) ** 2.4).astype(_F)
    lights = (_F(1) / _F(_LIGHT)) * np.arange(_LIGHTS, dtype=_F)
    dark = lights.astype(np.float64) * _F(841 / 108) + np.float64(_F(16) / _F(116))
    # Cube roots are truncated to the precision of float32; other values are rounded to float32.
    cubic = (np.cbrt(lights.astype(np.float64)).view(np.int64) >> 29 << 29).view(np.float64)
    roots = np.where(lights < _F(216) / _F(24389), dark.astype(_F), cubic.astype(_F))
    level = np.arange(4096) / 4096
    srgb = np.where(level <= 0.0031308, level * 12.92, 1.055 * level ** (1 / 2.4) - 0.055).astype(_F)
    return {
        "linear": _words(_F(_LIGHT) * linear), "roots": _words(_F(_ROOT) * roots), "luminances": _luminances(),
        "srgb": _words(_F(255) * srgb),
    }  # fmt: skip


def _luminances() -> np.ndarray:
    lightness = np.arange(_VALUES)
    dark = lightness <= 20  # 20 of 255: a lightness of 8 of 100
    root = (lightness * 100 * _BASE).astype(_F) / _F(255 * 116) + _F(16 * _BASE) / _F(116)
    low_root = _F(_BASE) * (_F(16) / _F(116) + (lightness * 5).astype(_F) / _F(3 * 17 * 29))
    light = root * root * root / _F(_BASE * _BASE)
    low = (lightness * _BASE * 20 * 9).astype(_F) / _F(17 * 29**3)
    return np.ascontiguousarray(np.stack([_words(np.where(dark, low, light)), _words(np.where(dark, low_root, root))], axis=1))


def _words(values: np.ndarray) -> np.ndarray:
    words: np.ndarray = np.rint(values).astype(np.uint16)
    return words


def clahe_records(shapes: np.ndarray, limit: float, tiles: tuple[int, int], lightness: bool) -> np.ndarray:
    """CLAHE_RECORDs. `limit`: highest bin divided by the mean bin, 0 or less: none; `tiles` along x and y."""
    word = CLAHE_RECORD.word
    extents = shapes[:, :2]
    across, down = tiles
    grid = np.array([down, across])
    # An image that does not divide into tiles is extended below and to the right. If one side divides and the other does not, both sides
    # grow: the side that divides by one row of pixels per tile.
    whole = (extents % grid == 0).all(axis=1)
    extended = np.where(whole[:, None], extents, extents + grid - extents % grid)
    records = CLAHE_RECORD.zeros(len(shapes))
    records[:, CLAHE_RECORD.span("height", "channels")] = shapes
    records[:, CLAHE_RECORD.span("tile_rows", "tile_columns")] = extended // grid
    area = records[:, word.tile_rows] * records[:, word.tile_columns]
    if limit > 0:
        records[:, word.limit] = np.maximum((limit * area / _VALUES).astype(np.int64), 1)
    channels = records[:, word.channels]
    records[:, word.planes] = np.where(lightness & (channels == 3), 1, channels)
    planes = records[:, word.planes]
    records[:, word.first] = planes.cumsum() - planes
    return records


def clahe_launches(source: Batch, output: Batch, records: np.ndarray, tiles: tuple[int, int], lightness: bool) -> list[Launch]:
    """The launches for a batch of CLAHE_RECORDs."""
    count, word = len(records), CLAHE_RECORD.word
    pixels = int((records[:, word.height] * records[:, word.width]).max(initial=0))
    if not pixels:
        return []
    across, down = tiles
    planes = records[:, word.planes]
    entries = CLAHE_GPU.entries(
        inputs=source.addresses, outputs=output.addresses, records=records, tiles_x=across, tiles_y=down, lightness=lightness, scratch=0,
        lookups=Scratch(_VALUES * across * down * int(planes.sum())), **lab_tables(), samples=count,
    )  # fmt: skip
    return [
        Launch(Kernel(_SOURCE, "tile_lookups"), entries, grid_of(int(planes.max()) * across * down, count, 1)),
        Launch(Kernel(_SOURCE, "equalize_tiles"), entries, grid_of(pixels, count)),
    ]

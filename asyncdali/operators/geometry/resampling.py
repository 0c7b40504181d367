"""What resampling a batch needs: geometry and filters as tables for ``resize_kernels``, on the host and on CUDA."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import numpy as np

from ...compiled.intrinsics import larger, load_f64, load_i32, load_i64, smaller, store_f64, store_i64
from ...compiled.memory import address_of
from ...compiled.step import Compiled, compiled
from ...device.launch import Kernel, Launch, Pixels, Scratch, element_type, grid_of
from ..base import Step, no_explanation
from .resize_kernels import RECORD_FIELDS, ROWS, SCRATCH_FIELD, image_step, volume_step
from .resize_rules import Geometry
from .tap_kernels import CUBIC, DESCRIPTIONS, DESCRIPTIONS_AT, HEAD_BYTES, LANCZOS3, NN, TABLES, TABLES_AT, tap_tables

_SOURCE = Path(__file__).with_name("resize_kernels.cu")

# Table of fill_records (int64 each): 0 samples, 1 ndim, 2 first spatial axis, 3 spatial axes, 4 input shapes, 5 output extents
# int64[samples, axes], 6 bytes from a sample's extents to the next one's (0: all have the same), 7 and 8 source intervals lo and hi
# float64[samples, axes] (0: the whole input), 9 and 10 filters int64[samples], 11 bytes from one filter to the next, 12 antialias,
# 13 filter descriptions; filled in: 14 records, 15 intervals, 16 output shapes, 17 whether depth is resampled, 18 scratch for planes.


@compiled(1, brief=True)
def fill_records(table):
    """What :class:`Resampling` needs to know of a batch; gives the scratch that a thread needs for any sample, but for planes."""
    ndim, first, axes = load_i64(table + 8), load_i64(table + 16), load_i64(table + 24)
    shape, extents, lo, hi = load_i64(table + 32), load_i64(table + 40), load_i64(table + 56), load_i64(table + 64)
    filters, filters_step = load_i64(table + 72), load_i64(table + 88)
    record, interval, out_shape = load_i64(table + 112), load_i64(table + 120), load_i64(table + 128)
    needed = 0
    for i in range(load_i64(table)):
        small, large = load_i64(filters + filters_step * i), load_i64(load_i64(table + 80) + filters_step * i)
        descriptions = load_i64(table + 104)
        radius = np.int64(larger(load_i32(descriptions + 12 * small + 8), load_i32(descriptions + 12 * large + 8)))
        outer, channels, scratch = 1, 1, 64 + HEAD_BYTES
        for k in range(ndim):
            extent = load_i64(shape + 8 * k)
            store_i64(out_shape + 8 * k, extent)
            if k < first:
                outer *= extent
            elif k >= first + axes:
                channels *= extent
        for axis in range(3):
            k = axis - (3 - axes)
            extent, out, begin, end = 1, 1, 0.0, 1.0
            if k >= 0:
                extent, out = load_i64(shape + 8 * (first + k)), load_i64(extents + 8 * k)
                begin, end = 0.0, np.float64(extent)
                if lo != 0:
                    begin, end = load_f64(lo + 8 * k), load_f64(hi + 8 * k)
                store_i64(out_shape + 8 * (first + k), out if extent > 0 else 0)
            store_i64(record + 8 + 8 * axis, extent)
            store_i64(record + 40 + 8 * axis, out)
            store_f64(interval + 16 * axis, begin)
            store_f64(interval + 16 * axis + 8, end)
            if axis == 0 and (extent != out or begin != 0 or end != extent):
                store_i64(table + 136, 1)
            # At most 2 radius widen + 2 taps for each output, and out * widen is the larger one of output and source length.
            scratch += 12 * out + 8 * radius * (larger(np.int64(abs(end - begin)), out) + 2) + 128
        store_i64(record, outer)
        store_i64(record + 32, channels)
        store_i64(record + 64, small)
        store_i64(record + 72, large)
        store_i64(record + 80, load_i64(table + 96))
        row = 4 * load_i64(record + 24) * channels
        needed = larger(needed, scratch + ROWS * (row + 80))
        store_i64(table + 144, larger(load_i64(table + 144), row * load_i64(record + 16) + 64))
        shape, out_shape, record, interval = shape + 8 * ndim, out_shape + 8 * ndim, record + 88, interval + 48
        extents, lo, hi = extents + load_i64(table + 48), lo + 8 * axes if lo != 0 else 0, hi + 8 * axes
    return needed


# Table of place_taps (int64 each): 0 samples, 1 records, 2 intervals, 3 filter descriptions; filled in: 4 places int64[samples, 3, 3],
# 5 most rows of an output, 6 channels, if all samples have the same and at most 4, else 0, 7 whether no input is empty in height or width,
# 8 whether weights can be negative.


@compiled(1, brief=True)
def place_taps(table):
    """Where a GPU's tap tables of each axis begin: first indices, weights (in words), taps; gives the words of all."""
    place, words, most = load_i64(table + 32), 0, 0
    channels, whole, signed = 0, True, False
    for i in range(load_i64(table)):
        record, interval = load_i64(table + 8) + 88 * i, load_i64(table + 16) + 48 * i
        for axis in range(3):
            extent, out = load_i64(record + 8 + 8 * axis), load_i64(record + 40 + 8 * axis)
            length = abs(load_f64(interval + 16 * axis + 8) - load_f64(interval + 16 * axis))
            kind = load_i64(record + 64) if out < length else load_i64(record + 72)
            signed = signed or kind in (CUBIC, LANCZOS3)
            taps = np.int64(1)
            if kind != NN and out > 0:
                scale = np.float32(length / out)
                widen = scale if load_i64(record + 80) != 0 and scale > 1 else np.float32(1)
                radius = np.float32(load_i32(load_i64(table + 24) + 12 * kind + 8))
                taps = smaller(np.int64(np.ceil(np.float32(2) * radius * widen)), extent)
            store_i64(place, words)
            store_i64(place + 8, words + out)
            store_i64(place + 16, taps)
            words += out + out * taps
            place += 24
        most = larger(most, load_i64(record) * load_i64(record + 40) * load_i64(record + 48))
        own = load_i64(record + 32)
        channels = own if i == 0 and own <= 4 else channels if own == channels else 0
        whole = whole and load_i64(record + 16) * load_i64(record + 24) > 0
    store_i64(table + 40, most)
    store_i64(table + 48, channels)
    store_i64(table + 56, 1 if whole else 0)
    store_i64(table + 64, 1 if signed else 0)
    return words


class Resampling:
    """What is decided about a batch: ``shapes`` int64[samples, ndim] of the outputs, and all that :meth:`step` needs.

    shapes       int64[samples, ndim] of the inputs; axes from `first_axis` on are those of `geometry`
    geometry     see :func:`asyncdali.operators.geometry.resize_rules.geometry` (two or three axes); without `lo` and `hi` the whole input,
                 with one row of extents that of all samples
    filters      int64[2, samples] or [2, 1] for all samples: DALIInterpType where an axis shrinks and where it does not
    """

    def __init__(self, shapes: np.ndarray, first_axis: int, geometry: Geometry, filters: np.ndarray, antialias: bool):
        count, ndim = shapes.shape
        axes = geometry.extents.shape[1]
        shapes, extents = np.ascontiguousarray(shapes, np.int64), np.ascontiguousarray(geometry.extents, np.int64)
        memory = np.empty(count * (len(RECORD_FIELDS) + 6 + ndim), np.int64)
        records_at = address_of(memory)
        intervals_at = records_at + 8 * count * len(RECORD_FIELDS)
        self.shapes = memory[count * (len(RECORD_FIELDS) + 6) :].reshape(count, ndim)
        lo_at = hi_at = 0
        if geometry.lo is not None and geometry.hi is not None:
            lo, hi = np.ascontiguousarray(geometry.lo, np.float64), np.ascontiguousarray(geometry.hi, np.float64)
            lo_at, hi_at = address_of(lo), address_of(hi)
        filters_at = address_of(filters)
        table = np.array(
            [
                count, ndim, first_axis, axes, address_of(shapes), address_of(extents), 8 * axes if len(extents) > 1 else 0, lo_at, hi_at,
                filters_at, filters_at + filters.strides[0], filters.strides[1] if filters.shape[1] > 1 else 0, antialias,
                DESCRIPTIONS_AT, records_at, intervals_at, intervals_at + 48 * count, 0, 0,
            ],
            np.int64,
        )  # fmt: skip
        self._scratch = fill_records(address_of(table))
        self._volume = axes == 3 and bool(table[17])
        if self._volume:
            self._scratch += int(table[18])
        self._memory, self._records_at, self._intervals_at = memory, records_at, intervals_at

    def step(self, in_addresses: np.ndarray, out_addresses: np.ndarray, in_dtype: np.dtype, out_dtype: np.dtype) -> Step:
        """The step for samples at addresses that are known when it runs; uint8, int16, uint16 or float32 to the same, or to float32."""
        compiled = _resampling(np.dtype(in_dtype), np.dtype(out_dtype), self._volume)
        table = np.array(
            [
                address_of(in_addresses), address_of(out_addresses), self._records_at, self._intervals_at, TABLES_AT, DESCRIPTIONS_AT, 0,
                tap_tables.address,
            ],
            np.int64,
        )  # fmt: skip
        keep = (in_addresses, out_addresses, self._memory)
        step = Step(compiled.address, table, no_explanation, self._scratch, SCRATCH_FIELD, keep)
        step.launches = lambda: self._launches(in_addresses, out_addresses, in_dtype, out_dtype)
        return step

    def _launches(self, in_addresses: np.ndarray, out_addresses: np.ndarray, in_dtype: np.dtype, out_dtype: np.dtype) -> list[Launch]:
        """Tap tables of all axes in one launch, pixels in a second."""
        count, fields = len(in_addresses), len(RECORD_FIELDS)
        records = self._memory[: count * fields].reshape(count, fields)
        intervals = self._memory[count * fields : count * (fields + 6)].view(np.float64).reshape(count, 3, 2)
        axes = np.empty((count, 3, 3), np.int64)
        table = np.array([count, self._records_at, self._intervals_at, DESCRIPTIONS_AT, address_of(axes), 0, 0, 0, 0], np.int64)
        words = place_taps(address_of(table))
        rows, channels, whole, signed = table[5:].tolist()
        unstored = (in_addresses, 0, records, intervals, TABLES, DESCRIPTIONS, axes, Scratch(4 * words), count)
        context = (in_addresses, out_addresses, *unstored[2:])
        types = ("IN", element_type(in_dtype)), ("OUT", element_type(out_dtype)), ("VOLUME", int(self._volume))
        pictures = ("CHANNELS", channels), ("SIGNED", signed)
        offers = None
        if channels and whole and not self._volume:
            macros = ("RESIZED_IN", element_type(in_dtype)), *pictures
            offers = Pixels("resized", out_addresses, unstored, macros)
        return [
            Launch(Kernel(_SOURCE, "taps", (*types, *pictures)), unstored, (3, grid_of(1, count)[1])),
            Launch(Kernel(_SOURCE, "resize", (*types, *pictures)), context, tile_grid(rows, count), offers=offers),
        ]


_TILE_ROWS, _TILES = 8, 3


def tile_grid(rows: int, samples: int) -> tuple[int, int]:
    """A grid for kernels that make tiles of a resized picture (resize.cuh): a block makes several, because it looks up much at first."""
    return grid_of(-(-rows // (_TILE_ROWS * _TILES)), samples, 1)


def compile_kernels(types: tuple[np.dtype, np.dtype] | None, on_gpu: bool) -> None:
    """Bring in now what batches of any type need, and what pictures of `types` (of the input, of the output) do."""
    tap_tables.compile()
    fill_records.compile()
    if on_gpu:
        place_taps.compile()
    if types is not None:
        _resampling(*types, False).compile()


@cache
def _resampling(in_dtype: np.dtype, out_dtype: np.dtype, volume: bool) -> Compiled:
    return (volume_step if volume else image_step)(in_dtype.name, out_dtype.name)

"""Preparation of resampling: geometry and filters as tables for ``resize_kernels``, on the host and on CUDA."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, lru_cache
from pathlib import Path

import numpy as np

from ...compiled.addresses import address_of
from ...compiled.intrinsics import larger, load_f64, load_i32, load_i64, smaller, store_f64, store_i64
from ...compiled.step import Compiled, compiled
from ...compiled.tables import WORD, table_of
from ...device.launch import Kernel, Launch, Scratch, Unstored, element_type, grid_of
from ..base import Step, TableStep, no_explanation
from ..row_feeds import RowFeed
from . import resize_rows
from .resize_kernels import ROWS, image_step, volume_step
from .resize_rules import Geometry
from .resize_tables import FILLING, FILTER, INTERVAL, PLACES, PLACING, RESIZE, RESIZE_CUDA, RESIZE_RECORD, TAPS
from .resize_tap_kernels import CUBIC, DESCRIPTIONS, HEAD_BYTES, LANCZOS3, NN, TABLES, WIDEST, tap_tables

_SOURCE = Path(__file__).with_name("resize_kernels.cu")

_record, _interval, _filter, _taps = RESIZE_RECORD.at, INTERVAL.at, FILTER.at, TAPS.at
_filling, _placing = FILLING.at, PLACING.at
_TABLES_AT, _DESCRIPTIONS_AT = address_of(TABLES), address_of(DESCRIPTIONS)


@compiled(1, brief=True)
def fill_records(table):
    """Compute records, intervals and output shapes of a batch (see FILLING).

    Returns the bytes of scratch per thread that any sample needs, without planes.
    """
    ndim, first, axes = load_i64(table + _filling.ndim), load_i64(table + _filling.first_axis), load_i64(table + _filling.axes)
    shape, extents = load_i64(table + _filling.shapes), load_i64(table + _filling.extents)
    lo, hi = load_i64(table + _filling.source_lo), load_i64(table + _filling.source_hi)
    filters_min, filters_mag = load_i64(table + _filling.filters_min), load_i64(table + _filling.filters_mag)
    filters_step, descriptions = load_i64(table + _filling.filters_step), load_i64(table + _filling.descriptions) + _filter.radius
    record, interval = load_i64(table + _filling.records), load_i64(table + _filling.intervals)
    out_shape = load_i64(table + _filling.out_shapes)
    needed = 0
    for i in range(load_i64(table + _filling.samples)):
        small, large = load_i64(filters_min + filters_step * i), load_i64(filters_mag + filters_step * i)
        radius = larger(load_i64(descriptions + _filter.size * small), load_i64(descriptions + _filter.size * large))
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
            store_i64(record + _record.in_depth + 8 * axis, extent)
            store_i64(record + _record.out_depth + 8 * axis, out)
            store_f64(interval + _interval.lo, begin)
            store_f64(interval + _interval.hi, end)
            interval += _interval.size
            if axis == 0 and (extent != out or begin != 0 or end != extent):
                store_i64(table + _filling.volume, 1)
            # Each output has at most 2 radius widen + 2 taps, and out * widen is the larger of output and source length. A region of
            # interest may be much larger than the input, but an output has no more taps than the input has pixels.
            weights = smaller(8 * radius * (larger(np.int64(abs(end - begin)), out) + 2), 4 * out * larger(extent, 1))
            scratch += 12 * out + weights + 128
        store_i64(record + _record.outer, outer)
        store_i64(record + _record.channels, channels)
        store_i64(record + _record.min_filter, small)
        store_i64(record + _record.mag_filter, large)
        store_i64(record + _record.antialias, load_i64(table + _filling.antialias))
        row = 4 * load_i64(record + _record.in_width) * channels
        needed = larger(needed, scratch + ROWS * (row + 80))
        plane = row * load_i64(record + _record.in_height) + 64
        store_i64(table + _filling.plane_bytes, larger(load_i64(table + _filling.plane_bytes), plane))
        pixels = load_i64(record + _record.in_depth) * load_i64(record + _record.in_height) * load_i64(record + _record.in_width)
        store_i64(table + _filling.largest, larger(load_i64(table + _filling.largest), outer * channels * pixels))
        shape, out_shape, record = shape + 8 * ndim, out_shape + 8 * ndim, record + _record.size
        extents += load_i64(table + _filling.extents_step)
        lo, hi = lo + 8 * axes if lo != 0 else 0, hi + 8 * axes
    return needed


@compiled(4, brief=True)
def window_region(windows, count, lo, hi):
    """Start and end, float64[count], of `windows` int32[2, count] (starts, extents). They go through float32, like a resize's arguments."""
    for k in range(count):
        begin = load_i32(windows + 4 * k)
        store_f64(lo + 8 * k, np.float64(np.float32(begin)))
        store_f64(hi + 8 * k, np.float64(np.float32(begin + load_i32(windows + 4 * (count + k)))))
    return 0


@compiled(1, brief=True)
def place_taps(table):
    """Place the taps of each axis in a GPU's memory, and collect the batch's properties for its kernels (see PLACING).

    Returns the number of words of all taps.
    """
    place, words, most = load_i64(table + _placing.places), 0, 0
    record, interval = load_i64(table + _placing.records), load_i64(table + _placing.intervals)
    radii = load_i64(table + _placing.descriptions) + _filter.radius
    channels, whole, signed = 0, True, False
    for i in range(load_i64(table + _placing.samples)):
        for axis in range(3):
            extent, out = load_i64(record + _record.in_depth + 8 * axis), load_i64(record + _record.out_depth + 8 * axis)
            length = abs(load_f64(interval + _interval.hi) - load_f64(interval + _interval.lo))
            interval += _interval.size
            kind = load_i64(record + _record.min_filter) if out < length else load_i64(record + _record.mag_filter)
            signed = signed or kind in (CUBIC, LANCZOS3)
            taps = np.int64(1)
            if kind != NN and out > 0:
                scale = np.float32(length / out)
                radius = np.float32(load_i64(radii + _filter.size * kind))
                widen = np.float32(1)
                if load_i64(record + _record.antialias) != 0 and scale > 1:
                    widen = smaller(scale, np.float32(0.5) * WIDEST / radius)
                taps = smaller(np.int64(np.ceil(np.float32(2) * radius * widen)), extent)
            store_i64(place + _taps.first, words)
            store_i64(place + _taps.weights, words + out)
            store_i64(place + _taps.count, taps)
            words += out + out * taps
            place += _taps.size
        most = larger(most, load_i64(record + _record.outer) * load_i64(record + _record.out_depth) * load_i64(record + _record.out_height))
        own = load_i64(record + _record.channels)
        channels = own if i == 0 and own <= 4 else channels if own == channels else 0
        whole = whole and load_i64(record + _record.in_height) * load_i64(record + _record.in_width) > 0
        record += _record.size
    store_i64(table + _placing.rows, most)
    store_i64(table + _placing.channels, channels)
    store_i64(table + _placing.whole, 1 if whole else 0)
    store_i64(table + _placing.signed, 1 if signed else 0)
    return words


class Resampling:
    """Decisions about a batch: ``shapes`` int64[samples, ndim] of the outputs, and all that :meth:`step` needs.

    shapes       int64[samples, ndim] of the inputs; axes from `first_axis` on are those of `geometry`
    geometry     see :func:`asyncdali.operators.resize.resize_rules.geometry` (two or three axes). Without `lo` and `hi` the whole input
                 is used; then one row of extents may stand for all samples
    filters      int64[2, samples], or [2, 1] for all samples: the DALIInterpType for axes that shrink, and for all others
    """

    def __init__(self, shapes: np.ndarray, first_axis: int, geometry: Geometry, filters: np.ndarray, antialias: bool):
        count, ndim = shapes.shape
        axes = geometry.extents.shape[1]
        shapes, extents = np.ascontiguousarray(shapes, np.int64), np.ascontiguousarray(geometry.extents, np.int64)
        records_words, intervals_words = count * RESIZE_RECORD.words, 3 * count * INTERVAL.words
        memory = np.empty(records_words + intervals_words + count * ndim, np.int64)
        self._records, self._intervals = memory[:records_words], memory[records_words : records_words + intervals_words]
        self.shapes = memory[records_words + intervals_words :].reshape(count, ndim)
        whole = geometry.lo is None or geometry.hi is None
        lo = None if whole else np.ascontiguousarray(geometry.lo, np.float64)
        hi = None if whole else np.ascontiguousarray(geometry.hi, np.float64)
        at, filters_at = address_of(memory), address_of(filters)
        intervals_at = at + WORD * records_words
        entries = FILLING.entries(
            samples=count, ndim=ndim, first_axis=first_axis, axes=axes, shapes=address_of(shapes), extents=address_of(extents),
            extents_step=WORD * axes if len(extents) > 1 else 0,
            source_lo=0 if lo is None else address_of(lo), source_hi=0 if hi is None else address_of(hi),
            filters_min=filters_at, filters_mag=filters_at + filters.strides[0],
            filters_step=filters.strides[1] if filters.shape[1] > 1 else 0, antialias=antialias, descriptions=_DESCRIPTIONS_AT,
            records=at, intervals=intervals_at, out_shapes=intervals_at + WORD * intervals_words, volume=0, plane_bytes=0, largest=0,
        )  # fmt: skip
        table = table_of(entries)
        self._scratch = fill_records(address_of(table))
        volume, plane_bytes, self._largest = table[FILLING.span("volume", "largest")].tolist()
        self._volume = axes == 3 and bool(volume)
        if self._volume:
            self._scratch += plane_bytes
        self._memory, self._records_at, self._intervals_at = memory, at, intervals_at

    def step(self, in_addresses: np.ndarray, out_addresses: np.ndarray, in_dtype: np.dtype, out_dtype: np.dtype) -> Step:
        """The step for samples whose addresses are known only at run time; uint8, int16, uint16 or float32 to the same type, or to
        float32."""
        compiled = _resampling(np.dtype(in_dtype), np.dtype(out_dtype), self._volume)
        entries = RESIZE.entries(
            inputs=in_addresses, outputs=out_addresses, records=self._records, intervals=self._intervals, filters=_TABLES_AT,
            descriptions=_DESCRIPTIONS_AT, scratch=0, tap_tables=tap_tables.address, fed=0,
        )  # fmt: skip
        step = TableStep(compiled.address, entries, no_explanation, self._scratch, RESIZE.word.scratch)
        step.launches = lambda: self._launches(in_addresses, out_addresses, in_dtype, out_dtype)
        return step

    def read_rows(self, feed: RowFeed, step: Step, sizes: Callable[[], np.ndarray], out_dtype: np.dtype) -> None:
        """Resize large samples row by row while they are decoded; the step of :meth:`step` then skips them.

        `sizes` returns the bytes of the samples of UINT8. It is not called if all samples are small.
        """
        if self._largest >= resize_rows.SMALLEST:
            resize_rows.read_rows(feed, step, self._records.reshape(-1, RESIZE_RECORD.words), self._intervals, sizes(), out_dtype)

    def _launches(self, in_addresses: np.ndarray, out_addresses: np.ndarray, in_dtype: np.dtype, out_dtype: np.dtype) -> list[Launch]:
        """Tap tables of all axes in one launch, pixels in a second."""
        count = len(in_addresses)
        places = np.empty((count, PLACES.words), np.int64)
        entries = PLACING.entries(
            samples=count, records=self._records_at, intervals=self._intervals_at, descriptions=_DESCRIPTIONS_AT, places=address_of(places),
            rows=0, channels=0, whole=0, signed=0,
        )  # fmt: skip
        table = table_of(entries)
        words = place_taps(address_of(table))
        rows, channels, whole, signed = table[PLACING.span("rows", "signed")].tolist()
        shared = {
            "records": self._records, "intervals": self._intervals, "filters": TABLES, "descriptions": DESCRIPTIONS, "places": places,
            "taps": Scratch(4 * words), "samples": count,
        }  # fmt: skip
        unstored = RESIZE_CUDA.entries(inputs=in_addresses, outputs=0, **shared)
        context = RESIZE_CUDA.entries(inputs=in_addresses, outputs=out_addresses, **shared)
        taps, resize, macros = _kernels(in_dtype, out_dtype, self._volume, channels, signed)
        offers = Unstored("resized", out_addresses, unstored, macros) if channels and whole and not self._volume else None
        return [
            Launch(taps, unstored, (3, grid_of(1, count)[1])),
            Launch(resize, context, tile_grid(rows, count), offers=offers),
        ]


@cache
def _kernels(
    in_dtype: np.dtype, out_dtype: np.dtype, volume: bool, channels: int, signed: int
) -> tuple[Kernel, Kernel, tuple[tuple[str, str | int], ...]]:
    """The kernels of a GPU: for taps, and for pixels; and the macros of the kernel of another operator that resizes pictures itself."""
    pictures = ("CHANNELS", channels), ("SIGNED", signed)
    types = ("IN", element_type(in_dtype)), ("OUT", element_type(out_dtype)), ("VOLUME", int(volume)), *pictures
    return Kernel(_SOURCE, "taps", types), Kernel(_SOURCE, "resize", types), (("RESIZED_IN", element_type(in_dtype)), *pictures)


_TILE_ROWS, _TILES = 8, 3
_BLOCKS = 1280
"""Blocks of a launch that keep a GPU busy: about ten per multiprocessor of an H200. With fewer, some multiprocessors work longer."""
_LEAST_ROWS = 4


@lru_cache(256)
def tile_grid(rows: int, samples: int) -> tuple[int, int]:
    """A grid for kernels that compute tiles of a resized picture (resize.cuh). A block computes several tiles to amortise its set-up."""
    per_sample = max(-(-rows // (_TILE_ROWS * _TILES)), min(_BLOCKS // max(samples, 1), -(-rows // _LEAST_ROWS)))
    return grid_of(per_sample, samples, 1)


def compile_kernels(types: tuple[np.dtype, np.dtype] | None, on_gpu: bool) -> None:
    """Import and compile now the code for batches of any type, and for pictures of `types` (of the input, of the output)."""
    tap_tables.compile()
    fill_records.compile()
    window_region.compile()
    if on_gpu:
        place_taps.compile()
    if types is not None:
        _resampling(*types, False).compile()


@cache
def _resampling(in_dtype: np.dtype, out_dtype: np.dtype, volume: bool) -> Compiled:
    return (volume_step if volume else image_step)(in_dtype.name, out_dtype.name)

"""Compiled steps of the operators over rectangles of pixels: greatest, least and middle element."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from ...batch import Batch, storage_dtype
from ...compiled.intrinsics import load_i64, view_i64, view_of
from ...compiled.step import Compiled, inlined, step_variant
from ...compiled.tables import laid_out
from ...device.launch import Kernel, Launch, Scratch, element_type, grid_of
from ..base import Step, no_explanation
from .filter_kernels import inside
from .rectangle_tables import RECTANGLE, RECTANGLE_LAUNCH, RECTANGLE_RECORD

at, word = RECTANGLE.at, RECTANGLE_RECORD.word
_SOURCE = Path(__file__).with_suffix(".cu")
MOST_ELEMENTS = 65535
"""Elements of a median's window: they are counted in 16 bits."""


@cache
def _padding(dtype: str, target: str, key: Any) -> Any:
    """``pad(out, source, r, border, neutral)``: a plane with what its windows see beyond its border, elements mapped by `key`.

    The padded plane has height + window height - 1 rows of width + window width - 1 pixels.
    """
    view_in, view_out = view_of(np.dtype(dtype)), view_of(np.dtype(target))

    @inlined
    def pad(target, source, r, border, neutral):
        height, width, channels = r[word.height], r[word.width], r[word.channels]
        rows, columns = height + r[word.window_height] - 1, width + r[word.window_width] - 1
        elements = view_in(source, height * width * channels)
        out = view_out(target, rows * columns * channels)
        left = r[word.anchor_x]
        for y in range(rows):
            from_y = inside(y - r[word.anchor_y], height, border)
            to = y * columns * channels
            if from_y < 0:
                for k in range(columns * channels):
                    out[to + k] = neutral
                continue
            row = from_y * width * channels
            for k in range(width * channels):
                out[to + left * channels + k] = key(elements[row + k])
            for x in range(columns):
                if left <= x < left + width:
                    continue
                from_x = inside(x - left, width, border)
                for c in range(channels):
                    out[to + x * channels + c] = key(elements[row + from_x * channels + c]) if from_x >= 0 else neutral

    return pad


@inlined
def _same(element):
    return element


def _extreme(greatest: bool) -> Any:
    """``choose(a, b)``: the greater or the lesser element."""
    if greatest:
        return inlined(lambda a, b: b if a < b else a)
    return inlined(lambda a, b: b if b < a else a)


@cache
def extreme_step(greatest: bool, dtype: str) -> Compiled:
    """The step of dilate (`greatest`) or erode for the numpy name of a dtype.

    The extreme of 2^k neighbours is that of two extremes of 2^(k-1): a window of n elements takes about log2(n) comparisons of the plane
    with itself, along rows and then along columns.
    """
    kind, kind_bytes = np.dtype(dtype), np.dtype(dtype).itemsize
    view, choose, pad = view_of(kind), _extreme(greatest), _padding(dtype, dtype, _same)
    if kind.kind == "f":
        neutral = kind.type(-np.inf if greatest else np.inf)
    else:
        neutral = kind.type(np.iinfo(kind).min if greatest else np.iinfo(kind).max)

    @inlined
    def gather(plane, count, stride, window):
        """plane[i] = the extreme of plane[i + stride * (0..window-1)], as far as these are below `count`."""
        covered = 1
        while covered < window:
            ahead = covered if 2 * covered <= window else window - covered
            for i in range(count - ahead * stride):
                plane[i] = choose(plane[i], plane[i + ahead * stride])
            covered += ahead

    @step_variant(greatest, dtype)
    def extreme(context, sample, thread):
        r = view_i64(load_i64(context + at.records) + word.size * sample, word.words)
        height, channels = r[word.height], r[word.channels]
        row, padded_row = r[word.width] * channels, (r[word.width] + r[word.window_width] - 1) * channels
        source = load_i64(load_i64(context + at.inputs) + 8 * sample)
        out = load_i64(load_i64(context + at.outputs) + 8 * sample)
        scratch = load_i64(thread) + load_i64(context + at.scratch)
        if height * row == 0:
            return 0
        count = (height + r[word.window_height] - 1) * padded_row
        padded = view(scratch, count)
        for _ in range(r[word.planes]):
            target = view(out, height * row)
            for turn in range(load_i64(context + at.iterations)):
                pad(scratch, source if turn == 0 else out, r, load_i64(context + at.border), neutral)
                gather(padded, count, channels, r[word.window_width])
                gather(padded, count, padded_row, r[word.window_height])
                for y in range(height):
                    for k in range(row):
                        target[y * row + k] = padded[y * padded_row + k]
            source += height * row * kind_bytes
            out += height * row * kind_bytes
        return 0

    return extreme


@cache
def median_step(dtype: str) -> Compiled:
    """The step of median_blur for the numpy name of a dtype: UINT8, UINT16 or FLOAT.

    Elements become unsigned keys in the same order. A row of medians is found bit by bit, from the highest: the median is the largest key
    that at most half of the window's keys are less than. So all columns of a row are counted at once, without branches.
    """
    kind, wide = np.dtype(dtype), dtype == "float32"
    key_type = np.dtype(np.uint32 if wide else np.uint16)
    bits = 8 * kind.itemsize
    view_out, view_keys, view_bits = view_of(kind), view_of(key_type), view_of(np.dtype(np.uint32))
    one = key_type.type(1)
    sign = np.uint32(0x80000000)
    if wide:
        key = inlined(lambda element: ~element if element & sign else element | sign)
    else:
        key = inlined(lambda element: key_type.type(element))
    pad = _padding("uint32" if wide else dtype, key_type.name, key)
    key_bytes, size = key_type.itemsize, kind.itemsize

    @inlined
    def store(out, found, row):
        if wide:
            words = view_bits(out, row)
            for k in range(row):
                words[k] = found[k] & ~sign if found[k] & sign else ~found[k]
        else:
            elements = view_out(out, row)
            for k in range(row):
                elements[k] = found[k]

    @step_variant(dtype)
    def median(context, sample, thread):
        r = view_i64(load_i64(context + at.records) + word.size * sample, word.words)
        height, channels = r[word.height], r[word.channels]
        high, wide_window = r[word.window_height], r[word.window_width]
        row, padded_row = r[word.width] * channels, (r[word.width] + wide_window - 1) * channels
        source = load_i64(load_i64(context + at.inputs) + 8 * sample)
        out = load_i64(load_i64(context + at.outputs) + 8 * sample)
        scratch = load_i64(thread) + load_i64(context + at.scratch)
        middle = key_type.type(high * wide_window // 2)
        if height * row == 0:
            return 0
        found, less = view_keys(scratch, row), view_keys(scratch + key_bytes * row, row)
        padded = scratch + 2 * key_bytes * row
        for _ in range(r[word.planes]):
            pad(padded, source, r, load_i64(context + at.border), key_type.type(0))
            for y in range(height):
                for k in range(row):
                    found[k] = 0
                for bit in range(bits):
                    trial = one << key_type.type(bits - 1 - bit)
                    for k in range(row):
                        less[k] = 0
                    for dy in range(high):
                        for dx in range(wide_window):
                            keys = view_keys(padded + key_bytes * ((y + dy) * padded_row + dx * channels), row)
                            for k in range(row):
                                less[k] += key_type.type(keys[k] < (found[k] | trial))
                    for k in range(row):
                        if less[k] <= middle:
                            found[k] |= trial
                store(out + size * y * row, found, row)
            source += size * height * row
            out += size * height * row
        return 0

    return median


def make_extreme_step(source: Batch, output: Batch, records: np.ndarray, border: int, iterations: int, greatest: bool) -> Step:
    """The step of dilate or erode for a batch; `records` are RECTANGLE_RECORDs."""
    kernel = extreme_step(greatest, storage_dtype(source.dtype).name)
    itemsize = source.itemsize
    step = _step(kernel, source, output, records, border, iterations, int(_padded(records).max(initial=0)) * itemsize)
    step.launches = lambda: _extreme_launches(source, output, records, border, iterations, greatest)
    return step


def make_median_step(source: Batch, output: Batch, records: np.ndarray, border: int) -> Step:
    """The step of median_blur for a batch; `records` are RECTANGLE_RECORDs."""
    key_bytes = max(2, source.itemsize)
    elements = _padded(records) + 2 * records[:, word.width] * records[:, word.channels]
    scratch = int(elements.max(initial=0)) * key_bytes
    step = _step(median_step(storage_dtype(source.dtype).name), source, output, records, border, 1, scratch)
    step.launches = lambda: [_launch("middle", (), source.addresses, source, output, records, border, 0)]
    return step


def _padded(records: np.ndarray) -> np.ndarray:
    """Elements of a padded plane, int64[samples]."""
    high, wide = records[:, word.height] + records[:, word.window_height], records[:, word.width] + records[:, word.window_width]
    return (high - 1) * (wide - 1) * records[:, word.channels]


def _step(kernel: Compiled, source: Batch, output: Batch, records: np.ndarray, border: int, iterations: int, scratch: int) -> Step:
    table, keep = laid_out(
        RECTANGLE.entries(
            inputs=source.addresses, outputs=output.addresses, records=records, border=border, iterations=iterations, scratch=0
        )
    )
    return Step(kernel.address, table, no_explanation, scratch, RECTANGLE.word.scratch, keep)


def _extreme_launches(source: Batch, output: Batch, records: np.ndarray, border: int, iterations: int, greatest: bool) -> list[Launch]:
    """Passes along rows and columns by turns; between them the elements lie in scratch memory."""
    between = Scratch(max(1, int(source.sizes().sum())))
    defines = (("GREATEST", int(greatest)),)
    launches, current = [], source.addresses
    for _ in range(iterations):
        for entry in ("along_rows", "along_columns"):
            launches.append(_launch(entry, defines, current, source, output, records, border, between))
        current = output.addresses
    return launches


def _launch(
    entry: str, defines: tuple, inputs: np.ndarray, source: Batch, output: Batch, records: np.ndarray, border: int, between: Any
) -> Launch:
    name = element_type(storage_dtype(source.dtype))
    entries = RECTANGLE_LAUNCH.entries(
        inputs=inputs, outputs=output.addresses, records=records, border=border, between=between, samples=len(records)
    )
    largest = int(records[:, word.planes : word.channels + 1].prod(axis=1).max(initial=0))
    return Launch(Kernel(_SOURCE, entry, (("IN", name), *defines)), entries, grid_of(largest, len(records)))

"""Compiled steps for rectangles of pixels: maximum, minimum and median."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from llvmlite import ir

from ...batch import Batch, storage_dtype
from ...compiled import kinds
from ...compiled.intrinsics import copy_bytes, load_i64, view_i64, view_of
from ...compiled.job_tables import THREAD
from ...compiled.step import Compiled, inlined, step_variant
from ...compiled.tables import laid_out
from ...compiled.vectors import function_of, lanes, load_ir, vector_ir, widest
from ...device.launch import Entry, Kernel, Launch, Scratch, element_type, grid_of
from ..base import Step, no_explanation
from .dilate_erode_median import RECTANGLE, RECTANGLE_LAUNCH, RECTANGLE_RECORD
from .filter_kernels import inside

at, word, thread_at = RECTANGLE.at, RECTANGLE_RECORD.word, THREAD.at
_SOURCE = Path(__file__).with_suffix(".cu")
MOST_ELEMENTS = 65535
"""Most elements of a median's window: they are counted in 16 bits."""
_DIRECT = 5
"""Windows up to this length are processed element by element; longer windows by doubling."""
_SHORT, _LONG = 3, 5
"""Sides of the square windows whose median is found by vector comparisons."""


def _stride(bytes_of_row: Any) -> Any:
    """Row stride in scratch memory, in bytes: a vector may be stored across a row's end."""
    return (bytes_of_row + 127) & -64


_row_stride = inlined(_stride)


# ------------------------------------------------------------------------------------------------------------------------ rows


@cache
def _row_maker(dtype: str, target: str, convert: Any) -> Any:
    """``row(out, source, r, border, neutral)``: a row of a plane with its borders on both ends, `convert`ed vector by vector.

    Writes up to one vector behind the row.
    """
    count = widest() // np.dtype(target).itemsize
    own = lanes(dtype, count)
    load, load_some, splat, store = own.load, own.load_some, own.splat, lanes(target, count).store
    nothing = np.dtype(dtype).type(0)
    size, target_size, view = np.dtype(dtype).itemsize, np.dtype(target).itemsize, view_of(np.dtype(target))
    plain = dtype == target and convert is None

    @inlined
    def interior(out, source, elements):
        if plain:
            copy_bytes(out, source, elements * size)
            return
        whole = elements - elements % count
        for k in range(0, whole, count):
            store(out + k * target_size, convert(load(source + k * size)))
        if whole < elements:
            rest = load_some(source + whole * size, elements - whole, splat(nothing))
            store(out + whole * target_size, convert(rest))

    @inlined
    def row(out, source, r, border, neutral):
        width, channels, left = r[word.width], r[word.channels], r[word.anchor_x]
        columns = width + r[word.window_width] - 1
        interior(out + left * channels * target_size, source, width * channels)
        elements = view(out, columns * channels)
        x = 0
        while x < columns:
            if x == left:
                x += width
                continue
            from_x = inside(x - left, width, border)
            for c in range(channels):
                elements[x * channels + c] = elements[(left + from_x) * channels + c] if from_x >= 0 else neutral
            x += 1

    return row


# ----------------------------------------------------------------------------------------------------------------------- extremes


@cache
def extreme_step(greatest: bool, dtype: str) -> Compiled:
    """The step of dilate (`greatest`) or erode for the NumPy name of a dtype.

    First, the extremes along every row of the plane are computed; then these rows are compared with each other. Both work a vector at a
    time. The extreme of 2^k neighbours is computed from two extremes of 2^(k-1): a window of n elements takes about log2(n) comparisons.
    """
    kind, size = np.dtype(dtype), np.dtype(dtype).itemsize
    count = widest() // size
    own, step = lanes(dtype, count), widest()
    choose, view = own.larger if greatest else own.smaller, view_of(kind)
    load, store, store_some = own.load, own.store, own.store_some
    row_of = _row_maker(dtype, dtype, None)
    if kind.kind == "f":
        neutral = kind.type(-np.inf if greatest else np.inf)
    else:
        neutral = kind.type(np.iinfo(kind).min if greatest else np.iinfo(kind).max)

    @inlined
    def along(out, source, length, distance, window):
        """out = the extremes of source, source + distance, ... (`window` of them), in bytes. Both may be the same if `window` is 2."""
        for k in range(0, length, step):
            found = load(source + k)
            for n in range(1, window):
                found = choose(load(source + k + n * distance), found)
            store(out + k, found)

    @inlined
    def pair(out, source, length, distance):
        for k in range(0, length, step):
            store(out + k, choose(load(source + k + distance), load(source + k)))

    @inlined
    def reduced_row(out, buffer, length, distance, window):
        """The extremes along a row with its borders. The buffer is overwritten."""
        if window <= _DIRECT:
            along(out, buffer, length, distance, window)
            return
        covered = 1
        while 2 * covered < window:
            pair(buffer, buffer, length + (window - 2 * covered) * distance, covered * distance)
            covered *= 2
        pair(out, buffer, length, (window - covered) * distance)

    @inlined
    def store_row(out, source, length, distance, window):
        """Like `along` for windows up to _DIRECT. Writes nothing behind `length` bytes."""
        whole = length - length % step
        along(out, source, whole, distance, window)
        if whole < length:
            found = load(source + whole)
            for n in range(1, window):
                found = choose(load(source + whole + n * distance), found)
            store_some(out + whole, found, (length - whole) // size)

    @inlined
    def plane_of(out, source, plane, buffer, r, border, in_place):
        height, channels = r[word.height], r[word.channels]
        high, wide = r[word.window_height], r[word.window_width]
        length = r[word.width] * channels * size
        stride = _row_stride(length)
        rows = height + high - 1
        at_once = high <= _DIRECT and not in_place
        for y in range(rows):
            from_y = inside(y - r[word.anchor_y], height, border)
            target = plane + y * stride
            if from_y < 0:
                elements = view(target, stride // size)
                for k in range(stride // size):
                    elements[k] = neutral
            else:
                row_of(buffer, source + from_y * length, r, border, neutral)
                reduced_row(target, buffer, length, channels * size, wide)
            if at_once and y >= high - 1:  # The rows are in the L1 cache.
                store_row(out + (y - high + 1) * length, plane + (y - high + 1) * stride, length, stride, high)
        if at_once:
            return
        covered = 1
        while 2 * covered < high and high > _DIRECT:
            for y in range(rows - 2 * covered + 1):
                pair(plane + y * stride, plane + y * stride, stride, covered * stride)
            covered *= 2
        for y in range(height):
            if high > _DIRECT:
                store_row(out + y * length, plane + y * stride, length, (high - covered) * stride, 2)
            else:
                store_row(out + y * length, plane + y * stride, length, stride, high)

    @step_variant(greatest, dtype)
    def extreme(context, sample, thread):
        r = view_i64(load_i64(context + at.records) + word.size * sample, word.words)
        height, channels = r[word.height], r[word.channels]
        source = load_i64(load_i64(context + at.inputs) + 8 * sample)
        out = load_i64(load_i64(context + at.outputs) + 8 * sample)
        plane = load_i64(thread + thread_at.scratch) + load_i64(context + at.scratch)
        bytes_of_plane = height * r[word.width] * channels * size
        if bytes_of_plane == 0:
            return 0
        buffer = plane + (height + r[word.window_height] - 1) * _row_stride(r[word.width] * channels * size)
        for _ in range(r[word.planes]):
            for turn in range(load_i64(context + at.iterations)):
                plane_of(out, source if turn == 0 else out, plane, buffer, r, load_i64(context + at.border), turn > 0)
            source += bytes_of_plane
            out += bytes_of_plane
        return 0

    return extreme


# ------------------------------------------------------------------------------------------------------------------------ medians


def middle_network(count: int) -> list[tuple[int, int]]:
    """Comparisons (the lesser goes to the first place) after which the place count // 2 has the median of `count` elements.

    Batcher's odd-even merge sort (Knuth, The Art of Computer Programming 3, 5.3.4), without comparisons that the median does not need.
    """
    comparisons = []
    p = 1
    while p < count:
        k = p
        while k >= 1:
            for j in range(k % p, count - k, 2 * k):
                for i in range(min(k, count - j - k)):
                    if (i + j) // (2 * p) == (i + j + k) // (2 * p):
                        comparisons.append((i + j, i + j + k))
            k //= 2
        p *= 2
    needed, kept = {count // 2}, []
    for a, b in reversed(comparisons):
        if a in needed or b in needed:
            needed |= {a, b}
            kept.append((a, b))
    return kept[::-1]


@cache
def _middle_of(side: int, kind: str) -> Any:
    """``middle(address, row, pixel)``: a vector of the medians of square windows of unsigned keys. The windows of the first lane
    start at `address`; their rows are `row` bytes apart and their pixels `pixel` bytes."""
    own = lanes(kind, widest() // np.dtype(kind).itemsize).kind

    def codegen(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        address, row, pixel = args
        found = []
        for y in range(side):
            for x in range(side):
                down, right = (builder.mul(step, ir.Constant(ir.IntType(64), n)) for step, n in ((row, y), (pixel, x)))
                found.append(load_ir(builder, builder.add(address, builder.add(down, right)), vector_ir(own)))
        for a, b in middle_network(side * side):
            less = builder.icmp_unsigned("<", found[a], found[b])
            found[a], found[b] = builder.select(less, found[a], found[b]), builder.select(less, found[b], found[a])
        return found[side * side // 2]

    return function_of(own(kinds.int64, kinds.int64, kinds.int64), codegen)


@cache
def _keys_of(dtype: str) -> tuple[Any, Any]:
    """(convert vectors of a dtype to unsigned keys in the same order, and back); None: the elements are the keys."""
    if dtype != "float32":
        return None, None
    bits = lanes("int32", widest() // 4)
    unsigned = lanes("uint32", widest() // 4)
    floats = lanes("float32", widest() // 4)
    splat = bits.splat
    signed_of, keys_of = floats.bits_as(bits), bits.bits_as(unsigned)
    bits_of, floats_of = unsigned.bits_as(bits), bits.bits_as(floats)
    most, top, ones = np.int32(31), np.int32(-(1 << 31)), np.int32(-1)

    @inlined
    def key(element):
        """Flip all bits of negative numbers, and the sign of others."""
        v = signed_of(element)
        return keys_of(v ^ ((v >> splat(most)) | splat(top)))

    @inlined
    def element(key):
        v = bits_of(key)
        return floats_of(v ^ (((v >> splat(most)) ^ splat(ones)) | splat(top)))

    return key, element


@cache
def median_step(dtype: str) -> Compiled:
    """The step of median_blur for the NumPy name of a dtype: UINT8, UINT16 or FLOAT.

    Elements become unsigned keys in the same order. There are three methods, all vectorised over pixels and without branches:

    - Windows of 5x5, and 3x3 of bytes: a sorting network finds the median.
    - Other windows of 3x3: columns are sorted. The median is the median of three keys: the greatest of the columns' minima, the median of
      their medians, and the least of their maxima. Columns are sorted once for three windows, but each is loaded again; for bytes this
      gains nothing.
    - Other windows: the median is found bit by bit, from the highest. It is the largest key that at most half of the window's keys are less
      than.
    """
    size = np.dtype(dtype).itemsize
    small = {"uint8": "uint8", "uint16": "uint16", "float32": "uint32"}[dtype]
    wide = "uint32" if dtype == "float32" else "uint16"  # Windows have up to 65535 elements, which are counted in these types.
    bits, wide_type = 8 * size, np.dtype(wide).type
    to_key, from_key = _keys_of(dtype)
    elements_of, vector = lanes(dtype, widest() // size), widest()
    store, store_some = elements_of.store, elements_of.store_some
    counting = lanes(wide, widest() // np.dtype(wide).itemsize)
    counted, count = lanes(dtype, counting.count), counting.count
    load, splat, choose = counting.load, counting.splat, counting.choose
    counted_store, counted_store_some = counted.store, counted.store_some
    three, five = (_middle_of(side, small) for side in (_SHORT, _LONG))
    by_columns = size > 1
    keys_of = lanes(small, widest() // size)
    key_load, key_store, smaller, larger = keys_of.load, keys_of.store, keys_of.smaller, keys_of.larger
    small_row = _row_maker(dtype, small, to_key)
    key_size, zero, one = np.dtype(wide).itemsize, wide_type(0), wide_type(1)
    small_zero = np.dtype(small).type(0)
    if dtype == "uint8":
        widen, narrow = counted.converted(counting), counting.converted(counted)
    else:
        widen, narrow = to_key, from_key
    wide_row = _row_maker(dtype, wide, widen)

    @inlined
    def shown(keys):
        return keys if from_key is None else from_key(keys)

    @inlined
    def shown_wide(keys):
        return keys if narrow is None else narrow(keys)

    @inlined
    def middle(a, b, c):
        return larger(smaller(a, b), smaller(larger(a, b), c))

    @inlined
    def sort_columns(columns, keys, length, stride):
        """Three rows at `columns`: the minimum, the median and the maximum of the three at `keys`."""
        for k in range(0, length, vector):
            a, b, c = key_load(keys + k), key_load(keys + stride + k), key_load(keys + 2 * stride + k)
            low, high = smaller(a, b), larger(a, b)
            rest = larger(low, c)
            key_store(columns + k, smaller(low, c))
            key_store(columns + stride + k, smaller(high, rest))
            key_store(columns + 2 * stride + k, larger(high, rest))

    @inlined
    def of_columns(columns, stride, pixel):
        """The medians of windows over three sorted columns each."""
        after = columns + stride
        last = after + stride
        low = larger(larger(key_load(columns), key_load(columns + pixel)), key_load(columns + 2 * pixel))
        mid = middle(key_load(after), key_load(after + pixel), key_load(after + 2 * pixel))
        high = smaller(smaller(key_load(last), key_load(last + pixel)), key_load(last + 2 * pixel))
        return middle(low, mid, high)

    @inlined
    def by_comparing(out, keys, columns, length, stride, pixel, side):
        if by_columns and side == _SHORT:
            sort_columns(columns, keys, length + 2 * pixel, stride)
        for k in range(0, length, vector):
            if side == _LONG:
                found = five(keys + k, stride, pixel)
            elif by_columns:
                found = of_columns(columns + k, stride, pixel)
            else:
                found = three(keys + k, stride, pixel)
            if k + vector <= length:
                store(out + k, shown(found))
            else:
                store_some(out + k, shown(found), (length - k) // size)

    @inlined
    def by_counting(out, keys, elements, stride, pixel, r):
        high, across = r[word.window_height], r[word.window_width]
        middle = splat(wide_type(high * across // 2))
        for k in range(0, elements, count):
            found = splat(zero)
            for bit in range(bits):
                trial = found | splat(one << wide_type(bits - 1 - bit))
                less = splat(zero)
                for dy in range(high):
                    for dx in range(across):
                        seen = load(keys + k * key_size + dy * stride + dx * pixel)
                        less = less + choose(seen < trial, splat(one), splat(zero))
                found = choose(less <= middle, trial, found)
            if k + count <= elements:
                counted_store(out + k * size, shown_wide(found))
            else:
                counted_store_some(out + k * size, shown_wide(found), elements - k)

    @step_variant(dtype)
    def median(context, sample, thread):
        r = view_i64(load_i64(context + at.records) + word.size * sample, word.words)
        height, channels, border = r[word.height], r[word.channels], load_i64(context + at.border)
        high, across = r[word.window_height], r[word.window_width]
        elements = r[word.width] * channels
        padded = (r[word.width] + across - 1) * channels
        source = load_i64(load_i64(context + at.inputs) + 8 * sample)
        out = load_i64(load_i64(context + at.outputs) + 8 * sample)
        plane = load_i64(thread + thread_at.scratch) + load_i64(context + at.scratch)
        if height * elements == 0:
            return 0
        comparing = high == across and (high == _SHORT or high == _LONG)
        unit = size if comparing else key_size
        stride = _row_stride(padded * unit)
        length = elements * size
        for _ in range(r[word.planes]):
            for y in range(height + high - 1):
                begin = source + inside(y - r[word.anchor_y], height, border) * length
                if comparing:
                    small_row(plane + y * stride, begin, r, border, small_zero)
                else:
                    wide_row(plane + y * stride, begin, r, border, zero)
            for y in range(height):
                if comparing:
                    columns = plane + (height + high - 1) * stride
                    by_comparing(out + y * length, plane + y * stride, columns, length, stride, channels * unit, high)
                else:
                    by_counting(out + y * length, plane + y * stride, elements, stride, channels * unit, r)
            source += height * length
            out += height * length
        return 0

    return median


# ------------------------------------------------------------------------------------------------------------------------- steps


def make_extreme_step(source: Batch, output: Batch, records: np.ndarray, border: int, iterations: int, greatest: bool) -> Step:
    """The step of dilate or erode for a batch; `records` are RECTANGLE_RECORDs."""
    kernel = extreme_step(greatest, storage_dtype(source.dtype).name)
    rows = records[:, word.height] + records[:, word.window_height] - 1
    elements = records[:, word.width] * records[:, word.channels]
    scratch = rows * _stride(elements * source.itemsize) + _stride(_padded_row(records) * source.itemsize)
    step = _step(kernel, source, output, records, border, iterations, int(scratch.max(initial=0)) + 64)
    step.launches = lambda: _extreme_launches(source, output, records, border, iterations, greatest)
    return step


def make_median_step(source: Batch, output: Batch, records: np.ndarray, border: int) -> Step:
    """The step of median_blur for a batch; `records` are RECTANGLE_RECORDs."""
    rows = records[:, word.height] + records[:, word.window_height] - 1
    scratch = (rows + _SHORT) * _stride(_padded_row(records) * max(2, source.itemsize)) + 64
    step = _step(median_step(storage_dtype(source.dtype).name), source, output, records, border, 1, int(scratch.max(initial=0)))
    kernel = Kernel(_SOURCE, "middle", (("IN", element_type(storage_dtype(source.dtype))),))
    step.launches = lambda: [_launch(kernel, source.addresses, output, records, border, 0)]
    return step


def _padded_row(records: np.ndarray) -> np.ndarray:
    """Elements of a row with its borders, int64[samples]."""
    elements: np.ndarray = (records[:, word.width] + records[:, word.window_width] - 1) * records[:, word.channels]
    return elements


def _step(kernel: Compiled, source: Batch, output: Batch, records: np.ndarray, border: int, iterations: int, scratch: int) -> Step:
    table, keep = laid_out(
        RECTANGLE.entries(
            inputs=source.addresses, outputs=output.addresses, records=records, border=border, iterations=iterations, scratch=0
        )
    )
    return Step(kernel.address, table, no_explanation, scratch, RECTANGLE.word.scratch, keep)


def _extreme_launches(source: Batch, output: Batch, records: np.ndarray, border: int, iterations: int, greatest: bool) -> list[Launch]:
    """Passes along rows and columns in turn; between passes the elements lie in scratch memory."""
    between = Scratch(max(1, int(source.sizes().sum())))
    defines = ("IN", element_type(storage_dtype(source.dtype))), ("GREATEST", int(greatest))
    launches, current = [], source.addresses
    for _ in range(iterations):
        for entry in ("along_rows", "along_columns"):
            launches.append(_launch(Kernel(_SOURCE, entry, defines), current, output, records, border, between))
        current = output.addresses
    return launches


def _launch(kernel: Kernel, inputs: np.ndarray, output: Batch, records: np.ndarray, border: int, between: Entry) -> Launch:
    entries = RECTANGLE_LAUNCH.entries(
        inputs=inputs, outputs=output.addresses, records=records, border=border, between=between, samples=len(records)
    )
    largest = int(records[:, RECTANGLE_RECORD.span("planes", "channels")].prod(axis=1).max(initial=0))
    return Launch(kernel, entries, grid_of(largest, len(records)))

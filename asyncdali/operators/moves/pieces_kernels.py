"""Compiled steps that move elements. Each sample consists of pieces, which are copied between strided places with any number of axes.

Joining, slicing, padding, transposing and filling differ only in offsets and strides, which ``pieces.py`` writes into records. One step
serves all element types, because it moves runs of bytes; :func:`converting_step` also changes the type.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np

from ...compiled.byte_vectors import divider, interleaver
from ...compiled.convert_kernels import converter, slicing_converter, storage, view
from ...compiled.intrinsics import copy_bytes, load_i64, smaller, view_i64, view_of, view_u8, view_u32
from ...compiled.step import Compiled, inlined, step_variant
from .pieces_tables import PIECE_HEAD, PIECES

at, word = PIECES.at, PIECE_HEAD.word
_view_u16, _view_u64 = view_of(np.dtype(np.uint16)), view_of(np.dtype(np.uint64))


@inlined
def collapse(extents, strides, targets):
    """Merge axes adjacent in memory, in place. Returns the number of remaining axes, or -1 if there are no elements."""
    left = 0
    for k in range(len(extents)):
        extent = extents[k]
        if extent <= 0:
            return -1
        if extent == 1:
            continue
        if left > 0 and strides[left - 1] == strides[k] * extent and targets[left - 1] == targets[k] * extent:
            extents[left - 1] *= extent
            strides[left - 1], targets[left - 1] = strides[k], targets[k]
            continue
        extents[left], strides[left], targets[left] = extent, strides[k], targets[k]
        left += 1
    return left


@inlined
def _bytes(source, out, size):
    a, b = view_u8(source, size), view_u8(out, size)
    for i in range(size):
        b[i] = a[i]


def _make_row(view_elements: Any, size: int) -> Any:
    """``row(source, out, count, stride, target)``: `count` elements of `size` bytes between strided places."""

    @inlined
    def row(source, out, count, stride, target):
        if stride == 0 and target == size:
            value, b = view_elements(source, 1)[0], view_elements(out, count)
            for i in range(count):
                b[i] = value
        elif target == size:
            b = view_elements(out, count)
            for i in range(count):
                b[i] = view_elements(source + i * stride, 1)[0]
        else:
            for i in range(count):
                view_elements(out + i * target, 1)[0] = view_elements(source + i * stride, 1)[0]

    return row


_row1, _row2, _row4, _row8 = _make_row(view_u8, 1), _make_row(_view_u16, 2), _make_row(view_u32, 4), _make_row(_view_u64, 8)


_LONG = 64  # Bytes from which on the C library copies a block faster than a loop, whose last bytes are copied one by one.
_TOGETHER = 512  # Rows whose columns are copied one after another: their cache lines are still in the cache for the next column.
_MANY = 16  # Least blocks for which doubling takes less time than one copy per block.


@inlined
def _repeat(source, out, count, size):
    """Fill `count` blocks with one block, by copying what is filled already: a pixel of three bytes takes no vector instruction."""
    _bytes(source, out, size)
    filled, whole = size, count * size
    while filled < whole:
        copy_bytes(out + filled, out, smaller(filled, whole - filled))
        filled *= 2


@inlined
def _row(source, out, count, stride, target, size):
    """Copy a row of `count` blocks of `size` bytes."""
    if size == 1:
        _row1(source, out, count, stride, target)
    elif size == 2:
        _row2(source, out, count, stride, target)
    elif size == 4:
        _row4(source, out, count, stride, target)
    elif size == 8:
        _row8(source, out, count, stride, target)
    elif stride == 0 and target == size and count >= _MANY:
        _repeat(source, out, count, size)
    elif size == 3:
        for i in range(count):
            a, b = view_u8(source + i * stride, 3), view_u8(out + i * target, 3)
            b[0], b[1], b[2] = a[0], a[1], a[2]
    elif size == 12:
        for i in range(count):
            c, d = view_u32(source + i * stride, 3), view_u32(out + i * target, 3)
            d[0], d[1], d[2] = c[0], c[1], c[2]
    elif size >= _LONG:
        for i in range(count):
            copy_bytes(out + i * target, source + i * stride, size)
    else:
        for i in range(count):
            _bytes(source + i * stride, out + i * target, size)


def _make_pixels(row: Any, size: int) -> tuple[Any, Any]:
    """Functions for pixels of three elements of `size` bytes: to three rows, and from three rows. Rows are `plane` bytes apart."""
    divide_block, block = divider(size)
    interleave_block, _ = interleaver(size)

    @inlined
    def divide(source, out, plane, count):
        whole = count - count % block
        for i in range(0, whole, block):
            divide_block(source + 3 * size * i, out + size * i, plane)
        for c in range(3):
            row(source + size * (3 * whole + c), out + size * whole + c * plane, count - whole, 3 * size, size)

    @inlined
    def interleave(source, plane, out, count):
        whole = count - count % block
        for i in range(0, whole, block):
            interleave_block(source + size * i, plane, out + 3 * size * i)
        for c in range(3):
            row(source + size * whole + c * plane, out + size * (3 * whole + c), count - whole, size, 3 * size)

    return divide, interleave


(_divide1, _interleave1), (_divide2, _interleave2) = _make_pixels(_row1, 1), _make_pixels(_row2, 2)
_divide4, _interleave4 = _make_pixels(_row4, 4)


@inlined
def _divide(source, out, plane, count, size):
    if size == 1:
        _divide1(source, out, plane, count)
    elif size == 2:
        _divide2(source, out, plane, count)
    else:
        _divide4(source, out, plane, count)


@inlined
def _interleave(source, plane, out, count, size):
    if size == 1:
        _interleave1(source, plane, out, count)
    elif size == 2:
        _interleave2(source, plane, out, count)
    else:
        _interleave4(source, plane, out, count)


@inlined
def _copy_plane(source, out, rows, row_stride, row_target, count, stride, target, size, out_size):
    """Copy along the two innermost axes. Contiguous elements are one block; otherwise, the longer axis is the inner loop."""
    if stride == size and target == size:
        _row(source, out, rows, row_stride, row_target, size * count)
    elif rows == 3 and row_stride == size and stride == 3 * size and target == size and size <= 4 and size != 3:
        _divide(source, out, row_target, count, size)
    elif count == 3 and row_stride == size and row_target == 3 * size and target == size and size <= 4 and size != 3:
        _interleave(source, stride, out, rows, size)
    elif rows > count:
        for first in range(0, rows, _TOGETHER):
            a, b, some = source + first * row_stride, out + first * row_target, smaller(_TOGETHER, rows - first)
            for i in range(count):
                _row(a + i * stride, b + i * target, some, row_stride, row_target, size)
    else:
        for i in range(rows):
            _row(source + i * row_stride, out + i * row_target, count, stride, target, size)


def _pieces_step(plane: Any, in_size: int, out_size: int) -> Any:
    """``step(context, sample, thread)`` for all pieces of a sample. Sizes of 0 are read from the context."""

    def pieces(context: int, sample: int, thread: int) -> int:
        count, axes = load_i64(context + at.pieces), load_i64(context + at.axes)
        out = load_i64(load_i64(context + at.outputs) + 8 * sample)
        inputs = load_i64(context + at.inputs)
        size = in_size if in_size > 0 else load_i64(context + at.itemsize)
        to_size = out_size if out_size > 0 else size
        length = word.words + 3 * axes
        record = load_i64(context + at.records) + 8 * length * count * sample
        for _ in range(count):
            head = view_i64(record, word.words)
            along = record + word.size
            extents, strides, targets = view_i64(along, axes), view_i64(along + 8 * axes, axes), view_i64(along + 16 * axes, axes)
            record += 8 * length
            left = collapse(extents, strides, targets)
            if left < 0:
                continue
            source = load_i64(inputs + 8 * head[word.input])
            if head[word.made] == 0:
                source = load_i64(source + 8 * sample)
            source += head[word.offset]
            to = out + head[word.target_offset]
            n, stride, target = 1, size, to_size
            rows, row_stride, row_target = 1, 0, 0
            if head[word.made] != 0:
                stride = to_size
            if left > 0:
                n, stride, target = extents[left - 1], strides[left - 1], targets[left - 1]
            if left > 1:
                rows, row_stride, row_target = extents[left - 2], strides[left - 2], targets[left - 2]
            planes = 1
            for k in range(left - 2):
                planes *= extents[k]
            for p in range(planes):
                rest, a, b = p, source, to
                for k in range(left - 3, -1, -1):
                    index = rest % extents[k]
                    rest //= extents[k]
                    a += index * strides[k]
                    b += index * targets[k]
                if head[word.made] != 0:
                    _copy_plane(a, b, rows, row_stride, row_target, n, stride, target, to_size, to_size)
                else:
                    plane(a, b, rows, row_stride, row_target, n, stride, target, size, to_size)
        return 0

    return pieces


copy_step = Compiled(_pieces_step(_copy_plane, 0, 0), 3, ("copy",))
"""Moves elements of any size."""


@cache
def converting_step(in_dtype: str, out_dtype: str, slicing: bool = True) -> Compiled:
    """Moves elements and converts them (NumPy names), by the rules of slicing operators or of ``cast``."""
    view_in, view_out = view(in_dtype), view(out_dtype)
    convert = slicing_converter(in_dtype, out_dtype) if slicing else converter(in_dtype, out_dtype)

    @inlined
    def repeat(source, out, count):
        """A row of one value, which is converted once."""
        value, y = convert(view_in(source, 1)[0]), view_out(out, count)
        for k in range(count):
            y[k] = value

    @inlined
    def plane(source, out, rows, row_stride, row_target, count, stride, target, size, out_size):
        for i in range(rows):
            a, b = source + i * row_stride, out + i * row_target
            if stride == size and target == out_size:
                x, y = view_in(a, count), view_out(b, count)
                for k in range(count):
                    y[k] = convert(x[k])
            elif stride == 0 and target == out_size:
                repeat(a, b, count)
            else:
                for k in range(count):
                    view_out(b + k * target, 1)[0] = convert(view_in(a + k * stride, 1)[0])

    make = step_variant("convert", in_dtype, out_dtype, slicing)
    return make(_pieces_step(plane, storage(in_dtype).itemsize, storage(out_dtype).itemsize))

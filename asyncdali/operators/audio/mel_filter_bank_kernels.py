"""A matrix applied along one axis: mel filters, cosine transforms. Computed in float64; sums are in the order of the columns."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from llvmlite import ir

from ...batch import Batch
from ...compiled import kinds
from ...compiled.intrinsics import load_f32, load_f64, load_i64, smaller, view_f32
from ...compiled.job_tables import THREAD
from ...compiled.step import inlined, step
from ...compiled.vectors import I64, function_of, lanes, load_ir, prefetch, store_ir, transposed_ir, widest
from ...device.launch import Kernel, Launch, grid_of
from ..base import Step, TableStep, no_explanation
from .mel_filter_bank import AXIS_MATRIX, AXIS_SIZES, COLUMN_RANGE

_SOURCE = Path(__file__).with_name("mel_filter_bank_kernels.cu")

at, sizes_at, range_at, record = AXIS_MATRIX.at, AXIS_SIZES.at, COLUMN_RANGE.at, THREAD.at

_COUNT = widest() // 4  # Neighbouring elements that are computed together: two registers of float64.
_WIDE = 4 * _COUNT
_AHEAD = 8  # Columns to prefetch ahead.
_floats, _doubles = lanes("float32", _COUNT), lanes("float64", _COUNT)
_load, _store, _splat, _zero = _floats.load, _floats.store, _doubles.splat, np.float64(0)
_widened, _narrowed = _floats.converted(_doubles), _doubles.converted(_floats)


@inlined
def _one(source, stride, weights, begin, end, out):
    """One vector of a row."""
    total = _splat(_zero)
    for c in range(begin, end):
        total = total + _splat(load_f64(weights + 8 * c)) * _widened(_load(source + c * stride))
    _store(out, _narrowed(total))


@inlined
def _four(source, stride, weights, begin, end, out):
    """Four vectors of a row, whose sums do not depend on each other."""
    size = 4 * _COUNT
    a = b = c = d = _splat(_zero)
    for column in range(begin, end):
        place, weight = source + column * stride, _splat(load_f64(weights + 8 * column))
        # Columns are far apart, so the hardware does not prefetch them.
        prefetch(place + _AHEAD * stride)
        prefetch(place + _AHEAD * stride + size)
        prefetch(place + _AHEAD * stride + 2 * size)
        prefetch(place + _AHEAD * stride + 3 * size)
        a = a + weight * _widened(_load(place))
        b = b + weight * _widened(_load(place + size))
        c = c + weight * _widened(_load(place + 2 * size))
        d = d + weight * _widened(_load(place + 3 * size))
    _store(out, _narrowed(a))
    _store(out + size, _narrowed(b))
    _store(out + 2 * size, _narrowed(c))
    _store(out + 3 * size, _narrowed(d))


@inlined
def _row(context, r):
    """Weights of a row, and its first and last nonzero column."""
    ranges = load_i64(context + at.ranges) + range_at.size * r
    weights = load_i64(context + at.matrix) + 8 * r * load_i64(context + at.columns)
    return weights, load_i64(ranges + range_at.begin), load_i64(ranges + range_at.end)


@inlined
def _apply(context, source, out, inner):
    """Apply the matrix over neighbours: source float32[columns, inner], out float32[rows, inner]."""
    rows, stride, first = load_i64(context + at.rows), 4 * inner, 0
    while first + _WIDE <= inner:
        for r in range(rows):
            weights, begin, end = _row(context, r)
            _four(source + 4 * first, stride, weights, begin, end, out + r * stride + 4 * first)
        first += _WIDE
    while first < inner and inner >= _COUNT:
        first = smaller(first, inner - _COUNT)  # The last vector overlaps the one before.
        for r in range(rows):
            weights, begin, end = _row(context, r)
            _one(source + 4 * first, stride, weights, begin, end, out + r * stride + 4 * first)
        first += _COUNT
    for r in range(rows):
        weights, begin, end = _row(context, r)
        for i in range(first, inner):
            total = 0.0
            for c in range(begin, end):
                total += load_f64(weights + 8 * c) * np.float64(load_f32(source + c * stride + 4 * i))
            view_f32(out + r * stride + 4 * i, 1)[0] = np.float32(total)


def _turn() -> Any:
    """``turn(source, row, target, column)``: transpose a square: `_COUNT` rows `row` bytes apart become rows `column` bytes apart."""

    def codegen(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        kind = ir.VectorType(ir.FloatType(), _COUNT)
        rows = [load_ir(builder, builder.add(args[0], builder.mul(args[1], I64(k))), kind) for k in range(_COUNT)]
        for k, row in enumerate(transposed_ir(builder, rows)):
            store_ir(builder, row, builder.add(args[2], builder.mul(args[3], I64(k))))
        return context.get_dummy_value()

    return function_of(kinds.void(*[kinds.int64] * 4), codegen)


_turned_square = _turn()


@inlined
def _transposed(source, row, target, column, rows, columns):
    """target[c][r] = source[r][c] of float32; `row` and `column` are the strides of their rows in bytes."""
    whole = columns - columns % _COUNT if rows == _COUNT else 0
    for c in range(0, whole, _COUNT):
        _turned_square(source + 4 * c, row, target + c * column, column)
    for r in range(rows):
        for c in range(whole, columns):
            view_f32(target + c * column + 4 * r, 1)[0] = load_f32(source + r * row + 4 * c)


@inlined
def _apply_across(context, source, out, outer, scratch):
    """Apply the matrix along the innermost axis. Rows of several frames are transposed, so that the frames are neighbours."""
    rows, columns, size = load_i64(context + at.rows), load_i64(context + at.columns), 4 * _COUNT
    results = scratch + columns * size
    for first in range(0, outer, _COUNT):
        count = smaller(outer - first, _COUNT)
        _transposed(source + 4 * first * columns, 4 * columns, scratch, size, count, columns)
        _apply(context, scratch, results, _COUNT)
        if count == _COUNT:
            whole = rows - rows % _COUNT
            for r in range(0, whole, _COUNT):
                _turned_square(results + r * size, size, out + 4 * (first * rows + r), 4 * rows)
        else:
            whole = 0
        for r in range(whole, rows):
            for k in range(count):
                view_f32(out + 4 * ((first + k) * rows + r), 1)[0] = load_f32(results + r * size + 4 * k)


@step
def axis_matrix_step(context, sample, thread):
    """One sample: float32[outer, columns, inner] becomes float32[outer, rows, inner]."""
    sizes = load_i64(context + at.sizes) + sizes_at.size * sample
    outer, inner = load_i64(sizes + sizes_at.outer), load_i64(sizes + sizes_at.inner)
    source, out = load_i64(load_i64(context + at.inputs) + 8 * sample), load_i64(load_i64(context + at.outputs) + 8 * sample)
    if inner == 1 and outer >= 4:
        _apply_across(context, source, out, outer, load_i64(thread + record.scratch) + load_i64(context + at.scratch))
        return 0
    for o in range(outer):
        _apply(context, source + 4 * o * load_i64(context + at.columns) * inner, out + 4 * o * load_i64(context + at.rows) * inner, inner)
    return 0


def make_axis_matrix_step(source: Batch, output: Batch, axis: int, matrix: np.ndarray) -> Step:
    """The step for a batch: `matrix` float64[rows, columns] is applied along `axis` of the samples that have `columns` elements there."""
    shapes, word = source.shapes, AXIS_SIZES.word
    sizes = AXIS_SIZES.zeros(len(source))  # Other samples have no elements.
    sizes[:, word.outer], sizes[:, word.inner] = shapes[:, :axis].prod(axis=1), shapes[:, axis + 1 :].prod(axis=1)
    sizes[shapes[:, axis] != matrix.shape[1], word.outer] = 0
    rows, columns = matrix.shape
    ranges = COLUMN_RANGE.zeros(rows)
    if columns:
        used = matrix != 0
        some = used.any(axis=1)
        ranges[:, COLUMN_RANGE.word.begin] = np.where(some, used.argmax(axis=1), 0)
        ranges[:, COLUMN_RANGE.word.end] = np.where(some, columns - used[:, ::-1].argmax(axis=1), 0)
    entries = AXIS_MATRIX.entries(
        inputs=source.addresses, outputs=output.addresses, sizes=sizes, matrix=matrix, rows=rows, columns=columns, ranges=ranges,
        scratch=0, samples=len(sizes),
    )  # fmt: skip
    grid = grid_of(int(sizes.prod(axis=1).max(initial=0)) * rows, len(sizes))
    step = TableStep(axis_matrix_step.address, entries, no_explanation, 4 * _COUNT * (rows + columns), AXIS_MATRIX.word.scratch)
    step.launches = lambda: [Launch(Kernel(_SOURCE, "axis_matrix"), entries, grid)]
    return step

"""Fourier transforms of real numbers, several at a time: each lane of a vector computes a separate transform. Computed in float32.

The operations and their order are those of ``spectrogram_kernels.cu``. No operations are contracted, so the results are equal. 512 numbers
take about 5,500 instructions for 16 lanes.
"""

from __future__ import annotations

import math
from functools import cache
from types import SimpleNamespace
from typing import Any

import numpy as np
from llvmlite import ir

from ...compiled import kinds
from ...compiled.intrinsics import load_f32, load_i32, load_i64, view_f32
from ...compiled.step import inlined
from ...compiled.vectors import I32, I64, call_ir, function_of, lanes, load_ir, splat_ir, store_ir, transposed_ir, widest
from .spectrogram_fourier import RealTransform
from .spectrogram_fourier_tables import REAL_TRANSFORM

_LONG = 1 << 15  # Transforms from this length on use few lanes: their numbers do not fit into a cache anyway, and memory is limited.

plan_at = REAL_TRANSFORM.at


def plan_table(plan: RealTransform) -> np.ndarray:
    """The plan as kernels read it: a REAL_TRANSFORM."""
    table, _ = REAL_TRANSFORM.make(
        length=plan.length, places=plan.places, stages=len(plan.radices), radices=plan.radices, twiddles=plan.twiddles, turns=plan.turns
    )
    return table


def lane_count(n: int) -> int:
    """The number of transforms of length `n` that are computed at a time."""
    return 4 if n >= _LONG else max(widest() // 4, 4)


_SIN_3 = np.float32(math.sqrt(3) / 2)
_COS_5 = [np.float32(math.cos(2 * math.pi * k / 5)) for k in range(3)]
_SIN_5 = [np.float32(math.sin(2 * math.pi * k / 5)) for k in range(3)]


def _butterflies(count: int) -> tuple[Any, Any, Any, Any]:
    """``two, three, four, five(at, stride, w)``: in place on complex vectors at `at`, `at` + `stride` ...; `w` are the factors or 0."""
    v = lanes("float32", count)
    load, store, splat, size = v.load, v.store, v.splat, v.bytes

    @inlined
    def two(at, stride, w):
        b = at + stride
        ar, ai, br, bi = load(at), load(at + size), load(b), load(b + size)
        if w != 0:
            wr, wi = splat(load_f32(w)), splat(load_f32(w + 4))
            br, bi = br * wr - bi * wi, br * wi + bi * wr
        store(at, ar + br)
        store(at + size, ai + bi)
        store(b, ar - br)
        store(b + size, ai - bi)

    @inlined
    def three(at, stride, w):
        b, c = at + stride, at + 2 * stride
        ar, ai, br, bi, cr, ci = load(at), load(at + size), load(b), load(b + size), load(c), load(c + size)
        if w != 0:
            wr, wi = splat(load_f32(w)), splat(load_f32(w + 4))
            br, bi = br * wr - bi * wi, br * wi + bi * wr
            wr, wi = splat(load_f32(w + 8)), splat(load_f32(w + 12))
            cr, ci = cr * wr - ci * wi, cr * wi + ci * wr
        half, sine = splat(np.float32(0.5)), splat(_SIN_3)
        sr, si = br + cr, bi + ci
        dr, di = sine * (br - cr), sine * (bi - ci)
        mr, mi = ar - half * sr, ai - half * si
        store(at, ar + sr)
        store(at + size, ai + si)
        store(b, mr + di)
        store(b + size, mi - dr)
        store(c, mr - di)
        store(c + size, mi + dr)

    @inlined
    def four(at, stride, w):
        b, c, d = at + stride, at + 2 * stride, at + 3 * stride
        ar, ai, br, bi = load(at), load(at + size), load(b), load(b + size)
        cr, ci, dr, di = load(c), load(c + size), load(d), load(d + size)
        if w != 0:
            wr, wi = splat(load_f32(w)), splat(load_f32(w + 4))
            br, bi = br * wr - bi * wi, br * wi + bi * wr
            wr, wi = splat(load_f32(w + 8)), splat(load_f32(w + 12))
            cr, ci = cr * wr - ci * wi, cr * wi + ci * wr
            wr, wi = splat(load_f32(w + 16)), splat(load_f32(w + 20))
            dr, di = dr * wr - di * wi, dr * wi + di * wr
        pr, pi, qr, qi = ar + cr, ai + ci, ar - cr, ai - ci
        rr, ri, sr, si = br + dr, bi + di, br - dr, bi - di
        store(at, pr + rr)
        store(at + size, pi + ri)
        store(b, qr + si)
        store(b + size, qi - sr)
        store(c, pr - rr)
        store(c + size, pi - ri)
        store(d, qr - si)
        store(d + size, qi + sr)

    c1, c2, s1, s2 = _COS_5[1], _COS_5[2], _SIN_5[1], _SIN_5[2]

    @inlined
    def five(at, stride, w):
        b, c, d, e = at + stride, at + 2 * stride, at + 3 * stride, at + 4 * stride
        ar, ai, br, bi, cr, ci = load(at), load(at + size), load(b), load(b + size), load(c), load(c + size)
        dr, di, er, ei = load(d), load(d + size), load(e), load(e + size)
        if w != 0:
            wr, wi = splat(load_f32(w)), splat(load_f32(w + 4))
            br, bi = br * wr - bi * wi, br * wi + bi * wr
            wr, wi = splat(load_f32(w + 8)), splat(load_f32(w + 12))
            cr, ci = cr * wr - ci * wi, cr * wi + ci * wr
            wr, wi = splat(load_f32(w + 16)), splat(load_f32(w + 20))
            dr, di = dr * wr - di * wi, dr * wi + di * wr
            wr, wi = splat(load_f32(w + 24)), splat(load_f32(w + 28))
            er, ei = er * wr - ei * wi, er * wi + ei * wr
        near, far, high, low = splat(c1), splat(c2), splat(s1), splat(s2)
        pr, pi, qr, qi = br + er, bi + ei, cr + dr, ci + di
        rr, ri, sr, si = br - er, bi - ei, cr - dr, ci - di
        mr, mi = ar + (near * pr + far * qr), ai + (near * pi + far * qi)
        nr, ni = ar + (far * pr + near * qr), ai + (far * pi + near * qi)
        ur, ui = high * rr + low * sr, high * ri + low * si
        vr, vi = low * rr - high * sr, low * ri - high * si
        store(at, ar + (pr + qr))
        store(at + size, ai + (pi + qi))
        store(b, mr + ui)
        store(b + size, mi - ur)
        store(c, nr + vi)
        store(c + size, ni - vr)
        store(d, nr - vi)
        store(d + size, ni + vr)
        store(e, mr - ui)
        store(e + size, mi + ur)

    return two, three, four, five


def _place_ir(builder: Any, data: Any, places: Any, pair: Any, odd: int, size: int) -> Any:
    """Address of number 2 * pair + odd: places[pair] complex vectors after `data`."""
    place = builder.load(builder.inttoptr(builder.add(places, builder.shl(pair, I64(2))), I32.as_pointer()), align=4)
    return builder.add(data, builder.add(builder.mul(builder.sext(place, I64), I64(2 * size)), I64(odd * size)))


def _block_loader(count: int) -> Any:
    """``load_block(pointers, first, weights, data, places)``: numbers first .. first + count - 1 of `count` signals into their places.

    `pointers` int64[count]: start of each signal's window; `first` is even; `weights`: start of the window function.
    """
    size, kind = 4 * count, ir.VectorType(ir.FloatType(), count)

    def codegen(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        pointers, first, weights, data, places = args
        offset = builder.shl(first, I64(2))
        weight = load_ir(builder, builder.add(weights, offset), kind)
        rows = []
        for k in range(count):
            begin = builder.load(builder.inttoptr(builder.add(pointers, I64(8 * k)), I64.as_pointer()), align=8)
            rows.append(builder.fmul(load_ir(builder, builder.add(begin, offset), kind), weight))
        pair = builder.lshr(first, I64(1))
        for k, column in enumerate(transposed_ir(builder, rows)):
            store_ir(builder, column, _place_ir(builder, data, places, builder.add(pair, I64(k // 2)), k % 2, size))
        return context.get_dummy_value()

    return function_of(kinds.void(*[kinds.int64] * 5), codegen)


def _block_writer(count: int) -> Any:
    """``write_block(values, out, stride)``: `count` vectors at `values` become the rows of a block. `stride` is the row stride in bytes."""
    size, kind = 4 * count, ir.VectorType(ir.FloatType(), count)

    def codegen(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        values, out, stride = args
        rows = [load_ir(builder, builder.add(values, I64(size * k)), kind) for k in range(count)]
        for k, row in enumerate(transposed_ir(builder, rows)):
            store_ir(builder, row, builder.add(out, builder.mul(stride, I64(k))))
        return context.get_dummy_value()

    return function_of(kinds.void(*[kinds.int64] * 3), codegen)


def _power(count: int) -> Any:
    """``power_of(re, im, root)``: squared magnitudes, or their square roots."""
    kind = lanes("float32", count).kind

    def codegen(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        re, im, root = args
        square = builder.fadd(builder.fmul(re, re), builder.fmul(im, im))
        return builder.select(root, call_ir(builder, f"llvm.sqrt.v{count}f32", [square]), square)

    return function_of(kind(kind, kind, kinds.boolean), codegen)


def _column_loader(count: int) -> Any:
    """``load_column(source, weight, target)``: one vector of neighbouring numbers, times a weight."""
    kind = ir.VectorType(ir.FloatType(), count)

    def codegen(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        store_ir(builder, builder.fmul(load_ir(builder, args[0], kind), splat_ir(builder, args[1], count)), args[2])
        return context.get_dummy_value()

    return function_of(kinds.void(kinds.int64, kinds.float32, kinds.int64), codegen)


@cache
def real_transforms(count: int) -> SimpleNamespace:
    """The functions that kernels need for `count` transforms at a time; `data` is n float32 vectors of memory, aligned to a cache line.

    ``load_windows(plan, data, pointers, used, weights)``: the first `used` numbers at each pointer times their weights, then zeros.
    ``load_columns(plan, data, source, stride, used, valid)``: the same for neighbours, of which `valid` exist. Numbers are `stride` bytes
    number to number; all weights are 1/2.
    ``transform(plan, data)``: in place.
    ``store_powers(plan, data, out, stride, root)``: powers of n / 2 + 1 frequencies, `stride` bytes apart, a vector each.
    ``write_rows(bins, values, out, stride, valid)``: vectors at `values` as rows of `bins` numbers.
    ``write_columns(bins, values, out, stride, valid)``: the first `valid` lanes of each vector.
    """
    v = lanes("float32", count)
    load, store, splat, size = v.load, v.store, v.splat, v.bytes
    two, three, four, five = _butterflies(count)
    load_block, write_block, power_of, load_column = _block_loader(count), _block_writer(count), _power(count), _column_loader(count)

    @inlined
    def place_of(data, places, number):
        return data + load_i32(places + 4 * (number >> 1)) * (2 * size) + (number & 1) * size

    @inlined
    def clear(data, places, begin, end):
        for number in range(begin, end):
            store(place_of(data, places, number), splat(np.float32(0)))

    @inlined
    def load_windows(plan, data, pointers, used, weights):
        places = load_i64(plan + plan_at.places)
        whole = used - used % count
        for first in range(0, whole, count):
            load_block(pointers, first, weights, data, places)
        for number in range(whole, used):
            to = view_f32(place_of(data, places, number), count)
            for k in range(count):
                to[k] = load_f32(load_i64(pointers + 8 * k) + 4 * number) * load_f32(weights + 4 * number)
        clear(data, places, used, load_i64(plan + plan_at.length))

    @inlined
    def load_columns(plan, data, source, stride, used, valid):
        places = load_i64(plan + plan_at.places)
        half = np.float32(0.5)
        for number in range(used):
            place = place_of(data, places, number)
            if valid == count:
                load_column(source + number * stride, half, place)
            else:
                to = view_f32(place, count)
                for k in range(count):
                    to[k] = load_f32(source + number * stride + 4 * k) * half if k < valid else np.float32(0)
        clear(data, places, used, load_i64(plan + plan_at.length))

    @inlined
    def transform(plan, data):
        half, w, m = load_i64(plan + plan_at.length) >> 1, load_i64(plan + plan_at.twiddles), np.int64(1)
        for stage in range(load_i64(plan + plan_at.stages)):
            radix = np.int64(load_i32(load_i64(plan + plan_at.radices) + 4 * stage))
            stride, factors = m * 2 * size, (radix - 1) * 8
            for first in range(0, half, radix * m):
                at = data + first * 2 * size
                for k in range(m):
                    factor = w + k * factors if m > 1 else 0
                    if radix == 4:
                        four(at + k * 2 * size, stride, factor)
                    elif radix == 2:
                        two(at + k * 2 * size, stride, factor)
                    elif radix == 3:
                        three(at + k * 2 * size, stride, factor)
                    else:
                        five(at + k * 2 * size, stride, factor)
            w += m * factors
            m *= radix

    @inlined
    def store_powers(plan, data, out, stride, root):
        half, turns = load_i64(plan + plan_at.length) >> 1, load_i64(plan + plan_at.turns)
        for k in range((half >> 1) + 1):
            a, b = data + k * 2 * size, data + (half - k if k > 0 else 0) * 2 * size
            ar, ai, br, bi = load(a), load(a + size), load(b), load(b + size)
            wr, wi = splat(load_f32(turns + 8 * k)), splat(load_f32(turns + 8 * k + 4))
            er, ei, dr, di = ar + br, ai - bi, ar - br, ai + bi
            tr, ti = wr * di + wi * dr, wi * di - wr * dr
            store(out + k * stride, power_of(er + tr, ei + ti, root))
            store(out + (half - k) * stride, power_of(er - tr, ei - ti, root))

    @inlined
    def write_rows(bins, values, out, stride, valid):
        whole = bins - bins % count if valid == count else 0
        for first in range(0, whole, count):
            write_block(values + first * size, out + 4 * first, stride)
        for k in range(valid):
            row = view_f32(out + k * stride, bins)
            for b in range(whole, bins):
                row[b] = load_f32(values + b * size + 4 * k)

    @inlined
    def write_columns(bins, values, out, stride, valid):
        for b in range(bins):
            column = view_f32(out + b * stride, valid)
            for k in range(valid):
                column[k] = load_f32(values + b * size + 4 * k)

    return SimpleNamespace(
        load_windows=load_windows, load_columns=load_columns, transform=transform, store_powers=store_powers, write_rows=write_rows,
        write_columns=write_columns, size=size,
    )  # fmt: skip

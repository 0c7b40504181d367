"""Compiled steps of reductions over any axes of samples.

Floats are added in DALI's order, so that sums agree to the last bit. Up to 32 elements are added one after the other, axis within axis.
More elements are halved along the outermost axis that is longer than 1, and the sums of the halves are added. Neighbouring reduced axes
count as one.
"""

from __future__ import annotations

import math
from functools import cache
from typing import Any

import numpy as np

from ...compiled.convert_kernels import storage, view
from ...compiled.intrinsics import load_i64, local_array, view_f32, view_i64, view_of, view_u8, view_u32
from ...compiled.step import Compiled, inlined, step_variant
from .reductions_tables import MAX_AXES, REDUCTION
from .reductions_vectors import (
    EXACT_BYTES,
    EXACT_SQUARES,
    LEAST,
    MOST,
    SQUARES_READ,
    byte_sum,
    extreme_of,
    far_sums,
    node_sum,
    pixel_chunks,
    square_sum,
    supported,
)  # fmt: skip

at = REDUCTION.at
_CHUNK = 32
_LONG = 64  # Least elements for which vectors are worth their set-up.
_HALVED, _WALKED, _FOUR, _MANY, _EXACT, _SQUARES = range(6)  # How a node is computed.
_indices, _wholes, _doubles, _floats = (local_array(kind, MAX_AXES) for kind in (np.int64, np.int64, np.float64, np.float32))
_DEPTH = 256
TOGETHER = 3  # Outputs that are summed at the same time: channels of interleaved pixels.
_nodes, _sums, _some = local_array(np.int64, 4 * _DEPTH), local_array(np.float32, TOGETHER * _DEPTH), local_array(np.float32, TOGETHER)
_view_u16, _view_u64 = view_of(np.dtype(np.uint16)), view_of(np.dtype(np.uint64))


@inlined
def _without_ones(extents, strides):
    """Drop axes of extent 1, in place. Returns the number of remaining axes, or -1 if there are no elements."""
    left = 0
    for k in range(len(extents)):
        if extents[k] <= 0:
            return -1
        if extents[k] > 1:
            extents[left], strides[left] = extents[k], strides[k]
            left += 1
    return left


def _make_walk(view_in: Any, add: Any, merge: Any) -> Any:
    """``walk(source, extents, strides, first, axes, count, start, mean, totals, index)``: one element after the other, axis within axis.

    The box is `count` elements along axis `first` and all of the axes after it. `totals` and `index` are scratch arrays.
    """

    @inlined
    def walk(source, extents, strides, first, axes, count, start, mean, totals, index):
        last = axes - 1
        if first == last:
            total = start
            for i in range(count):
                total = add(total, view_in(source + i * strides[last], 1)[0], mean)
            return total
        for k in range(first, axes):
            totals[k], index[k] = start, 0
        while True:
            total = start
            for i in range(extents[last]):
                total = add(total, view_in(source + i * strides[last], 1)[0], mean)
            k = last - 1
            totals[k] = merge(totals[k], total)
            index[k] += 1
            source += strides[k]
            while index[k] == (count if k == first else extents[k]):
                if k == first:
                    return totals[first]
                source -= strides[k] * extents[k]
                totals[k - 1] = merge(totals[k - 1], totals[k])
                totals[k], index[k] = start, 0
                k -= 1
                index[k] += 1
                source += strides[k]

    return walk


def _make_tree(view_in: Any, add: Any, walk: Any, in_dtype: str, kind: str) -> Any:
    """``tree(source, end, extents, strides, axes, inner, means, together, found, ...)``: float32 sums in the order described above.

    `end` is where the sample's memory ends.
    """
    zero, size = np.float32(0), storage(in_dtype).itemsize
    fast, exact = supported(in_dtype, kind), in_dtype == "uint8" and kind == "value"
    many: Any = node_sum(in_dtype, kind) if fast else None
    far = far_sums(in_dtype)
    squares = in_dtype == "uint8" and kind == "square"
    pixels, chunks = in_dtype == "float32", pixel_chunks(kind)

    @inlined
    def four_chunks(source, stride, count, mean):
        """66 to 128 elements of one axis. Four sums run at the same time, because the latency of an addition exceeds its issue time."""
        half = count // 2
        n0, n2 = half // 2, (count - half) // 2
        b = source + n0 * stride
        c = source + half * stride
        d = c + n2 * stride
        s0 = s1 = s2 = s3 = zero
        shared = min(n0, n2)
        for i in range(shared):
            s0 = add(s0, view_in(source + i * stride, 1)[0], mean)
            s1 = add(s1, view_in(b + i * stride, 1)[0], mean)
            s2 = add(s2, view_in(c + i * stride, 1)[0], mean)
            s3 = add(s3, view_in(d + i * stride, 1)[0], mean)
        for i in range(shared, n0):
            s0 = add(s0, view_in(source + i * stride, 1)[0], mean)
        for i in range(shared, half - n0):
            s1 = add(s1, view_in(b + i * stride, 1)[0], mean)
        for i in range(shared, n2):
            s2 = add(s2, view_in(c + i * stride, 1)[0], mean)
        for i in range(shared, count - half - n2):
            s3 = add(s3, view_in(d + i * stride, 1)[0], mean)
        return np.float32(np.float32(s0 + s1) + np.float32(s2 + s3))

    @inlined
    def leaf_kind(base, end, stride, count, inner):
        """The method that sums a node."""
        if fast and inner == 1 and (stride == size or stride == 3 * size):
            if exact and count <= EXACT_BYTES:
                return _EXACT
            if squares and stride == size and base + count + SQUARES_READ <= end:
                return _SQUARES if count <= EXACT_SQUARES else _HALVED
            if (stride == size or far) and LEAST <= count <= MOST and base + (count + 16) * stride <= end:
                return _MANY
        if inner == 1 and 2 * _CHUNK + 2 <= count <= 4 * _CHUNK:
            return _FOUR
        return _WALKED if count * inner <= _CHUNK else _HALVED

    @inlined
    def tree(source, end, extents, strides, axes, inner, means, together, found, totals, index, nodes, sums):
        # `together` outputs, whose elements are neighbours: their nodes share the cache. Their sums become found[0 ...].
        # Nodes: axis (-1: add the last two sums), first element, number of elements, address.
        nodes[0], nodes[1], nodes[2], nodes[3] = 0, 0, extents[0], source
        left, done = 1, 0
        while left > 0:
            left -= 1
            k, first, count, base = nodes[4 * left], nodes[4 * left + 1], nodes[4 * left + 2], nodes[4 * left + 3]
            if k < 0:
                done -= 1
                for c in range(together):
                    at = TOGETHER * (done - 1) + c
                    sums[at] = sums[at] + sums[at + TOGETHER]
                continue
            base += first * strides[k]
            while count == 1 and inner[k] > _CHUNK:
                k += 1
                count = extents[k]
            if pixels and together == TOGETHER and 2 * _CHUNK + 2 <= count <= 4 * _CHUNK and base + count * strides[k] + 4 <= end:
                chunks(base, count, means, sums[TOGETHER * done :])
                done += 1
                continue
            kind_of_leaf = leaf_kind(base + (together - 1) * size, end, strides[k], count, inner[k])
            if kind_of_leaf != _HALVED:
                for c in range(together):
                    at, mean = base + c * size, means[c]
                    if fast and kind_of_leaf == _MANY:
                        sums[TOGETHER * done + c] = many(at, 1 if strides[k] == size else 3, count, mean)
                    elif squares and kind_of_leaf == _SQUARES:
                        sums[TOGETHER * done + c] = square_sum(at, count)
                    elif kind_of_leaf == _EXACT:
                        sums[TOGETHER * done + c] = np.float32(byte_sum(at, strides[k], count))
                    elif kind_of_leaf == _FOUR:
                        sums[TOGETHER * done + c] = four_chunks(at, strides[k], count, mean)
                    else:
                        sums[TOGETHER * done + c] = walk(at, extents, strides, k, axes, count, zero, mean, totals, index)
                done += 1
                continue
            half = count // 2
            nodes[4 * left] = -1
            top = 4 * (left + 1)
            nodes[top], nodes[top + 1], nodes[top + 2], nodes[top + 3] = k, half, count - half, base
            nodes[top + 4], nodes[top + 5], nodes[top + 6], nodes[top + 7] = k, 0, half, base
            left += 3
        for c in range(together):
            found[c] = sums[c]

    return tree


@inlined
def _store(out, index, size, value):
    """The low bytes of an integer."""
    if size == 1:
        view_u8(out + index, 1)[0] = np.uint8(value)
    elif size == 2:
        _view_u16(out + 2 * index, 1)[0] = np.uint16(value)
    elif size == 4:
        view_u32(out + 4 * index, 1)[0] = np.uint32(value)
    else:
        _view_u64(out + 8 * index, 1)[0] = np.uint64(value)


@inlined
def _whole(value, size, signed):
    """A float as an integer of `size` bytes: truncated, saturated; NaN as the processor converts it (see ``convert_kernels``)."""
    x = np.trunc(np.float64(value))
    bits = 8 * size
    if x != x:
        lowest = size == 8 or (size == 4 and signed != 0)
        return np.int64(-(np.int64(1) << np.int64(bits - 1))) if lowest else np.int64(0)
    if signed != 0:
        bound = 2.0 ** (bits - 1)
        if x >= bound:
            return np.int64((np.uint64(1) << np.uint64(bits - 1)) - np.uint64(1))
        return np.int64(max(x, -bound))
    if x <= 0:
        return np.int64(0)
    if x >= 2.0**bits:
        return np.int64(-1)
    return np.int64(x) if x < 2.0**63 else np.int64(np.uint64(x))


def _values(in_dtype: str, kind: str) -> tuple[Any, Any]:
    """``value(element, mean)`` as float32, and the same for exact integers: the number to add."""
    wide = np.uint64 if in_dtype.startswith("u") else np.int64
    if kind == "deviation":

        @inlined
        def deviation(element, mean):
            x = np.float32(np.float32(element) - mean)
            return np.float32(x * x)

        return deviation, None
    if kind == "square":
        if in_dtype == "float32":
            return inlined(lambda element, mean: np.float32(element * element)), None
        exact = inlined(lambda element, mean: np.float32(wide(wide(element) * wide(element))))
        if in_dtype not in ("int64", "uint64"):
            return exact, inlined(lambda element, mean: np.int64(wide(wide(element) * wide(element))))
        largest = math.isqrt(np.iinfo(in_dtype).max)
        least = -largest if in_dtype == "int64" else 0

        @inlined
        def square(element, mean):
            if element > wide(largest) or element < wide(least):  # the square does not fit into 64 bits
                return np.float32(np.float64(element) * np.float64(element))
            return exact(element, mean)

        return square, None
    return inlined(lambda element, mean: np.float32(element)), inlined(lambda element, mean: np.int64(wide(element)))


@inlined
def _outputs(extents, kept):
    total = 1
    for k in range(kept):
        total *= extents[k]
    return total


@inlined
def _row(extents, strides, kept):
    """Consecutive outputs with a constant distance: their number, and the distance."""
    if kept == 0:
        return 1, 0
    return max(extents[kept - 1], 1), strides[kept - 1]


@inlined
def _triples(count, stride, apart, itemsize):
    """Whether outputs are made of three elements each, and everything is contiguous."""
    return count == 3 and stride == itemsize and apart == 3 * itemsize


@inlined
def _place(source, index, extents, strides, kept):
    """Address of the first element of output number `index`."""
    for k in range(kept - 1, -1, -1):
        source += index % extents[k] * strides[k]
        index //= extents[k]
    return source


@cache
def float_step(in_dtype: str, kind: str) -> Compiled:
    """Sums in float32, and results computed from them; kind "value", "square" or "deviation" (from the means)."""
    view_in = view(in_dtype)
    value, _ = _values(in_dtype, kind)
    add = inlined(lambda total, element, mean: np.float32(total + value(element, mean)))
    merge = inlined(lambda a, b: np.float32(a + b))
    walk = _make_walk(view_in, add, merge)
    tree = _make_tree(view_in, add, walk, in_dtype, kind)
    itemsize, fast = storage(in_dtype).itemsize, supported(in_dtype, kind)

    @inlined
    def finished(out, i, total, finish, scale, size, signed):
        """Output number `i`: the sum, or the result computed from it."""
        if finish != 0:
            total = np.float32(total * scale)
        if finish == 2:
            total = np.float32(math.sqrt(total))
        if size == 0:
            view_f32(out + 4 * i, 1)[0] = total
        else:
            _store(out, i, size, _whole(total, size, signed))

    @inlined
    def of_triples(base, out, count, finish, scale):
        """Sums of three neighbouring elements each. Everything is constant, so that LLVM vectorises the loop."""
        x, y, nothing = view_in(base, 3 * count), view_f32(out, count), np.float32(0)
        for i in range(count):
            y[i] = add(add(add(nothing, x[3 * i], nothing), x[3 * i + 1], nothing), x[3 * i + 2], nothing)
        if finish == 1:
            for i in range(count):
                y[i] = np.float32(y[i] * scale)
        elif finish == 2:
            for i in range(count):
                y[i] = np.float32(math.sqrt(np.float32(y[i] * scale)))

    @step_variant("float", in_dtype, kind)
    def reduce(context, sample, thread):
        kept, reduced = load_i64(context + at.kept), load_i64(context + at.reduced)
        finish, ddof = load_i64(context + at.finish), load_i64(context + at.ddof)
        record = load_i64(context + at.records) + 16 * (kept + reduced) * sample
        extents, strides = view_i64(record, kept), view_i64(record + 8 * kept, kept)
        record += 16 * kept
        inner_extents, inner_strides = view_i64(record, reduced), view_i64(record + 8 * reduced, reduced)
        size, signed = load_i64(context + at.integer), load_i64(context + at.signed)
        totals, index, inner, nodes, sums = _floats(), _indices(), _wholes(), _nodes(), _sums()
        volume = 1
        for k in range(reduced):
            volume *= inner_extents[k]
        scale = np.float32(1)
        if finish != 0:
            scale = np.float32(np.float32(1) / np.float32(volume - ddof))
        axes = _without_ones(inner_extents, inner_strides)
        if kind == "deviation" and load_i64(context + at.no_axes) != 0:
            axes, scale = -1, np.float32(1)  # As in DALI, without axes the result is 0, whatever mean was given.
        source = load_i64(load_i64(context + at.inputs) + 8 * sample)
        out = load_i64(load_i64(context + at.out_addresses) + 8 * sample)
        means, each = np.int64(0), np.int64(0)
        if kind == "deviation":
            means = load_i64(load_i64(context + at.means_addresses) + 8 * sample)
            each = load_i64(load_i64(context + at.each) + 8 * sample)
        reach = 1
        for k in range(axes - 1, -1, -1):
            inner[k] = reach
            reach *= inner_extents[k]
        row, step = _row(extents, strides, kept)
        end = source + itemsize
        for k in range(kept):
            end += (extents[k] - 1) * strides[k]
        for k in range(axes):
            end += (inner_extents[k] - 1) * inner_strides[k]
        base, along = source, 0
        together = 1
        if fast and axes == 1 and reach > _CHUNK and row == TOGETHER and step == itemsize and inner_strides[0] == TOGETHER * itemsize:
            together = TOGETHER
        some_means, found = _some(), _some()
        i, outputs = 0, _outputs(extents, kept)
        if kind != "deviation" and axes == 1 and size == 0 and row == outputs and _triples(reach, inner_strides[0], step, itemsize):
            of_triples(base, out, outputs, finish, scale)
            return 0
        while axes == 1 and reach <= _CHUNK and i < outputs:
            if along == row:
                base, along = _place(source, i, extents, strides, kept), 0
            elif i > 0:
                base += step
            along += 1
            mean = np.float32(0)
            if kind == "deviation":
                mean = view_f32(means + 4 * i * each, 1)[0]
            total = np.float32(0)
            for k in range(reach):
                total = add(total, view_in(base + k * inner_strides[0], 1)[0], mean)
            finished(out, i, total, finish, scale, size, signed)
            i += 1
        while i < outputs:
            if along == row:
                base, along = _place(source, i, extents, strides, kept), 0
            elif i > 0:
                base += step
            along += together
            for c in range(together):
                some_means[c], found[c] = np.float32(0), np.float32(0)
                if kind == "deviation":
                    some_means[c] = view_f32(means + 4 * (i + c) * each, 1)[0]
            if axes == 0:
                found[0] = value(view_in(base, 1)[0], some_means[0])
            elif axes > 0:
                tree(base, end, inner_extents, inner_strides, axes, inner, some_means, together, found, totals, index, nodes, sums)
            for c in range(together):
                finished(out, i + c, found[c], finish, scale, size, signed)
            i += together
        return 0

    return reduce


@cache
def whole_step(in_dtype: str, kind: str) -> Compiled:
    """Sums of integers as 64-bit integers; kind "value" or "square".

    Sums of squares of 32 and 64 bits would overflow. They are float64; results are computed in float32 anyway.
    """
    view_in, unsigned = view(in_dtype), in_dtype.startswith("u")
    bytes_only = in_dtype == "uint8" and kind == "value"
    itemsize = storage(in_dtype).itemsize
    wide = kind == "square" and itemsize >= 4
    _, value = _values(in_dtype, kind)
    number, make_totals = (np.float64, _doubles) if wide else (np.int64, _wholes)
    if wide:
        value = inlined(lambda element, mean: np.float64(element) * np.float64(element))
    add = inlined(lambda total, element, mean: number(total + value(element, mean)))
    merge = inlined(lambda a, b: number(a + b))
    walk = _make_walk(view_in, add, merge)

    @inlined
    def made_of(total, finish, volume, size, signed):
        """The sum, or its mean or root of the mean."""
        if finish == 0:
            return np.int64(total)
        if wide:
            mean = total / np.float64(volume)
            return _whole(np.float32(math.sqrt(mean) if finish == 2 else mean), size, signed)
        x = np.float32(np.uint64(total)) if unsigned else np.float32(total)
        x = np.float32(x * np.float32(np.float32(1) / np.float32(volume)))
        return _whole(np.float32(math.sqrt(x)) if finish == 2 else x, size, signed)

    @inlined
    def of_triples(base, out, count):
        x, y = view_in(base, 3 * count), view_i64(out, count)
        for i in range(count):
            y[i] = value(x[3 * i], np.float32(0)) + value(x[3 * i + 1], np.float32(0)) + value(x[3 * i + 2], np.float32(0))

    @step_variant("whole", in_dtype, kind)
    def reduce(context, sample, thread):
        kept, reduced = load_i64(context + at.kept), load_i64(context + at.reduced)
        finish = load_i64(context + at.finish)
        record = load_i64(context + at.records) + 16 * (kept + reduced) * sample
        extents, strides = view_i64(record, kept), view_i64(record + 8 * kept, kept)
        record += 16 * kept
        inner_extents, inner_strides = view_i64(record, reduced), view_i64(record + 8 * reduced, reduced)
        size, signed = load_i64(context + at.integer), load_i64(context + at.signed)
        totals, index = make_totals(), _indices()
        volume = 1
        for k in range(reduced):
            volume *= inner_extents[k]
        axes = _without_ones(inner_extents, inner_strides)
        source = load_i64(load_i64(context + at.inputs) + 8 * sample)
        out = load_i64(load_i64(context + at.out_addresses) + 8 * sample)
        row, step = _row(extents, strides, kept)
        base, along = source, 0
        many_bytes = bytes_only and axes == 1 and inner_extents[0] >= _LONG and (inner_strides[0] == 1 or inner_strides[0] == 3)
        short, i, outputs = axes == 1 and not many_bytes, 0, _outputs(extents, kept)
        if short and finish == 0 and size == 8 and row == outputs and _triples(inner_extents[0], inner_strides[0], step, itemsize):
            of_triples(source, out, outputs)
            return 0
        # A separate loop: combined with the vectors below, LLVM generates slower code.
        while short and i < outputs:
            if along == row:
                base, along = _place(source, i, extents, strides, kept), 0
            elif i > 0:
                base += step
            along += 1
            total = number(0)
            for k in range(inner_extents[0]):
                total = add(total, view_in(base + k * inner_strides[0], 1)[0], np.float32(0))
            _store(out, i, size, made_of(total, finish, volume, size, signed))
            i += 1
        while i < outputs:
            if along == row:
                base, along = _place(source, i, extents, strides, kept), 0
            elif i > 0:
                base += step
            along += 1
            total = number(0)
            if axes == 0:
                total = number(value(view_in(base, 1)[0], np.float32(0)))
            elif many_bytes:
                total = number(byte_sum(base, inner_strides[0], inner_extents[0]))
            elif axes > 1:
                total = walk(base, inner_extents, inner_strides, 0, axes, inner_extents[0], number(0), np.float32(0), totals, index)
            _store(out, i, size, made_of(total, finish, volume, size, signed))
            i += 1
        return 0

    return reduce


@cache
def extreme_step(dtype: str, largest: bool) -> Compiled:
    """The largest or the smallest element; NaN is ignored. Without elements: the opposite end of the type's range."""
    view_in = view(dtype)
    bounds = np.finfo(dtype) if dtype.startswith("float") else np.iinfo(dtype)
    start = np.dtype(dtype).type(bounds.min if largest else bounds.max)
    if largest:
        add = inlined(lambda total, element, mean: element if element > total else total)
        merge = inlined(lambda a, b: b if b > a else a)
    else:
        add = inlined(lambda total, element, mean: element if element < total else total)
        merge = inlined(lambda a, b: b if b < a else a)
    walk = _make_walk(view_in, add, merge)
    extreme, size = extreme_of(dtype, largest), np.dtype(dtype).itemsize
    make_totals = local_array(np.dtype(dtype), MAX_AXES)

    @step_variant("extreme", dtype, largest)
    def reduce(context, sample, thread):
        kept, reduced = load_i64(context + at.kept), load_i64(context + at.reduced)
        record = load_i64(context + at.records) + 16 * (kept + reduced) * sample
        extents, strides = view_i64(record, kept), view_i64(record + 8 * kept, kept)
        record += 16 * kept
        inner_extents, inner_strides = view_i64(record, reduced), view_i64(record + 8 * reduced, reduced)
        totals, index = make_totals(), _indices()
        axes = _without_ones(inner_extents, inner_strides)
        source = load_i64(load_i64(context + at.inputs) + 8 * sample)
        row, step = _row(extents, strides, kept)
        count, base, along = _outputs(extents, kept), source, 0
        out = view_in(load_i64(load_i64(context + at.out_addresses) + 8 * sample), count)
        for i in range(count):
            if along == row:
                base, along = _place(source, i, extents, strides, kept), 0
            elif i > 0:
                base += step
            along += 1
            total = start
            if axes == 0:
                total = view_in(base, 1)[0] if reduced == 0 else add(total, view_in(base, 1)[0], 0)
            elif axes == 1 and inner_extents[0] >= _LONG and (inner_strides[0] == size or inner_strides[0] == 3 * size):
                total = extreme(base, inner_strides[0] // size, inner_extents[0], start)
            elif axes == 1:
                for k in range(inner_extents[0]):
                    total = add(total, view_in(base + k * inner_strides[0], 1)[0], 0)
            elif axes > 1:
                total = walk(base, inner_extents, inner_strides, 0, axes, inner_extents[0], start, 0, totals, index)
            out[i] = total
        return 0

    return reduce

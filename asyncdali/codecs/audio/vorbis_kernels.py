"""Decode Vorbis packets to samples (Vorbis I specification).

Packets that end early are decoded as far as they go, as the specification wants. Anything else that is unexpected ends the decoding;
libsndfile gets the file then. Sums and products are rounded in another order than in libvorbis, so samples differ by up to 1e-6.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from llvmlite import ir

from ...compiled import kinds
from ...compiled.intrinsics import (
    address,
    clear_bytes,
    copy_bytes,
    larger,
    load_i32,
    load_i64,
    load_little_endian_64,
    load_u8,
    local_array,
    shift_right,
    smaller,
    store_i64,
    store_u8,
    view_f32,
    view_i32,
    view_i64,
    view_of,
    view_u8,
)
from ...compiled.step import compiled, inlined
from ...compiled.vectors import call_ir, function_of
from .audio_decoder_tables import SOUND
from .ogg_kernels import CONTINUED, FULL, HEADER, LAST, is_intact, page_bytes, page_flags, page_position, page_segments
from .vorbis_tables import BOOK, CLASS, FLOOR, MAPPING, MODE, MOST_CHANNELS, MOST_POINTS, PAIR, PASSES, RESIDUE, TRANSFORM, VORBIS, WORK
from .vorbis_transform import inverse, overlapped

record_at, at, work_at = SOUND.at, VORBIS.at, WORK.at
book_at, class_at, floor_at, residue_at = BOOK.at, CLASS.at, FLOOR.at, RESIDUE.at
mapping_at, pair_at, mode_at, transform_at = MAPPING.at, PAIR.at, MODE.at, TRANSFORM.at
_view_i16 = view_of(np.dtype(np.int16))
_targets = local_array(np.int64, MOST_CHANNELS)
_free_codes = local_array(np.int64, 33)
_LENGTH_BITS = 6
_LENGTHS = (1 << _LENGTH_BITS) - 1
_MOST_PACKET, _MOST_PAGE, _PADDING = 1 << 16, 255 * 255, 64
_WITHIN, _NOWHERE = 2, -(1 << 40)
_NO_CLASS, _VALUES, _SILENT_FLOOR, _SILENT = 255, 0x7FFF, 1, 2
_DECIBELS = (10.0 ** (np.arange(-255, 1) * (140 / 256) / 20)).astype(np.float32)
"""Values of a floor: 140 decibels in 256 steps."""


# ------------------------------------------------------------------------------------------------------------------- codes


@compiled(3)
def number_codes(lengths, count, codes):
    """Give the codes of int64[count] entries of so many bits (0: not used, up to 32): left-aligned in 32 bits, in int64[count].

    An entry takes the first code that is free. Returns 0 if all codes are taken in the end, and no more.
    """
    free = _free_codes()
    free[0] = 0
    for depth in range(1, 33):
        free[depth] = -1
    wanted, made = view_i64(lengths, count), view_i64(codes, count)
    for k in range(count):
        length = wanted[k]
        if length == 0:
            continue
        depth = length
        while depth >= 0 and free[depth] < 0:
            depth -= 1
        if depth < 0:
            return 1
        code = free[depth]
        free[depth] = -1
        for below in range(depth + 1, length + 1):
            free[below] = code | 1 << (32 - below)
        made[k] = code
    for depth in range(33):
        if free[depth] >= 0:
            return 1
    return 0


def _reversed_ir(context: Any, builder: Any, sig: Any, args: Any) -> Any:
    short = builder.trunc(args[0], ir.IntType(32))
    return builder.zext(call_ir(builder, "llvm.bitreverse.i32", [short]), ir.IntType(64))


_reversed_32 = function_of(kinds.int64(kinds.int64), _reversed_ir)


@inlined
def _longer(book, word):
    """The entry and length of a code that is not in the table."""
    value, begin, end = _reversed_32(word), np.int64(0), load_i64(book + book_at.longer)
    codes = load_i64(book + book_at.codes)
    if end == 0:
        return np.int64(_LENGTHS)
    while end - begin > 1:
        middle = (begin + end) >> 1
        if load_i64(codes + 8 * middle) <= value:
            begin = middle
        else:
            end = middle
    return np.int64(load_i32(load_i64(book + book_at.found) + 4 * begin))


@inlined
def _entry(book, data, bit):
    """The entry whose code begins at a bit of `data`, and the bit behind the code, which may be behind the end of the packet."""
    word = shift_right(load_little_endian_64(data + (bit >> 3)), bit & 7)
    found = np.int64(load_i32(load_i64(book + book_at.table) + 4 * (word & load_i64(book + book_at.mask))))
    if found == 0:
        found = _longer(book, word)
    return found >> _LENGTH_BITS, bit + (found & _LENGTHS)


@inlined
def _number(data, bit, count):
    """A number of up to 32 bits."""
    return shift_right(load_little_endian_64(data + (bit >> 3)), bit & 7) & ((1 << count) - 1)


# ------------------------------------------------------------------------------------------------------------------- floors


@inlined
def _between(x0, y0, x1, y1, x):
    """The height at `x` of the line between two points."""
    rise = y1 - y0
    step = abs(rise) * (x - x0) // (x1 - x0)
    return y0 - step if rise < 0 else y0 + step


@inlined
def _height(points, k):
    """The value of a point, whether a line goes through it or not."""
    return points[k] if points[k] >= 0 else ~points[k]


@inlined
def _read_floor(floor, data, bit, end, points):
    """Read the differences of a floor's points. Returns the bit behind them; -1 if the packet ends before."""
    width = load_i64(floor + floor_at.range_bits)
    for k in range(2):
        points[k] = _number(data, bit, width)
        bit += width
    k = 2
    for part in range(load_i64(floor + floor_at.partitions)):
        own = load_i64(load_i64(floor + floor_at.classes) + 8 * part)
        bits, chosen = load_i64(own + class_at.bits), np.int64(0)
        if bits != 0:
            chosen, bit = _entry(load_i64(own + class_at.chooser), data, bit)
        for _ in range(load_i64(own + class_at.points)):
            book = load_i64(own + class_at.books_0 + 8 * (chosen & ((1 << bits) - 1)))
            chosen >>= bits
            points[k] = 0
            if book != 0:
                points[k], bit = _entry(book, data, bit)
            k += 1
        if bit > end:
            return -1
    return bit if bit <= end else -1


@inlined
def _restore_floor(floor, points):
    """Turn differences to values. A value without a difference lies on the line between its neighbours: no line ends there."""
    count, most = load_i64(floor + floor_at.points), load_i64(floor + floor_at.range)
    x = view_i64(load_i64(floor + floor_at.x), count)
    low, high = view_i64(load_i64(floor + floor_at.low), count), view_i64(load_i64(floor + floor_at.high), count)
    for k in range(2, count):
        a, b = low[k], high[k]
        expected = _between(x[a], _height(points, a), x[b], _height(points, b), x[k])
        above, below, value = most - expected, expected, points[k]
        if value == 0:
            points[k] = ~expected
            continue
        if value >= 2 * smaller(above, below):
            value = value - below if above > below else above - value - 1
        else:
            value = -((value + 1) >> 1) if value & 1 else value >> 1
        points[k] = (expected + value) & _VALUES
        points[a], points[b] = _height(points, a), _height(points, b)


@inlined
def _limited(value, multiplier):
    return smaller(larger(value * multiplier, 0), 255)


@inlined
def _shape(floor, points, target, count):
    """Multiply `count` numbers at `target` with the curve of a floor."""
    numbers = view_f32(target, count)
    multiplier, places = load_i64(floor + floor_at.multiplier), load_i64(floor + floor_at.points)
    x, order = view_i64(load_i64(floor + floor_at.x), places), view_i64(load_i64(floor + floor_at.order), places)
    begin, height = np.int64(0), _limited(points[0], multiplier)
    for k in range(1, places):
        point = order[k]
        if points[point] < 0:
            continue
        end, next_height = x[point], _limited(points[point], multiplier)
        length, rise = end - begin, next_height - height
        whole = abs(rise) // length
        rest, sign = abs(rise) - whole * length, -1 if rise < 0 else 1
        value, error = height, np.int64(0)
        for i in range(begin, smaller(end, count)):
            numbers[i] *= _DECIBELS[value]
            error += rest
            value += sign * whole
            if error >= length:
                error -= length
                value += sign
        begin, height = end, next_height
    for i in range(begin, count):
        numbers[i] *= _DECIBELS[height]


# ------------------------------------------------------------------------------------------------------------------- residues


def _make_add(dimensions: int) -> Any:
    """``add(book, data, bit, end, target, count)``: add vectors of a constant number of dimensions (0: any) to `count` numbers.

    Returns the bit behind their codes; -1 if the packet ends before.
    """

    @inlined
    def add(book, data, bit, end, target, count):
        size = dimensions if dimensions > 0 else load_i64(book + book_at.dimensions)
        vectors = load_i64(book + book_at.vectors)
        for k in range(0, count, size):
            entry, bit = _entry(book, data, bit)
            if bit > end:
                return np.int64(-1)
            numbers, vector = view_f32(target + 4 * k, size), view_f32(vectors + 4 * size * entry, size)
            for j in range(size):
                numbers[j] += vector[j]
        return bit

    return add


_add_1, _add_2, _add_4, _add_8, _add_any = (_make_add(dimensions) for dimensions in (1, 2, 4, 8, 0))


@inlined
def _add_strided(book, data, bit, end, target, count):
    """The same, with the numbers of a vector as far apart as there are vectors. If the packet ends before, nothing is added."""
    size = load_i64(book + book_at.dimensions)
    apart = count // size
    numbers, vectors, begin = view_f32(target, count), load_i64(book + book_at.vectors), bit
    for _ in range(apart):
        _, bit = _entry(book, data, bit)
        if bit > end:
            return np.int64(-1)
    bit = begin
    for k in range(apart):
        entry, bit = _entry(book, data, bit)
        vector = view_f32(vectors + 4 * size * entry, size)
        for j in range(size):
            numbers[k + j * apart] += vector[j]
    return bit


@inlined
def _add(residue, book, data, bit, end, target):
    """Add vectors to the numbers of a partition. Returns as :func:`_make_add`."""
    count, size = load_i64(residue + residue_at.part), load_i64(book + book_at.dimensions)
    if load_i64(residue + residue_at.strided) != 0:
        return _add_strided(book, data, bit, end, target, count)
    if size == 2:
        return _add_2(book, data, bit, end, target, count)
    if size == 4:
        return _add_4(book, data, bit, end, target, count)
    if size == 8:
        return _add_8(book, data, bit, end, target, count)
    if size == 1:
        return _add_1(book, data, bit, end, target, count)
    return _add_any(book, data, bit, end, target, count)


@inlined
def _read_classes(residue, data, bit, end, classes, first, parts):
    """Read the classes of the next partitions. Returns the bit behind them; -1 if the packet ends before, or they mean nothing."""
    digits = load_i64(residue + residue_at.digits)
    entry, bit = _entry(load_i64(residue + residue_at.book), data, bit)
    named = load_i64(residue + residue_at.classes) + digits * entry
    if bit > end or load_u8(named) == _NO_CLASS:
        return np.int64(-1)
    for k in range(smaller(digits, parts - first)):
        classes[first + k] = load_u8(named + k)
    return bit


@inlined
def _read_residue(residue, data, bit, end, targets, channels, count, classes, room):
    """Add the numbers of a residue to `count` numbers of each channel at `targets`; `classes` has `room` bytes per channel.

    Returns the bit behind them; `end` if the packet ends before.
    """
    begin, part = load_i64(residue + residue_at.begin), load_i64(residue + residue_at.part)
    parts = larger(smaller(load_i64(residue + residue_at.end), count) - begin, 0) // part
    digits = load_i64(residue + residue_at.digits)
    for turn in range(load_i64(residue + residue_at.passes)):
        for first in range(0, parts, digits):
            if turn == 0:
                for c in range(channels):
                    bit = _read_classes(residue, data, bit, end, view_u8(classes + room * c, room), first, parts)
                    if bit < 0:
                        return end
            for k in range(first, smaller(first + digits, parts)):
                for c in range(channels):
                    own = load_u8(classes + room * c + k)
                    book = load_i64(load_i64(residue + residue_at.books) + 8 * (PASSES * own + turn))
                    if book != 0:
                        bit = _add(residue, book, data, bit, end, load_i64(targets + 8 * c) + 4 * (begin + part * k))
                        if bit < 0:
                            return end
    return bit


# ------------------------------------------------------------------------------------------------------------------- blocks


@inlined
def _numbers(work, channel):
    return load_i64(work + work_at.spectra) + 4 * load_i64(work + work_at.room) * channel


@inlined
def _points(work, channel):
    return view_i64(load_i64(work + work_at.curves) + 8 * MOST_POINTS * channel, MOST_POINTS)


@inlined
def _read_floors(work, mapping, data, bit, end):
    """Read the floors of all channels, and note which are silent. Returns the bit behind them; `end` if the packet ends before."""
    setup = load_i64(work + work_at.setup)
    channels = load_i64(setup + at.channels)
    silent = view_i64(load_i64(work + work_at.silent), channels)
    for c in range(channels):
        floor, points = load_i64(load_i64(mapping + mapping_at.floors) + 8 * c), _points(work, c)
        silent[c] = _SILENT_FLOOR | _SILENT
        if bit < end and _number(data, bit, 1) == 1:
            behind = _read_floor(floor, data, bit + 1, end, points)
            bit = behind if behind >= 0 else end
            if behind >= 0:
                _restore_floor(floor, points)
                silent[c] = 0
        else:
            bit = smaller(bit + 1, end)
    for k in range(load_i64(mapping + mapping_at.couplings)):
        pair = load_i64(mapping + mapping_at.pairs) + pair_at.size * k
        a, b = load_i64(pair + pair_at.magnitude), load_i64(pair + pair_at.angle)
        if silent[a] & silent[b] & _SILENT == 0:  # The numbers of both are needed to separate them.
            silent[a] &= ~_SILENT
            silent[b] &= ~_SILENT
    return bit


@inlined
def _separate(vectors, targets, channels, count):
    """Copy the numbers of alternating channels to one row for each channel."""
    total = view_f32(vectors, channels * count)
    for c in range(channels):
        row = view_f32(load_i64(targets + 8 * c), count)
        for k in range(count):
            row[k] = total[k * channels + c]


@inlined
def _read_group(work, mapping, group, data, bit, end, half):
    """Read the residue of a group of channels. Returns the bit behind it."""
    channels, room = load_i64(load_i64(work + work_at.setup) + at.channels), load_i64(work + work_at.room)
    residue = load_i64(load_i64(mapping + mapping_at.residues) + 8 * group)
    group_of, silent = view_i64(load_i64(mapping + mapping_at.group_of), channels), view_i64(load_i64(work + work_at.silent), channels)
    interleaved = load_i64(residue + residue_at.interleaved) != 0
    targets, count, heard = _targets(), 0, 0
    for c in range(channels):
        if group_of[c] == group and (interleaved or silent[c] & _SILENT == 0):
            targets[count] = _numbers(work, c)
            count += 1
            heard += 1 if silent[c] & _SILENT == 0 else 0
    if heard == 0:
        return bit
    classes = load_i64(work + work_at.classes)
    if not interleaved:
        return _read_residue(residue, data, bit, end, address(targets), count, half, classes, room)
    vectors, alone = load_i64(work + work_at.vectors), _targets()
    alone[0] = vectors
    clear_bytes(vectors, 4 * half * count)
    bit = _read_residue(residue, data, bit, end, address(alone), 1, half * count, classes, room * channels)
    _separate(vectors, address(targets), count, half)
    return bit


@inlined
def _uncouple(mapping, work, half):
    """Turn magnitudes and angles to the numbers of both channels, the last pair first."""
    couplings = load_i64(mapping + mapping_at.couplings)
    for k in range(couplings):
        pair = load_i64(mapping + mapping_at.pairs) + pair_at.size * (couplings - 1 - k)
        magnitudes = view_f32(_numbers(work, load_i64(pair + pair_at.magnitude)), half)
        angles = view_f32(_numbers(work, load_i64(pair + pair_at.angle)), half)
        for i in range(half):
            m, a = magnitudes[i], angles[i]
            other = m - a if (m > 0) == (a > 0) else m + a
            magnitudes[i] = m if a > 0 else other
            angles[i] = other if a > 0 else m


@inlined
def _mode_of(setup, head, size):
    """The MODE of a packet of `size` bytes that begins with the two bytes `head`; 0 if the packet is not sound."""
    width, end = load_i64(setup + at.mode_bits), 8 * size
    number = head >> 1 & ((1 << width) - 1)
    if head & 1 != 0 or 1 + width > end or number >= load_i64(setup + at.modes):
        return np.int64(0)
    mode = load_i64(setup + at.mode) + mode_at.size * number
    # The sizes of the blocks before and behind a long block take two bits. They are known from those blocks.
    return mode if load_i64(mode + mode_at.long) == 0 or 3 + width <= end else np.int64(0)


@inlined
def _half_of(setup, mode):
    """Half of the size of the blocks of a MODE."""
    return load_i64(setup + (at.block_long if load_i64(mode + mode_at.long) != 0 else at.block_short)) // 2


@inlined
def _read_block(work, data, size):
    """Read a packet of `size` bytes to the numbers of each channel, multiplied with the floors. Returns half of the block's size; -1 if the
    packet is not sound."""
    setup, end = load_i64(work + work_at.setup), 8 * size
    mode = _mode_of(setup, load_u8(data) | load_u8(data + 1) << 8, size)
    if mode == 0:
        return np.int64(-1)
    is_long = load_i64(mode + mode_at.long) != 0
    mapping, half = load_i64(mode + mode_at.mapping), _half_of(setup, mode)
    bit = 1 + load_i64(setup + at.mode_bits) + (2 if is_long else 0)
    channels, silent = load_i64(setup + at.channels), load_i64(work + work_at.silent)
    for c in range(channels):
        clear_bytes(_numbers(work, c), 4 * half)
    bit = _read_floors(work, mapping, data, bit, end)
    for group in range(load_i64(mapping + mapping_at.groups)):
        bit = _read_group(work, mapping, group, data, bit, end, half)
    _uncouple(mapping, work, half)
    for c in range(channels):
        if load_i64(silent + 8 * c) & _SILENT_FLOOR != 0:
            clear_bytes(_numbers(work, c), 4 * half)
        else:
            _shape(load_i64(load_i64(mapping + mapping_at.floors) + 8 * c), _points(work, c), _numbers(work, c), half)
    return half


@inlined
def _deliver(samples, count, channels, out, kind):
    """Write samples to `out`, `channels` numbers apart: as FLOAT, or scaled to the largest INT16 or INT32, rounded and limited."""
    total = (count - 1) * channels + 1
    reals = view_f32(samples, count)
    if kind == 2:
        made = view_f32(out, total)
        if channels == 1:
            for k in range(count):
                made[k] = reals[k]
        else:
            for k in range(count):
                made[k * channels] = reals[k]
        return
    most = 32767.0 if kind == 0 else 2147483647.0
    shorts, ints = _view_i16(out, total), view_i32(out, total)
    for k in range(count):
        value = np.float64(reals[k]) * most
        whole = np.floor(abs(value) + 0.5)
        limited = min(whole, most if value >= 0 else most + 1) if whole == whole else 0.0  # Not a number: 0.
        rounded = np.int64(limited if value >= 0 else -limited)
        if kind == 0:
            shorts[k * channels] = rounded
        else:
            ints[k * channels] = rounded


@inlined
def _emit(work, half, out, done, first, behind, kind):
    """Add a block, whose samples begin at sample `done` of the stream, to the output, which has the samples from `first` to `behind`.

    Returns the number of samples that the block completes.
    """
    setup, before = load_i64(work + work_at.setup), load_i64(work + work_at.half)
    channels, room = load_i64(setup + at.channels), load_i64(work + work_at.room)
    long_half = load_i64(setup + at.block_long) // 2
    transform = load_i64(setup + (at.transform_long if half == long_half else at.transform_short))
    both = smaller(half, before)
    window = load_i64(load_i64(setup + (at.transform_long if both == long_half else at.transform_short)) + transform_at.window)
    samples, width, made = load_i64(work + work_at.samples), 2 if kind == 0 else 4, np.int64(0)
    for c in range(channels):
        numbers, tail = _numbers(work, c), load_i64(work + work_at.tails) + 4 * room * c
        turned = load_i64(work + work_at.turned)
        if before == 0:
            inverse(transform, numbers, numbers, tail, turned)
            continue
        inverse(transform, numbers, numbers, turned + 12 * half, turned)
        made = overlapped(tail, before, numbers, half, window, both, samples)
        copy_bytes(tail, turned + 12 * half, 4 * half)
        skipped = larger(first - done, 0)
        count = smaller(made, behind - done) - skipped
        if count > 0:
            _deliver(samples + 4 * skipped, count, channels, out + width * ((done + skipped - first) * channels + c), kind)
    store_i64(work + work_at.half, half)
    return made


# ------------------------------------------------------------------------------------------------------------------- files


@inlined
def _laid_out(setup, scratch):
    """Prepare a WORK at `scratch`. Returns its address; memory follows it."""
    channels, room = load_i64(setup + at.channels), load_i64(setup + at.block_long) // 2
    place = scratch + work_at.size
    store_i64(scratch + work_at.setup, setup)
    store_i64(scratch + work_at.half, 0)
    store_i64(scratch + work_at.room, room)
    for field, size in (
        (work_at.curves, 8 * MOST_POINTS * channels), (work_at.silent, 8 * channels), (work_at.spectra, 4 * room * channels),
        (work_at.tails, 4 * room * channels), (work_at.vectors, 4 * room * channels), (work_at.turned, 16 * room),
        (work_at.samples, 4 * room), (work_at.classes, room * channels), (work_at.packet, 0),
    ):  # fmt: skip
        store_i64(scratch + field, place)
        place += size
    return scratch


@inlined
def vorbis_scratch(channels, block):
    """The bytes of scratch that decoding a file needs."""
    room = block // 2
    arrays = (8 * MOST_POINTS + 8 + 13 * room) * channels + 20 * room
    return work_at.size + arrays + _MOST_PACKET + _MOST_PAGE + _PADDING


@inlined
def _take_page(work, page, length, begun, skipped):
    """Copy the contents of a page but the first `skipped` bytes behind the `begun` bytes of a packet. Returns whether the page is sound."""
    head = HEADER + page_segments(page) + skipped
    if (page_flags(page) & CONTINUED != 0) != (begun + skipped > 0) or begun > _MOST_PACKET or not is_intact(page, length):
        return False
    body = load_i64(work + work_at.packet) + begun
    copy_bytes(body, page + head, length - head)
    clear_bytes(body + length - head, _PADDING)
    return True


@inlined
def _position_fits(page, done, completed):
    """Whether the position of a page follows from the packets. Only the last one may be smaller: the end of the sound is cut off."""
    position, last = page_position(page), page_flags(page) & LAST != 0
    return not completed or position == done or (last and position <= done)


@inlined
def _bytes_continued(page):
    """The bytes of the packet that began before a page, and the number of their segments."""
    size, segments = np.int64(0), page_segments(page)
    for k in range(segments):
        segment = load_u8(page + HEADER + k)
        size += segment
        if segment < FULL:
            return size, np.int64(k + 1)
    return size, np.int64(segments)


@compiled(3)
def find_part(file, record, first):
    """Check all pages of a stream without decoding the packets, and find the page where decoding has to begin for the samples from `first`
    on.

    `record` is a SOUND, whose `data`, `bytes` and `part` are changed. Returns 1 if the stream is one that :func:`decode_vorbis` refuses.
    """
    setup, begin = load_i64(record + record_at.setup), load_i64(record + record_at.data)
    end = begin + load_i64(record + record_at.bytes)
    place, found, done, begun, before, head = begin, begin, np.int64(0), np.int64(0), np.int64(0), np.int64(0)
    while place < end:
        page = file + place
        length = page_bytes(page, end - place)
        if length == 0 or (page_flags(page) & CONTINUED != 0) != (begun > 0) or begun > _MOST_PACKET or not is_intact(page, length):
            return 1
        data, size, completed, own = page + HEADER + page_segments(page), begun, False, 0
        for k in range(page_segments(page)):
            segment = load_u8(page + HEADER + k)
            if size == 0 and segment > 0:
                head = np.int64(load_u8(data)) | (np.int64(load_u8(data + 1)) << 8 if segment > 1 else np.int64(0))
                own += 1
            size += segment
            data += segment
            if segment == FULL:
                continue
            mode = _mode_of(setup, head, size) if size > 0 else np.int64(0)
            if mode == 0:
                return 1
            half = _half_of(setup, mode)
            done += (before + half) // 2 if before != 0 else 0
            before, size, completed = half, np.int64(0), True
        if not _position_fits(page, done, completed):
            return 1
        # A block overlaps with the block before, so decoding begins at a page on which a whole packet ends at the latest at `first`.
        if own > (1 if size > 0 else 0) and done <= first and page_flags(page) & LAST == 0:
            found = place
        begun = size
        place += length
    if done < load_i64(record + record_at.frames) or begun != 0:
        return 1
    store_i64(record + record_at.part, 1 if found == begin else 2)
    store_i64(record + record_at.data, found)
    store_i64(record + record_at.bytes, end - found)
    return 0


@inlined
def decode_vorbis(source, record, out, kind, scratch):
    """Decode the pages at `source` to `out`; returns 1 on failure. `record` is a SOUND; `scratch` as :func:`vorbis_scratch` wants."""
    work, frames = _laid_out(load_i64(record + record_at.setup), scratch), load_i64(record + record_at.frames)
    packet, end = load_i64(work + work_at.packet), source + load_i64(record + record_at.bytes)
    part, first = load_i64(record + record_at.part), load_i64(record + record_at.first)
    page, done, begun = source, np.int64(0), np.int64(0)
    skipped, skipped_segments = np.int64(0), np.int64(0)
    if part == _WITHIN:  # The packets of the first page prepare the next block. Where they begin is not known.
        done = np.int64(_NOWHERE)
        if page_flags(page) & CONTINUED != 0:
            skipped, skipped_segments = _bytes_continued(page)
    while page < end:
        length = page_bytes(page, end - page)
        if length == 0 or not _take_page(work, page, length, begun, skipped):
            return 1
        place, size, completed = packet, begun, False
        for k in range(skipped_segments, page_segments(page)):
            segment = load_u8(page + HEADER + k)
            size += segment
            if segment == FULL:
                continue
            half = _read_block(work, place, size) if size > 0 else np.int64(-1)
            if half < 0:
                return 1
            done += _emit(work, half, out, done, first, frames, kind)
            place += size
            size, completed = np.int64(0), True
        if done < 0:
            done = page_position(page)
        if not _position_fits(page, done, completed):
            return 1
        if part != 0 and done >= frames:
            return 0
        for k in range(size):  # a packet that goes on; it may overlap with the place where it is moved to
            store_u8(packet + k, load_u8(place + k))
        begun, skipped, skipped_segments = size, np.int64(0), np.int64(0)
        page += length
    return 0 if done >= frames and begun == 0 else 1

"""Decode FLAC frames of 8, 16 and 24 bits to samples (RFC 9639).

The checksum of every frame is verified. Anything unexpected ends the decoding; libsndfile gets the file then.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ...compiled.intrinsics import (
    address,
    larger,
    leading_zeros,
    load_big_endian_64,
    load_i32,
    load_i64,
    load_u8,
    local_array,
    shift_left,
    shift_right,
    smaller,
    store_i32,
    view_f32,
    view_i32,
    view_of,
)
from ...compiled.step import inlined
from .sound_tables import SOUND

at = SOUND.at
MOST_ORDER = 32
_MOST_CHANNELS = 8
_SYNC = 0x3FFE
_CONSTANT, _VERBATIM, _FIXED, _LPC = 0, 1, 8, 32
_LEFT_SIDE, _SIDE_RIGHT, _MID_SIDE = 8, 9, 10
_view_i16 = view_of(np.dtype(np.int16))
_coefficients = local_array(np.int64, MOST_ORDER)
_place = local_array(np.int64, 2)
_AT, _BROKEN = 0, 1
_LOADED = 57  # A load of eight bytes gives at least this many bits, from any bit of a byte on.


def _checksums() -> np.ndarray:
    """uint16[8, 256]: the checksum (x^16 + x^15 + x^2 + 1) of each byte followed by 0 to 7 bytes of zero."""
    tables = np.zeros((8, 256), np.uint32)
    for byte in range(256):
        value = byte << 8
        for _ in range(8):
            value = (value << 1) ^ (0x8005 if value & 0x8000 else 0)
        tables[0, byte] = value & 0xFFFF
    for k in range(1, 8):
        tables[k] = ((tables[k - 1] << 8) & 0xFFFF) ^ tables[0][tables[k - 1] >> 8]
    return tables.astype(np.uint16)


_CHECKSUMS = _checksums()


@inlined
def _checksum(source, count):
    """The checksum of `count` bytes."""
    value, k = np.int64(0), 0
    while k + 8 <= count:
        word = load_big_endian_64(source + k)
        value = (
            np.int64(_CHECKSUMS[7, (shift_right(word, 56) ^ value >> 8) & 255]) ^ _CHECKSUMS[6, (shift_right(word, 48) ^ value) & 255]
            ^ _CHECKSUMS[5, word >> 40 & 255] ^ _CHECKSUMS[4, word >> 32 & 255] ^ _CHECKSUMS[3, word >> 24 & 255]
            ^ _CHECKSUMS[2, word >> 16 & 255] ^ _CHECKSUMS[1, word >> 8 & 255] ^ _CHECKSUMS[0, word & 255]
        )  # fmt: skip
        k += 8
    while k < count:
        value = (value << 8 & 0xFFFF) ^ np.int64(_CHECKSUMS[0, (value >> 8 ^ load_u8(source + k)) & 255])
        k += 1
    return value


@inlined
def _word(source, place, size):
    """64 bits from a byte on, with zeros behind the end of the data."""
    if place + 8 <= size:
        return load_big_endian_64(source + place)
    word = np.int64(0)
    for k in range(8):
        word = word << 8 | (load_u8(source + place + k) if place + k < size else 0)
    return word


@inlined
def _peek(source, size, at_bit, count):
    """Read 1 to 32 bits as an unsigned number."""
    return shift_right(shift_left(_word(source, at_bit >> 3, size), at_bit & 7), 64 - count)


@inlined
def _bits(source, size, place, count):
    """Read the next 0 to 32 bits as an unsigned number."""
    if count == 0:
        return np.int64(0)
    value = _peek(source, size, place[_AT], count)
    place[_AT] += count
    return value


@inlined
def _signed(source, size, place, count):
    """Read the next 0 to 32 bits as a signed number."""
    value = _bits(source, size, place, count)
    return value - (1 << count) if count > 0 and value >> (count - 1) != 0 else value


@inlined
def _zeros(source, size, place):
    """Count the 0 bits before the next 1 bit. The 1 bit is consumed, too."""
    zeros = 0
    while place[_AT] >> 3 <= size:
        word = shift_left(_word(source, place[_AT] >> 3, size), place[_AT] & 7)
        found = leading_zeros(word)
        if found < 57:
            place[_AT] += found + 1
            return zeros + found
        zeros += 57
        place[_AT] += 57
    place[_BROKEN] = 1
    return 0


@inlined
def _plain(source, size, place, bits, samples, begin, end):
    """Read signed numbers of `bits` bits, 1 to 32."""
    bit = place[_AT]
    # `safe` numbers can be loaded as eight bytes without crossing the end of the data. They need no test each.
    safe = smaller(larger(0, (8 * (size - 8) - bit) // bits), end - begin)
    target = address(samples) + 4 * begin
    for i in range(safe):
        word = shift_left(load_big_endian_64(source + (bit >> 3)), bit & 7)
        store_i32(target + 4 * i, np.int32(word >> (64 - bits)))
        bit += bits
    place[_AT] = bit
    for i in range(begin + safe, end):
        samples[i] = np.int32(_signed(source, size, place, bits))


@inlined
def _store_rice(word, high, parameter, target):
    """Store the number whose code begins at the highest bit of `word` with `high` zeros."""
    low = shift_right(shift_right(shift_left(shift_left(word, high), 1), 1), 63 - parameter)
    value = high << parameter | low
    store_i32(target, np.int32((value >> 1) ^ -(value & 1)))


@inlined
def _rice(source, size, place, parameter, samples, begin, end):
    """Read numbers in Rice's code with `parameter` low bits.

    Bits are loaded for every two numbers. Loading them when few are left takes a branch that is mispredicted every few numbers.
    """
    bit, i, target = place[_AT], begin, address(samples)
    while i < end:
        word = shift_left(_word(source, bit >> 3, size), bit & 7)
        high = leading_zeros(word)
        used = high + 1 + parameter
        if used > _LOADED:
            place[_AT] = bit
            high = _zeros(source, size, place)
            value = high << parameter | _bits(source, size, place, parameter)
            if place[_BROKEN] != 0:
                return
            store_i32(target + 4 * i, np.int32((value >> 1) ^ -(value & 1)))
            bit = place[_AT]
            i += 1
            continue
        _store_rice(word, high, parameter, target + 4 * i)
        i += 1
        bit += used
        word = shift_left(word, used)
        high = leading_zeros(word)
        if i < end and used + high + 1 + parameter <= _LOADED:
            _store_rice(word, high, parameter, target + 4 * i)
            bit += high + 1 + parameter
            i += 1
    place[_AT] = bit


@inlined
def _residual(source, size, place, order, count, samples):
    """Read the residuals of the predictions, from sample `order` on."""
    method = _bits(source, size, place, 2)
    width = 4 + method
    parts = 1 << _bits(source, size, place, 4)
    if method > 1 or count % parts != 0 or count // parts < order:
        place[_BROKEN] = 1
        return
    begin = order
    for part in range(parts):
        end = count // parts * (part + 1)
        parameter = _bits(source, size, place, width)
        if parameter == (1 << width) - 1:
            bits = _bits(source, size, place, 5)
            for i in range(begin, end):
                samples[i] = np.int32(_signed(source, size, place, bits))
        else:
            _rice(source, size, place, parameter, samples, begin, end)
        if place[_BROKEN] != 0 or place[_AT] >> 3 > size:
            place[_BROKEN] = 1
            return
        begin = end


def _make_restore(order: int) -> Any:
    """``restore(coefficients, shift, samples, count)`` for a constant order. The loop over samples then has no inner loop."""

    @inlined
    def restore(coefficients, shift, samples, count):
        first = coefficients[0]
        last = np.int64(samples[order - 1])
        # Addresses instead of indices: the compiler cannot exclude negative indices, and would add the length to each index.
        here = address(samples) + 4 * order
        for _ in range(order, count):
            total = np.int64(0)
            for j in range(1, order):
                total += coefficients[j] * np.int64(load_i32(here - 4 - 4 * j))
            # The newest sample is added last: the other products are summed while that sample is still being computed.
            last = np.int64(load_i32(here)) + ((total + first * last) >> shift)
            store_i32(here, np.int32(last))
            here += 4

    return restore


_restore1, _restore2, _restore3, _restore4 = (_make_restore(order) for order in range(1, 5))
_restore5, _restore6, _restore7, _restore8 = (_make_restore(order) for order in range(5, 9))


@inlined
def _restore(order, coefficients, shift, samples, count):
    """Add the predictions. Each prediction uses the `order` samples before, the newest first."""
    if order == 1:
        _restore1(coefficients, shift, samples, count)
    elif order == 2:
        _restore2(coefficients, shift, samples, count)
    elif order == 3:
        _restore3(coefficients, shift, samples, count)
    elif order == 4:
        _restore4(coefficients, shift, samples, count)
    elif order == 5:
        _restore5(coefficients, shift, samples, count)
    elif order == 6:
        _restore6(coefficients, shift, samples, count)
    elif order == 7:
        _restore7(coefficients, shift, samples, count)
    elif order == 8:
        _restore8(coefficients, shift, samples, count)
    else:
        for i in range(order, count):
            total = np.int64(0)
            for j in range(order):
                total += coefficients[j] * np.int64(samples[i - 1 - j])
            samples[i] = np.int32(np.int64(samples[i]) + (total >> shift))


@inlined
def _fixed_coefficients(order, coefficients):
    """Add fixed predictions: the polynomial of degree ``order - 1`` through the samples before (binomial coefficients)."""
    value = np.int64(order)
    for j in range(order):
        coefficients[j] = value
        value = -value * (order - 1 - j) // (j + 2)


@inlined
def _subframe(source, size, place, bits, count, samples):
    """Decode one channel of a frame."""
    head = _bits(source, size, place, 8)
    kind, wasted = head >> 1 & 63, np.int64(0)
    if head & 1 != 0:
        wasted = _zeros(source, size, place) + 1
    bits -= wasted
    order = kind - _LPC + 1 if kind >= _LPC else kind - _FIXED
    predicted = kind >= _LPC or _FIXED <= kind <= _FIXED + 4
    if head >> 7 != 0 or bits < 1 or place[_BROKEN] != 0 or not (predicted or kind <= _VERBATIM) or order > count:
        place[_BROKEN] = 1
        return
    if kind == _CONSTANT:
        value = np.int32(_signed(source, size, place, bits))
        for i in range(count):
            samples[i] = value
    elif kind == _VERBATIM:
        _plain(source, size, place, bits, samples, 0, count)
    else:
        for i in range(order):
            samples[i] = np.int32(_signed(source, size, place, bits))
        coefficients, shift = _coefficients(), np.int64(0)
        if kind >= _LPC:
            precision = _bits(source, size, place, 4) + 1
            shift = _signed(source, size, place, 5)
            for j in range(order):
                coefficients[j] = _signed(source, size, place, precision)
            if precision == 16 or shift < 0:
                place[_BROKEN] = 1
        else:
            _fixed_coefficients(order, coefficients)
        if place[_BROKEN] == 0:
            _residual(source, size, place, order, count, samples)
        if place[_BROKEN] == 0 and order > 0:
            _restore(order, coefficients, shift, samples, count)
    if wasted != 0:
        for i in range(count):
            samples[i] <<= wasted
    if place[_AT] >> 3 > size:
        place[_BROKEN] = 1


@inlined
def _block_size(source, size, place, code):
    if code == 1:
        return np.int64(192)
    if 2 <= code <= 5:
        return np.int64(576 << (code - 2))
    if code == 6:
        return _bits(source, size, place, 8) + 1
    if code == 7:
        return _bits(source, size, place, 16) + 1
    return np.int64(256 << (code - 8)) if code >= 8 else np.int64(0)


@inlined
def _header(source, size, place, channels, bits):
    """Read the header of the next frame: (samples per channel, how the channels were combined)."""
    sync, blocking, rest = _bits(source, size, place, 14), _bits(source, size, place, 2), _bits(source, size, place, 16)
    size_code, rate_code, assignment, bits_code = rest >> 12, rest >> 8 & 15, rest >> 4 & 15, rest >> 1 & 7
    more = leading_zeros((_bits(source, size, place, 8) ^ 255) << 56)  # Bytes of the frame number, encoded as in UTF-8.
    place[_AT] += 8 * larger(0, more - 1)
    count = _block_size(source, size, place, size_code)
    place[_AT] += 8 if rate_code == 12 else 16 if 13 <= rate_code <= 14 else 0
    place[_AT] += 8  # The header's checksum: skipped, because the frame's checksum covers the header.
    known = bits_code == 0 or (bits_code == 1 and bits == 8) or (bits_code == 4 and bits == 16) or (bits_code == 6 and bits == 24)
    own = 2 if assignment >= _LEFT_SIDE else assignment + 1
    if sync != _SYNC or blocking >> 1 != 0 or rest & 1 != 0 or rate_code == 15 or assignment > _MID_SIDE or not known or own != channels:
        place[_BROKEN] = 1
    return count, assignment


@inlined
def _unmix(assignment, left, right, count):
    """Restore two channels from one channel and their difference."""
    if assignment == _LEFT_SIDE:
        for i in range(count):
            right[i] = left[i] - right[i]
    elif assignment == _SIDE_RIGHT:
        for i in range(count):
            left[i] += right[i]
    elif assignment == _MID_SIDE:
        for i in range(count):
            side = right[i]
            middle = left[i] << 1 | side & 1
            left[i], right[i] = (middle + side) >> 1, (middle - side) >> 1


@inlined
def _deliver(samples, count, channel, channels, bits, out, first, kind):
    """Convert a channel to the output's type: 0 INT16, 1 INT32, 2 FLOAT."""
    total, begin = (first + count) * channels, first * channels + channel
    if kind == 2:
        reals, scale = view_f32(out, total), np.float32(2.0) / np.float32(1 << bits)
        if channels == 1:
            for i in range(count):
                reals[begin + i] = np.float32(samples[i]) * scale
        else:
            for i in range(count):
                reals[begin + i * channels] = np.float32(samples[i]) * scale
    elif kind == 1:
        wide = view_i32(out, total)
        for i in range(count):
            wide[begin + i * channels] = samples[i] << (32 - bits)
    else:
        shorts = _view_i16(out, total)
        for i in range(count):
            shorts[begin + i * channels] = samples[i] << 8 if bits == 8 else samples[i] >> (bits - 16)


@inlined
def decode_flac(source, record, out, kind, scratch):
    """Decode the frames at `source` to `out`; returns 1 on failure. `record` is a SOUND; scratch is int32[channels, block]."""
    size, frames, channels = load_i64(record + at.bytes), load_i64(record + at.frames), load_i64(record + at.channels)
    bits, block = load_i64(record + at.bits), load_i64(record + at.block)
    place, done = _place(), np.int64(0)
    place[_AT] = place[_BROKEN] = 0
    while done < frames:
        begin = place[_AT] >> 3
        count, assignment = _header(source, size, place, channels, bits)
        if place[_BROKEN] != 0 or count == 0 or count > smaller(block, frames - done):
            return 1
        for channel in range(channels):
            side = (assignment == _SIDE_RIGHT and channel == 0) or (
                (assignment == _LEFT_SIDE or assignment == _MID_SIDE) and channel == 1
            )
            samples = view_i32(scratch + 4 * block * channel, count)
            _subframe(source, size, place, bits + (1 if side else 0), count, samples)
            if place[_BROKEN] != 0:
                return 1
        end = (place[_AT] + 7) >> 3
        if end + 2 > size or _checksum(source + begin, end - begin) != load_u8(source + end) << 8 | load_u8(source + end + 1):
            return 1
        place[_AT] = 8 * (end + 2)
        if assignment >= _LEFT_SIDE:
            _unmix(assignment, view_i32(scratch, count), view_i32(scratch + 4 * block, count), count)
        for channel in range(channels):
            _deliver(view_i32(scratch + 4 * block * channel, count), count, channel, channels, bits, out, done, kind)
        done += count
    return 0

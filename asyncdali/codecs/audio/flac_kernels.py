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
from .audio_decoder_tables import SOUND
from .checksum_kernels import make_checksum

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


_frame_checksum = make_checksum(16, 0x8005)


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
def _signed_rice(value):
    """The number that a number of Rice's code stands for: 0, -1, 1, -2, ..."""
    return (value >> 1) ^ -(value & 1)


@inlined
def _number(word, zeros, parameter):
    """The number whose code begins at the highest bit of `word`, with so many `zeros`; fewer than 64."""
    with_one = shift_right(shift_left(word, zeros & 63), 63 - parameter)  # the 1 bit behind the zeros, then the low bits
    return _signed_rice(((zeros - 1) << parameter) + with_one)


@inlined
def _long_number(source, size, place, parameter):
    """The next number, whose code may have any length."""
    zeros = _zeros(source, size, place)
    return _signed_rice(zeros << parameter | _bits(source, size, place, parameter))


def _make_rice(order: int) -> Any:
    """``rice(source, size, place, parameter, coefficients, shift, samples, begin, end)`` for predictions of a constant order.

    It reads numbers in Rice's code with `parameter` low bits, and adds their predictions. Both are done in one loop, because each waits for
    its own previous step: 240 us for 64,000 samples, and 350 us one after the other. Bits are loaded for up to three numbers. Loading them
    when few are left takes a branch that is mispredicted.
    """
    near = min(order, 2)

    @inlined
    def predicted(number, coefficients, shift, here, last, before):
        """The sample at `here`: a number read and its prediction. `last` and `before` are the two samples before."""
        if order == 0:
            return number
        total = np.int64(0)
        for j in range(order - 1, near - 1, -1):
            total += coefficients[j] * np.int64(load_i32(here - 4 - 4 * j))
        if order > 1:
            total += coefficients[1] * before
        # The newest sample is added last: the other products are summed while that sample is still being computed.
        return number + ((total + coefficients[0] * last) >> shift)

    @inlined
    def rice(source, size, place, parameter, coefficients, shift, samples, begin, end):
        bit, here, stop = place[_AT], address(samples) + 4 * begin, address(samples) + 4 * end
        last = np.int64(load_i32(here - 4)) if order > 0 else np.int64(0)
        before = np.int64(load_i32(here - 8)) if order > 1 else np.int64(0)
        while here < stop:
            word = shift_left(_word(source, bit >> 3, size), bit & 7)
            zeros = leading_zeros(word)
            used = zeros + 1 + parameter
            next_word = shift_left(word, used & 63)
            next_zeros = leading_zeros(next_word)
            used_by_two = used + next_zeros + 1 + parameter
            third_word = shift_left(word, used_by_two & 63)
            third_zeros = leading_zeros(third_word)
            used_by_three = used_by_two + third_zeros + 1 + parameter
            if used_by_two <= _LOADED and here + 8 <= stop:
                first = predicted(_number(word, zeros, parameter), coefficients, shift, here, last, before)
                store_i32(here, np.int32(first))
                second = predicted(_number(next_word, next_zeros, parameter), coefficients, shift, here + 4, first, last)
                store_i32(here + 4, np.int32(second))
                last, before = second, first
                if used_by_three <= _LOADED and here + 12 <= stop:
                    last = predicted(_number(third_word, third_zeros, parameter), coefficients, shift, here + 8, second, first)
                    store_i32(here + 8, np.int32(last))
                    before = second
                    here += 12
                    bit += used_by_three
                else:
                    here += 8
                    bit += used_by_two
            else:
                if used <= _LOADED:
                    number = _number(word, zeros, parameter)
                    bit += used
                else:
                    place[_AT] = bit
                    number = _long_number(source, size, place, parameter)
                    bit = place[_AT]
                    if place[_BROKEN] != 0:
                        return
                sample = predicted(number, coefficients, shift, here, last, before)
                store_i32(here, np.int32(sample))
                last, before = sample, last
                here += 4
        place[_AT] = bit

    return rice


_rice0, _rice1, _rice2, _rice3, _rice4 = (_make_rice(order) for order in range(5))
_rice5, _rice6, _rice7, _rice8 = (_make_rice(order) for order in range(5, 9))


@inlined
def _predict(order, coefficients, shift, samples, begin, end):
    """Add the predictions to numbers. Each prediction uses the `order` samples before, the newest first."""
    for i in range(begin, end):
        total = np.int64(0)
        for j in range(order):
            total += coefficients[j] * np.int64(samples[i - 1 - j])
        samples[i] = np.int32(np.int64(samples[i]) + (total >> shift))


@inlined
def _part(source, size, place, parameter, order, coefficients, shift, samples, begin, end):
    """Read a part of the numbers in Rice's code, and add the predictions."""
    if order == 1:
        _rice1(source, size, place, parameter, coefficients, shift, samples, begin, end)
    elif order == 2:
        _rice2(source, size, place, parameter, coefficients, shift, samples, begin, end)
    elif order == 3:
        _rice3(source, size, place, parameter, coefficients, shift, samples, begin, end)
    elif order == 4:
        _rice4(source, size, place, parameter, coefficients, shift, samples, begin, end)
    elif order == 5:
        _rice5(source, size, place, parameter, coefficients, shift, samples, begin, end)
    elif order == 6:
        _rice6(source, size, place, parameter, coefficients, shift, samples, begin, end)
    elif order == 7:
        _rice7(source, size, place, parameter, coefficients, shift, samples, begin, end)
    elif order == 8:
        _rice8(source, size, place, parameter, coefficients, shift, samples, begin, end)
    else:
        _rice0(source, size, place, parameter, coefficients, shift, samples, begin, end)
        if order > 0:
            _predict(order, coefficients, shift, samples, begin, end)


@inlined
def _residual(source, size, place, order, coefficients, shift, count, samples):
    """Read the residuals of the predictions, from sample `order` on, and add the predictions."""
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
            _predict(order, coefficients, shift, samples, begin, end)
        else:
            _part(source, size, place, parameter, order, coefficients, shift, samples, begin, end)
        if place[_BROKEN] != 0 or place[_AT] >> 3 > size:
            place[_BROKEN] = 1
            return
        begin = end


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
            _residual(source, size, place, order, coefficients, shift, count, samples)
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
    """Read the header of the next frame: (samples per channel, how the channels were combined, whether frames have several sizes, the
    number of its first sample if so, else of the frame)."""
    sync, blocking, rest = _bits(source, size, place, 14), _bits(source, size, place, 2), _bits(source, size, place, 16)
    size_code, rate_code, assignment, bits_code = rest >> 12, rest >> 8 & 15, rest >> 4 & 15, rest >> 1 & 7
    number = _bits(source, size, place, 8)
    more = leading_zeros((number ^ 255) << 56)  # Bytes of the number, encoded as in UTF-8.
    if more != 0:
        if more == 1 or more > 7:
            place[_BROKEN] = 1
        number &= 127 >> more
        for _ in range(more - 1):
            byte = _bits(source, size, place, 8)
            if byte >> 6 != 2:
                place[_BROKEN] = 1
            number = number << 6 | (byte & 63)
    count = _block_size(source, size, place, size_code)
    place[_AT] += 8 if rate_code == 12 else 16 if 13 <= rate_code <= 14 else 0
    place[_AT] += 8  # The header's checksum: skipped, because the frame's checksum covers the header.
    known = bits_code == 0 or (bits_code == 1 and bits == 8) or (bits_code == 4 and bits == 16) or (bits_code == 6 and bits == 24)
    own = 2 if assignment >= _LEFT_SIDE else assignment + 1
    if sync != _SYNC or blocking >> 1 != 0 or rest & 1 != 0 or rate_code == 15 or assignment > _MID_SIDE or not known or own != channels:
        place[_BROKEN] = 1
    return count, assignment, blocking, number


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
def _exceeds(samples, count, bits):
    """Whether a sample needs more bits. The predictions of a damaged frame can lead anywhere."""
    more = np.int32(0)
    for i in range(count):
        value = samples[i]
        more |= value ^ (value >> 31)
    return more >> (bits - 1) != 0


@inlined
def _deliver(samples, count, channels, bits, out, kind):
    """Convert a channel to the output's type: 0 INT16, 1 INT32, 2 FLOAT. Its first sample goes to `out`, the others `channels` apart."""
    total = (count - 1) * channels + 1
    if kind == 2:
        reals, scale = view_f32(out, total), np.float32(2.0) / np.float32(1 << bits)
        if channels == 1:
            for i in range(count):
                reals[i] = np.float32(samples[i]) * scale
        else:
            for i in range(count):
                reals[i * channels] = np.float32(samples[i]) * scale
    elif kind == 1:
        wide = view_i32(out, total)
        for i in range(count):
            wide[i * channels] = samples[i] << (32 - bits)
    else:
        shorts = _view_i16(out, total)
        for i in range(count):
            shorts[i * channels] = samples[i] << 8 if bits == 8 else samples[i] >> (bits - 16)


@inlined
def decode_flac(source, record, out, kind, scratch):
    """Decode the frames at `source` to `out`; returns 1 on failure. `record` is a SOUND; scratch is int32[channels, block]."""
    size, frames, channels = load_i64(record + at.bytes), load_i64(record + at.frames), load_i64(record + at.channels)
    bits, block = load_i64(record + at.bits), load_i64(record + at.block)
    place, done, usual = _place(), np.int64(0), np.int64(0)
    place[_AT] = place[_BROKEN] = 0
    while done < frames:
        begin = place[_AT] >> 3
        count, assignment, variable, number = _header(source, size, place, channels, bits)
        if place[_BROKEN] != 0 or count == 0 or count > smaller(block, frames - done):
            return 1
        usual = count if done == 0 else usual
        # libFLAC takes the place of a frame from its number. In frames of one size, only the last one may be shorter.
        if number != (done if variable != 0 else done // usual) or (variable == 0 and count != usual and done + count < frames):
            return 1
        if variable == 0 and usual != block and usual < frames:
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
        if end + 2 > size or _frame_checksum(0, source + begin, end - begin) != load_u8(source + end) << 8 | load_u8(source + end + 1):
            return 1
        place[_AT] = 8 * (end + 2)
        if assignment >= _LEFT_SIDE:
            _unmix(assignment, view_i32(scratch, count), view_i32(scratch + 4 * block, count), count)
        for channel in range(channels):
            if _exceeds(view_i32(scratch + 4 * block * channel, count), count, bits):
                return 1
            first = out + (done * channels + channel) * (2 if kind == 0 else 4)
            _deliver(view_i32(scratch + 4 * block * channel, count), count, channels, bits, first, kind)
        done += count
    return 0

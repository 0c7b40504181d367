"""Decoder of PNG files (PNG specification, third edition) of 8 bits per channel, without palettes and interlacing.

Other files, and files that are damaged, are left to Python (``png_files``), which also finds the text of the error. Both follow one rule,
so a file has one result whichever of them decodes it.
"""

from __future__ import annotations

import numpy as np

from ...compiled.intrinsics import clear_bytes, copy_bytes, load_big_endian_64, load_i64, load_u8, shift_right, store_i64, store_u8, view_u8
from ...compiled.job_tables import THREAD
from ...compiled.step import compiled, inlined, step
from .inflate import BROKEN, PADDING, SLACK, WORK_BYTES, inflate
from .png_crc_kernels import crc32
from .png_files import MOST_SIDE
from .png_tables import DECODE_PNGS, PNG_HEADER

at, header, record = DECODE_PNGS.at, PNG_HEADER.at, THREAD.at

MOST_BYTES = 64 << 20
"""Images with more bytes are left to Python: a thread keeps its scratch memory."""
_MOST_RATIO = 1032
"""Most bytes that one byte of deflated data can expand to (RFC 1951: 258 bytes per 2 bits)."""
_SIGNATURE = int.from_bytes(b"\x89PNG\r\n\x1a\n", "big") - (1 << 64)


def _names(*kinds: bytes) -> np.ndarray:
    return np.array([int.from_bytes(kind, "big") for kind in kinds], np.int64)


_IHDR, _IDAT, _IEND, _PLTE, _EXIF = (int(name) for name in _names(b"IHDR", b"IDAT", b"IEND", b"PLTE", b"eXIf"))


@inlined
def _word(source):
    """The 32-bit number at an address, with 4 more readable bytes behind it."""
    return shift_right(load_big_endian_64(source), 32)


@inlined
def _is_name(kind):
    """Whether the type of a chunk consists of four letters."""
    letters = True
    for shift in range(0, 32, 8):
        letter = kind >> shift & 0xDF
        letters = letters and 65 <= letter <= 90
    return letters


@inlined
def _is_critical(kind):
    """Whether the first letter of a chunk's type is a capital: then decoders must know the chunk."""
    return kind & 0x20000000 == 0


@inlined
def _packed_bytes(source, size):
    """Bytes of deflated data in a file; -1 for a file that turns the picture, that has an unknown critical chunk, or that has no data.
    The walk is that of ``png_files.read_file``."""
    place, packed, ended = np.int64(33), np.int64(0), np.int64(0)
    while place + 12 <= size:
        length, kind = _word(source + place), _word(source + place + 4)
        if not _is_name(kind) or place + 12 + length > size or kind == _IEND:
            break
        if kind == _IDAT:
            if ended != 0:
                break
            packed += length
        elif _is_critical(kind):
            if packed > 0:
                break
            if kind != _PLTE:
                return np.int64(-1)
        else:
            ended = np.int64(packed > 0)
            if kind == _EXIF:
                return np.int64(-1)
        place += 12 + length
    return packed if packed > 0 else np.int64(-1)


@compiled(4)
def read_headers(addresses, sizes, headers, count):
    """Read the headers of `count` files (PNG_HEADER[count], zeros). Returns how many of them the decoder can decode."""
    found = np.int64(0)
    for k in range(count):
        source, size, row = load_i64(addresses + 8 * k), load_i64(sizes + 8 * k), headers + header.size * k
        if size < 33 or load_big_endian_64(source) != _SIGNATURE:
            continue
        if _word(source + 8) != 13 or _word(source + 12) != _IHDR:
            continue
        width, height, colour = _word(source + 16), _word(source + 20), np.int64(load_u8(source + 25))
        # 8 bits, no other method of compression or filtering, no interlacing.
        if load_u8(source + 24) != 8 or _word(source + 25) & 0xFFFFFF != 0:
            continue
        channels = 1 if colour == 0 else 3 if colour == 2 else 2 if colour == 4 else 4 if colour == 6 else 0
        if channels == 0 or width < 1 or height < 1 or max(width, height) > MOST_SIDE or height * (1 + width * channels) > MOST_BYTES:
            continue
        packed = _packed_bytes(source, size)
        if packed < 1 or height * (1 + width * channels) // _MOST_RATIO > packed:
            continue
        store_i64(row + header.width, width)
        store_i64(row + header.height, height)
        store_i64(row + header.channels, channels)
        store_i64(row + header.packed, packed)
        store_i64(row + header.found, 1)
        found += 1
    return found


def scratch_bytes(headers: np.ndarray) -> int:
    """Bytes of scratch that a thread needs to decode any of these images."""
    word = PNG_HEADER.word
    row = 1 + headers[:, word.width] * headers[:, word.channels]
    largest = int((headers[:, word.packed] + headers[:, word.height] * row + row).max(initial=0))
    return largest + WORK_BYTES + PADDING + SLACK + 3 * 64


@inlined
def _is_whole(chunk, length):
    """Whether the checksum behind a chunk of `length` bytes is that of its type and data."""
    return crc32(chunk + 4, length + 4) == load_big_endian_64(chunk + 4 + length) & 0xFFFFFFFF


@inlined
def _gather(source, size, target, room):
    """Copy the deflated data of a file to `target`, with zeros behind. Returns its size; 0 if the checksum of the header or of the data is
    wrong. A mapped file may have changed in the meantime, so no more than `room` bytes are copied."""
    place, done, ended = np.int64(33), np.int64(0), np.int64(0)
    if not _is_whole(source + 8, np.int64(13)):
        return np.int64(0)
    while place + 12 <= size:
        length, kind = _word(source + place), _word(source + place + 4)
        if kind == _IEND or place + 12 + length > size or done + length > room or (kind == _IDAT and ended != 0):
            break
        if kind != _IDAT:
            ended = np.int64(done > 0)
        else:
            if not _is_whole(source + place, length):
                return np.int64(0)
            copy_bytes(target + done, source + place + 8, length)
            done += length
        place += 12 + length
    clear_bytes(target + done, PADDING)
    return done


@inlined
def _add_rows(row, above, target, count):
    """Filter 2: add the row above."""
    left, right, sums = view_u8(row, count), view_u8(above, count), view_u8(target, count)
    for k in range(count):
        sums[k] = left[k] + right[k]


@inlined
def _add_left(row, target, count, channels):
    """Filter 1: add the pixel to the left."""
    copy_bytes(target, row, channels)
    if channels == 3:
        a, b, c = np.int64(load_u8(row)), np.int64(load_u8(row + 1)), np.int64(load_u8(row + 2))
        for k in range(3, count, 3):
            a, b, c = a + load_u8(row + k), b + load_u8(row + k + 1), c + load_u8(row + k + 2)
            store_u8(target + k, np.uint8(a & 255))
            store_u8(target + k + 1, np.uint8(b & 255))
            store_u8(target + k + 2, np.uint8(c & 255))
        return
    for k in range(channels, count):
        store_u8(target + k, np.uint8(load_u8(row + k) + load_u8(target + k - channels)))


@inlined
def _half(row, above, left):
    return (np.int64(load_u8(row)) + ((left + np.int64(load_u8(above))) >> 1)) & 255


@inlined
def _add_average(row, above, target, count, channels):
    """Filter 3: add the mean of the pixels to the left and above."""
    if channels == 3:
        a = b = c = np.int64(0)
        for k in range(0, count, 3):
            a, b, c = _half(row + k, above + k, a), _half(row + k + 1, above + k + 1, b), _half(row + k + 2, above + k + 2, c)
            store_u8(target + k, np.uint8(a))
            store_u8(target + k + 1, np.uint8(b))
            store_u8(target + k + 2, np.uint8(c))
        return
    for k in range(count):
        left = np.int64(load_u8(target + k - channels)) if k >= channels else np.int64(0)
        store_u8(target + k, np.uint8(_half(row + k, above + k, left)))


@inlined
def _nearest(left, above, corner):
    """The one of three neighbours that is nearest to left + above - corner."""
    to_left, to_above = above - corner, left - corner
    to_corner = abs(to_left + to_above)
    to_left, to_above = abs(to_left), abs(to_above)
    nearer = above if to_above <= to_corner else corner
    return left if to_left <= to_above and to_left <= to_corner else nearer


@inlined
def _add_nearest(row, above, target, count, channels):
    """Filter 4 (Paeth): add the neighbour (left, above or corner) that is nearest to left + above - corner."""
    if channels == 3:
        a = b = c = d = e = f = np.int32(0)
        for k in range(0, count, 3):
            u, v, w = np.int32(load_u8(above + k)), np.int32(load_u8(above + k + 1)), np.int32(load_u8(above + k + 2))
            a = np.int32((np.int32(load_u8(row + k)) + _nearest(a, u, d)) & 255)
            b = np.int32((np.int32(load_u8(row + k + 1)) + _nearest(b, v, e)) & 255)
            c = np.int32((np.int32(load_u8(row + k + 2)) + _nearest(c, w, f)) & 255)
            d, e, f = u, v, w
            store_u8(target + k, np.uint8(a))
            store_u8(target + k + 1, np.uint8(b))
            store_u8(target + k + 2, np.uint8(c))
        return
    for k in range(count):
        left = corner = np.int64(0)
        if k >= channels:
            left, corner = np.int64(load_u8(target + k - channels)), np.int64(load_u8(above + k - channels))
        store_u8(target + k, np.uint8((np.int64(load_u8(row + k)) + _nearest(left, np.int64(load_u8(above + k)), corner)) & 255))


@inlined
def _unfilter(rows, target, height, count, channels, zeros):
    """Undo the filters of all rows. A row is a byte with the number of its filter, then `count` bytes. Returns a status."""
    above = zeros
    for _ in range(height):
        kind, row = load_u8(rows), rows + 1
        if kind == 0:
            copy_bytes(target, row, count)
        elif kind == 1:
            _add_left(row, target, count, channels)
        elif kind == 2:
            _add_rows(row, above, target, count)
        elif kind == 3:
            _add_average(row, above, target, count, channels)
        elif kind == 4:
            _add_nearest(row, above, target, count, channels)
        else:
            return BROKEN
        above, rows, target = target, row + count, target + count
    return 0


@step
def decode_png(context, sample, thread):
    """Decode one file. The status is in the table; a file that is not decoded is no error here."""
    own = load_i64(load_i64(context + at.samples) + 8 * sample)
    row = load_i64(context + at.headers) + header.size * own
    width, height, channels = load_i64(row + header.width), load_i64(row + header.height), load_i64(row + header.channels)
    source, size = load_i64(load_i64(context + at.addresses) + 8 * own), load_i64(load_i64(context + at.sizes) + 8 * own)
    work = (load_i64(thread + record.scratch) + load_i64(context + at.scratch) + 63) & -64
    count = width * channels
    wanted = height * (1 + count)
    zeros = work + WORK_BYTES
    raw = (zeros + count + 63) & -64
    packed = (raw + wanted + SLACK + 63) & -64
    clear_bytes(zeros, count)
    status = inflate(packed, _gather(source, size, packed, load_i64(row + header.packed)), raw, wanted, work)
    if status == 0:
        status = _unfilter(raw, load_i64(load_i64(context + at.targets) + 8 * own), height, count, channels, zeros)
    store_i64(load_i64(context + at.statuses) + 8 * own, np.int64(status))
    return 0

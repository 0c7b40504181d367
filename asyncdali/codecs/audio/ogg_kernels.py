"""Ogg files with one Vorbis stream (RFC 3533; Vorbis I specification, appendix A).

Anything unexpected is left to libsndfile: several streams, lost or damaged pages, headers that share a page with sound.
"""

from __future__ import annotations

import numpy as np

from ...compiled.intrinsics import address, copy_bytes, load_i32, load_i64, load_u8, local_array, store_i64
from ...compiled.step import inlined
from .audio_decoder_tables import SOUND
from .checksum_kernels import make_checksum
from .vorbis_tables import MOST_BLOCK, MOST_CHANNELS

record_at = SOUND.at
OGG_MARK = int.from_bytes(b"OggS", "little")
HEADER = 27
"""Bytes of a page's header, before the sizes of its segments."""
IDENTIFICATION = 30
"""Bytes of the first packet."""
IDENTIFICATION_AT = HEADER + 1
CONTINUED, _FIRST, LAST = 1, 2, 4
"""Flags of a page: it begins within a packet, it is the first one, it is the last one."""
FULL = 255
"""Bytes of a segment behind which a packet goes on."""
_FLAGS, _POSITION, _SERIAL, _NUMBER, _CHECKSUM, _SEGMENTS = 5, 6, 14, 18, 22, 26
_NAME, _NAME_MASK, _NAME_AT = int.from_bytes(b"vorbis", "little"), (1 << 48) - 1, 1
_checksum = make_checksum(32, 0x04C11DB7)
_zeros = local_array(np.int64, 1)


@inlined
def _u32(place):
    return load_i32(place) & 0xFFFFFFFF


@inlined
def page_bytes(page, room):
    """The bytes of a page of which `room` bytes are there; 0 if there is no whole page."""
    if room < HEADER or _u32(page) != OGG_MARK or load_u8(page + 4) != 0:
        return 0
    segments = load_u8(page + _SEGMENTS)
    size = np.int64(HEADER + segments)
    if size > room:
        return 0
    for k in range(segments):
        size += load_u8(page + HEADER + k)
    return size if size <= room else 0


@inlined
def page_flags(page):
    return load_u8(page + _FLAGS)


@inlined
def page_position(page):
    """Samples up to the end of the last packet that ends on the page; -1 if none does."""
    return load_i64(page + _POSITION)


@inlined
def page_segments(page):
    return load_u8(page + _SEGMENTS)


@inlined
def is_intact(page, size):
    """Whether the bytes of a page have its checksum, which itself counts as zeros."""
    zeros = _zeros()
    zeros[0] = 0
    value = _checksum(np.int64(0), page, _CHECKSUM)
    value = _checksum(value, address(zeros), 4)
    return _checksum(value, page + _CHECKSUM + 4, size - _CHECKSUM - 4) == _u32(page + _CHECKSUM)


@inlined
def is_header(packet, kind):
    """Whether a packet of 9 bytes or more begins as the header of Vorbis of this kind: 1, 3 or 5."""
    return load_u8(packet) == kind and load_i64(packet + _NAME_AT) & _NAME_MASK == _NAME


@inlined
def _scan_headers(file, size, record):
    """The bytes up to the first page of sound; 0 if the headers are not those of one Vorbis stream."""
    first = page_bytes(file, size)
    body = file + IDENTIFICATION_AT
    usual = first == IDENTIFICATION_AT + IDENTIFICATION and page_segments(file) == 1 and page_flags(file) == _FIRST
    if not usual or not is_header(body, 1) or not is_intact(file, first):
        return np.int64(0)
    channels, block = load_u8(body + 11), 1 << (load_u8(body + 28) >> 4)
    if channels == 0 or channels > MOST_CHANNELS or block > MOST_BLOCK:  # They decide how much memory a thread needs.
        return np.int64(0)
    store_i64(record + record_at.channels, channels)
    store_i64(record + record_at.rate, _u32(body + 12))
    store_i64(record + record_at.block, block)
    place, packet, setup = np.int64(first), 1, np.int64(0)
    while packet < 3:
        page = file + place
        length = page_bytes(page, size - place)
        if length == 0 or page_flags(page) & _FIRST != 0 or not is_intact(page, length):
            return np.int64(0)
        for k in range(page_segments(page)):
            if packet == 3:  # sound on the page of a header
                return np.int64(0)
            segment = load_u8(page + HEADER + k)
            setup += segment if packet == 2 else 0
            packet += 1 if segment < FULL else 0
        place += length
    store_i64(record + record_at.setup, setup)
    return place


@inlined
def scan_ogg(file, size, record):
    """Read the headers of a file, and the headers of all its pages. Returns whether it is one whole Vorbis stream."""
    begin = _scan_headers(file, size, record)
    if begin == 0:
        return False
    serial, number, packets, place, frames, flags = _u32(file + _SERIAL), 0, 0, np.int64(0), np.int64(0), 0
    while place < size:
        page = file + place
        length = page_bytes(page, size - place)
        if length == 0 or flags & LAST != 0 or _u32(page + _SERIAL) != serial or _u32(page + _NUMBER) != number:
            return False
        if place >= begin:
            for k in range(page_segments(page)):
                packets += 1 if load_u8(page + HEADER + k) < FULL else 0
        flags, frames = page_flags(page), page_position(page)
        number += 1
        place += length
    # The number of samples decides how much memory is allocated: a packet gives at most half a block.
    if flags & LAST == 0 or not 0 < frames <= packets * load_i64(record + record_at.block) // 2:
        return False
    store_i64(record + record_at.data, begin)
    store_i64(record + record_at.bytes, size - begin)
    store_i64(record + record_at.frames, frames)
    return True


@inlined
def gather_headers(file, end, out):
    """Copy the second and the third packet to `out`: the contents of all pages from the second one to the offset `end`. Returns
    their bytes."""
    place, total = np.int64(page_bytes(file, end)), np.int64(0)
    while place < end:
        page = file + place
        length = page_bytes(page, end - place)
        head = HEADER + page_segments(page)
        copy_bytes(out + total, page + head, length - head)
        total += length - head
        place += length
    return total

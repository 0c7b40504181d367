"""Takes Ogg files with one Vorbis stream apart, and writes them again with other packets or other pages."""

from __future__ import annotations

import itertools
import struct

import numpy as np

_HEADER, _FULL = 27, 255
_CONTINUED, _FIRST, _LAST = 1, 2, 4


def _table() -> list[int]:
    table = []
    for value in range(256):
        crc = value << 24
        for _ in range(8):
            crc = (crc << 1 ^ (0x04C11DB7 if crc >> 31 else 0)) & 0xFFFFFFFF
        table.append(crc)
    return table


_TABLE = _table()


def checksum(data: bytes) -> int:
    """The checksum of a page whose own checksum is 0."""
    crc = 0
    for byte in data:
        crc = (crc << 8 & 0xFFFFFFFF) ^ _TABLE[crc >> 24 ^ byte]
    return crc


def packets_of(data: bytes) -> list[bytes]:
    """The packets of a file."""
    found, packet, at = [], b"", 0
    while at < len(data):
        segments = data[at + _HEADER : at + _HEADER + data[at + 26]]
        at += _HEADER + len(segments)
        for size in segments:
            packet, at = packet + data[at : at + size], at + size
            if size < _FULL:
                found.append(packet)
                packet = b""
    return found


def frames_of(data: bytes) -> int:
    """The samples of a file, as its last page says."""
    return struct.unpack_from("<q", data, data.rindex(b"OggS") + 6)[0]


def _positions(packets: list[bytes]) -> list[int]:
    """Samples up to the end of each packet. Mode 0 of libvorbis has short blocks, mode 1 long ones."""
    sizes = [1 << (packets[0][28] & 15), 1 << (packets[0][28] >> 4)]
    halves = [sizes[packet[0] >> 1 & 1] // 2 for packet in packets[3:]]
    steps = [0, *((a + b) // 2 for a, b in itertools.pairwise(halves))]
    return [0, 0, 0, *np.cumsum(steps).tolist()]


def _page(segments: list[bytes], flags: int, position: int, number: int, serial: int) -> bytes:
    head = struct.pack("<4sBBqIII", b"OggS", 0, flags, position, serial, number, 0)
    page = head + bytes([len(segments), *map(len, segments)]) + b"".join(segments)
    return page[:22] + struct.pack("<I", checksum(page)) + page[26:]


def written(packets: list[bytes], frames: int, per_page: int = _FULL, serial: int = 7, original: list[bytes] | None = None) -> bytes:
    """A file of these packets with `frames` samples, and up to `per_page` segments on a page.

    Its positions are those of `original` packets, or of the same ones.
    """
    pages: list[tuple[list[bytes], int, int]] = []
    positions = _positions(original or packets)
    positions[-1] = frames
    segments: list[bytes] = []
    flags, position = _FIRST, -1

    def end_page() -> None:
        nonlocal segments, position
        if segments:
            pages.append((segments, flags, position))
        segments, position = [], -1

    for k, packet in enumerate(packets):
        pieces = [packet[at : at + _FULL] for at in range(0, len(packet) + 1, _FULL)]
        for piece in pieces:
            if len(segments) == per_page:
                goes_on = len(segments[-1]) == _FULL
                end_page()
                flags = _CONTINUED if goes_on else 0
            segments.append(piece)
        position = positions[k]
        if k in (0, 2):  # The headers end a page.
            end_page()
            flags = 0
    end_page()
    last = len(pages) - 1
    return b"".join(_page(own, flags | (_LAST if k == last else 0), position, k, serial) for k, (own, flags, position) in enumerate(pages))

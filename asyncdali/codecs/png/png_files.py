"""The chunks of a PNG file (PNG specification, third edition), for OpenCV and for headers.

All decoders of PNG follow one rule, which `png_kernels` has in compiled code. A picture consists of its header, its palette and its
first row of data chunks, which must be whole and have right checksums. Other chunks change no pixel, so their contents and checksums do
not matter, with one exception: eXIf, which turns the picture. The file may end behind the data, without IEND. A critical chunk that the
specification does not know is refused. Whatever our decoder does not decode, OpenCV decodes or refuses.
"""

from __future__ import annotations

import struct
import zlib
from typing import NamedTuple

SIGNATURE = b"\x89PNG\r\n\x1a\n"
MOST_SIDE = 1_000_000
"""Most rows and columns: libpng's PNG_USER_WIDTH_MAX."""
_CHANNELS = {0: 1, 2: 3, 3: 1, 4: 2, 6: 4}
"""Values of a stored pixel, by colour type."""
_PASSES = ((0, 0, 8, 8), (0, 4, 8, 8), (4, 0, 8, 4), (0, 2, 4, 4), (2, 0, 4, 2), (0, 1, 2, 2), (1, 0, 2, 1))
"""First row and column, steps of rows and columns of the interlaced passes."""
_PIECE = 1 << 20
_PALETTE = 3
_CRITICAL = 0x20
"""The bit in the first letter of a chunk's type that critical chunks lack."""


class PngFile(NamedTuple):
    """The header of a file, and the places of the chunks that make pixels.

    palettes, data   (offset of the chunk, bytes of its contents)
    orientation      the contents of the first whole eXIf chunk; empty without one
    cut              whether the file ends within a chunk
    """

    width: int
    height: int
    depth: int
    colour: int
    interlaced: bool
    palettes: list[tuple[int, int]]
    data: list[tuple[int, int]]
    orientation: bytes
    cut: bool

    @property
    def bytes_of_rows(self) -> int:
        """Bytes of the filtered rows: a byte for the filter, then the packed pixels."""
        bits = self.depth * _CHANNELS.get(self.colour, 1)
        passes = _PASSES if self.interlaced else ((0, 0, 1, 1),)
        sizes = [(-(-(self.height - y) // down), -(-(self.width - x) // across)) for y, x, down, across in passes]
        return sum(rows * (1 + -(-columns * bits // 8)) for rows, columns in sizes if rows > 0 and columns > 0)


def is_whole(data: bytes, at: int, length: int) -> bool:
    """Whether the checksum of the chunk at `at` is right."""
    end = at + 8 + length
    return zlib.crc32(data[at + 4 : end]) == int.from_bytes(data[end : end + 4], "big")


def read_file(data: bytes) -> PngFile:
    """Walk the chunks of a file; see above. ValueError if they hold no picture; struct.error if the header is truncated."""
    length, kind, width, height, depth, colour, _, _, interlace = struct.unpack_from(">I4sIIBBBBB", data, 8)
    if kind != b"IHDR" or length != 13:
        raise ValueError("broken PNG: it does not start with IHDR")
    if max(width, height) > MOST_SIDE:
        raise ValueError(f"PNG of {width}x{height} pixels; at most {MOST_SIDE} in a row or column are decoded")
    palettes: list[tuple[int, int]] = []
    pieces: list[tuple[int, int]] = []
    at, packed, ended, orientation = 33, 0, False, b""
    while at + 12 <= len(data):
        length, kind = struct.unpack_from(">I4s", data, at)
        if not kind.isalpha() or at + 12 + length > len(data) or kind == b"IEND":
            break
        if kind == b"IDAT":
            if ended:
                break
            pieces.append((at, length))
            packed += length
        elif kind[0] & _CRITICAL == 0:
            if packed:
                break
            if kind != b"PLTE":
                raise ValueError(f"broken PNG: chunk {kind.decode()} is critical, and unknown or at a wrong place")
            palettes.append((at, length))
        else:
            ended = packed > 0
            if kind == b"eXIf" and not orientation and is_whole(data, at, length):
                orientation = data[at + 8 : at + 8 + length]
        at += 12 + length
    cut = data[at + 4 : at + 8] != b"IEND"
    if not packed:
        raise ValueError("broken PNG: truncated, or a wrong chunk length" if cut else "broken PNG: it has no data")
    return PngFile(width, height, depth, colour, interlace != 0, palettes, pieces, orientation, cut)


def _chunk(kind: bytes, contents: bytes) -> bytes:
    return struct.pack(">I", len(contents)) + kind + contents + struct.pack(">I", zlib.crc32(contents, zlib.crc32(kind)))


def for_opencv(data: bytes, file: PngFile) -> bytes:
    """The file with nothing but its header, its palette if that is used, and its rows.

    libpng refuses some files whose other chunks are broken, and data that needs a larger window than it asks for. Our decoder reads both.
    """
    out = bytearray(data[:33])
    for at, length in file.palettes if file.colour == _PALETTE else ():
        out += data[at : at + 12 + length]
    first = len(out)
    if file.data[0][1] < 2 and all(is_whole(data, *chunk) for chunk in file.data):  # The two bytes of zlib's header may be apart.
        out += _chunk(b"IDAT", b"".join(data[at + 8 : at + 8 + length] for at, length in file.data))
    else:
        for at, length in file.data:
            out += data[at : at + 12 + length]
    _ask_for_largest_window(out, first)
    out += _chunk(b"IEND", b"")
    return bytes(out)


def _ask_for_largest_window(out: bytearray, at: int) -> None:
    """Change the header of a zlib stream (RFC 1950) in the whole data chunk at `at`, so that its distances may have any length."""
    length, method, flags = struct.unpack_from(">I4xBB", out, at)
    valid = length >= 2 and method & 15 == 8 and method >> 4 < 7 and flags & 0x20 == 0 and (method << 8 | flags) % 31 == 0
    if valid and is_whole(bytes(out[at:]), 0, length):
        out[at + 8 : at + 10] = b"\x78\x01"
        out[at + 8 + length : at + 12 + length] = zlib.crc32(out[at + 4 : at + 8 + length]).to_bytes(4, "big")


def reason(data: bytes, file: PngFile) -> str:
    """Why OpenCV refuses the file."""
    if not is_whole(data, 8, 13):
        return "wrong checksum of the header"
    if file.colour == _PALETTE and not (file.palettes and all(is_whole(data, *chunk) for chunk in file.palettes)):
        return "wrong checksum of the palette" if file.palettes else "it has no palette"
    if not all(is_whole(data, *chunk) for chunk in file.data):
        return "wrong checksum of the data"
    inflater, left = zlib.decompressobj(), file.bytes_of_rows
    try:
        for at, length in file.data:
            rest: bytes = data[at + 8 : at + 8 + length]
            while rest and not inflater.eof and left > -_PIECE:
                left -= len(inflater.decompress(rest, _PIECE))
                rest = inflater.unconsumed_tail
    except zlib.error as error:
        return f"damaged data ({error})"
    if left > 0 or not inflater.eof:
        return "truncated" if file.cut else "the data ends too early"
    return "it is damaged or of an unsupported kind"

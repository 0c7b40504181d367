"""The chunks of a PNG file (PNG specification, third edition), for OpenCV and for headers.

All decoders of PNG follow one rule, which `png_kernels` has in compiled code. A picture consists of its header, its palette and its
first row of data chunks. Their checksums count, and the deflated data must be valid to its end, its checksum included. Other chunks
change no pixel, so their contents and checksums do not matter, with one exception: eXIf, which turns the picture. The file may end behind
the data, without IEND. A critical chunk that the specification does not know is refused.
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
    """The file with nothing but its header, its palette if that is used, and its rows, which are inflated here.

    Versions of OpenCV and libpng differ in what they do with damaged data and with chunks that change no pixel. They get neither.
    """
    if not is_whole(data, 8, 13):
        raise ValueError("broken PNG: wrong checksum of the header")
    out = bytearray(data[:33])
    for at, length in file.palettes if file.colour == _PALETTE else ():
        if not is_whole(data, at, length):
            raise ValueError("broken PNG: wrong checksum of the palette")
        out += data[at : at + 12 + length]
    for at, length in file.data:
        if not is_whole(data, at, length):
            raise ValueError("broken PNG: wrong checksum of the data")
    _pack_rows(out, data, file)
    out += _chunk(b"IEND", b"")
    return bytes(out)


def _pack_rows(out: bytearray, data: bytes, file: PngFile) -> None:
    """Append data chunks with the rows, deflated without compression. Rows behind the last one are dropped."""
    inflater, packer = zlib.decompressobj(), zlib.compressobj(0)
    left = file.bytes_of_rows
    try:
        for at, length in file.data:
            rest: bytes = data[at + 8 : at + 8 + length]
            while rest and not inflater.eof:
                rows = inflater.decompress(rest, _PIECE)
                rest = inflater.unconsumed_tail
                if left:
                    out += _chunk(b"IDAT", packer.compress(rows[:left]))
                    left -= min(left, len(rows))
    except zlib.error as error:
        raise ValueError(f"broken PNG: damaged data ({error})") from None
    if left or not inflater.eof:
        raise ValueError("broken PNG: truncated" if file.cut else "broken PNG: the data ends too early")
    out += _chunk(b"IDAT", packer.flush())

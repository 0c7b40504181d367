"""The directory of a TIFF file (TIFF 6.0 and BigTIFF): the fields that decide pixels, checked before anything is decoded."""

from __future__ import annotations

import struct
from typing import NamedTuple

import numpy as np

_KINDS = {1: "B", 3: "H", 4: "I", 13: "I", 16: "Q", 18: "Q"}
"""Letters (as in struct) of the types of unsigned integers: BYTE, SHORT, LONG, IFD, LONG8, IFD8."""
_SIZES = {1: 1, 2: 1, 3: 2, 4: 4, 5: 8, 6: 1, 7: 1, 8: 2, 9: 4, 10: 8, 11: 4, 12: 8, 13: 4, 16: 8, 17: 8, 18: 8}
NONE, CCITT, LZW, OLD_JPEG, JPEG, DEFLATE, PACKBITS = 1, (2, 3, 4), 5, 6, 7, (8, 32946), 32773
LZMA, ZSTD = 34925, 50000
PICTURES = {34712: "JPEG2000", 33005: "JPEG2000", 34933: "PNG", 50001: "WebP"}
"""Codings in which each strip or tile is a file of another format."""
CODINGS = {
    NONE: "none", 2: "CCITT RLE", 3: "CCITT group 3", 4: "CCITT group 4", LZW: "LZW", OLD_JPEG: "JPEG, old style", JPEG: "JPEG",
    8: "deflate", 32946: "deflate", PACKBITS: "PackBits", LZMA: "LZMA", ZSTD: "zstd", **PICTURES,
}  # fmt: skip
"""The codings that are decoded."""
_OTHERS = {
    32766: "NeXT", 32771: "word-aligned", 32809: "ThunderScan", 32908: "PixarFilm", 32909: "PixarLog", 33003: "JPEG2000 of YCbCr",
    34661: "JBIG", 34676: "SGILog", 34677: "SGILog24", 34887: "LERC", 34892: "lossy JPEG of DNG", 22610: "JPEG XR",
    34934: "JPEG XR", 50002: "JPEG XL", 52546: "JPEG XL",
}  # fmt: skip
WHITE, BLACK, RGB, PALETTE, MASK, CMYK, YCBCR, LAB = 0, 1, 2, 3, 4, 5, 6, 8
_COLOURS = {
    WHITE: "min is white", BLACK: "min is black", RGB: "RGB", PALETTE: "palette", MASK: "mask", CMYK: "CMYK", YCBCR: "YCbCr", LAB: "CIELab",
}  # fmt: skip
_UNSIGNED, _SIGNED, FLOAT, _VOID = 1, 2, 3, 4
_WITH_PREDICTOR = (LZW, *DEFLATE, LZMA, ZSTD)
"""Codings that use a predictor. For others decoders ignore it."""
MOST_SAMPLES = 1024


class DirectoryEntry(NamedTuple):
    """A field of the directory: its type, the number of its values, the offset of the first one."""

    kind: int
    number: int
    at: int


class TiffFile(NamedTuple):
    """The fields of the first directory. `segment_width`, `segment_height`: of a strip or tile; `places`: (offset, bytes) of all of them,
    those of the first channel first if the channels are `planar`."""

    order: str
    entries: dict[int, DirectoryEntry]
    width: int
    height: int
    bits: int
    samples: int
    format: int
    coding: int
    colour: int
    planar: bool
    predictor: int
    reversed_bits: bool
    segment_width: int
    segment_height: int
    places: np.ndarray
    orientation: int

    @property
    def tiled(self) -> bool:
        return 322 in self.entries

    @property
    def across(self) -> int:
        return -(-self.width // self.segment_width)

    @property
    def down(self) -> int:
        return -(-self.height // self.segment_height)

    @property
    def channels(self) -> int:
        """Channels of the decoded picture, if all are wanted. As in DALI, CMYK becomes RGB and a full alpha channel."""
        if self.colour in (YCBCR, LAB):
            return 3
        return {PALETTE: 3, CMYK: 4}.get(self.colour, self.samples)

    def rows(self) -> list[int]:
        """Rows that each strip or tile holds. Only the last strip may hold fewer than the others."""
        planes, down = self.samples if self.planar else 1, self.down
        if self.tiled:
            return [self.segment_height] * (planes * down * self.across)
        return ([self.segment_height] * (down - 1) + [self.height - (down - 1) * self.segment_height]) * planes


def read_file(data: bytes) -> tuple[TiffFile, int]:
    """(the first directory, the fewest bytes of such a file). ValueError if it is broken or of a kind that is not decoded."""
    order, entries = directory(data)

    def one(tag: int, other: int) -> int:
        return _numbers(data, order, entries, tag, other, 1)[0]

    width, height, samples = one(256, 0), one(257, 0), one(277, 1)
    coding, colour = one(259, NONE), one(262, BLACK)
    if not 1 <= samples <= MOST_SAMPLES:
        raise ValueError(f"TIFF of {samples} channels; 1 to {MOST_SAMPLES} are decoded")
    bits, form = _equal(data, order, entries, 258, 1, samples), _equal(data, order, entries, 339, _UNSIGNED, samples)
    if width < 1 or height < 1 or width >= 1 << 31 or height >= 1 << 31:
        raise ValueError(f"the header gives an image of {width}x{height} pixels; width and height must be at least 1")
    if 322 in entries:
        segment = one(322, 0), one(323, 0)
        if not (0 < segment[0] < 1 << 31 and 0 < segment[1] < 1 << 31):
            raise ValueError(f"broken TIFF: tiles of {segment[0]}x{segment[1]} pixels")
    else:
        segment = width, min(one(278, height) or height, height)
    planar = one(284, 1) == 2 and samples > 1
    count = -(-width // segment[0]) * -(-height // segment[1]) * (samples if planar else 1)
    places = _places(data, order, entries, count) if count <= len(data) else np.zeros((0, 2), np.int64)
    orientation = one(274, 1) if 274 in entries and entries[274].kind in _KINDS and entries[274].number == 1 else 1
    predictor = one(317, 1) if coding in _WITH_PREDICTOR else 1
    file = TiffFile(
        order, entries, width, height, bits, samples, form, coding, colour, planar, predictor, one(266, 1) == 2, *segment, places,
        orientation if 1 <= orientation <= 8 else 1,
    )  # fmt: skip
    ratio = {NONE: 1, LZW: 4096, 8: 1032, 32946: 1032, PACKBITS: 64}.get(coding)
    whole = height * -(-width * samples * bits // 8)
    needed = whole // ratio if ratio and colour != YCBCR else count
    return file, max(needed, count) if coding != OLD_JPEG else 0


def refuse(file: TiffFile) -> None:
    """ValueError for a kind that is not decoded."""
    if file.coding not in CODINGS:
        name = f"{_OTHERS[file.coding]} ({file.coding})" if file.coding in _OTHERS else str(file.coding)
        known = ", ".join(sorted({str(name) for name in CODINGS.values()}))
        raise ValueError(f"TIFF coding {name} is not supported; supported are {known}")
    if file.colour not in _COLOURS:
        raise ValueError(f"TIFF colour space {file.colour} is not supported; supported are {', '.join(_COLOURS.values())}")
    if file.coding in CCITT and (file.bits, file.samples) != (1, 1):
        raise ValueError(f"broken TIFF: {CODINGS[file.coding]} of {file.samples} channels of {file.bits} bits")
    usual = (file.format in (_UNSIGNED, _VOID) and 1 <= file.bits <= 16) or (file.format, file.bits) == (FLOAT, 32)
    if not usual:
        kind = {_UNSIGNED: "uint", _SIGNED: "int", FLOAT: "float"}.get(file.format, f"format {file.format}, ")
        raise ValueError(f"TIFF image of {kind}{file.bits} elements is not supported; unsigned 1 to 16 bit and float32 are")
    if file.colour == PALETTE and (file.bits > 8 or file.format == FLOAT):
        raise ValueError(f"TIFF palettes of {file.bits} bits are not supported; up to 8 bits are")
    if file.colour in (CMYK, YCBCR, LAB) and (file.bits != 8 or file.samples < (4 if file.colour == CMYK else 3)):
        raise ValueError(f"TIFF of {_COLOURS[file.colour]} with {file.samples} channels of {file.bits} bits is not supported; 8 bits are")
    inner = file.coding in (JPEG, OLD_JPEG, *PICTURES)
    if inner and file.colour == PALETTE and file.bits != 8:
        raise ValueError(f"broken TIFF: a palette of {file.bits} bits for pixels of {CODINGS[file.coding]}")
    if inner and file.colour == LAB:
        raise ValueError(f"TIFF of CIELab as {CODINGS[file.coding]} is not supported; uncompressed and others are")
    if file.colour == YCBCR and file.coding == JPEG and file.samples != 3 and not file.planar:
        raise ValueError(f"TIFF of YCbCr with {file.samples} channels as JPEG is not supported; 3 channels are")
    if file.colour == RGB and file.samples < 3:
        raise ValueError(f"broken TIFF: RGB of {file.samples} channels")
    if file.colour in (YCBCR, LAB) and file.coding not in (JPEG, OLD_JPEG) and (
        file.planar or file.samples != 3 or file.tiled or file.predictor != 1
    ):
        raise ValueError(f"TIFF of {_COLOURS[file.colour]} is supported as JPEG, and in strips of three channels without a predictor")
    allowed = (1, 2) if file.bits in (8, 16) else (1,)
    if file.predictor not in (*allowed, 3) or (file.predictor == 3) != (file.format == FLOAT and file.predictor != 1):
        raise ValueError(f"TIFF predictor {file.predictor} of {file.bits} bits is not supported")


def directory(data: bytes) -> tuple[str, dict[int, DirectoryEntry]]:
    """(byte order, {tag: field}) of the first directory. struct.error if it is truncated."""
    order = "<" if data[:2] == b"II" else ">"
    big = struct.unpack_from(order + "H", data, 2)[0] == 43
    at = struct.unpack_from(order + ("Q" if big else "I"), data, 8 if big else 4)[0]
    head, step, inline, layout = (8, 20, 8, "HHQ") if big else (2, 12, 4, "HHI")
    if at + head > len(data):
        raise ValueError("broken TIFF: the header is truncated")
    count = struct.unpack_from(order + ("Q" if big else "H"), data, at)[0]
    if count > 65535 or at + head + count * step > len(data):
        raise ValueError("broken TIFF: the header is truncated")
    entries: dict[int, DirectoryEntry] = {}
    for place in range(at + head, at + head + count * step, step):
        tag, kind, number = struct.unpack_from(order + layout, data, place)
        value = place + step - inline
        if _SIZES.get(kind, 1) * number > inline:
            value = struct.unpack_from(order + ("Q" if big else "I"), data, value)[0]
        entries.setdefault(tag, DirectoryEntry(kind, number, value))
    return order, entries


def _numbers(data: bytes, order: str, entries: dict[int, DirectoryEntry], tag: int, other: int, most: int) -> list[int]:
    """The first `most` values of a field of unsigned integers; `other` without the field."""
    if tag not in entries:
        return [other]
    found: list[int] = values_of(data, order, entries[tag], tag, most).tolist()
    return found


def values_of(data: bytes, order: str, entry: DirectoryEntry, tag: int, most: int) -> np.ndarray:
    """The first `most` values of a field of unsigned integers, int64."""
    if entry.kind not in _KINDS or entry.number < 1:
        raise ValueError(f"broken TIFF: tag {tag} is not an unsigned number")
    count = min(entry.number, most)
    letter = _KINDS[entry.kind]
    if entry.at + count * struct.calcsize(letter) > len(data):
        raise ValueError("broken TIFF: the header is truncated")
    found = np.frombuffer(data, np.dtype(order + letter), count, entry.at)
    if letter == "Q" and found.max() >= 1 << 62:
        raise ValueError(f"broken TIFF: tag {tag} is {found.max()}")
    return found.astype(np.int64)


def contents_of(data: bytes, entry: DirectoryEntry) -> bytes:
    """The bytes of a field."""
    return data[entry.at : entry.at + _SIZES.get(entry.kind, 1) * entry.number]


def _equal(data: bytes, order: str, entries: dict[int, DirectoryEntry], tag: int, other: int, samples: int) -> int:
    """The value that a field gives for each channel."""
    values = _numbers(data, order, entries, tag, other, samples)
    if len(set(values)) > 1:
        raise ValueError(f"TIFF channels of different kinds are not supported (tag {tag}: {values[:8]})")
    return values[0]


def _places(data: bytes, order: str, entries: dict[int, DirectoryEntry], count: int) -> np.ndarray:
    """int64[segments, 2]: offsets and sizes of the strips or tiles. Sizes may be missing in a file of one strip."""
    offsets, sizes = (324, 325) if 322 in entries and 324 in entries else (273, 279)
    if offsets not in entries:
        return np.zeros((0, 2), np.int64)
    begins = values_of(data, order, entries[offsets], offsets, count)
    if sizes in entries:
        found = values_of(data, order, entries[sizes], sizes, count)
    else:
        found = np.full(len(begins), len(data)) - begins if count == 1 else np.zeros(0, np.int64)
    if len(begins) < count or len(found) < count:
        raise ValueError(f"broken TIFF: {min(len(begins), len(found))} of {count} strips or tiles have a place")
    return np.stack([begins, found], axis=1)

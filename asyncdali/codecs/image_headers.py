"""Headers of encoded images: format, size, orientation. They are read before memory for pixels is allocated.

No data is trusted: every read is bounded, every loop advances, and nonsensical values raise ValueError.
JPEG headers are scanned in compiled code (``jpeg_kernels.scan_headers``).
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import Literal

import numpy as np

from . import jpeg2000, pnm
from .png.png_files import SIGNATURE, PngFile, read_file

FORMATS = "JPEG, PNG, BMP, TIFF, WebP, PNM (P1 to P6) and JPEG2000"

MAX_PIXELS = 1 << 28
"""Largest image that is decoded (268 million pixels)."""
FREE_PIXELS, PIXELS_PER_BYTE = 1 << 26, 8192
"""Above FREE_PIXELS (8192 x 8192) an image needs a byte of data per PIXELS_PER_BYTE pixels. A few bytes of WebP, JPEG2000 or
arithmetic-coded JPEG can describe a huge white image; such files must not make us allocate gigabytes."""
_DEFLATE_RATIO = 1032
"""Most bytes that one byte of deflated data can expand to (RFC 1951: 258 bytes per 2 bits)."""
_LZW_RATIO = 4096
_WEBP_ALPHA = 0x10
"""A bit in the flags of a VP8X chunk."""


@dataclass(frozen=True)
class ImageHeader:
    """Format name, stored size in pixels, EXIF orientation (1-8), stored channels; what the format's module has read."""

    format: str
    width: int
    height: int
    orientation: int = 1
    channels: int = 3
    tiff: TiffHeader | None = None
    png: PngFile | None = None
    pnm: pnm.PnmFile | None = None
    jpeg2000: jpeg2000.Jpeg2000File | None = None


@dataclass(frozen=True)
class TiffHeader:
    """The fields of a TIFF's first directory that are used here (TIFF 6.0, section 8)."""

    bits: int
    samples: int
    compression: int
    orientation_at: int
    """Offset of the two bytes of the orientation; 0 if there is no orientation."""
    big_endian: bool
    photometric: int = 1
    planar: bool = False
    """Whether each channel is stored separately."""
    predictor: int = 1
    height: int = 0
    rows_per_strip: int = 0
    tile_width: int = 0
    """0 if the image is stored in strips."""

    @property
    def channels_apart(self) -> bool:
        """Whether the file needs :func:`as_one_channel`: other decoders cannot read it, or would change colours by alpha."""
        if self.bits not in (8, 16) or self.photometric not in (1, 2) or self.samples < 2 or self.compression in _TIFF_JPEG:
            return False
        if not self.planar:
            return self.samples != 3
        return not self.tile_width and (self.rows_per_strip >= self.height or self.height % self.rows_per_strip == 0)


def signature(data: bytes) -> str | None:
    """The format name according to the first bytes; None for an unsupported format."""
    if data[:2] == b"\xff\xd8":
        return "JPEG"
    if data[:8] == SIGNATURE:
        return "PNG"
    if data[:2] == b"BM":
        return "BMP"
    if data[:4] in (b"II*\0", b"MM\0*"):
        return "TIFF"
    if data[:4] == b"RIFF" and data[8:12] == b"WEBP":
        return "WebP"
    if data[:1] == b"P" and data[1:2] in (b"1", b"2", b"3", b"4", b"5", b"6") and (data[2:3].isspace() or data[2:3] == b"#"):
        return "PNM"
    if data[:12] == b"\0\0\0\x0cjP  \r\n\x87\n" or data[:4] == b"\xff\x4f\xff\x51":
        return "JPEG2000"
    return None


_OTHERS = (
    (b"GIF8", "GIF"), (b"8BPS", "Photoshop"), (b"\x1f\x8b", "gzip"), (b"BZh", "bzip2"), (b"PK\3\4", "ZIP"), (b"\x28\xb5\x2f\xfd", "zstd"),
    (b"%PDF", "PDF"), (b"\0\0\1\0", "ICO"), (b"\xff\x0a", "JPEG XL"), (b"\0\0\0\x0cJXL ", "JPEG XL"), (b"\x76\x2f\x31\x01", "OpenEXR"),
    (b"#?RADIANCE", "Radiance HDR"), (b"#?RGBE", "Radiance HDR"), (b"P7\n", "PAM"), (b"PF\n", "PFM"), (b"Pf\n", "PFM"),
    (b"\x93NUMPY", "NumPy"), (b"II\xbc\x01", "JPEG XR"), (b"qoif", "QOI"), (b"DDS ", "DDS"), (b"\x8aMNG", "MNG"), (b"<svg", "SVG"),
    (b"<?xml", "XML"), (b"<!DOCTYPE html", "HTML"), (b"<!doctype html", "HTML"), (b"<html", "HTML"), (b"<HTML", "HTML"),
    (b"\x89HDF", "HDF5"), (b"SIMPLE  =", "FITS"), (b"RIFF", "RIFF (not WebP)"),
)  # fmt: skip
"""Beginnings of files of other kinds, to name them in errors."""
_BRANDS = {
    b"avif": "AVIF", b"avis": "AVIF", b"heic": "HEIC", b"heix": "HEIC", b"hevc": "HEIC", b"mif1": "HEIF", b"msf1": "HEIF", b"crx ": "CR3",
}  # fmt: skip


def _other_kind(data: bytes) -> str | None:
    """The kind of a file that is not decoded here, if its beginning tells."""
    if data[4:8] == b"ftyp":
        return _BRANDS.get(data[8:12], "MP4 or QuickTime")
    start = data[:64].lstrip(b"\xef\xbb\xbf \t\r\n")
    return next((kind for mark, kind in _OTHERS if start.startswith(mark) or data.startswith(mark)), None)


def read_header(data: bytes) -> ImageHeader:
    """Read the header of any format except JPEG.

    ValueError if the header is broken, the format is unknown, or `data` is too short for the size in the header.
    """
    kind = signature(data)
    if kind is None or kind == "JPEG":
        other = _other_kind(data)
        start = f"the data starts with {data[:8]!r}{f', as {other} does' if other else ''}" if data else "the data is empty"
        raise ValueError(f"unrecognised image format ({start}); supported are {FORMATS}")
    try:
        header, needed = _READERS[kind](data)
    except (struct.error, IndexError):
        raise ValueError(f"broken {kind}: the header is truncated") from None
    check_size(header.width, header.height, len(data))
    if needed > len(data):
        size = f"{header.width}x{header.height}"
        raise ValueError(f"broken {kind}: truncated, or a wrong header: {size} pixels take at least {needed} bytes, not {len(data)}")
    return header


def check_size(width: int, height: int, data_bytes: int) -> None:
    """Raise ValueError for impossible sizes."""
    pixels = width * height
    if width <= 0 or height <= 0:
        raise ValueError(f"the header gives an image of {width}x{height} pixels; width and height must be at least 1")
    if pixels > MAX_PIXELS:
        raise ValueError(f"the header gives an image of {width}x{height} pixels; at most {MAX_PIXELS} are decoded")
    if pixels > FREE_PIXELS and pixels > PIXELS_PER_BYTE * data_bytes:
        raise ValueError(f"the header gives an image of {width}x{height} pixels, which {data_bytes} bytes of data cannot hold")


# Each reader returns the header and the fewest bytes that such a file can have.


def _png(data: bytes) -> tuple[ImageHeader, int]:
    """PNG, third edition, sections 5 and 11.2.1."""
    file = read_file(data)
    channels = {0: 1, 2: 3, 3: 3, 4: 2, 6: 4}.get(file.colour, 1)  # Palettes contain RGB.
    header = ImageHeader("PNG", file.width, file.height, tiff_orientation(file.orientation), channels, png=file)
    return header, file.bytes_of_rows // _DEFLATE_RATIO


def _bmp(data: bytes) -> tuple[ImageHeader, int]:
    """BITMAPFILEHEADER and the start of BITMAPCOREHEADER or BITMAPINFOHEADER."""
    (size,) = struct.unpack_from("<I", data, 14)
    if size == 12:
        width, height, _, bits = struct.unpack_from("<HHHH", data, 18)
        compression = 0
    else:
        width, height, _, bits, compression = struct.unpack_from("<iiHHI", data, 18)
    height = abs(height)
    needed = height * (-(-width * bits // 32) * 4) if compression in (0, 3) and width > 0 else 0
    channels = 4 if bits == 32 and compression == 3 else 3  # Without bit fields the fourth byte is unused.
    if bits <= 8 and size > 12:
        (used,) = struct.unpack_from("<I", data, 46)
        palette = np.frombuffer(data[14 + size : 14 + size + 4 * (used or 1 << bits)], np.uint8)
        palette = palette[: len(palette) // 4 * 4].reshape(-1, 4)[:, :3]
        channels = 1 if (palette == palette[:, :1]).all() else 3
    return ImageHeader("BMP", width, height, channels=channels), needed


def _webp(data: bytes) -> tuple[ImageHeader, int]:
    """The WebP container specification; VP8 frame header (RFC 6386, 9.1) or VP8L header."""
    kind = data[12:16]
    (chunk,) = struct.unpack_from("<I", data, 16)
    if kind == b"VP8X":
        width, height = (int.from_bytes(data[at : at + 3], "little") + 1 for at in (24, 27))
        return ImageHeader("WebP", width, height, _webp_orientation(data), 4 if data[20] & _WEBP_ALPHA else 3), 30
    if kind == b"VP8L":
        (packed,) = struct.unpack_from("<I", data, 21)
        channels = 4 if packed >> 28 & 1 else 3
        return ImageHeader("WebP", (packed & 0x3FFF) + 1, (packed >> 14 & 0x3FFF) + 1, channels=channels), 20 + chunk
    if kind == b"VP8 ":
        width, height = struct.unpack_from("<HH", data, 26)
        return ImageHeader("WebP", width & 0x3FFF, height & 0x3FFF), 20 + chunk
    raise ValueError("broken WebP: no image chunk")


def _webp_orientation(data: bytes) -> int:
    at = 12
    while at + 8 <= len(data):
        (length,) = struct.unpack_from("<I", data, at + 4)
        if data[at : at + 4] == b"EXIF":
            block = data[at + 8 : at + 8 + length]
            return tiff_orientation(block.removeprefix(b"Exif\0\0"))
        at += 8 + length + (length & 1)
    return 1


def _pnm(data: bytes) -> tuple[ImageHeader, int]:
    file = pnm.read_file(data)
    return ImageHeader("PNM", file.width, file.height, channels=file.channels, pnm=file), file.needed


def _jpeg2000(data: bytes) -> tuple[ImageHeader, int]:
    file = jpeg2000.read_file(data)
    return ImageHeader("JPEG2000", file.width, file.height, channels=file.channels, jpeg2000=file), file.needed


# ---------------------------------------------------------------------------------------------------------------------------- TIFF

_TIFF_FIELDS = (256, 257, 258, 259, 262, 274, 277, 278, 284, 317, 322, 338)
_TIFF_SIZES = {1: 1, 3: 2, 4: 4}
_WITH_PREDICTOR = (5, 8, 32946, 34925, 50000)
"""Compressions that use a predictor: LZW, Deflate, LZMA, Zstandard. For others decoders ignore the predictor."""
_TIFF_JPEG = (6, 7, 34712, 33003, 33005)
"""Compressions that treat channels differently: JPEG, JPEG2000."""
_PALETTE = 3
"""Photometric interpretation for palettes: pixels are indices into a table of colours."""


def _tiff(data: bytes) -> tuple[ImageHeader, int]:
    order, entries = _directory(data)
    fields = {tag: _field(data, order, entries[tag], tag) for tag in _TIFF_FIELDS if tag in entries}
    width, height = fields.get(256, 0), fields.get(257, 0)
    bits, samples, compression = fields.get(258, 1), fields.get(277, 1), fields.get(259, 1)
    row = -(-width * samples * bits // 8)
    ratio = {1: 1, 5: _LZW_RATIO, 8: _DEFLATE_RATIO, 32946: _DEFLATE_RATIO, 32773: 64}.get(compression)
    needed = height * row // ratio if ratio else 0
    orientation = fields.get(274, 1)
    at = entries[274][2] if 274 in entries and entries[274][:2] == (3, 1) else 0
    header = TiffHeader(
        bits, samples, compression, at, order == ">", fields.get(262, 1), fields.get(284, 1) == 2,
        fields.get(317, 1) if compression in _WITH_PREDICTOR else 1, height,
        fields.get(278, 1 << 32) or 1 << 32, fields.get(322, 0),
    )  # fmt: skip
    channels = 3 if header.photometric == _PALETTE else samples
    return ImageHeader("TIFF", width, height, orientation if 1 <= orientation <= 8 else 1, channels, header), needed


def _directory(data: bytes) -> tuple[str, dict[int, tuple[int, int, int]]]:
    """(byte order, {tag: (type, count, offset of the value)}) of a TIFF's first directory."""
    order = "<" if data[:2] == b"II" else ">"
    (at,) = struct.unpack_from(order + "I", data, 4)
    (count,) = struct.unpack_from(order + "H", data, at)
    entries: dict[int, tuple[int, int, int]] = {}
    for k in range(count):
        tag, kind, number = struct.unpack_from(order + "HHI", data, at + 2 + 12 * k)
        entries.setdefault(tag, (kind, number, at + 10 + 12 * k))
    return order, entries


def _field(data: bytes, order: str, entry: tuple[int, int, int], tag: int) -> int:
    """The first value of a field of unsigned integers."""
    kind, count, at = entry
    if kind not in _TIFF_SIZES or count < 1:
        raise ValueError(f"broken TIFF: tag {tag} is not an unsigned number")
    size = _TIFF_SIZES[kind]
    if size * count > 4:
        (at,) = struct.unpack_from(order + "I", data, at)
    result: int = struct.unpack_from(order + {1: "B", 2: "H", 4: "I"}[size], data, at)[0]
    return result


def as_one_channel(data: bytes, tiff: TiffHeader) -> np.ndarray:
    """Rewrite a TIFF of several channels as a TIFF of one channel. It is `tiff.samples` times as wide, or as high if it is planar.

    TIFF decoders support at most four channels. Strips and tiles hold the same bytes in both descriptions, except for the predictor: the
    predictor is turned off, and :func:`channels_of` undoes it. Raises ValueError for impossible sizes.
    """
    copy = bytearray(data)
    order, entries = _directory(data)
    (at,) = struct.unpack_from(order + "I", data, 4)
    (count,) = struct.unpack_from(order + "H", data, at)
    wanted = {277: 1, 262: 1, 317: 1, 284: 1}
    for tag in (257, 278) if tiff.planar else (256, 322):  # planar: height and rows per strip; otherwise: width of the image and of a tile
        if tag in entries:
            wanted[tag] = _field(data, order, entries[tag], tag) * (1 if tag == 278 else tiff.samples)
            if tag != 278 and wanted[tag] >= 1 << 31:
                raise ValueError(f"broken TIFF: {tiff.samples} channels of {wanted[tag] // tiff.samples} pixels in a row are too many")
    if tiff.planar and tiff.rows_per_strip >= tiff.height:
        wanted[278] = tiff.height  # One strip per channel.
    for k in range(count):
        here = at + 2 + 12 * k
        (tag,) = struct.unpack_from(order + "H", data, here)
        if tag in wanted:
            struct.pack_into(order + "HII", copy, here + 2, 4, 1, wanted[tag])
        elif tag in (258, 339):  # bits and sample format: use those of the first channel
            struct.pack_into(order + "HIHH", copy, here + 2, 3, 1, _field(data, order, entries[tag], tag), 0)
    if 338 in entries:  # the meaning of extra channels: delete the field, because one channel has none
        here, end = entries[338][2] - 8, at + 2 + 12 * count + 4
        copy[here : end - 12] = copy[here + 12 : end]
        struct.pack_into(order + "H", copy, at, count - 1)
    return np.frombuffer(bytes(copy), np.uint8)


def channels_of(image: np.ndarray, tiff: TiffHeader) -> np.ndarray:
    """Turn the decoded image of :func:`as_one_channel` into [height, width, channels]."""
    if tiff.planar:
        image = image.reshape(tiff.samples, tiff.height, -1).transpose(1, 2, 0)
    else:
        image = image.reshape(tiff.height, -1, tiff.samples)
    if tiff.predictor != 2:
        return np.ascontiguousarray(image)
    # Differences to the left neighbour (TIFF 6.0, section 14) wrap around. They restart in each tile.
    if tiff.tile_width % 16:
        raise ValueError(f"broken TIFF: tiles are {tiff.tile_width} pixels wide, which is not a multiple of 16")
    width = tiff.tile_width or image.shape[1]
    return np.concatenate([np.cumsum(image[:, x : x + width], 1, image.dtype) for x in range(0, image.shape[1], width)], 1)


_ORIENTATION_BYTES = {1: 1, 3: 2, 4: 4, 6: 1, 8: 2, 9: 4}
"""Bytes of the types that an orientation may have: integers of 8, 16 or 32 bits, signed or not."""


def tiff_orientation(block: bytes) -> int:
    """The orientation (1-8) in a TIFF block of EXIF data; 1 if there is none or the block is broken.

    ``jpeg_kernels._exif_orientation`` has the same rule for JPEGs.
    """
    if block[:4] not in (b"II*\0", b"MM\0*"):
        return 1
    order: Literal["little", "big"] = "little" if block[:2] == b"II" else "big"
    at = int.from_bytes(block[4:8], order)
    for entry in range(at + 2, at + 2 + 12 * int.from_bytes(block[at : at + 2], order), 12):
        field = block[entry : entry + 12]
        if len(field) < 12:
            return 1
        tag, kind, count = struct.unpack("<HHI" if order == "little" else ">HHI", field[:8])
        if tag == 0x0112:
            value = int.from_bytes(field[8 : 8 + _ORIENTATION_BYTES.get(kind, 0)], order)
            return value if count == 1 and 1 <= value <= 8 else 1
    return 1


_READERS = {"PNG": _png, "BMP": _bmp, "TIFF": _tiff, "WebP": _webp, "PNM": _pnm, "JPEG2000": _jpeg2000}

"""Headers of encoded images: format, size, orientation. They are read before memory for pixels is allocated.

No data is trusted: every read is bounded, every loop advances, and nonsensical values raise ValueError.
JPEG headers are scanned in compiled code (``jpeg_kernels.scan_headers``).
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import Literal

import numpy as np

from . import jpeg2000, pnm, tiff_files
from .png.png_files import SIGNATURE, PngFile, read_file

FORMATS = "JPEG, PNG, BMP, TIFF, WebP, PNM (P1 to P6) and JPEG2000"

MAX_PIXELS = 1 << 28
"""Largest image that is decoded (268 million pixels)."""
FREE_PIXELS, PIXELS_PER_BYTE = 1 << 26, 8192
"""Above FREE_PIXELS (8192 x 8192) an image needs a byte of data per PIXELS_PER_BYTE pixels. A few bytes of WebP, JPEG2000 or
arithmetic-coded JPEG can describe a huge white image; such files must not make us allocate gigabytes."""
_DEFLATE_RATIO = 1032
"""Most bytes that one byte of deflated data can expand to (RFC 1951: 258 bytes per 2 bits)."""
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
    tiff: tiff_files.TiffFile | None = None
    png: PngFile | None = None
    pnm: pnm.PnmFile | None = None
    jpeg2000: jpeg2000.Jpeg2000File | None = None


def signature(data: bytes) -> str | None:
    """The format name according to the first bytes; None for an unsupported format."""
    if data[:2] == b"\xff\xd8":
        return "JPEG"
    if data[:8] == SIGNATURE:
        return "PNG"
    if data[:2] == b"BM":
        return "BMP"
    if data[:4] in (b"II*\0", b"MM\0*", b"II+\0", b"MM\0+"):  # The last two: BigTIFF.
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
        start = f"{f'{other}: ' if other else ''}{data[:8]!r}" if data else "the data is empty"
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


_USUAL_MASKS = {16: ((0x7C00, 0x3E0, 0x1F), (0xF800, 0x7E0, 0x1F)), 32: ((0xFF0000, 0xFF00, 0xFF),)}


def _check_masks(masks: tuple[int, ...], bits: int, size: int) -> None:
    """Raise ValueError for masks of colours that OpenCV does not follow; it reads whole bytes in any order with BITMAPV3INFOHEADER."""
    ordered = bits == 32 and size >= 56 and len(set(masks)) == 3 and all(mask in (0xFF, 0xFF00, 0xFF0000, 0xFF000000) for mask in masks)
    if not ordered and masks not in _USUAL_MASKS.get(bits, ()):
        colours = ", ".join(f"{mask:#x}" for mask in masks)
        raise ValueError(f"BMP of {bits} bits with the colour masks {colours} is not supported; 555, 565 and 888 are")


def _bmp(data: bytes) -> tuple[ImageHeader, int]:
    """BITMAPFILEHEADER and the start of BITMAPCOREHEADER or BITMAPINFOHEADER."""
    (size,) = struct.unpack_from("<I", data, 14)
    if size == 12:
        width, height, _, bits = struct.unpack_from("<HHHH", data, 18)
        compression = 0
    else:
        width, height, _, bits, compression = struct.unpack_from("<iiHHI", data, 18)
    height = abs(height)
    if compression == 3 and size > 12:
        _check_masks(struct.unpack_from("<III", data, 54), bits, size)
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

def _tiff(data: bytes) -> tuple[ImageHeader, int]:
    file, needed = tiff_files.read_file(data)
    return ImageHeader("TIFF", file.width, file.height, file.orientation, file.channels, tiff=file), needed


_ORIENTATION_BYTES = {1: 1, 3: 2, 4: 4, 6: 1, 8: 2, 9: 4}
"""Bytes of the types that an orientation may have: integers of 8, 16 or 32 bits, signed or not."""


def tiff_orientation(block: bytes) -> int:
    """The orientation (1-8) in a TIFF block of EXIF data; 1 if there is none or the block is broken.

    ``jpeg/exif_orientation.py`` has the same rule for JPEGs.
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

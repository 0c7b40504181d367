"""Headers of JPEG2000 files, and which library decodes them."""

from __future__ import annotations

import io
import struct
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from .pnm import full_range

_SIGNED = 0x80
_CODE_STREAM = b"\xff\x4f\xff\x51"


class Jpeg2000File(NamedTuple):
    """The SIZ marker segment (ISO 15444-1, A.5.1) and the palette of a file.

    bits      of each component;  signed  whether any component has signed values
    simple    whether the image and all components begin at (0, 0) and have all samples
    palette   colours of the palette's entries; 0 without one
    """

    width: int
    height: int
    bits: tuple[int, ...]
    signed: bool
    simple: bool
    palette: int
    needed: int

    @property
    def channels(self) -> int:
        return self.palette or len(self.bits)


def read_file(data: bytes) -> Jpeg2000File:
    """Read the headers. ValueError if they are broken; struct.error if they are truncated."""
    at, palette = 0, 0
    if data[:4] != _CODE_STREAM:
        at, palette = _boxes(data)
    right, bottom, left, top, tile_w, tile_h = struct.unpack_from(">6I", data, at + 8)
    (components,) = struct.unpack_from(">H", data, at + 40)
    if not 1 <= components <= 4:
        raise ValueError(f"JPEG2000 of {components} components is not supported; 1 to 4 are")
    parts = struct.unpack_from(">" + 3 * components * "B", data, at + 42)
    width, height = right - left, bottom - top
    # Every tile has a header of its own (12 bytes): many tiny tiles would be a decompression bomb, too.
    tiles = -(-width // tile_w) * -(-height // tile_h) if tile_w and tile_h and width > 0 and height > 0 else 0
    simple = left == top == 0 and all(step == 1 for k, step in enumerate(parts) if k % 3)
    bits = tuple((part & ~_SIGNED) + 1 for part in parts[::3])
    signed = any(part & _SIGNED for part in parts[::3])
    return Jpeg2000File(width, height, bits, signed, simple, palette, at + 49 + 12 * tiles)


def _boxes(data: bytes) -> tuple[int, int]:
    """(offset of the code stream, colours of the palette's entries) of a JP2 file (ISO 15444-1, I.4 and I.5.3.4)."""
    palette = 0
    for kind, at, end in _walk(data, 0, len(data)):
        if kind == b"jp2h":
            for inner, place, _ in _walk(data, at, min(end, len(data))):
                if inner == b"pclr":
                    _, palette = struct.unpack_from(">HB", data, place)
        if kind == b"jp2c":
            if data[at : at + 4] != _CODE_STREAM:
                break
            return at, palette
    raise ValueError("broken JPEG2000: no code stream")


def _walk(data: bytes, at: int, stop: int) -> Iterator[tuple[bytes, int, int]]:
    """(type, offset of the contents, end) of the boxes from `at` on."""
    while at <= stop - 8:  # The length of a box may be any 64-bit number; struct cannot read there.
        length, kind = struct.unpack_from(">I4s", data, at)
        header = 8
        if length == 1:
            (length,) = struct.unpack_from(">Q", data, at + 8)
            header = 16
        elif length == 0:  # up to the end of the file
            length = stop - at
        if length < header:
            return
        yield kind, at + header, at + length
        at += length


def for_pillow(file: Jpeg2000File, all_channels: bool) -> bool:
    """Whether Pillow decodes the file. OpenCV does not read images with an offset, palettes, fewer than 8 bits, and grey with alpha.

    ValueError for files that neither of them reads.
    """
    if file.signed:
        raise ValueError("JPEG2000 of signed values is not supported; unsigned ones are")
    if max(file.bits) > 16:
        raise ValueError(f"JPEG2000 of {max(file.bits)} bits is not supported; up to 16 are")
    alpha = len(file.bits) == 2 and (all_channels or max(file.bits) <= 8)
    if file.simple and not file.palette and min(file.bits) == max(file.bits) >= 8 and not alpha:
        return False
    if file.palette not in (0, 3, 4):
        raise ValueError(f"JPEG2000 with a palette of {file.palette} values per colour is not supported; 3 and 4 are")
    if max(file.bits) > 8 and (len(file.bits) > 1 or file.bits[0] < 10):  # Pillow's mode for one component of 10 to 16 bits: I;16
        raise ValueError(
            f"JPEG2000 of {len(file.bits)} components of {'/'.join(map(str, file.bits))} bits with an image offset, subsampling, different "
            "numbers of bits or alpha is not supported; 8 bits are"
        )
    return True


def decode_pillow(data: bytes, file: Jpeg2000File) -> np.ndarray:
    """Decode through Pillow: uint8 or uint16 [height, width, channels] in the full range. ValueError if Pillow cannot decode it."""
    from PIL import Jpeg2KImagePlugin

    try:
        with Jpeg2KImagePlugin.Jpeg2KImageFile(io.BytesIO(data)) as image:
            if image.size != (file.width, file.height):  # Pillow takes the size from another box, and memory for it.
                raise ValueError(f"one header gives {file.width}x{file.height} pixels, another one {image.size[0]}x{image.size[1]}")
            image.load()
            if file.palette:
                pixels = np.asarray(image.convert("RGB" if file.palette == 3 else "RGBA"))
            else:
                pixels = np.asarray(image)
    except (OSError, ValueError, SyntaxError, IndexError, TypeError, KeyError, OverflowError, struct.error) as error:
        raise ValueError(f"broken JPEG2000: {error}") from None
    pixels = pixels[:, :, None] if pixels.ndim == 2 else pixels
    if pixels.shape != (file.height, file.width, file.channels) or pixels.dtype not in (np.uint8, np.uint16):
        raise ValueError("broken JPEG2000: the decoder found another image than the header")
    if file.palette:
        return pixels
    width = 8 * pixels.itemsize  # Pillow shifts values to the left.
    return np.concatenate([scaled(pixels[:, :, k : k + 1] >> (width - bits), bits) for k, bits in enumerate(file.bits)], axis=2)


def scaled(values: np.ndarray, bits: int) -> np.ndarray:
    """Values of this number of bits, scaled to the full range of uint8 (up to 8 bits) or uint16."""
    return full_range(values, (1 << bits) - 1)

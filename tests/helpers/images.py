"""Encoded images for tests, made here: every format, colour layout and JPEG sampling that the decoders must know."""

from __future__ import annotations

import io
import struct
import zlib

import numpy as np
from PIL import Image

# ------------------------------------------------------------------------------------------------------------------ pictures


def picture(height: int, width: int, channels: int = 3, seed: int = 0) -> np.ndarray:
    """A smooth picture with some texture: uint8[height, width, channels] ([height, width] for one channel)."""
    rng = np.random.default_rng(seed)
    y, x = np.mgrid[0:height, 0:width].astype(np.float32)
    planes = []
    for _ in range(channels):
        a, b, c = rng.uniform(0.02, 0.4, 3)
        wave = 110 * np.sin(a * x + b * y) * np.cos(c * y) + 128 + rng.normal(0, 12, (height, width))
        planes.append(np.clip(wave, 0, 255).astype(np.uint8))
    return planes[0] if channels == 1 else np.dstack(planes)


def encode(image: np.ndarray | Image.Image, kind: str, **options) -> bytes:
    """`image` (array, or Pillow image) as Pillow writes format `kind`."""
    out = io.BytesIO()
    (image if isinstance(image, Image.Image) else Image.fromarray(image)).save(out, kind, **options)
    return out.getvalue()


def encode_cv(image: np.ndarray, extension: str, options: list[int] | None = None) -> bytes:
    """`image` (channels as RGB[A]) as OpenCV writes it."""
    import cv2

    if image.ndim == 3:
        image = np.ascontiguousarray(image[:, :, [2, 1, 0, 3][: image.shape[2]]])
    return cv2.imencode(extension, image, options or [])[1].tobytes()


# ---------------------------------------------------------------------------------------------------------------------- JPEG

# Symbol (0x00-0xFF) codes of a flat Huffman table: 255 codes of 8 bits would use up the all-ones code, so 254 of 8 bits and 2 of 9.
_FLAT = bytes([0] * 7 + [254, 2] + [0] * 7) + bytes(range(256))


class _Bits:
    def __init__(self) -> None:
        self.value, self.count, self.out = 0, 0, bytearray()

    def put(self, value: int, bits: int) -> None:
        self.value = (self.value << bits) | (value & ((1 << bits) - 1))
        self.count += bits
        while self.count >= 8:
            byte = (self.value >> (self.count - 8)) & 0xFF
            self.out.append(byte)
            if byte == 0xFF:
                self.out.append(0)
            self.count -= 8
        self.value &= (1 << self.count) - 1

    def symbol(self, symbol: int) -> None:
        if symbol < 254:
            self.put(symbol, 8)
        else:
            self.put(0x1FC + symbol - 254, 9)

    def number(self, value: int) -> None:
        size = abs(value).bit_length()
        self.put(value if value >= 0 else value + (1 << size) - 1, size)

    def flush(self) -> None:
        if self.count:
            self.put(0x7F, 8 - self.count)


def segment(marker: int, payload: bytes) -> bytes:
    """A JPEG marker segment."""
    return struct.pack(">BBH", 0xFF, marker, len(payload) + 2) + payload


def jpeg_blocks(
    width: int, height: int, sampling: list[tuple[int, int]], seed: int = 0, restart: int = 0, adobe: int | None = None, ids: str = ""
) -> bytes:
    """A baseline JPEG of random coefficients with any sampling factors ``[(horizontal, vertical), ...]`` per component.

    `restart`: MCUs between restart markers; `adobe`: transform byte of an Adobe segment; `ids`: component letters.
    """
    rng = np.random.default_rng(seed)
    count = len(sampling)
    names = ids.encode() if ids else bytes(range(1, count + 1))
    out = bytearray(b"\xff\xd8")
    if adobe is not None:
        out += segment(0xEE, b"Adobe\0\x64\0\0\0\0" + bytes([adobe]))
    out += segment(0xDB, bytes([0]) + bytes([6] * 64))
    frame = struct.pack(">BHHB", 8, height, width, count)
    out += segment(0xC0, frame + b"".join(bytes([names[k], h << 4 | v, 0]) for k, (h, v) in enumerate(sampling)))
    out += segment(0xC4, b"\x00" + _FLAT_DC) + segment(0xC4, b"\x10" + _FLAT)
    if restart:
        out += segment(0xDD, struct.pack(">H", restart))
    out += segment(0xDA, bytes([count]) + b"".join(bytes([names[k], 0]) for k in range(count)) + b"\x00\x3f\x00")
    out += _scan(width, height, sampling, rng, restart)
    return bytes(out + b"\xff\xd9")


_FLAT_DC = bytes([0, 0, 0, 12] + [0] * 12) + bytes(range(12))


def _scan(width: int, height: int, sampling: list[tuple[int, int]], rng: np.random.Generator, restart: int) -> bytes:
    top_h, top_v = max(h for h, _ in sampling), max(v for _, v in sampling)
    single = len(sampling) == 1
    mcus = -(-width // (8 if single else 8 * top_h)) * -(-height // (8 if single else 8 * top_v))
    blocks = [1] if single else [h * v for h, v in sampling]
    bits, out, last = _Bits(), bytearray(), [0] * len(sampling)
    for mcu in range(mcus):
        if restart and mcu and mcu % restart == 0:
            bits.flush()
            out += bits.out + bytes([0xFF, 0xD0 + (mcu // restart - 1) % 8])
            bits, last = _Bits(), [0] * len(sampling)
        for k, number in enumerate(blocks):
            for _ in range(number):
                value = int(rng.integers(-150, 150))
                bits.put(abs(value - last[k]).bit_length(), 4)
                bits.number(value - last[k])
                last[k] = value
                for _ in range(int(rng.integers(0, 3))):
                    ac = int(rng.integers(1, 20)) * (1 if rng.random() < 0.5 else -1)
                    bits.symbol(int(rng.integers(0, 4)) << 4 | abs(ac).bit_length())
                    bits.number(ac)
                bits.symbol(0)
    bits.flush()
    return bytes(out + bits.out)


def exif(orientation: int, little: bool = True) -> bytes:
    """A TIFF block (as in EXIF) with nothing but an orientation."""
    if little:
        return b"II*\0\x08\0\0\0" + struct.pack("<HHHIHHI", 1, 0x0112, 3, 1, orientation, 0, 0)
    return b"MM\0*\0\0\0\x08" + struct.pack(">HHHIHHI", 1, 0x0112, 3, 1, orientation, 0, 0)


def with_orientation(jpeg: bytes, orientation: int, little: bool = True) -> bytes:
    """`jpeg` with an EXIF segment of this orientation behind its first marker."""
    return jpeg[:2] + segment(0xE1, b"Exif\0\0" + exif(orientation, little)) + jpeg[2:]


# An 18x11 colour JPEG (4:2:0) with arithmetic coding; Pillow and OpenCV do not write these.
# ----------------------------------------------------------------------------------------------------------------------- PNG


def png_chunk(kind: bytes, data: bytes) -> bytes:
    """A PNG chunk."""
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def png(width: int, height: int, depth: int, colour: int, rows: bytes, extra: bytes = b"", interlace: int = 0) -> bytes:
    """A PNG of raw filtered `rows`; `extra` chunks go before the data."""
    header = struct.pack(">IIBBBBB", width, height, depth, colour, 0, 0, interlace)
    return b"\x89PNG\r\n\x1a\n" + png_chunk(b"IHDR", header) + extra + png_chunk(b"IDAT", zlib.compress(rows)) + png_chunk(b"IEND", b"")


def png_16(image: np.ndarray, extra: bytes = b"") -> bytes:
    """uint16[height, width] or [height, width, 2..4] as a 16-bit PNG (grey, grey + alpha, RGB, RGBA)."""
    height, width = image.shape[:2]
    channels = 1 if image.ndim == 2 else image.shape[2]
    rows = b"".join(b"\0" + row.astype(">u2").tobytes() for row in image)
    return png(width, height, 16, {1: 0, 2: 4, 3: 2, 4: 6}[channels], rows, extra)


def png_with_exif(image: np.ndarray, orientation: int) -> bytes:
    """An 8-bit RGB PNG with an eXIf chunk."""
    rows = b"".join(b"\0" + row.tobytes() for row in image)
    return png(image.shape[1], image.shape[0], 8, 2, rows, png_chunk(b"eXIf", exif(orientation)))


def tiff(data: np.ndarray, photometric: int, planar: bool = False, predictor: int = 1, compressed: bool = False, order: str = "<") -> bytes:
    """A TIFF of one strip (per channel) of integers [height, width, channels]; `predictor` 2 acts if it is `compressed`."""
    height, width, channels = data.shape
    bits, extra = 8 * data.itemsize, channels - (3 if photometric == 2 else 1)
    stored = np.diff(data, axis=1, prepend=np.zeros_like(data[:, :1])) if predictor == 2 and compressed else data
    parts = [stored[:, :, k] for k in range(channels)] if planar else [stored]
    strips = [np.ascontiguousarray(part).astype(data.dtype.newbyteorder(order)).tobytes() for part in parts]
    strips = [zlib.compress(strip) for strip in strips] if compressed else strips
    fields: list[tuple[int, int, list[int]]] = [
        (256, 4, [width]), (257, 4, [height]), (258, 3, [bits] * channels), (259, 3, [8 if compressed else 1]), (262, 3, [photometric]),
        (273, 4, [0] * len(strips)), (277, 3, [channels]), (278, 4, [height]), (279, 4, [len(strip) for strip in strips]),
        (284, 3, [2 if planar else 1]), (317, 3, [predictor]),
    ]  # fmt: skip
    fields += [(338, 3, [0] * extra)] if extra else []
    beside, start = b"", 8 + 2 + 12 * len(fields) + 4
    sizes = [len(values) * (2 if kind == 3 else 4) for _, kind, values in fields]
    pixels, entries = start + sum(size for size in sizes if size > 4), b""
    for tag, kind, values in fields:
        if tag == 273:
            values = [pixels + sum(map(len, strips[:k])) for k in range(len(strips))]
        packed = struct.pack(f"{order}{len(values)}{'H' if kind == 3 else 'I'}", *values)
        if len(packed) > 4:
            packed, beside = struct.pack(order + "I", start + len(beside)), beside + packed
        entries += struct.pack(order + "HHI", tag, kind, len(values)) + packed.ljust(4, b"\0")
    mark = b"II*\0" if order == "<" else b"MM\0*"
    return mark + struct.pack(order + "IH", 8, len(fields)) + entries + bytes(4) + beside + b"".join(strips)

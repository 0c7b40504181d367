"""Pixels of a TIFF file. Strips and tiles are unpacked and checked; libtiff (in Pillow's wheels) unpacks its own codings.

libtiff's readers of whole pictures, which OpenCV calls, give black or noise for damaged strips and for codings that they do not know, mix
channels up, and change colours by alpha.
"""

from __future__ import annotations

import io
import struct
import zlib
from collections.abc import Callable

import numpy as np

from ..compiled.addresses import address_of
from .image_headers import PIXELS_PER_BYTE
from .pnm import full_range
from .tiff_files import (  # fmt: skip
    BLACK,
    CCITT,
    CMYK,
    CODINGS,
    DEFLATE,
    FLOAT,
    JPEG,
    LAB,
    NONE,
    OLD_JPEG,
    PALETTE,
    PICTURES,
    RGB,
    WHITE,
    YCBCR,
    TiffFile,
    contents_of,
    refuse,
    values_of,
)

_FREE_BYTES = 1 << 28
"""Larger images need a byte of data per PIXELS_PER_BYTE bytes of pixels."""

_FREE_OVERLAP = 1 << 24
"""Bytes of strips and tiles that may always lie in the same place. Few bytes could otherwise ask for any amount of memory."""

Picture = Callable[[bytes, str, tuple[int, int, int]], np.ndarray]
"""Decodes a file of another format in a strip: (data, format, most rows, columns and channels) -> its pixels as stored."""

_REVERSED = np.packbits(np.unpackbits(np.arange(256, dtype=np.uint8)[:, None], axis=1)[:, ::-1], axis=1)[:, 0]
"""Each byte with its bits in the other order."""


def decode(data: bytes, file: TiffFile, picture: Picture, to_rgb: Callable[[bytes], np.ndarray]) -> np.ndarray:
    """The pixels, uint8, uint16 or float32 [height, width, channels]. ValueError names the strip or tile that is damaged.

    picture   decodes strips and tiles that are files of another format
    to_rgb    decodes an uncompressed TIFF whose colour space only libtiff converts
    """
    refuse(file)
    pixels, stored = file.width * file.height, file.across * file.segment_width * file.down * file.segment_height
    if file.tiled and stored > 4 * pixels + (1 << 24):
        raise ValueError(f"broken TIFF: tiles of {file.segment_width}x{file.segment_height} pixels for {file.width}x{file.height}")
    size = max(pixels, stored) * file.samples * file.bits // 8
    if size > _FREE_BYTES and size > PIXELS_PER_BYTE * len(data):
        raise ValueError(f"the header gives an image of {size} bytes, which {len(data)} bytes of data cannot hold")
    if file.coding == OLD_JPEG:
        return _old_jpeg(data, file, picture)
    count = file.across * file.down * (file.samples if file.planar else 1)
    if len(file.places) != count:
        raise ValueError(f"broken TIFF: {len(file.places)} of {count} strips or tiles have a place")
    wrong = np.flatnonzero((file.places[:, 1] < 1) | (file.places[:, 0] + file.places[:, 1] > len(data)))
    if len(wrong) and not (file.coding == NONE and _last_is_long(file, wrong, len(data))):
        raise ValueError(f"broken TIFF: {_name(file, int(wrong[0]))} lies outside the file, which is damaged or truncated")
    if int(file.places[:, 1].sum()) > 16 * len(data) + _FREE_OVERLAP:
        raise ValueError("broken TIFF: strips or tiles overlap")
    if file.colour in (YCBCR, LAB) and file.coding not in (JPEG, *PICTURES):
        return to_rgb(_uncompressed(data, file))
    channels = 1 if file.planar else file.samples
    if file.coding == JPEG or file.coding in PICTURES:
        image = _joined(_pictures(data, file, channels, picture), file)
    else:
        row = -(-file.segment_width * channels * file.bits // 8)
        image = _placed(_values(_unpacked(data, file, row), file, channels), file)
    return _coloured(image, data, file)


def _name(file: TiffFile, k: int) -> str:
    return f"{'tile' if file.tiled else 'strip'} {k}"


def _last_is_long(file: TiffFile, wrong: np.ndarray, size: int) -> bool:
    """Whether only the size of the last strip is too large: some writers give every strip the same size."""
    k = int(wrong[0])
    row = -(-file.segment_width * (1 if file.planar else file.samples) * file.bits // 8)
    return len(wrong) == 1 and k == len(file.places) - 1 and 0 < file.places[k, 0] <= size - file.rows()[k] * row and file.places[k, 1] > 0


# --- from strips and tiles to bytes


def _unpacked(data: bytes, file: TiffFile, row: int) -> bytes:
    """The bytes of all strips or tiles, one behind another. Their rows take `row` bytes each."""
    parts: list[bytes] = [data[at : at + size] for at, size in file.places.tolist()]
    if file.reversed_bits:
        parts = [_REVERSED[np.frombuffer(part, np.uint8)].tobytes() for part in parts]
    rows = file.rows()
    if file.coding != NONE and file.coding not in DEFLATE:
        return _by_libtiff(parts, rows, file, data, row)
    found = []
    for k, part in enumerate(parts):
        size = rows[k] * row
        found.append(_enough(part[:size] if file.coding == NONE else _inflated(part, size, file, k), size, file, k))
    return b"".join(found)


def _enough(part: bytes, size: int, file: TiffFile, k: int) -> bytes:
    if len(part) < size:
        raise ValueError(f"broken TIFF: {_name(file, k)} has {len(part)} of {size} bytes")
    return part


def _inflated(part: bytes, size: int, file: TiffFile, k: int) -> bytes:
    """`size` bytes of a zlib stream, whose checksum must be right."""
    inflater = zlib.decompressobj()
    try:
        found = inflater.decompress(part, size + 1)  # One more: the stream's end is read, too.
        more = 0
        while not inflater.eof and inflater.unconsumed_tail and more < size + (1 << 16):
            more += len(inflater.decompress(inflater.unconsumed_tail, 1 << 16))
    except zlib.error as error:
        raise ValueError(f"broken TIFF: {_name(file, k)} is damaged ({error})") from None
    if not inflater.eof and len(found) >= size:
        raise ValueError(f"broken TIFF: {_name(file, k)} is damaged (its data has no end)")
    return found[:size]


def _by_libtiff(parts: list[bytes], rows: list[int], file: TiffFile, data: bytes, row: int) -> bytes:
    """Strips and tiles unpacked by libtiff, as strips of one grey picture of bytes (of bits in CCITT codings), through Pillow."""
    unpacked: list[bytes] = []
    begin = 0
    while begin < len(parts):  # All strips of a picture have equal rows, except for its last one.
        end = begin + 1
        while end < len(parts) and rows[end - 1] == rows[begin] >= rows[end]:
            end += 1
        unpacked.append(_grey(parts[begin:end], rows[begin:end], file, data, row, begin))
        begin = end
    return b"".join(unpacked)


def _grey(parts: list[bytes], rows: list[int], file: TiffFile, data: bytes, row: int, first: int) -> bytes:
    from PIL import Image, TiffImagePlugin

    bilevel = file.coding in CCITT
    width = file.segment_width if bilevel else row
    fields = [
        (256, 4, [width]), (257, 4, [sum(rows)]), (258, 3, [1 if bilevel else 8]), (259, 3, [file.coding]), (262, 3, [BLACK]),
        (277, 3, [1]), (278, 4, [rows[0]]),
    ]  # fmt: skip
    for tag in (292, 293) if bilevel else ():
        if tag in file.entries:
            fields.append((tag, 4, values_of(data, file.order, file.entries[tag], tag, 1).tolist()))
    try:
        with TiffImagePlugin.TiffImageFile(io.BytesIO(_tiff(fields, parts))) as image:
            image.im = Image.core.new(image.mode, image.size)  # Pillow's limit of pixels is not for bytes; sizes were checked before.
            image.load()
            found = image.tobytes()
    except (OSError, ValueError, SyntaxError, IndexError, TypeError, KeyError, OverflowError, struct.error) as error:
        what = _name(file, first) if len(parts) == 1 else f"one of {_name(file, first)} to {first + len(parts) - 1}"
        raise ValueError(f"broken TIFF: {what} is damaged, or libtiff lacks {CODINGS[file.coding]} ({error})") from None
    if len(found) != sum(rows) * row:
        raise ValueError("broken TIFF: the decoder found another image size than the header")
    return found


def _tiff(fields: list[tuple[int, int, list[int]]], parts: list[bytes], more: list[tuple[int, int, int, bytes]] | None = None) -> bytes:
    """A little-endian TIFF with these fields (tag, SHORT or LONG, values), and strips. `more`: fields as (tag, type, count, bytes)."""
    sizes = [len(part) for part in parts]
    offsets = np.cumsum([8, *sizes[:-1]]).tolist()
    entries = {tag: (kind, len(values), struct.pack(f"<{len(values)}{'H' if kind == 3 else 'I'}", *values)) for tag, kind, values in fields}
    if offsets[-1] + sizes[-1] >= 1 << 32:
        raise ValueError("TIFF of more than 4 GB of packed pixels is not supported")
    entries[273] = 4, len(parts), struct.pack(f"<{len(parts)}I", *offsets)
    entries[279] = 4, len(parts), struct.pack(f"<{len(parts)}I", *sizes)
    entries.update({tag: (kind, count, packed) for tag, kind, count, packed in more or []})
    pixels = b"".join(parts)
    pixels += bytes(len(pixels) % 2)
    at = 8 + len(pixels)
    beside, out = b"", struct.pack("<H", len(entries))
    start = at + 2 + 12 * len(entries) + 4
    for tag in sorted(entries):
        kind, count, packed = entries[tag]
        if len(packed) > 4:
            packed, beside = struct.pack("<I", start + len(beside)), beside + packed + bytes(len(packed) % 2)
        out += struct.pack("<HHI", tag, kind, count) + packed.ljust(4, b"\0")
    return b"II*\0" + struct.pack("<I", at) + pixels + out + bytes(4) + beside


def _uncompressed(data: bytes, file: TiffFile) -> bytes:
    """The strips as an uncompressed TIFF of the same colour space, for colour spaces that libtiff converts."""
    across, down = 1, 1
    if file.colour == YCBCR:
        steps = values_of(data, file.order, file.entries[530], 530, 2).tolist() if 530 in file.entries else [2]
        across, down = (steps * 2)[:2]
        if across not in (1, 2, 4) or down not in (1, 2, 4) or (file.segment_height % down and file.segment_height < file.height):
            raise ValueError(f"broken TIFF: chroma of {across}x{down} pixels in strips of {file.segment_height} rows")
    row = -(-file.width // across) * (across * down + 2)  # Bytes of a row of units: pixels, then their two values of chroma.
    rows = [-(-count // down) for count in file.rows()]
    raw = _unpacked(data, file._replace(width=row, height=sum(rows), segment_width=row, segment_height=rows[0], samples=1), row)
    fields = [
        (256, 4, [file.width]), (257, 4, [file.height]), (258, 3, [8, 8, 8]), (259, 3, [NONE]), (262, 3, [file.colour]), (277, 3, [3]),
        (278, 4, [file.height]),
    ]  # fmt: skip
    more: list[tuple[int, int, int, bytes]] = []
    if file.colour == YCBCR:
        fields.append((530, 3, [across, down]))
        for tag, count in ((529, 3), (531, 1), (532, 6)):  # Coefficients, positions, black and white.
            if tag in file.entries:
                entry = file.entries[tag]
                letter, each = {3: ("u2", 1), 4: ("u4", 1), 5: ("u4", 2)}.get(entry.kind, ("", 0))
                found = contents_of(data, entry) if each and entry.number == count else b""
                if not found or len(found) != np.dtype(letter).itemsize * each * count:
                    raise ValueError(f"broken TIFF: tag {tag} is not {count} numbers")
                more.append((tag, entry.kind, count, np.frombuffer(found, file.order + letter).astype("<" + letter).tobytes()))
    return _tiff(fields, [raw], more)


# --- from bytes to values


def _values(raw: bytes, file: TiffFile, channels: int) -> np.ndarray:
    """The stored values of strips or tiles that lie one behind another: [rows, segment_width, channels]."""
    count = file.segment_width * channels
    if file.format == FLOAT:
        stored = np.frombuffer(raw, np.uint8).reshape(-1, 4 * count)
        values = _floats(stored, channels) if file.predictor == 3 else stored.view(file.order + "f4").astype(np.float32)
    elif file.bits in (8, 16):
        values = np.frombuffer(raw, np.uint8 if file.bits == 8 else file.order + "u2").reshape(-1, count)
        values = values.astype(values.dtype.newbyteorder("="), copy=False)
        values = _summed(values, channels) if file.predictor == 2 else values
    else:
        values = _bits(np.frombuffer(raw, np.uint8).reshape(-1, -(-count * file.bits // 8)), file.bits, count)
    return values.reshape(-1, file.segment_width, channels)


def _summed(differences: np.ndarray, channels: int) -> np.ndarray:
    """Undo the horizontal predictor of rows, uint8 or uint16: each value was stored as the difference to its left neighbour."""
    from .tiff_kernels import undo_predictor

    values = np.array(differences)
    undo_predictor(address_of(values), values.size, values.shape[1], channels, values.itemsize)
    return values


def _bits(rows: np.ndarray, bits: int, count: int) -> np.ndarray:
    """Values of this number of bits, from the highest bit of each row's first byte on: uint8 or uint16 [rows, count]."""
    found = np.zeros((len(rows), count), np.uint8 if bits < 8 else np.uint16)
    piece = max(1, (1 << 22) // max(1, count * bits))
    for begin in range(0, len(rows), piece):  # A bit takes a byte, so few rows at a time.
        split = np.unpackbits(rows[begin : begin + piece], axis=1, count=count * bits).reshape(-1, count, bits)
        for k in range(bits):
            found[begin : begin + piece] |= np.left_shift(split[:, :, k], bits - 1 - k, dtype=found.dtype)
    return found


def _floats(rows: np.ndarray, channels: int) -> np.ndarray:
    """Undo the floating-point predictor (TIFF technical note 3): planes of bytes, the highest first, as differences."""
    planes = _summed(rows, channels).reshape(len(rows), 4, -1)
    values: np.ndarray = np.ascontiguousarray(planes.transpose(0, 2, 1)).view(">f4")[:, :, 0].astype(np.float32)
    return values


def _placed(values: np.ndarray, file: TiffFile) -> np.ndarray:
    """The picture of the values of all strips or tiles: [height, width, channels]."""
    planes = file.samples if file.planar else 1
    if not file.tiled:
        return values if planes == 1 else np.ascontiguousarray(values.reshape(planes, file.height, file.width).transpose(1, 2, 0))
    height, width, channels = file.segment_height, file.segment_width, values.shape[2]
    tiles = values.reshape(planes, file.down, file.across, height, width, channels)
    image = np.empty((file.height, file.width, planes * channels), values.dtype)
    for k in range(file.down):
        target = image[k * height : (k + 1) * height]
        target[:] = tiles[:, k].transpose(2, 1, 3, 0, 4).reshape(height, -1, planes * channels)[: len(target), : file.width]
    return image


def _joined(segments: list[np.ndarray], file: TiffFile) -> np.ndarray:
    """The picture of strips or tiles that are pictures, which may be larger than their part: [height, width, channels]."""
    if len(segments) == 1 and not file.tiled:
        return segments[0]
    channels = segments[0].shape[2]
    image = np.empty((file.height, file.width, channels * (file.samples if file.planar else 1)), segments[0].dtype)
    per_plane = file.across * file.down
    for k, values in enumerate(segments):
        plane, place = divmod(k, per_plane)
        y, x = place // file.across * file.segment_height, place % file.across * file.segment_width
        target = image[y : y + file.segment_height, x : x + file.segment_width, plane * channels : (plane + 1) * channels]
        target[:] = values[: target.shape[0], : target.shape[1]]
    return image


def _coloured(image: np.ndarray, data: bytes, file: TiffFile) -> np.ndarray:
    """Stored values as they are shown: in the full range, black as 0, palettes and CMYK as RGB."""
    if file.colour == PALETTE:
        shown: np.ndarray = _palette(data, file)[image[:, :, 0]]
        return shown
    if file.format != FLOAT and file.coding != JPEG and file.coding not in PICTURES:
        image = full_range(image, (1 << file.bits) - 1)
    if file.colour == WHITE:
        image = image.copy()
        image[:, :, 0] = (np.iinfo(image.dtype).max if image.dtype.kind == "u" else 1) - image[:, :, 0]
    if file.colour == CMYK and image.shape[2] == 3:  # The JPEG decoder has converted it.
        return np.concatenate([image, np.full_like(image[:, :, :1], 255)], axis=2)
    if file.colour == CMYK:
        light = (255 - image[:, :, :4]).astype(np.uint16)
        image = np.concatenate([light[:, :, :3] * light[:, :, 3:] // 255, np.full_like(light[:, :, :1], 255)], 2).astype(np.uint8)
    return image


def _palette(data: bytes, file: TiffFile) -> np.ndarray:
    """uint8[colours, 3]. Some writers store bytes where numbers of 16 bits belong, as libtiff knows."""
    colours = 1 << file.bits
    if 320 not in file.entries:
        raise ValueError("broken TIFF: a palette is missing")
    table = values_of(data, file.order, file.entries[320], 320, 3 * colours)
    if len(table) < 3 * colours:
        raise ValueError(f"broken TIFF: {len(table)} of {3 * colours} numbers of a palette")
    palette: np.ndarray = (table if table.max() < 256 else table >> 8).astype(np.uint8).reshape(3, colours).T
    return palette


# --- strips and tiles that are files


def _pictures(data: bytes, file: TiffFile, channels: int, picture: Picture) -> list[np.ndarray]:
    """The pixels of strips or tiles that are files of another format."""
    tables = contents_of(data, file.entries[347]) if file.coding == JPEG and 347 in file.entries else b""
    channels = 3 if file.coding == JPEG and file.colour == CMYK and channels == 4 else channels  # Ink becomes RGB at once.
    found = []
    for k, (at, size) in enumerate(file.places.tolist()):
        part = data[at : at + size]
        if file.coding == JPEG:
            part = _whole_jpeg(part, tables, file, k)
        try:
            values = picture(part, PICTURES.get(file.coding, "JPEG"), (file.segment_height, file.segment_width, channels))
        except ValueError as error:
            raise ValueError(f"broken TIFF: {_name(file, k)}: {error}") from None
        kind = np.uint8 if file.bits <= 8 else np.uint16
        rows = min(file.segment_height, file.height - k % (file.across * file.down) // file.across * file.segment_height)
        enough = values.shape[0] >= rows and values.shape[1] >= min(file.segment_width, file.width)
        if not enough or values.shape[2] != channels or values.dtype != kind:
            raise ValueError(f"broken TIFF: {_name(file, k)} is a picture of {values.shape} {values.dtype}")
        found.append(values if file.tiled else values[:rows])
    return found


_MARK = b"\xff\xee\0\x0eAdobe\0\x64\0\0\0\0"
_RGB, _YCBCR = b"\0", b"\1"


def _whole_jpeg(part: bytes, tables: bytes, file: TiffFile, k: int) -> bytes:
    """The JPEG of a strip or tile, with the tables of all strips, and with Adobe's segment that says what its colours are."""
    if part[:2] != b"\xff\xd8":
        raise ValueError(f"broken TIFF: {_name(file, k)} is no JPEG")
    inner = tables[2:-2] if tables[:2] == b"\xff\xd8" and tables[-2:] == b"\xff\xd9" else tables
    mark = b"" if file.colour == CMYK else _MARK + (_YCBCR if file.colour == YCBCR else _RGB)  # With a mark ink would be inverted.
    return b"\xff\xd8" + mark + inner + part[2:]


def _old_jpeg(data: bytes, file: TiffFile, picture: Picture) -> np.ndarray:
    """Old-style JPEG (TIFF 6.0, section 22), where the file holds one whole JPEG."""
    if 513 not in file.entries:
        raise ValueError("TIFF coding JPEG, old style (6), is supported only for a whole JPEG in tag 513")
    begin = int(values_of(data, file.order, file.entries[513], 513, 1)[0])
    size = int(values_of(data, file.order, file.entries[514], 514, 1)[0]) if 514 in file.entries else len(data)
    channels = 3 if file.colour in (RGB, YCBCR) else 1
    image = picture(data[begin : begin + size], "JPEG", (file.height, file.width, channels))
    if image.shape[:2] != (file.height, file.width):
        raise ValueError("broken TIFF: the decoder found another image size than the header")
    return image

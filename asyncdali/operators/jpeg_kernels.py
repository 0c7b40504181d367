"""JPEG headers and cropped JPEG decoding in compiled code, on libjpeg-turbo's classic API.

The library reports a fatal error by calling ``error_exit``, which must not return; ours jumps back into the decoding step
(``setjmp``/``longjmp``, as C programs do). Between the two only the library's own frames and those of these functions are skipped,
and neither owns anything that the following ``jpeg_destroy_decompress`` does not free.
"""

from __future__ import annotations

import numpy as np

from ..compiled.intrinsics import (
    call1, call2, call3, load_i32, load_i64, longjmp, setjmp, store_i32, store_i64, view_u8,
)  # fmt: skip
from ..compiled.step import callback, compiled, inlined, step

# struct jpeg_decompress_struct, ABI 6.2, 64 bit.
_STRUCT_BYTES, _ABI = 632, 62
_CLIENT_DATA, _SOURCE = 24, 40
_OUT_COLOR_SPACE, _DCT_METHOD, _FANCY = 64, 96, 100
_OUTPUT_WIDTH, _OUTPUT_HEIGHT = 136, 140
# struct jpeg_error_mgr
_ERROR_EXIT, _OUTPUT_MESSAGE, _FORMAT_MESSAGE = 0, 16, 24
# Function table, see jpeg_library.FUNCTIONS.
_STD_ERROR, _CREATE, _MEM_SRC, _READ_HEADER, _START, _CROP, _SKIP, _READ, _DESTROY, _ON_ERROR, _ON_MESSAGE = range(11)

# Work area of one decode.
_ERR = 1024  # the error manager
_JUMP = 2048  # jump buffer (512 bytes), then the library's message (256)
_MESSAGE = _JUMP + 512
_ROWS = 3072  # row pointers
_ROW_COUNT = 16
_SCALARS = 3072 + 8 * _ROW_COUNT  # x offset, width: in/out arguments of jpeg_crop_scanline
WORK_BYTES = 4096

FAILED, TRUNCATED, WRONG_SIZE = 1, 2, 3
"""Status codes of decoding; FAILED comes with the library's message."""


@callback
def on_error(cinfo):
    """error_exit: keep the message, jump back to the decoding step."""
    jump = load_i64(cinfo + _CLIENT_DATA)
    err = load_i64(cinfo)
    call2(load_i64(err + _FORMAT_MESSAGE), cinfo, jump + 512)
    longjmp(jump, np.int32(1))


@callback
def on_message(cinfo):
    """output_message: warnings are not printed."""


@inlined
def _open(table, work, data, size):
    """Set up decompression of `data` and read the header."""
    jump = work + _JUMP
    call1(load_i64(table + 8 * _STD_ERROR), work + _ERR)
    store_i64(work + _ERR + _ERROR_EXIT, load_i64(table + 8 * _ON_ERROR))
    store_i64(work + _ERR + _OUTPUT_MESSAGE, load_i64(table + 8 * _ON_MESSAGE))
    store_i64(work, work + _ERR)
    store_i64(work + _CLIENT_DATA, jump)
    call3(load_i64(table + 8 * _CREATE), work, _ABI, _STRUCT_BYTES)
    store_i64(work + _CLIENT_DATA, jump)  # creation clears all but the error manager
    call3(load_i64(table + 8 * _MEM_SRC), work, data, size)
    call2(load_i64(table + 8 * _READ_HEADER), work, 1)


@inlined
def _read_window(table, work, out, stride, x, y, w, h, channels, unit_w, width, strip):
    """Rows y..y+h of columns x..x+w into `out` (rows `stride` bytes apart). `strip` holds _ROW_COUNT rows of the cropped width.

    Columns are read one unit (8 or 16 pixels) wider than asked on each side, because upsampling looks at neighbours: so a window is
    equal to the same part of the whole image.
    """
    scalars = work + _SCALARS
    left = 0
    cropped = x > 0 or w < width
    if cropped:
        first = max(0, x - unit_w)
        last = min(width, x + w + unit_w)
        store_i32(scalars, np.int32(first))
        store_i32(scalars + 4, np.int32(last - first))
        call3(load_i64(table + 8 * _CROP), work, scalars, scalars + 4)
        left = x - load_i32(scalars)
    if y > 0:
        call2(load_i64(table + 8 * _SKIP), work, y)
    direct = not cropped
    strip_stride = load_i32(work + _OUTPUT_WIDTH) * channels
    done = 0
    while done < h:
        rows = min(_ROW_COUNT, h - done)
        for k in range(rows):
            store_i64(work + _ROWS + 8 * k, out + (done + k) * stride if direct else strip + k * strip_stride)
        got = call3(load_i64(table + 8 * _READ), work, work + _ROWS, rows) & 0xFFFFFFFF
        if not direct:
            for k in range(got):
                source = view_u8(strip + k * strip_stride + left * channels, w * channels)
                target = view_u8(out + (done + k) * stride, w * channels)
                target[:] = source
        done += got


@inlined
def _decode(table, work, data, size, out, stride, x, y, w, h, channels, color, fast_dct, unit_w, width, height, strip):
    """Decode a window; 0 or a status. All state that must survive a jump is in `work` or never changes."""
    if setjmp(work + _JUMP) != 0:
        call1(load_i64(table + 8 * _DESTROY), work)
        return FAILED
    _open(table, work, data, size)
    store_i32(work + _OUT_COLOR_SPACE, np.int32(color))
    store_i32(work + _DCT_METHOD, np.int32(1 if fast_dct else 0))
    call1(load_i64(table + 8 * _START), work)
    if load_i32(work + _OUTPUT_WIDTH) != width or load_i32(work + _OUTPUT_HEIGHT) != height:
        call1(load_i64(table + 8 * _DESTROY), work)
        return WRONG_SIZE
    _read_window(table, work, out, stride, x, y, w, h, channels, unit_w, width, strip)
    # At the end of the data the library goes on with an end marker of its own, outside our memory.
    at = load_i64(load_i64(work + _SOURCE))
    call1(load_i64(table + 8 * _DESTROY), work)
    return 0 if data <= at <= data + size else TRUNCATED


@inlined
def _copy_text(source, target, limit):
    """Copy a C string of at most `limit` - 1 characters."""
    a, b = view_u8(source, limit), view_u8(target, limit)
    for k in range(limit - 1):
        b[k] = a[k]
        if a[k] == 0:
            return
    b[limit - 1] = 0


@inlined
def _orient(source, target, w, h, pixel, orientation):
    """Write the stored window (w x h pixels of `pixel` bytes) to `target` as seen (EXIF orientation 2-8)."""
    swap = orientation >= 5
    out_w = h if swap else w
    out_h = w if swap else h
    a = view_u8(source, w * h * pixel)
    b = view_u8(target, w * h * pixel)
    for y in range(out_h):
        for x in range(out_w):
            sx, sy = (y, x) if swap else (x, y)
            if orientation == 2 or orientation == 3 or orientation == 7 or orientation == 8:
                sx = w - 1 - sx
            if orientation == 3 or orientation == 4 or orientation == 6 or orientation == 7:
                sy = h - 1 - sy
            p, q = (sy * w + sx) * pixel, (y * out_w + x) * pixel
            for c in range(pixel):
                b[q + c] = a[p + c]


# Per-sample geometry of decode_step: int64[samples, GEOMETRY_FIELDS].
GEOMETRY_FIELDS = 10
_KIND, _X, _Y, _W, _H, _WIDTH, _HEIGHT, _ORIENTATION, _UNIT_W, _PIXEL = range(10)
JPEG, READY = 0, 1
"""Kinds of sample: encoded JPEG; a whole image decoded before (in final channels and type)."""


@step
def decode_step(context, sample, thread):
    """Decode (or copy) the window of one sample.

    Context: function table, data addresses, data sizes, geometry (int64[samples, 10]: kind, x, y, w, h of the window in stored
    coordinates, stored width and height, orientation, sampling unit width, bytes per pixel), output addresses, libjpeg colour space,
    fast DCT flag, channels, offset of own scratch, offset in it of the orientation buffer.
    """
    g = load_i64(context + 24) + 8 * GEOMETRY_FIELDS * sample
    out = load_i64(load_i64(context + 32) + 8 * sample)
    data = load_i64(load_i64(context + 8) + 8 * sample)
    x, y = load_i64(g + 8 * _X), load_i64(g + 8 * _Y)
    w, h = load_i64(g + 8 * _W), load_i64(g + 8 * _H)
    width, height = load_i64(g + 8 * _WIDTH), load_i64(g + 8 * _HEIGHT)
    orientation, pixel = load_i64(g + 8 * _ORIENTATION), load_i64(g + 8 * _PIXEL)
    if load_i64(g + 8 * _KIND) == READY:
        for k in range(h):
            source = view_u8(data + ((y + k) * width + x) * pixel, w * pixel)
            target = view_u8(out + k * w * pixel, w * pixel)
            target[:] = source
        return 0
    size = load_i64(load_i64(context + 16) + 8 * sample)
    work = load_i64(thread) + load_i64(context + 64)
    strip = work + WORK_BYTES
    target_address = out if orientation == 1 else work + load_i64(context + 72)
    code = _decode(
        load_i64(context), work, data, size, target_address, w * pixel, x, y, w, h, load_i64(context + 56), load_i64(context + 40),
        load_i64(context + 48), load_i64(g + 8 * _UNIT_W), width, height, strip,
    )  # fmt: skip
    if code == 0 and orientation != 1:
        _orient(target_address, out, w, h, pixel, orientation)
    if code == FAILED:
        _copy_text(work + _MESSAGE, load_i64(thread + 16), load_i64(thread + 24))
    return code


# Header fields (int64) found by scan_headers.
HEADER_FIELDS = 7
_FOUND, _HW, _HH, _COMPONENTS, _HORIENT, _HUNIT, _SOF = range(7)
NOT_JPEG, IS_JPEG, UNUSUAL = 0, 1, 2
"""Result of the header scan: no JPEG; one that libjpeg decodes to 8 bits; one with other features (12 bit, lossless)."""


@inlined
def _exif_orientation(v, start, stop):
    """EXIF orientation (1-8) in an APP1 segment at start..stop, or 1. TIFF 6.0 section 2; tag 0x0112."""
    if stop - start < 14 or v[start] != 0x45 or v[start + 1] != 0x78 or v[start + 2] != 0x69 or v[start + 3] != 0x66:
        return 1
    base = start + 6
    little = v[base] == 0x49
    if stop - base < 8:
        return 1
    at = base + _word(v, base + 4, 4, little)
    if at + 2 > stop:
        return 1
    entries = _word(v, at, 2, little)
    for k in range(entries):
        entry = at + 2 + 12 * k
        if entry + 12 > stop:
            return 1
        if _word(v, entry, 2, little) == 0x0112:
            value = _word(v, entry + 8, 2, little)
            return value if 1 <= value <= 8 else 1
    return 1


@inlined
def _word(v, at, count, little):
    value = np.int64(0)
    for k in range(count):
        value = value * 256 + v[at + (count - 1 - k if little else k)]
    return value


@inlined
def _scan(data, size, fields):
    """Walk a JPEG's markers up to the frame header."""
    for k in range(HEADER_FIELDS):
        store_i64(fields + 8 * k, 0)
    v = view_u8(data, size)
    if size < 4 or v[0] != 0xFF or v[1] != 0xD8:
        return
    orientation = np.int64(1)
    at = 2
    while at + 4 <= size:
        if v[at] != 0xFF:
            at += 1  # stray bytes between segments
            continue
        marker = v[at + 1]
        if marker == 0xFF:
            at += 1
            continue
        if marker == 0xD8 or marker == 0x01 or 0xD0 <= marker <= 0xD7 or marker == 0:
            at += 2
            continue
        if marker == 0xD9 or marker == 0xDA:
            return
        length = _word(v, at + 2, 2, False)
        start, stop = at + 4, at + 2 + length
        if length < 2 or stop > size:
            return
        if marker == 0xE1 and orientation == 1:
            orientation = _exif_orientation(v, start, stop)
        if 0xC0 <= marker <= 0xCF and marker != 0xC4 and marker != 0xC8 and marker != 0xCC:
            if length < 8:
                return
            precision, components = np.int64(v[start]), np.int64(v[start + 5])
            usual = (marker <= 0xC2 or marker == 0xC9 or marker == 0xCA) and precision == 8
            store_i64(fields + 8 * _FOUND, IS_JPEG if usual else UNUSUAL)
            store_i64(fields + 8 * _HH, _word(v, start + 1, 2, False))
            store_i64(fields + 8 * _HW, _word(v, start + 3, 2, False))
            store_i64(fields + 8 * _COMPONENTS, components)
            store_i64(fields + 8 * _HORIENT, orientation)
            unit = np.int64(1)
            for k in range(min(components, (stop - start - 6) // 3)):
                unit = max(unit, np.int64(v[start + 6 + 3 * k + 1] >> 4))
            store_i64(fields + 8 * _HUNIT, 8 * unit)
            store_i64(fields + 8 * _SOF, np.int64(marker))
            return
        at = stop


@compiled(4)
def scan_headers(addresses, sizes, count, headers):
    """JPEG headers of a batch: int64[count, 7]: found (NOT_JPEG, IS_JPEG, UNUSUAL), width, height, components, orientation, unit width, SOF."""
    for i in range(count):
        _scan(load_i64(addresses + 8 * i), load_i64(sizes + 8 * i), headers + 8 * HEADER_FIELDS * i)
    return 0


@compiled(10)
def _decode_whole(table, work, data, size, out, width, height, channels, color, fast_dct):
    return _decode(table, work, data, size, out, width * channels, 0, 0, width, height, channels, color, fast_dct, 16, width, height, 0)


def decode_whole(
    table: np.ndarray, data: np.ndarray, width: int, height: int, channels: int, color: int | None = None, fast_dct: bool = False
) -> tuple[np.ndarray, int, str]:
    """A whole JPEG from Python: (uint8[height, width, channels], status, message). `color` is libjpeg's out_color_space."""
    image = np.empty((height, width, channels), np.uint8)
    work = np.zeros(WORK_BYTES, np.uint8)
    space = {1: 1, 3: 2, 4: 4}[channels] if color is None else color
    code = _decode_whole(
        table.ctypes.data, work.ctypes.data, data.ctypes.data, data.size, image.ctypes.data, width, height, channels, space, int(fast_dct)
    )
    message = bytes(work[_MESSAGE : _MESSAGE + 256]).split(b"\0", 1)[0].decode("utf-8", "replace")
    return image, code, message


def scratch_bytes(max_width: int, channels: int, orientation_bytes: int) -> tuple[int, int]:
    """(scratch per thread, offset of the orientation buffer in it) for windows from images at most `max_width` wide."""
    strip = WORK_BYTES + _ROW_COUNT * (max_width + 32) * channels
    offset = -(-strip // 64) * 64
    return offset + orientation_bytes, offset


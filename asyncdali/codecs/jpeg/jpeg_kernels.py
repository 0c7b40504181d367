"""JPEG headers and cropped JPEG decoding in compiled code: by our own decoder (jpeg/), else on libjpeg-turbo's classic API.

The library reports a fatal error by calling ``error_exit``, which must not return. Our ``error_exit`` jumps back into the decoding step
(``setjmp``/``longjmp``, as C programs do). The jump skips only frames of the library and of these functions. None of them owns anything
that the following ``jpeg_destroy_decompress`` does not free.

Bytes are loaded and copied by address, not through array views: the same code then compiles several times faster.
"""

from __future__ import annotations

from functools import cache
from typing import Any, NamedTuple

import numpy as np

from ...compiled.addresses import address_of
from ...compiled.feed_tables import FEED, FEED_STATE, STATE_BYTES
from ...compiled.intrinsics import (  # fmt: skip
    call1,
    call2,
    call3,
    copy_bytes,
    fetch_add,
    larger,
    load_i32,
    load_i64,
    load_u8,
    longjmp,
    setjmp,
    smaller,
    store_i32,
    store_i64,
    store_u8,
)
from ...compiled.job_tables import THREAD
from ...compiled.shape_tables import HWC
from ...compiled.step import callback, compiled, inlined, step
from ...compiled.tables import WORD, table_of
from ..image_headers import FREE_PIXELS
from . import window_decoding
from .exif_orientation import exif_orientation, is_exif
from .jpeg_tables import (  # fmt: skip
    CPU,
    DECODE_COUNTS,
    DECODE_JPEGS,
    DECODE_WINDOW,
    FEW_HEADERS,
    JPEG_HEADER,
    JPEG_WINDOW,
    LIBJPEG,
    MOST_SIDE,
    PLACE_WINDOWS,
    PLAIN,
    STORED_IMAGE,
    YX,
)
from .markers import big_endian

decoding, placing, asked, library = DECODE_JPEGS.at, PLACE_WINDOWS.at, DECODE_WINDOW.at, LIBJPEG.at
head, stored, place, counted, record = JPEG_HEADER.at, STORED_IMAGE.at, JPEG_WINDOW.at, DECODE_COUNTS.at, THREAD.at
yx, hwc = YX.at, HWC.at
feeding, reading = FEED.at, FEED_STATE.at

# struct jpeg_decompress_struct, ABI 6.2, 64 bit.
_STRUCT_BYTES, _ABI = 632, 62
_CLIENT_DATA, _SOURCE = 24, 40
_IMAGE_WIDTH, _IMAGE_HEIGHT, _NUM_COMPONENTS, _OUT_COLOR_SPACE, _DCT_METHOD = 48, 52, 56, 64, 96
_OUTPUT_WIDTH, _OUTPUT_HEIGHT, _OUTPUT_COMPONENTS = 136, 140, 148
# struct jpeg_error_mgr
_ERROR_EXIT, _OUTPUT_MESSAGE, _FORMAT_MESSAGE = 0, 16, 24

# Work area of one decode.
_ERR = 1024  # the error manager
_JUMP = 2048  # jump buffer (512 bytes), then the library's message (256)
_MESSAGE = _JUMP + 512
_ROWS = 3072  # row pointers
_ROW_COUNT = 16
_SCALARS = 3072 + 8 * _ROW_COUNT  # x offset, width: in/out arguments of jpeg_crop_scanline
WORK_BYTES = 4096

COUNT_NAMES = tuple(field.meaning for field in DECODE_COUNTS.fields)

FAILED, TRUNCATED, WRONG_SIZE = 1, 2, 3
"""Status codes of decoding; FAILED comes with the library's message."""


def _on_error(cinfo):
    """error_exit: keep the message, jump back to the decoding step."""
    jump = load_i64(cinfo + _CLIENT_DATA)
    err = load_i64(cinfo)
    call2(load_i64(err + _FORMAT_MESSAGE), cinfo, jump + 512)
    longjmp(jump, np.int32(1))


def _on_message(cinfo):
    """output_message: warnings are not printed."""


@cache
def callbacks() -> tuple[Any, Any]:
    """The two functions that the library calls, compiled: (error_exit, output_message), each with ``.address``."""
    return callback(_on_error), callback(_on_message)


_BGR = 8  # libjpeg's JCS_EXT_BGR
JPEG, READY = 0, 1
"""Kinds of sample: an encoded JPEG; a whole image that is already decoded (in final channels and type)."""


@inlined
def _open(table, work, data, size):
    """Set up decompression of `data` and read the header."""
    jump = work + _JUMP
    call1(load_i64(table + library.std_error), work + _ERR)
    store_i64(work + _ERR + _ERROR_EXIT, load_i64(table + library.on_error))
    store_i64(work + _ERR + _OUTPUT_MESSAGE, load_i64(table + library.on_message))
    store_i64(work, work + _ERR)
    store_i64(work + _CLIENT_DATA, jump)
    call3(load_i64(table + library.create_decompress), work, _ABI, _STRUCT_BYTES)
    store_i64(work + _CLIENT_DATA, jump)  # jpeg_create_decompress clears all fields but the error manager.
    call3(load_i64(table + library.mem_src), work, data, size)
    call2(load_i64(table + library.read_header), work, 1)


@inlined
def _read_window(table, work, out, g, channels, strip, feed, taker, to_end):
    """Read the window of geometry `g` into consecutive rows at `out`. `strip` holds _ROW_COUNT rows of the cropped width.

    Upsampling reads neighbouring columns. Therefore at least one unit more (see `scan_headers`) is read on each side, and a window equals
    the same part of the whole image. Returns the number of rows that were read.

    With a `feed` (FEED), `out` is a ring buffer, and the consumer, whose FEED_STATE is `taker`, is called after each piece. If `to_end`,
    the rows below the window are read and dropped: the result is as if the whole image was read.
    """
    x, y, w, h = load_i64(g + place.x), load_i64(g + place.y), load_i64(g + place.w), load_i64(g + place.h)
    width, unit_w = load_i64(g + place.width), load_i64(g + place.margin)
    scalars = work + _SCALARS
    left = 0
    cropped = x > 0 or w < width
    if cropped:
        first = larger(0, x - unit_w)
        last = smaller(width, x + w + unit_w)
        store_i32(scalars, np.int32(first))
        store_i32(scalars + 4, np.int32(last - first))
        call3(load_i64(table + library.crop_scanline), work, scalars, scalars + 4)
        left = (x - load_i32(scalars)) * channels
    if y > 0:
        call2(load_i64(table + library.skip_scanlines), work, y)
    row_bytes = w * channels
    copied = cropped or feed != 0
    target, row_stride = (strip, load_i32(work + _OUTPUT_WIDTH) * channels) if copied else (out, row_bytes)
    ring_stop = out + load_i64(taker + reading.capacity) * row_bytes if feed != 0 else 0
    to = out
    done = 0
    while done < h:
        rows = smaller(_ROW_COUNT, h - done)
        for k in range(rows):
            store_i64(work + _ROWS + 8 * k, target + k * row_stride)
        got = call3(load_i64(table + library.read_scanlines), work, work + _ROWS, rows) & 0xFFFFFFFF
        if got == 0:
            break
        done += got
        if not copied:
            target += got * row_bytes
            continue
        for k in range(got):
            copy_bytes(to, strip + k * row_stride + left, row_bytes)
            to += row_bytes
            if to == ring_stop:
                to = out
        if feed != 0:
            call2(load_i64(feed + feeding.function), taker, done)
    if to_end and done == h and not _drop_rows(table, work, strip, channels, load_i64(g + place.height) - y - h):
        return 0
    return done


@inlined
def _drop_rows(table, work, strip, channels, rows):
    """Read `rows` rows and drop them; False if the library gives fewer. Skipping them instead would not read the last rows of MCUs."""
    for k in range(_ROW_COUNT):
        store_i64(work + _ROWS + 8 * k, strip + k * load_i32(work + _OUTPUT_WIDTH) * channels)
    while rows > 0:
        got = call3(load_i64(table + library.read_scanlines), work, work + _ROWS, smaller(_ROW_COUNT, rows)) & 0xFFFFFFFF
        if got == 0:
            return False
        rows -= got
    return True


@inlined
def _decode(table, work, data, size, out, g, color, fast_dct, strip, feed, taker, to_end):
    """Decode a window; returns 0 or a status. All state that must survive a jump is in `work` or never changes."""
    channels = load_i64(g + place.pixel)
    if setjmp(work + _JUMP) != 0:
        call1(load_i64(table + library.destroy_decompress), work)
        return FAILED
    _open(table, work, data, size)
    # Buffers have the size that our own header scan found. If the library sees another size, refuse before it allocates memory.
    if (
        load_i32(work + _IMAGE_WIDTH) != load_i64(g + place.width)
        or load_i32(work + _IMAGE_HEIGHT) != load_i64(g + place.height)
        or load_i32(work + _NUM_COMPONENTS) != load_i64(g + place.components)
    ):
        call1(load_i64(table + library.destroy_decompress), work)
        return WRONG_SIZE
    store_i32(work + _OUT_COLOR_SPACE, np.int32(color if channels == 3 else channels))  # 1: JCS_GRAYSCALE, 4: JCS_CMYK
    store_i32(work + _DCT_METHOD, np.int32(1 if fast_dct else 0))
    call1(load_i64(table + library.start_decompress), work)
    if load_i32(work + _OUTPUT_WIDTH) != load_i64(g + place.width) or load_i32(work + _OUTPUT_COMPONENTS) != channels:
        call1(load_i64(table + library.destroy_decompress), work)
        return WRONG_SIZE
    rows = _read_window(table, work, out, g, channels, strip, feed, taker, to_end)
    # At the end of the data the library continues with an end marker of its own, outside our memory.
    at = load_i64(load_i64(work + _SOURCE))
    call1(load_i64(table + library.destroy_decompress), work)
    return 0 if data <= at <= data + size and rows == load_i64(g + place.h) else TRUNCATED


@inlined
def _orient(source, target, g):
    """Write the stored window of geometry `g` to `target` in display orientation (EXIF orientation 2-8)."""
    w, h, pixel, orientation = load_i64(g + place.w), load_i64(g + place.h), load_i64(g + place.pixel), load_i64(g + place.orientation)
    columns, rows, step_x, step_y, start = w, h, pixel, w * pixel, source
    if orientation == 2 or orientation == 3 or orientation == 7 or orientation == 8:
        start += (w - 1) * step_x
        step_x = -step_x
    if orientation == 3 or orientation == 4 or orientation == 6 or orientation == 7:
        start += (h - 1) * step_y
        step_y = -step_y
    if orientation >= 5:
        columns, rows, step_x, step_y = rows, columns, step_y, step_x
    for y in range(rows):
        at = start + y * step_y
        for _ in range(columns):
            for c in range(pixel):
                store_u8(target + c, load_u8(at + c))
            target += pixel
            at += step_x


@inlined
def _fail(work, thread):
    """Copy the library's message, a C string, truncated to the thread's buffer for texts."""
    room = smaller(load_i64(thread + record.error_bytes), 256)
    copy_bytes(load_i64(thread + record.error_text), work + _MESSAGE, room)
    store_u8(load_i64(thread + record.error_text) + room - 1, np.uint8(0))


@inlined
def _decode_ourselves(context, work, data, size, out, g, feed, taker):
    """Decode the window of geometry `g` with our own decoder; returns whether it succeeded. `feed`, `taker`: as in :func:`_read_window`."""
    request = work
    store_i64(request + asked.data, data)
    store_i64(request + asked.bytes, size)
    store_i64(request + asked.out, out)
    store_i64(request + asked.x, load_i64(g + place.x))
    store_i64(request + asked.y, load_i64(g + place.y))
    store_i64(request + asked.w, load_i64(g + place.w))
    store_i64(request + asked.h, load_i64(g + place.h))
    store_i64(request + asked.picture_width, load_i64(g + place.width))
    store_i64(request + asked.picture_height, load_i64(g + place.height))
    store_i64(request + asked.picture_components, load_i64(g + place.components))
    store_i64(request + asked.channels, load_i64(g + place.pixel))
    store_i64(request + asked.blue_first, 1 if load_i64(context + decoding.color) == _BGR else 0)
    store_i64(request + asked.work, (request + asked.size + 63) & -64)
    store_i64(request + asked.room, load_i64(context + decoding.own_room))
    store_i64(request + asked.constants, load_i64(context + decoding.constants))
    store_i64(request + asked.scans, load_i64(context + decoding.own_scans))
    store_i64(request + asked.index, load_i64(context + decoding.index))
    store_i64(request + asked.take, 0)
    store_i64(request + asked.ring_stop, 0)
    if feed != 0:
        store_i64(request + asked.take, load_i64(feed + feeding.function))
        store_i64(request + asked.state, taker)
        row_bytes = load_i64(g + place.w) * load_i64(g + place.pixel)
        store_i64(request + asked.ring_stop, out + load_i64(taker + reading.capacity) * row_bytes)
    done = call1(load_i64(context + decoding.own), request) == 0
    if done and load_i64(request + asked.found) != 0 and load_i64(context + decoding.counts) != 0:
        fetch_add(load_i64(context + decoding.counts) + counted.known, 1)
    return done


@inlined
def _feed_of(context, sample):
    """The FEED of the operator that consumes a sample's rows while they are decoded, or 0."""
    feed = load_i64(context + decoding.feed)
    if feed != 0 and load_i64(load_i64(feed + feeding.capacities) + 8 * sample) == 0:
        feed = np.int64(0)
    return feed


@inlined
def _begin(feed, sample, work, ring):
    """Announce rows to the consumer of a sample; returns the address of the consumer's FEED_STATE."""
    taker = work + load_i64(feed + feeding.scratch)
    store_i64(taker + reading.context, load_i64(feed + feeding.context))
    store_i64(taker + reading.sample, sample)
    store_i64(taker + reading.scratch, taker + STATE_BYTES)
    store_i64(taker + reading.ring, ring)
    store_i64(taker + reading.capacity, load_i64(load_i64(feed + feeding.capacities) + 8 * sample))
    call2(load_i64(feed + feeding.function), taker, 0)
    return taker


@step
def decode_step(context, sample, thread):
    """Decode (or copy) the window of one sample; see :func:`context_of`."""
    lanes = load_i64(context + decoding.lanes)
    if lanes != 0 and load_i64(lanes + WORD * sample) != CPU:
        return 0
    g = load_i64(context + decoding.windows) + place.size * sample
    out = load_i64(load_i64(context + decoding.targets) + 8 * sample)
    data = load_i64(load_i64(context + decoding.addresses) + 8 * sample)
    if load_i64(g + place.kind) == READY:
        pixel = load_i64(g + place.pixel)
        row_bytes, width = load_i64(g + place.w) * pixel, load_i64(g + place.width)
        first = data + (load_i64(g + place.y) * width + load_i64(g + place.x)) * pixel
        if row_bytes == width * pixel:
            copy_bytes(out, first, load_i64(g + place.h) * row_bytes)
            return 0
        for k in range(load_i64(g + place.h)):
            copy_bytes(out + k * row_bytes, first + k * width * pixel, row_bytes)
        return 0
    size = load_i64(load_i64(context + decoding.sizes) + 8 * sample)
    work = load_i64(thread + record.scratch) + load_i64(context + decoding.scratch)
    upright = load_i64(g + place.orientation) == 1
    target = out if upright else work + load_i64(context + decoding.turned)
    feed = _feed_of(context, sample)
    taker = _begin(feed, sample, work, target) if feed != 0 else np.int64(0)
    ours = load_i64(context + decoding.own) != 0 and load_i64(context + decoding.fast_dct) == 0
    ours = ours and _decode_ourselves(context, work, data, size, target, g, feed, taker)
    if load_i64(context + decoding.counts) != 0:
        decoder = counted.own if ours else counted.turbo
        fetch_add(load_i64(context + decoding.counts) + decoder, 1)
        if feed != 0:
            fetch_add(load_i64(context + decoding.counts) + counted.fed, 1)
        if load_i64(context + decoding.cut) != 0:
            fetch_add(load_i64(context + decoding.counts) + counted.cut, 1)
    code = 0
    if not ours:
        color, fast_dct = load_i64(context + decoding.color), load_i64(context + decoding.fast_dct)
        if feed != 0:  # Start again from the first row.
            call2(load_i64(feed + feeding.function), taker, 0)
        functions = load_i64(context + decoding.functions)
        to_end = load_i64(context + decoding.cut) != 0
        code = _decode(functions, work, data, size, target, g, color, fast_dct, work + WORK_BYTES, feed, taker, to_end)
    if code == FAILED:
        _fail(work, thread)
    elif code == 0 and not upright:
        _orient(target, out, g)
    return code


# ------------------------------------------------------------------------------------------------------------------------ headers

NOT_JPEG, IS_JPEG, UNUSUAL = 0, 1, 2
"""Result of the header scan: not a JPEG; a JPEG that libjpeg decodes to 8 bits; a JPEG with other features (12 bit, lossless)."""


@inlined
def is_adobe(at, stop):
    """Whether an APP14 segment at addresses at..stop is Adobe's. As in libjpeg, the segment may be longer than its 12 bytes."""
    named = stop - at >= 12 and big_endian(at) == 0x4164 and big_endian(at + 2) == 0x6F62
    return named and load_u8(at + 4) == 0x65


@inlined
def _frame(at, stop, marker, fields):
    """Record the frame header (SOFn) at addresses at..stop; False if it is truncated."""
    components = load_u8(at + 5)
    if stop - at < 6 + 3 * components:
        return False
    usual = (marker <= 0xC2 or marker == 0xC9 or marker == 0xCA) and load_u8(at) == 8
    unit = 1
    for k in range(components):
        unit = larger(unit, np.int64(load_u8(at + 6 + 3 * k + 1)) >> 4)
    store_i64(fields + head.found, IS_JPEG if usual else UNUSUAL)
    store_i64(fields + head.height, big_endian(at + 1))
    store_i64(fields + head.width, big_endian(at + 3))
    store_i64(fields + head.components, components)
    # libjpeg smooths progressive files that lack refinement scans. This reads two more blocks on each side.
    store_i64(fields + head.margin, (32 if marker & 3 == 2 else 8) * unit)
    store_i64(fields + head.marker, marker)
    return True


@inlined
def _count_scans(at, stop):
    """Count the scans that start in at..stop."""
    scans = 0
    for k in range(at, stop - 1):
        if load_u8(k) == 0xFF and load_u8(k + 1) == 0xDA:
            scans += 1
    return scans


@inlined
def scan_header(data, size, fields):
    """Walk a JPEG's markers up to the first scan: JPEG_HEADER[1] at `fields`."""
    for word in range(fields, fields + head.size, WORD):
        store_i64(word, 0)
    stop = data + size
    if size < 4 or big_endian(data) != 0xFFD8:
        return
    store_i64(fields + head.found, UNUSUAL)
    orientation, turned = 1, False
    at = data + 2
    while at + 4 <= stop:
        marker = np.int64(load_u8(at + 1))
        if load_u8(at) != 0xFF or marker == 0xFF:
            at += 1  # Stray or fill bytes between segments.
            continue
        if marker == 0xD8 or marker <= 0x01 or 0xD0 <= marker <= 0xD7:
            at += 2
            continue
        if marker == 0xD9:
            break
        start = at + 4
        at += 2 + big_endian(at + 2)
        if at < start or at > stop:
            break
        if marker == 0xDA:
            several = load_i64(fields + head.marker) & 3 == 2 or load_u8(start) != load_i64(fields + head.components)
            store_i64(fields + head.scans, _count_scans(start, stop) + 1 if several else 1)
            break
        if marker == 0xE1 and not turned and is_exif(start, at):  # As in viewers, the first one counts.
            orientation, turned = exif_orientation(start, at), True
        if marker == 0xEE and is_adobe(start, at):
            store_i64(fields + head.adobe, 1)
        is_frame = 0xC0 <= marker <= 0xCF and marker != 0xC4 and marker != 0xC8 and marker != 0xCC
        if is_frame and (load_i64(fields + head.marker) != 0 or at < start + 6 or not _frame(start, at, marker, fields)):
            break
    store_i64(fields + head.orientation, orientation)


@inlined
def is_plain(fields, size):
    """Whether a file is of the common kind: an upright grey or colour JPEG of one scan, with a plausible size for its amount of data."""
    pixels = load_i64(fields + head.width) * load_i64(fields + head.height)
    kind, components = load_i64(fields + head.found), load_i64(fields + head.components)
    upright = load_i64(fields + head.orientation) == 1 and load_i64(fields + head.scans) == 1
    side = larger(load_i64(fields + head.width), load_i64(fields + head.height))
    fits = 0 < pixels <= smaller(512 * size, FREE_PIXELS) and side <= MOST_SIDE
    return kind == IS_JPEG and (components == 1 or components == 3) and upright and fits


@compiled(4)
def scan_headers(addresses, sizes, count, headers):
    """Scan the JPEG headers of a batch into JPEG_HEADER[count]; returns the number of plain files (see `is_plain`).

    No header can make the scan read outside the bytes of the samples.
    """
    plain = 0
    for i in range(count):
        size = load_i64(sizes + 8 * i)
        fields = headers + head.size * i
        scan_header(load_i64(addresses + 8 * i), size, fields)
        if is_plain(fields, size):
            plain += 1
    return plain


@compiled(3)
def scan_file(data, size, fields):
    """Scan one file into JPEG_HEADER[1], for a reader that has just read it (``Operator.wanted_scan``). Returns PLAIN or 0."""
    scan_header(data, size, fields)
    return PLAIN if is_plain(fields, size) else 0


# ------------------------------------------------------------------------------------------------------------------------ windows


_room_for = inlined(window_decoding.room_for)


@inlined
def _pair(pairs, i, narrow):
    """The numbers of row `i` of [rows, 2], int32 if `narrow`, else int64."""
    if narrow:
        return np.int64(load_i32(pairs + yx.size // 2 * i)), np.int64(load_i32(pairs + yx.size // 2 * i + yx.x // 2))
    return load_i64(pairs + yx.size * i + yx.y), load_i64(pairs + yx.size * i + yx.x)


@compiled(1, brief=True)
def place_windows(table):
    """Compute the windows that :func:`decode_step` decodes, in stored coordinates (EXIF 2.3, tag 0x0112), and the sizes of buffers."""
    header, image = load_i64(table + placing.headers), load_i64(table + placing.images)
    anchor, extent = load_i64(table + placing.anchors), load_i64(table + placing.extents)
    narrow, sizes = load_i64(table + placing.narrow) != 0, load_i64(table + placing.sizes)
    placed, shape = load_i64(table + placing.windows), load_i64(table + placing.shapes)
    samples, given, offset = load_i64(table + placing.samples), image != 0, 0
    for i in range(samples):
        channels = load_i64(load_i64(table + placing.channels) + load_i64(table + placing.channel_stride) * i)
        width, height = load_i64(header + head.width), load_i64(header + head.height)
        components, orientation = load_i64(header + head.components), 1
        if given:
            width, height = load_i64(image + stored.width), load_i64(image + stored.height)
            components, orientation = load_i64(image + stored.components), load_i64(image + stored.orientation)
            image += stored.size
        pixel = channels * load_i64(table + placing.itemsize)
        y, x = 0, 0
        h, w = (width, height) if orientation >= 5 else (height, width)
        if anchor != 0:
            (y, x), (h, w) = _pair(anchor, i, narrow), _pair(extent, i, narrow)
        size = h * w * pixel
        store_i64(load_i64(table + placing.output_bytes) + WORD * i, size)
        store_i64(load_i64(table + placing.offsets) + WORD * i, offset)
        store_i64(table + placing.largest, larger(load_i64(table + placing.largest), size))
        offset += size
        store_i64(shape + hwc.height, h)
        store_i64(shape + hwc.width, w)
        store_i64(shape + hwc.channels, channels)
        if orientation >= 5:
            y, x, h, w = x, y, w, h
        if orientation == 2 or orientation == 3 or orientation == 7 or orientation == 8:
            x = width - x - w
        if orientation == 3 or orientation == 4 or orientation == 6 or orientation == 7:
            y = height - y - h
        store_i64(placed + place.kind, READY if orientation == 0 else JPEG)
        store_i64(placed + place.x, x)
        store_i64(placed + place.y, y)
        store_i64(placed + place.w, w)
        store_i64(placed + place.h, h)
        store_i64(placed + place.width, width)
        store_i64(placed + place.height, height)
        store_i64(placed + place.orientation, larger(orientation, 1))
        store_i64(placed + place.margin, load_i64(header + head.margin))
        store_i64(placed + place.pixel, pixel)
        store_i64(placed + place.components, components)
        if orientation >= 1:
            store_i64(table + placing.widest, larger(load_i64(table + placing.widest), width * pixel))
            if sizes != 0:
                room = np.int64(_room_for(load_i64(sizes + WORD * i), width))
                store_i64(table + placing.own_room, larger(load_i64(table + placing.own_room), room))
        if orientation >= 2:
            store_i64(table + placing.turned, larger(load_i64(table + placing.turned), size))
        header, placed, shape = header + head.size, placed + place.size, shape + hwc.size
    store_i64(table + placing.total, offset)
    return 0


@compiled(5, brief=True)
def take_images(headers, count, adjusts, images, seen):
    """Write STORED_IMAGE[count] and the extents as seen, YX[count], of JPEG_HEADER[count]. `adjusts`: EXIF orientations count."""
    for i in range(count):
        header, image, extent = headers + head.size * i, images + stored.size * i, seen + yx.size * i
        width, height = load_i64(header + head.width), load_i64(header + head.height)
        orientation = load_i64(header + head.orientation) if adjusts else 1
        store_i64(image + stored.width, width)
        store_i64(image + stored.height, height)
        store_i64(image + stored.components, load_i64(header + head.components))
        store_i64(image + stored.orientation, orientation)
        store_i64(extent + yx.y, width if orientation >= 5 else height)
        store_i64(extent + yx.x, height if orientation >= 5 else width)
    return 0


# --------------------------------------------------------------------------------------------------------------------- from Python


def read_headers(addresses: np.ndarray, sizes: np.ndarray, mapped: bool = False) -> tuple[np.ndarray, bool]:
    """Call :data:`scan_headers` from Python: JPEG_HEADER[samples] for samples at `addresses` (int64) of `sizes` bytes (int64), and
    whether all samples are plain files.

    A header takes 0.1 us, so the interpreter lock is kept, unless there are many or they lie in `mapped` files, whose pages may be missing.
    """
    headers = np.empty((len(sizes), JPEG_HEADER.words), np.int64)
    scan = scan_headers if mapped or len(sizes) > FEW_HEADERS else scan_headers.held
    plain = scan(address_of(addresses), address_of(sizes), len(sizes), address_of(headers))
    return headers, plain == len(sizes)


def stored_images(headers: np.ndarray, adjusts: bool) -> tuple[np.ndarray, np.ndarray]:
    """Call :func:`take_images` from Python: STORED_IMAGE[samples] and YX[samples]. numpy would release the interpreter lock three times."""
    count = len(headers)
    images, seen = np.empty((count, STORED_IMAGE.words), np.int64), np.empty((count, YX.words), np.int64)
    take_images(address_of(headers), count, adjusts, address_of(images), address_of(seen))
    return images, seen


class Windows(NamedTuple):
    """The result of :func:`place_windows`.

    records  JPEG_WINDOW[samples], the windows to decode
    shapes   HWC[samples], of the outputs; `sizes`: bytes of each output, and `offsets`: its place behind the others, int64[samples] each
    widest   bytes of the widest row to decode;  turned  bytes of the largest window to rotate
    own_room most bytes of work memory per thread that our own decoder needs; 0 if no sizes were given
    largest  bytes of the largest output;  total  bytes of all
    """

    records: np.ndarray
    shapes: np.ndarray
    sizes: np.ndarray
    offsets: np.ndarray
    widest: int
    turned: int
    own_room: int
    largest: int
    total: int


def _pairs(values: np.ndarray) -> np.ndarray:
    """`values`, [samples, 2], as YX[samples]. Columns are converted one by one, because numpy releases the lock for 500 numbers."""
    if values.dtype == np.int64 and values.flags.c_contiguous:
        return values
    pairs = np.empty(values.shape, np.int64)
    pairs[:, 0], pairs[:, 1] = values[:, 0], values[:, 1]
    return pairs


def windows_of(
    headers: np.ndarray, images: np.ndarray | None, given: tuple[np.ndarray, np.ndarray] | None, channels: np.ndarray, itemsize: int,
    sizes: np.ndarray | None = None,
) -> Windows:  # fmt: skip
    """Call :func:`place_windows` from Python. PLACE_WINDOWS describes the arguments. One value in `channels` applies to all samples.

    given   anchors and extents of the windows; None: whole images
    sizes   bytes of the files, int64[samples], if our own decoder may decode them
    """
    count = len(headers)
    end, shapes_end = count * JPEG_WINDOW.words, count * (JPEG_WINDOW.words + HWC.words)
    memory = np.empty(shapes_end + 2 * count, np.int64)
    at = address_of(memory)
    sizes_at = at + WORD * shapes_end
    anchors_at = extents_at = narrow = 0
    if given is not None:
        anchors, extents = given
        narrow = anchors.dtype == extents.dtype == np.int32 and anchors.flags.c_contiguous and extents.flags.c_contiguous
        if not narrow:
            anchors, extents = _pairs(anchors), _pairs(extents)
        anchors_at, extents_at = address_of(anchors), address_of(extents)
    entries = PLACE_WINDOWS.entries(
        samples=count, headers=address_of(headers), images=0 if images is None else address_of(images),
        sizes=0 if sizes is None else address_of(sizes), anchors=anchors_at, extents=extents_at, narrow=narrow,
        channels=address_of(channels), channel_stride=WORD if len(channels) > 1 else 0, itemsize=itemsize, windows=at,
        shapes=at + WORD * end, output_bytes=sizes_at, offsets=sizes_at + WORD * count, widest=0, turned=0, own_room=0, largest=0, total=0,
    )  # fmt: skip
    table = table_of(entries)
    place_windows(address_of(table))
    records, shapes = memory[:end].reshape(count, JPEG_WINDOW.words), memory[end:shapes_end].reshape(count, HWC.words)
    output_bytes, offsets = memory[shapes_end : shapes_end + count], memory[shapes_end + count :]
    return Windows(records, shapes, output_bytes, offsets, *table[PLACE_WINDOWS.span("widest", "total")].tolist())


class JpegArrays(NamedTuple):
    """Addresses of the arrays of a batch: the files and their sizes, JPEG_WINDOWs, the memory of the pictures, and their lanes (or 0)."""

    addresses: int
    sizes: int
    windows: int
    targets: int
    lanes: int = 0


class OwnDecoder(NamedTuple):
    """Our own decoder for a batch.

    address     of the decoder; 0: libjpeg-turbo decodes all files
    scans       address of the decoder of progressive files; 0: it is not compiled yet, or not needed
    room        bytes of its work memory
    counts      address of DECODE_COUNTS; 0: nothing is counted
    positions   address of the index of block positions; 0: none
    """

    address: int = 0
    scans: int = 0
    room: int = 0
    counts: int = 0
    positions: int = 0


TURBO = OwnDecoder()


def context_of(
    functions: int, arrays: JpegArrays, *, color: int = 2, fast_dct: bool = False, turned: int = 0, own: OwnDecoder = TURBO
) -> np.ndarray:
    """The context of :data:`decode_step`, int64. DECODE_JPEGS describes the arguments."""
    constants = address_of(window_decoding.known_constants()) if own.address else 0
    entries = DECODE_JPEGS.entries(
        functions=functions, addresses=arrays.addresses, sizes=arrays.sizes, windows=arrays.windows, targets=arrays.targets,
        lanes=arrays.lanes, color=color, fast_dct=fast_dct, scratch=0, turned=turned, own=own.address,
        constants=constants, own_room=own.room, counts=own.counts, own_scans=own.scans, index=own.positions, feed=0, cut=0,
    )  # fmt: skip
    return table_of(entries)


def decode_whole(
    table: np.ndarray, data: np.ndarray, shape: tuple[int, int, int], components: int, fast_dct: bool = False, own: OwnDecoder = TURBO
) -> tuple[np.ndarray, int, str]:
    """Decode a whole JPEG of `components` from Python: (uint8[height, width, channels], status, message).

    `shape` is (height, width, channels). Channels: 1 grey, 3 RGB, 4 CMYK."""
    height, width, channels = shape
    image = np.empty(shape, np.uint8)
    entries = JPEG_WINDOW.entries(
        kind=JPEG, x=0, y=0, w=width, h=height, width=width, height=height, orientation=1, margin=0, pixel=channels, components=components
    )
    whole = np.array(entries, np.int64)
    addresses = np.array([data.ctypes.data, data.size, image.ctypes.data], np.int64)
    own = own._replace(room=window_decoding.room_for(data.size, width) if own.address else 0)
    work, text = np.empty(scratch_bytes(0, 0, own.room)[0], np.uint8), np.zeros(256, np.uint8)
    thread = thread_record(work, text)
    at = addresses.ctypes.data
    context = context_of(table.ctypes.data, JpegArrays(at, at + 8, whole.ctypes.data, at + 16), fast_dct=fast_dct, own=own)
    code = decode_step(context.ctypes.data, 0, thread.ctypes.data)
    return image, code, bytes(text).split(b"\0", 1)[0].decode("utf-8", "replace")


def thread_record(scratch: np.ndarray, text: np.ndarray) -> np.ndarray:
    """A thread's record for a step that is called from Python, with work memory and a buffer for an error text: THREAD[1]."""
    record: np.ndarray = THREAD.zeros(1)[0]
    word = THREAD.word
    record[word.scratch], record[word.scratch_bytes] = address_of(scratch), scratch.size
    record[word.error_text], record[word.error_bytes] = address_of(text), text.size
    return record


def scratch_bytes(row_bytes: int, orientation_bytes: int, own_room: int = 0) -> tuple[int, int]:
    """(scratch per thread, offset of the orientation buffer in it) for windows from images with rows of at most `row_bytes`."""
    strip = max(WORK_BYTES + _ROW_COUNT * (row_bytes + 128), DECODE_WINDOW.size + 64 + own_room)
    offset = -(-strip // 64) * 64
    return offset + orientation_bytes, offset

"""One window of one picture: from the file's bytes to pixels, a row of MCUs at a time.

A window needs the blocks that it touches, and those whose chroma the filter looks at beside it. Other blocks are gone through for their
DC values alone, and nothing is read behind the window's last row. Samples of a row of MCUs lie in *strips*, with the last row of the one before.
"""

from __future__ import annotations

from functools import cache

import numpy as np

from ....compiled.intrinsics import copy_bytes, larger, load_i32, load_i64, load_u8, load_u16, smaller, store_i64, store_u8, store_u16
from ....compiled.memory import address_of
from ....compiled.step import compiled, inlined
from .bits import PADDING, unstuffed
from .colour import PIXELS, convert_420, convert_422, convert_440, convert_444, spread_grey
from .entropy import (  # fmt: skip
    AC_TABLE,
    AT,
    BLOCK_BYTES,
    BLOCK_ROW,
    BLOCKS_PER_MCU,
    BUFFER,
    COLUMN,
    COUNT,
    DC_TABLE,
    FIRST_GROUP,
    GROUP_BLOCKS,
    GROUP_BYTES,
    LAST,
    LAST_DC,
    LENGTHS,
    LIMIT,
    PLACES,
    STATE_BYTES,
    decode_row,
    skip_row,
)
from .fields import (  # fmt: skip
    AC_CODES,
    COMPONENT_BYTES,
    COMPONENTS,
    DC_CODES,
    FIRST_COMPONENT,
    HEIGHT,
    LARGEST_H,
    LARGEST_V,
    QUANTISATION,
    RESTART,
    SAMPLING_H,
    SAMPLING_V,
    SCAN_DATA,
    SEEN_BYTES,
    WIDTH,
    offsets,
)
from .huffman import AC_BITS, AC_TABLE_BYTES, DC_TABLE_BYTES, STANDARD_CODES, build_ac, build_dc, same_codes
from .markers import read_frame
from .transform import SPARSE, transform_flat, transform_sparse, transform_whole

# What is asked for: a request.
(DATA, SIZE, OUT, X, Y, W, H, PICTURE_WIDTH, PICTURE_HEIGHT, PICTURE_COMPONENTS, CHANNELS, BLUE_FIRST, WORK, ROOM, CONSTANTS) = offsets(15)
REQUEST_BYTES = 15 * 8
"""OUT: pixels of the window, its rows one after another. CHANNELS: 1 or 3. WORK, ROOM: memory, 64-byte aligned, and how much of it.
CONSTANTS: see `constants`."""

# Work area.
_FRAME = 0
_STATE = 512
_SPECS = _STATE + 64  # up to six blocks of an MCU
_HAZARD = _SPECS + 6 * BLOCK_BYTES
_PIXELS = _HAZARD + 64  # 32 pixels at the end of a row
_PLAN = _PIXELS + 128
_FACTORS = _PLAN + 384
_TABLES = _FACTORS + 3 * 512
_SINGLE = _TABLES + 3 * (DC_TABLE_BYTES + AC_TABLE_BYTES)
_ROWS = _SINGLE + (8 << AC_BITS)
assert SEEN_BYTES <= 512 and STATE_BYTES <= 64

# The plan of a window (int64 at _PLAN), and what is kept of each component behind it.
(ACROSS, DOWN, FIRST_MCU, STOP_MCU, FIRST_ROW, STOP_ROW, PARTS, SPECS_STOP, COEFFICIENTS_STOP, SOURCE, DATA_STOP, SEGMENT, SEGMENT_BITS,
 BYTES_AT) = offsets(14)  # fmt: skip
"""MCUs of the picture and of the window; components that are decoded; ends of tables; where the next entropy-coded segment begins and the
file ends; number of the current segment, its bits, and where they lie without stuffing."""
_PART = 14 * 8
# Of a component: its strip (the first sample of row 0, which is the last row of the MCUs before), bytes per row; coefficients, groups per
# block row, block rows per MCU; lengths of the blocks' coefficients.
STRIP, STRIDE, COEFFICIENTS, GROUPS, BLOCK_ROWS, LENGTHS_AT = offsets(6)
_PART_BYTES = 48
_LEFT, _RIGHT = 64, 64
"""Bytes beside a strip's rows: the filter looks at one on each side, and pixels are taken by 32."""
TILE = 8
"""MCUs that are decoded before they are transformed: so many that their coefficients stay in the L1 cache."""

HANDED_OVER = 1
"""Result of decoding what is libjpeg-turbo's to decode."""

# Constants that all threads read: where coefficients lie, then the standard's tables.
_PLACE_BYTES = 256
KNOWN_DC, KNOWN_AC = _PLACE_BYTES, _PLACE_BYTES + 2 * DC_TABLE_BYTES
CONSTANT_BYTES = KNOWN_AC + 2 * AC_TABLE_BYTES


@inlined
def _round_up(value, unit):
    return (value + unit - 1) // unit * unit


def room_for(size, width):
    """Bytes of work that decoding files of `size` bytes, `width` pixels wide, takes at most; both may be arrays."""
    # Strips: at most 35 rows (4:2:0). Tiles and what is rounded up come to less than 32 KB.
    return _ROWS + size + PADDING + 36 * width + (1 << 15)


@inlined
def _dc_table(work, slot, payload, known):
    """Address of a DC table for the codes at `payload`; 0 if they are wrong."""
    for k in range(2):
        if same_codes(known + KNOWN_DC + k * DC_TABLE_BYTES, payload):
            return known + KNOWN_DC + k * DC_TABLE_BYTES
    table = work + _TABLES + slot * (DC_TABLE_BYTES + AC_TABLE_BYTES)
    return table if build_dc(table, payload) else np.int64(0)


@inlined
def _ac_table(work, slot, payload, known):
    """Address of an AC table for the codes at `payload`; 0 if they are wrong."""
    for k in range(2):
        if same_codes(known + KNOWN_AC + k * AC_TABLE_BYTES, payload):
            return known + KNOWN_AC + k * AC_TABLE_BYTES
    table = work + _TABLES + slot * (DC_TABLE_BYTES + AC_TABLE_BYTES) + DC_TABLE_BYTES
    return table if build_ac(table, payload, work + _SINGLE) else np.int64(0)


@inlined
def _set_tables(work, known):
    """Find or build the tables of all components; False if one is wrong. Fills in the records of an MCU's blocks, but for addresses."""
    spec = work + _SPECS
    for k in range(load_i64(work + COMPONENTS)):
        part = work + FIRST_COMPONENT + k * COMPONENT_BYTES
        dc_codes, ac_codes = load_i64(part + DC_CODES), load_i64(part + AC_CODES)
        dc = ac = np.int64(0)
        if k == 2:  # nearly always those of the second component
            dc = load_i64(spec - BLOCK_BYTES + DC_TABLE) if dc_codes == load_i64(part - COMPONENT_BYTES + DC_CODES) else dc
            ac = load_i64(spec - BLOCK_BYTES + AC_TABLE) if ac_codes == load_i64(part - COMPONENT_BYTES + AC_CODES) else ac
        if dc == 0:
            dc = _dc_table(work, k, dc_codes, known)
        if ac == 0:
            ac = _ac_table(work, k, ac_codes, known)
        if dc == 0 or ac == 0:
            return False
        for block in range(load_i64(part + SAMPLING_H) * load_i64(part + SAMPLING_V)):
            store_i64(spec + DC_TABLE, dc)
            store_i64(spec + AC_TABLE, ac)
            store_i64(spec + LAST, work + _STATE + LAST_DC + 8 * k)
            store_i64(spec + BLOCKS_PER_MCU, load_i64(part + SAMPLING_H))
            store_i64(spec + COLUMN, block % load_i64(part + SAMPLING_H))
            store_i64(spec + BLOCK_ROW, block // load_i64(part + SAMPLING_H))
            spec += BLOCK_BYTES
    store_i64(work + _PLAN + SPECS_STOP, spec)
    return True


@inlined
def _set_factors(work, known):
    """Quantisation factors of each component in rows of eight, each row four times: what the transform multiplies by."""
    for k in range(load_i64(work + COMPONENTS)):
        source, factors = load_i64(work + FIRST_COMPONENT + k * COMPONENT_BYTES + QUANTISATION), work + _FACTORS + 512 * k
        for at in range(64):
            place = factors + np.int64(load_u16(known + 2 * at))
            for copy in range(GROUP_BLOCKS):
                store_u16(place + 16 * copy, np.uint16(load_u8(source + at)))


@inlined
def _set_window(work, request):
    """Which MCUs the window needs. Windows of grey pixels need no chroma."""
    plan = work + _PLAN
    chroma = load_i64(work + COMPONENTS) == 3 and load_i64(request + CHANNELS) == 3
    h, v = load_i64(work + LARGEST_H), load_i64(work + LARGEST_V)
    x, y, w, height = load_i64(request + X), load_i64(request + Y), load_i64(request + W), load_i64(request + H)
    across, down = (load_i64(work + WIDTH) + 8 * h - 1) // (8 * h), (load_i64(work + HEIGHT) + 8 * v - 1) // (8 * v)
    # The filter looks at one sample of chroma beyond the window on each side.
    beyond_x, beyond_y = (h if chroma and h == 2 else 0), (v if chroma and v == 2 else 0)
    store_i64(plan + ACROSS, across)
    store_i64(plan + DOWN, down)
    store_i64(plan + FIRST_MCU, larger(x - beyond_x, 0) // (8 * h))
    store_i64(plan + STOP_MCU, smaller((x + w - 1 + beyond_x) // (8 * h) + 1, across))
    store_i64(plan + FIRST_ROW, larger(y - beyond_y, 0) // (8 * v))
    store_i64(plan + STOP_ROW, smaller((y + height - 1 + beyond_y) // (8 * v) + 1, down))
    store_i64(plan + PARTS, 3 if chroma else 1)


@inlined
def _set_memory(work, request):
    """Give each component that the window needs its coefficients and its strip; False if the room is too small."""
    plan, spec = work + _PLAN, work + _SPECS
    mcus = load_i64(plan + STOP_MCU) - load_i64(plan + FIRST_MCU)
    at = work + _ROWS
    first, stop = at, load_i64(request + WORK) + load_i64(request + ROOM)
    for k in range(load_i64(plan + PARTS)):
        source, part = work + FIRST_COMPONENT + k * COMPONENT_BYTES, plan + _PART + k * _PART_BYTES
        h, v = load_i64(source + SAMPLING_H), load_i64(source + SAMPLING_V)
        store_i64(part + GROUPS, TILE * h // GROUP_BLOCKS)
        store_i64(part + BLOCK_ROWS, v)
        store_i64(part + STRIDE, _round_up(_round_up(mcus, TILE) * h * 8 + _LEFT + _RIGHT, 64))
        store_i64(part + COEFFICIENTS, at)
        at += v * (TILE * h // GROUP_BLOCKS) * GROUP_BYTES
    store_i64(plan + COEFFICIENTS_STOP, at)
    for k in range(load_i64(plan + PARTS)):
        part = plan + _PART + k * _PART_BYTES
        groups, v, stride = load_i64(part + GROUPS), load_i64(part + BLOCK_ROWS), load_i64(part + STRIDE)
        store_i64(part + LENGTHS_AT, at)
        store_i64(part + STRIP, at + _round_up(v * groups * GROUP_BLOCKS, 64) + _LEFT)
        at += _round_up(v * groups * GROUP_BLOCKS, 64) + stride * (8 * v + 1)
        if at + PADDING > stop:
            return False
        for length in range(load_i64(part + LENGTHS_AT), load_i64(part + LENGTHS_AT) + v * groups * GROUP_BLOCKS):
            store_u8(length, np.uint8(1))
    store_i64(plan + BYTES_AT, at)
    # What is left is for the data: one segment is at most as long as all of it.
    if at + (load_i64(plan + DATA_STOP) - load_i64(plan + SOURCE)) + PADDING > stop:
        return False
    for at_spec in range(spec, load_i64(plan + SPECS_STOP), BLOCK_BYTES):
        k = (load_i64(at_spec + LAST) - (work + _STATE + LAST_DC)) >> 3
        if k >= load_i64(plan + PARTS):
            store_i64(at_spec + FIRST_GROUP, 0)
            continue
        part, row = plan + _PART + k * _PART_BYTES, load_i64(at_spec + BLOCK_ROW)
        groups = load_i64(part + GROUPS)
        store_i64(at_spec + FIRST_GROUP, load_i64(part + COEFFICIENTS) + row * groups * GROUP_BYTES)
        store_i64(at_spec + LENGTHS, load_i64(part + LENGTHS_AT) + row * groups * GROUP_BLOCKS)
    return True


# --- entropy-coded segments


@inlined
def _used_bits(work):
    """Bits that were taken from the segment."""
    state, plan = work + _STATE, work + _PLAN
    return 8 * (load_i64(state + AT) - load_i64(plan + BYTES_AT)) - load_i64(state + COUNT)


@inlined
def _begin_segment(work):
    """Go on to the next segment; False if the marker before it is not the right one, or none ends it."""
    state, plan = work + _STATE, work + _PLAN
    number, source, target = load_i64(plan + SEGMENT) + 1, load_i64(plan + SOURCE), load_i64(plan + BYTES_AT)
    if number > 0 and np.int64(load_u8(source - 1)) != 0xD0 | ((number - 1) & 7):
        return False
    end, source = unstuffed(source, load_i64(plan + DATA_STOP), target)
    store_i64(plan + SEGMENT, number)
    store_i64(plan + SOURCE, source)
    store_i64(plan + SEGMENT_BITS, 8 * (end - target))
    store_i64(state + BUFFER, 0)
    store_i64(state + COUNT, 0)
    store_i64(state + AT, target)
    store_i64(state + LIMIT, end + 8)
    for k in range(3):
        store_i64(state + LAST_DC + 8 * k, 0)
    return source != 0


@inlined
def _walk(work, places, mcu, start, stop):
    """Go through MCUs from `mcu` on: skip those before `start`, decode the tile from there to `stop`. False if the data is not as it
    should be."""
    state, plan = work + _STATE, work + _PLAN
    interval, total = load_i64(work + RESTART), load_i64(plan + ACROSS) * load_i64(plan + DOWN)
    specs, specs_stop = work + _SPECS, load_i64(plan + SPECS_STOP)
    if interval != 0 and start // interval > mcu // interval:  # segments in which nothing is needed
        while load_i64(plan + SEGMENT) < start // interval - 1:
            if not _begin_segment(work):
                return False
        mcu = start // interval * interval
    while mcu < stop:
        if mcu == 0 or (interval != 0 and mcu % interval == 0):
            if not _begin_segment(work):
                return False
        end = start if mcu < start else stop
        if interval != 0:
            end = smaller(end, mcu - mcu % interval + interval)
        if mcu < start:
            good = skip_row(state, specs, specs_stop, end - mcu)
        else:
            good = decode_row(state, specs, specs_stop, places, mcu - start, end - start)
        left = load_i64(plan + SEGMENT_BITS) - _used_bits(work)
        if not good or left < 0:
            return False
        if interval != 0 and end % interval == 0 and end < total and left >= 8:
            return False
        mcu = end
    return True


@inlined
def _data_ends(work):
    """Whether a marker ends the scan. libjpeg-turbo looks further ahead than the window needs, and refuses files that are cut there."""
    plan = work + _PLAN
    source = load_i64(plan + SOURCE)
    while source != 0 and load_u8(source - 1) & 0xF8 == 0xD0:
        _, source = unstuffed(source, load_i64(plan + DATA_STOP), load_i64(plan + BYTES_AT))
    return source != 0 and load_u8(source - 1) >= 0xC0 and load_u8(source - 1) != 0xFF


# --- samples


@inlined
def _transform_tile(work, request, row, first, count):
    """Samples of `count` MCUs of a row into the strips, from MCU `first` of the window on, behind the last row of the row before."""
    plan = work + _PLAN
    bottom, top = load_i64(request + Y), load_i64(request + Y) + load_i64(request + H)
    for k in range(load_i64(plan + PARTS)):
        part, factors = plan + _PART + k * _PART_BYTES, work + _FACTORS + 512 * k
        groups, stride, rows = load_i64(part + GROUPS), load_i64(part + STRIDE), load_i64(part + BLOCK_ROWS)
        group, length = load_i64(part + COEFFICIENTS), load_i64(part + LENGTHS_AT)
        h = groups * GROUP_BLOCKS // TILE
        used = _round_up(count * h, GROUP_BLOCKS) // GROUP_BLOCKS
        for v in range(rows):
            out = load_i64(part + STRIP) + (8 * v + 1) * stride + 8 * h * first
            begin = 8 * (row * rows + v)
            if k == 0 and (begin >= top or begin + 8 <= bottom):  # only its chroma is looked at
                group, length = group + groups * GROUP_BYTES, length + groups * GROUP_BLOCKS
                continue
            for _ in range(used):
                lengths = np.int64(load_i32(length))
                if lengths == 0x01010101:
                    transform_flat(group, factors, out, stride, work + _HAZARD)
                elif ((lengths + 0x01010101 * (127 - SPARSE)) & 0x80808080) == 0:
                    transform_sparse(group, factors, out, stride, work + _HAZARD)
                else:
                    transform_whole(group, factors, out, stride, work + _HAZARD)
                group, length, out = group + GROUP_BYTES, length + GROUP_BLOCKS, out + 8 * GROUP_BLOCKS
            group, length = group + (groups - used) * GROUP_BYTES, length + (groups - used) * GROUP_BLOCKS


@inlined
def _extend_chroma(work):
    """Repeat the first and last column of the picture's chroma beyond its edges, as the filter has it."""
    plan, h = work + _PLAN, load_i64(work + LARGEST_H)
    last = (load_i64(work + WIDTH) + h - 1) // h - 8 * load_i64(plan + FIRST_MCU)
    for k in range(1, 3):
        part = plan + _PART + k * _PART_BYTES
        stride, at = load_i64(part + STRIDE), load_i64(part + STRIP)
        for _ in range(9):
            if load_i64(plan + FIRST_MCU) == 0:
                store_u8(at - 1, load_u8(at))
            if last <= stride - _LEFT - _RIGHT:
                store_u8(at + last, load_u8(at + last - 1))
            at += stride


@inlined
def _colour_row(work, request, y, row, out):
    """Row `y` of the picture, three bytes a pixel."""
    plan, x, width = work + _PLAN, load_i64(request + X), load_i64(request + W)
    h, v = load_i64(work + LARGEST_H), load_i64(work + LARGEST_V)
    part = plan + _PART
    luma = load_i64(part + STRIP) + (y - 8 * v * row + 1) * load_i64(part + STRIDE) + x - 8 * h * load_i64(plan + FIRST_MCU)
    blue = red = near = np.int64(0)
    if load_i64(plan + PARTS) == 3:
        part += _PART_BYTES
        stride, at = load_i64(part + STRIDE), y // v
        beside = smaller(larger(at + (1 if y & 1 else -1), 0), (load_i64(work + HEIGHT) + 1) // 2 - 1)
        near = (beside - at) * stride
        place = (at - 8 * row + 1) * stride + x // h - 8 * load_i64(plan + FIRST_MCU)
        blue, red = load_i64(part + STRIP) + place, load_i64(part + _PART_BYTES + STRIP) + place
    lower, blue_first = y & 1, load_i64(request + BLUE_FIRST)
    # Pixels that share chroma stay together: an odd first one is the second of the first 32.
    drop = x & (h - 1)
    luma -= drop
    while width > 0:
        target = out if width >= PIXELS and drop == 0 else work + _PIXELS
        if load_i64(plan + PARTS) == 1:
            spread_grey(luma, target)
        elif h == 2 and v == 2:
            convert_420(luma, blue, red, near, lower, blue_first, target)
        elif h == 2:
            convert_422(luma, blue, red, near, lower, blue_first, target)
        elif v == 2:
            convert_440(luma, blue, red, near, lower, blue_first, target)
        else:
            convert_444(luma, blue, red, near, lower, blue_first, target)
        made = smaller(PIXELS - drop, width)
        if target != out:
            copy_bytes(out, target + 3 * drop, 3 * made)
        out += 3 * made
        width -= made
        drop = np.int64(0)
        luma += PIXELS
        blue, red = blue + PIXELS // h, red + PIXELS // h


@inlined
def _grey_row(work, request, y, row, out):
    """Row `y` of the picture's luma."""
    plan, part = work + _PLAN, work + _PLAN + _PART
    h, v = load_i64(work + LARGEST_H), load_i64(work + LARGEST_V)
    left = load_i64(request + X) - 8 * h * load_i64(plan + FIRST_MCU)
    luma = load_i64(part + STRIP) + (y - 8 * v * row + 1) * load_i64(part + STRIDE) + left
    copy_bytes(out, luma, load_i64(request + W))


@inlined
def _keep_last_row(work):
    """The last row of samples becomes the one before the next row of MCUs."""
    for k in range(load_i64(work + _PLAN + PARTS)):
        part = work + _PLAN + _PART + k * _PART_BYTES
        strip, stride = load_i64(part + STRIP) - _LEFT, load_i64(part + STRIDE)
        copy_bytes(strip, strip + 8 * load_i64(part + BLOCK_ROWS) * stride, stride)


@inlined
def _decode_rows(work, request):
    """Decode the window; False if the data is not as it should be."""
    plan, constants = work + _PLAN, load_i64(request + CONSTANTS)
    y, out, channels = load_i64(request + Y), load_i64(request + OUT), load_i64(request + CHANNELS)
    stop, row_bytes = y + load_i64(request + H), load_i64(request + W) * channels
    mcu_rows = 8 * load_i64(work + LARGEST_V)
    looks_below = load_i64(plan + PARTS) == 3 and load_i64(work + LARGEST_V) == 2
    mcu = np.int64(0)
    for row in range(load_i64(plan + FIRST_ROW), load_i64(plan + STOP_ROW)):
        begin, stop_mcu = row * load_i64(plan + ACROSS) + load_i64(plan + FIRST_MCU), row * load_i64(plan + ACROSS) + load_i64(plan + STOP_MCU)
        for tile in range(begin, stop_mcu, TILE):
            end = smaller(tile + TILE, stop_mcu)
            for at in range(load_i64(plan + _PART + COEFFICIENTS), load_i64(plan + COEFFICIENTS_STOP), 8):
                store_i64(at, 0)
            if not _walk(work, constants, mcu, tile, end):
                return False
            mcu = end
            _transform_tile(work, request, row, tile - begin, end - tile)
        if load_i64(plan + PARTS) == 3:
            _extend_chroma(work)
        ready = mcu_rows * (row + 1)
        if looks_below and row + 1 < load_i64(plan + DOWN):
            ready -= 1
        ready = smaller(ready, stop)
        while y < ready:
            if channels == 1:
                _grey_row(work, request, y, row, out)
            else:
                _colour_row(work, request, y, row, out)
            out += row_bytes
            y += 1
        _keep_last_row(work)
    return y == stop


@compiled(1)
def decode_window(request):
    """Decode the window that `request` describes: 0, or HANDED_OVER if libjpeg-turbo has to (the output is undefined then)."""
    work, known = load_i64(request + WORK), load_i64(request + CONSTANTS)
    data, size = load_i64(request + DATA), load_i64(request + SIZE)
    if load_i64(request + ROOM) < _ROWS or not read_frame(data, size, work):
        return HANDED_OVER
    h, v, width = load_i64(work + LARGEST_H), load_i64(work + LARGEST_V), load_i64(work + WIDTH)
    components = load_i64(work + COMPONENTS)
    if (
        width != load_i64(request + PICTURE_WIDTH)
        or load_i64(work + HEIGHT) != load_i64(request + PICTURE_HEIGHT)
        or components != load_i64(request + PICTURE_COMPONENTS)
        or (h == 2 and width <= 4)  # libjpeg's filter needs three columns of chroma
    ):
        return HANDED_OVER
    plan = work + _PLAN
    store_i64(plan + SOURCE, load_i64(work + SCAN_DATA))
    store_i64(plan + DATA_STOP, data + size)
    store_i64(plan + SEGMENT, -1)
    for at in range(work + _HAZARD, work + _HAZARD + 64, 8):
        store_i64(at, 0)
    _set_window(work, request)
    if not _set_tables(work, known) or not _set_memory(work, request):
        return HANDED_OVER
    _set_factors(work, known)
    if not _decode_rows(work, request) or not _data_ends(work):
        return HANDED_OVER
    hazard = np.int64(0)
    for at in range(work + _HAZARD, work + _HAZARD + 64, 8):
        hazard |= load_i64(at)
    return HANDED_OVER if hazard != 0 else 0


@compiled(2)
def _build_known(payloads, constants):
    """Tables for the codes at `payloads` (272 bytes each: DC, DC, AC, AC) into `constants`; gives how many were built."""
    built = 0
    single = constants + CONSTANT_BYTES
    for k in range(2):
        built += build_dc(constants + KNOWN_DC + k * DC_TABLE_BYTES, payloads + 272 * k)
        built += build_ac(constants + KNOWN_AC + k * AC_TABLE_BYTES, payloads + 272 * (2 + k), single)
    return built


@cache
def constants() -> np.ndarray:
    """What all threads read: where coefficients lie, and the standard's Huffman tables; uint8, 64-byte aligned."""
    memory = np.zeros(CONSTANT_BYTES + (8 << AC_BITS) + 64, np.uint8)
    start = -address_of(memory) % 64
    found = memory[start:]
    found[: PLACES.nbytes] = PLACES.view(np.uint8)
    payloads = np.zeros((4, 272), np.uint8)
    for row, codes in zip(payloads, STANDARD_CODES, strict=True):
        row[: len(codes)] = np.frombuffer(codes, np.uint8)
    built = _build_known(address_of(payloads), address_of(found))
    assert built == 4
    return found

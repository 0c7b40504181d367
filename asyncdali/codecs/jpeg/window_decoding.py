"""One window of one picture: from the file's bytes to pixels, a row of MCUs at a time.

A window needs the blocks that it touches, and neighbouring blocks whose chroma the filter reads. In other blocks only the
DC values are decoded. Nothing is decoded behind the window's last row. Samples of a row of MCUs lie in strips, behind the last row of the
MCUs before.
"""

from __future__ import annotations

import sys
from functools import cache

import numpy as np

from ...compiled import kinds
from ...compiled.addresses import address_of
from ...compiled.intrinsics import (
    call2,
    clear_bytes,
    copy_bytes,
    larger,
    load_i32,
    load_i64,
    load_u8,
    load_u16,
    shift_right,
    smaller,
    store_i64,
    store_u8,
    store_u16,
)
from ...compiled.step import compiled, inlined
from ...compiled.tables import WORD
from .bit_reader import PADDING
from .block_positions import find_positions, go_to_position, next_mark, note_position, wants_positions
from .colour import PIXELS, convert_420, convert_422, convert_440, convert_444, spread_grey
from .fields import (  # fmt: skip
    AC_CODES,
    ALL_COEFFICIENTS,
    COMPONENT_BYTES,
    COMPONENTS,
    DC_CODES,
    FIRST_COMPONENT,
    HEIGHT,
    LARGEST_H,
    LARGEST_V,
    MARKER,
    MASKS,
    PROGRESSIVE,
    QUANTISATION,
    RESTART,
    ROW_GROUPS,
    SAMPLING_H,
    SAMPLING_V,
    SCAN_DATA,
    WIDTH,
)
from .huffman import AC_BITS, AC_TABLE_BYTES, DC_TABLE_BYTES, STANDARD_CODES, build_ac, build_dc, same_codes
from .huffman_decoding import (  # fmt: skip
    AC_TABLE,
    BLOCK_BYTES,
    BLOCK_ROW,
    BLOCKS_PER_MCU,
    COLUMN,
    DC_TABLE,
    FIRST_GROUP,
    GROUP_BLOCKS,
    GROUP_BYTES,
    LAST,
    LAST_DC,
    LENGTHS,
    PLACES,
    decode_row,
    skip_row,
)
from .inverse_dct import SPARSE, transform_flat, transform_sparse, transform_whole
from .jpeg_tables import DECODE_WINDOW
from .markers import quantisation_factor, read_frame
from .progressive_memory import bytes_of_coefficients, place_coefficients
from .restart_segments import begin_segment, past_scan, segment_is_over
from .work_area import (  # fmt: skip
    ACROSS,
    BLOCK_ROWS,
    BYTES_AT,
    COEFFICIENTS,
    COEFFICIENTS_STOP,
    DATA_STOP,
    DOWN,
    FACTORS,
    FIRST_MCU,
    FIRST_ROW,
    GROUPS,
    HAZARD,
    LAST_PIXELS,
    LEFT,
    LENGTHS_AT,
    PART,
    PART_BYTES,
    PARTS,
    PLAN,
    RECORD,
    RIGHT,
    ROWS,
    SEGMENT,
    SINGLE,
    SOURCE,
    SPECS,
    SPECS_STOP,
    STATE,
    STOP_MCU,
    STOP_ROW,
    STRIDE,
    STRIP,
    TABLES,
    TILE,
)

asked = DECODE_WINDOW.at

_calloc = kinds.ExternalFunction("calloc", kinds.int64(kinds.int64, kinds.int64))
_free = kinds.ExternalFunction("free", kinds.void(kinds.int64))
_madvise = kinds.ExternalFunction("madvise", kinds.int32(kinds.int64, kinds.int64, kinds.int32))
_HUGE_PAGES, _HUGE = 14, 1 << 21  # MADV_HUGEPAGE, bytes of a huge page.
_LINUX = sys.platform == "linux"
LARGEST_KEPT = 1 << 30
"""Most bytes of coefficients for a progressive file. libjpeg-turbo decodes larger files."""

HANDED_OVER = 1
"""Status of files that libjpeg-turbo has to decode."""

# Constants that all threads read: positions of coefficients, then the standard's tables.
_PLACE_BYTES = 256
KNOWN_DC, KNOWN_AC = _PLACE_BYTES, _PLACE_BYTES + 2 * DC_TABLE_BYTES
CONSTANT_BYTES = KNOWN_AC + 2 * AC_TABLE_BYTES


@inlined
def _round_up(value, unit):
    return (value + unit - 1) // unit * unit


def room_for(size: int, width: int) -> int:
    """Most bytes of work memory for a file of `size` bytes that is `width` pixels wide."""
    # Strips: at most 35 rows (4:2:0). Tiles and rounding take less than 32 KB.
    return ROWS + size + PADDING + 36 * width + (1 << 15)


@inlined
def _dc_table(work, slot, payload, known):
    """Address of a DC table for the codes at `payload`; 0 if the codes are invalid."""
    for k in range(2):
        if same_codes(known + KNOWN_DC + k * DC_TABLE_BYTES, payload):
            return known + KNOWN_DC + k * DC_TABLE_BYTES
    table = work + TABLES + slot * (DC_TABLE_BYTES + AC_TABLE_BYTES)
    return table if build_dc(table, payload) else np.int64(0)


@inlined
def _ac_table(work, slot, payload, known):
    """Address of an AC table for the codes at `payload`; 0 if the codes are invalid."""
    for k in range(2):
        if same_codes(known + KNOWN_AC + k * AC_TABLE_BYTES, payload):
            return known + KNOWN_AC + k * AC_TABLE_BYTES
    table = work + TABLES + slot * (DC_TABLE_BYTES + AC_TABLE_BYTES) + DC_TABLE_BYTES
    return table if build_ac(table, payload, work + SINGLE) else np.int64(0)


@inlined
def _set_tables(work, known):
    """Find or build the tables of all components; False if one is invalid. Fills in the records of an MCU's blocks, except for
    addresses."""
    spec = work + SPECS
    for k in range(load_i64(work + COMPONENTS)):
        part = work + FIRST_COMPONENT + k * COMPONENT_BYTES
        dc_codes, ac_codes = load_i64(part + DC_CODES), load_i64(part + AC_CODES)
        dc = ac = np.int64(0)
        if k == 2:  # Nearly always the tables of the second component.
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
            store_i64(spec + LAST, work + STATE + LAST_DC + 8 * k)
            store_i64(spec + BLOCKS_PER_MCU, load_i64(part + SAMPLING_H))
            store_i64(spec + COLUMN, block % load_i64(part + SAMPLING_H))
            store_i64(spec + BLOCK_ROW, block // load_i64(part + SAMPLING_H))
            spec += BLOCK_BYTES
    store_i64(work + PLAN + SPECS_STOP, spec)
    return True


@inlined
def _set_factors(work, known):
    """Quantisation factors of each component in rows of eight, each row four times: the multipliers of the transform."""
    for k in range(load_i64(work + COMPONENTS)):
        source, factors = load_i64(work + FIRST_COMPONENT + k * COMPONENT_BYTES + QUANTISATION), work + FACTORS + 512 * k
        for at in range(64):
            place = factors + np.int64(load_u16(known + 2 * at))
            for copy in range(GROUP_BLOCKS):
                store_u16(place + 16 * copy, np.uint16(quantisation_factor(source, at)))


@inlined
def _set_window(work, request):
    """Compute the MCUs that the window needs. Windows of grey pixels need no chroma."""
    plan = work + PLAN
    chroma = load_i64(work + COMPONENTS) == 3 and load_i64(request + asked.channels) == 3
    h, v = load_i64(work + LARGEST_H), load_i64(work + LARGEST_V)
    x, y, w, height = load_i64(request + asked.x), load_i64(request + asked.y), load_i64(request + asked.w), load_i64(request + asked.h)
    across, down = (load_i64(work + WIDTH) + 8 * h - 1) // (8 * h), (load_i64(work + HEIGHT) + 8 * v - 1) // (8 * v)
    # The filter reads one sample of chroma beyond the window on each side.
    beyond_x, beyond_y = (h if chroma and h == 2 else 0), (v if chroma and v == 2 else 0)
    store_i64(plan + ACROSS, across)
    store_i64(plan + DOWN, down)
    first = larger(x - beyond_x, 0) // (8 * h)
    if load_i64(work + MARKER) == PROGRESSIVE:
        first &= -GROUP_BLOCKS  # Groups of a progressive file start at multiples of GROUP_BLOCKS.
    store_i64(plan + FIRST_MCU, first)
    store_i64(plan + STOP_MCU, smaller((x + w - 1 + beyond_x) // (8 * h) + 1, across))
    store_i64(plan + FIRST_ROW, larger(y - beyond_y, 0) // (8 * v))
    store_i64(plan + STOP_ROW, smaller((y + height - 1 + beyond_y) // (8 * v) + 1, down))
    store_i64(plan + PARTS, 3 if chroma else 1)


@inlined
def _set_memory(work, request):
    """Assign memory for coefficients and a strip to each component that the window needs; False if the memory is too small."""
    plan, spec = work + PLAN, work + SPECS
    mcus = load_i64(plan + STOP_MCU) - load_i64(plan + FIRST_MCU)
    at = work + ROWS
    stop = load_i64(request + asked.work) + load_i64(request + asked.room)
    for k in range(load_i64(plan + PARTS)):
        source, part = work + FIRST_COMPONENT + k * COMPONENT_BYTES, plan + PART + k * PART_BYTES
        h, v = load_i64(source + SAMPLING_H), load_i64(source + SAMPLING_V)
        store_i64(part + GROUPS, TILE * h // GROUP_BLOCKS)
        store_i64(part + BLOCK_ROWS, v)
        store_i64(part + STRIDE, _round_up(_round_up(mcus, TILE) * h * 8 + LEFT + RIGHT, 64))
        store_i64(part + COEFFICIENTS, at)
        at += v * (TILE * h // GROUP_BLOCKS) * GROUP_BYTES
    store_i64(plan + COEFFICIENTS_STOP, at)
    for k in range(load_i64(plan + PARTS)):
        part = plan + PART + k * PART_BYTES
        groups, v, stride = load_i64(part + GROUPS), load_i64(part + BLOCK_ROWS), load_i64(part + STRIDE)
        store_i64(part + LENGTHS_AT, at)
        store_i64(part + STRIP, at + _round_up(v * groups * GROUP_BLOCKS, 64) + LEFT)
        at += _round_up(v * groups * GROUP_BLOCKS, 64) + stride * (8 * v + 1)
        if at + PADDING > stop:
            return False
        for length in range(load_i64(part + LENGTHS_AT), load_i64(part + LENGTHS_AT) + v * groups * GROUP_BLOCKS):
            store_u8(length, np.uint8(1))
    store_i64(plan + BYTES_AT, at)
    # The remaining memory takes a copy of one segment, which is at most as long as all data.
    if at + (load_i64(plan + DATA_STOP) - load_i64(plan + SOURCE)) + PADDING > stop:
        return False
    for at_spec in range(spec, load_i64(plan + SPECS_STOP), BLOCK_BYTES):
        k = (load_i64(at_spec + LAST) - (work + STATE + LAST_DC)) >> 3
        if k >= load_i64(plan + PARTS):
            store_i64(at_spec + FIRST_GROUP, 0)
            continue
        part, row = plan + PART + k * PART_BYTES, load_i64(at_spec + BLOCK_ROW)
        groups = load_i64(part + GROUPS)
        store_i64(at_spec + FIRST_GROUP, load_i64(part + COEFFICIENTS) + row * groups * GROUP_BYTES)
        store_i64(at_spec + LENGTHS, load_i64(part + LENGTHS_AT) + row * groups * GROUP_BLOCKS)
    return True


@inlined
def _walk(work, places, mcu, start, stop):
    """Process MCUs from `mcu` on: skip MCUs before `start`, decode the tile from `start` to `stop`. False if the data is invalid."""
    state, plan = work + STATE, work + PLAN
    interval, total = load_i64(work + RESTART), load_i64(plan + ACROSS) * load_i64(plan + DOWN)
    specs, specs_stop = work + SPECS, load_i64(plan + SPECS_STOP)
    noting = wants_positions(work)
    if interval != 0 and start // interval > mcu // interval:  # Skip segments without needed MCUs.
        while load_i64(plan + SEGMENT) < start // interval - 1:
            if not begin_segment(work):
                return False
        mcu = start // interval * interval
    if interval == 0 and load_i64(plan + SEGMENT) < 0 and not begin_segment(work):
        return False
    if noting and mcu == 0:
        note_position(work, mcu)
    if mcu < start and load_i64(plan + RECORD) != 0:
        mcu = go_to_position(work, mcu, start)
    while mcu < stop:
        if interval != 0 and mcu % interval == 0 and not begin_segment(work):
            return False
        end = start if mcu < start else stop
        if interval != 0:
            end = smaller(end, mcu - mcu % interval + interval)
        if noting:
            end = smaller(end, next_mark(work, mcu))
        if mcu < start:
            good = skip_row(state, specs, specs_stop, end - mcu)
        else:
            good = decode_row(state, specs, specs_stop, places, mcu - start, end - start)
        if not good or not segment_is_over(work, interval != 0 and end % interval == 0 and end < total):
            return False
        mcu = end
        if noting:
            note_position(work, mcu)
    return True


# --- samples


@inlined
def _transform_tile(work, request, row, first, count):
    """Write samples of `count` MCUs of a row to the strips, from the window's MCU `first` on, behind the last row of the row before."""
    plan = work + PLAN
    bottom, top = load_i64(request + asked.y), load_i64(request + asked.y) + load_i64(request + asked.h)
    for k in range(load_i64(plan + PARTS)):
        part, factors = plan + PART + k * PART_BYTES, work + FACTORS + 512 * k
        groups, stride, rows = load_i64(part + GROUPS), load_i64(part + STRIDE), load_i64(part + BLOCK_ROWS)
        group, length = load_i64(part + COEFFICIENTS), load_i64(part + LENGTHS_AT)
        h = groups * GROUP_BLOCKS // TILE
        used = _round_up(count * h, GROUP_BLOCKS) // GROUP_BLOCKS
        for v in range(rows):
            out = load_i64(part + STRIP) + (8 * v + 1) * stride + 8 * h * first
            begin = 8 * (row * rows + v)
            if k == 0 and (begin >= top or begin + 8 <= bottom):  # The window needs only the chroma of this row.
                group, length = group + groups * GROUP_BYTES, length + groups * GROUP_BLOCKS
                continue
            for _ in range(used):
                lengths = np.int64(load_i32(length))
                more = ((lengths + 0x01010101 * (127 - SPARSE)) & 0x80808080) != 0
                seen = np.int64(0) if lengths == 0x01010101 else (np.int64(-1) if more else np.int64(2))
                _transform_group(group, seen, factors, out, stride, work)
                group, length, out = group + GROUP_BYTES, length + GROUP_BLOCKS, out + 8 * GROUP_BLOCKS
            group, length = group + (groups - used) * GROUP_BYTES, length + (groups - used) * GROUP_BLOCKS


@inlined
def _transform_kept(work, request, row):
    """Write samples of a row of MCUs of a progressive file to the strips."""
    plan = work + PLAN
    bottom, top = load_i64(request + asked.y), load_i64(request + asked.y) + load_i64(request + asked.h)
    for k in range(load_i64(plan + PARTS)):
        part, source, factors = plan + PART + k * PART_BYTES, work + FIRST_COMPONENT + k * COMPONENT_BYTES, work + FACTORS + 512 * k
        h, rows, stride = load_i64(source + SAMPLING_H), load_i64(source + SAMPLING_V), load_i64(part + STRIDE)
        first = load_i64(plan + FIRST_MCU) * h // GROUP_BLOCKS
        stop = _round_up(load_i64(plan + STOP_MCU) * h, GROUP_BLOCKS) // GROUP_BLOCKS
        for v in range(rows):
            begin = 8 * (row * rows + v)
            if k == 0 and (begin >= top or begin + 8 <= bottom):
                continue
            start = (row * rows + v) * load_i64(source + ROW_GROUPS)
            out = load_i64(part + STRIP) + (8 * v + 1) * stride
            for at in range(start + first, start + stop):
                masks = load_i64(source + MASKS) + 8 * GROUP_BLOCKS * at
                seen = load_i64(masks) | load_i64(masks + WORD) | load_i64(masks + 2 * WORD) | load_i64(masks + 3 * WORD)
                _transform_group(load_i64(source + ALL_COEFFICIENTS) + at * GROUP_BYTES, seen, factors, out, stride, work)
                out += 8 * GROUP_BLOCKS


@inlined
def _transform_group(group, seen, factors, out, stride, work):
    """Transform a group. `seen` is the union of its blocks' masks of nonzero coefficients, without the first coefficient."""
    if seen == 0:
        transform_flat(group, factors, out, stride, work + HAZARD)
    elif shift_right(seen, SPARSE) == 0:
        transform_sparse(group, factors, out, stride, work + HAZARD)
    else:
        transform_whole(group, factors, out, stride, work + HAZARD)


@inlined
def _extend_chroma(work):
    """Repeat the first and last column of the picture's chroma beyond its edges, as libjpeg's filter does."""
    plan, h = work + PLAN, load_i64(work + LARGEST_H)
    last = (load_i64(work + WIDTH) + h - 1) // h - 8 * load_i64(plan + FIRST_MCU)
    for k in range(1, 3):
        part = plan + PART + k * PART_BYTES
        stride, at = load_i64(part + STRIDE), load_i64(part + STRIP)
        for _ in range(9):
            if load_i64(plan + FIRST_MCU) == 0:
                store_u8(at - 1, load_u8(at))
            if last <= stride - LEFT - RIGHT:
                store_u8(at + last, load_u8(at + last - 1))
            at += stride


@inlined
def _colour_row(work, request, y, row, out):
    """Write row `y` of the picture, three bytes per pixel."""
    plan, x, width = work + PLAN, load_i64(request + asked.x), load_i64(request + asked.w)
    h, v = load_i64(work + LARGEST_H), load_i64(work + LARGEST_V)
    part = plan + PART
    luma = load_i64(part + STRIP) + (y - 8 * v * row + 1) * load_i64(part + STRIDE) + x - 8 * h * load_i64(plan + FIRST_MCU)
    blue = red = near = np.int64(0)
    if load_i64(plan + PARTS) == 3:
        part += PART_BYTES
        stride, at = load_i64(part + STRIDE), y // v
        beside = smaller(larger(at + (1 if y & 1 else -1), 0), (load_i64(work + HEIGHT) + 1) // 2 - 1)
        near = (beside - at) * stride
        place = (at - 8 * row + 1) * stride + x // h - 8 * load_i64(plan + FIRST_MCU)
        blue, red = load_i64(part + STRIP) + place, load_i64(part + PART_BYTES + STRIP) + place
    lower, blue_first = y & 1, load_i64(request + asked.blue_first)
    # Pixels that share chroma stay together: if the first column is odd, it is the second of the first 32 pixels.
    drop = x & (h - 1)
    luma -= drop
    while width > 0:
        target = out if width >= PIXELS and drop == 0 else work + LAST_PIXELS
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
    """Write row `y` of the picture's luma."""
    plan, part = work + PLAN, work + PLAN + PART
    h, v = load_i64(work + LARGEST_H), load_i64(work + LARGEST_V)
    left = load_i64(request + asked.x) - 8 * h * load_i64(plan + FIRST_MCU)
    luma = load_i64(part + STRIP) + (y - 8 * v * row + 1) * load_i64(part + STRIDE) + left
    copy_bytes(out, luma, load_i64(request + asked.w))


@inlined
def _keep_last_row(work):
    """Copy the last row of samples to the place before the next row of MCUs."""
    for k in range(load_i64(work + PLAN + PARTS)):
        part = work + PLAN + PART + k * PART_BYTES
        strip, stride = load_i64(part + STRIP) - LEFT, load_i64(part + STRIDE)
        copy_bytes(strip, strip + 8 * load_i64(part + BLOCK_ROWS) * stride, stride)


@inlined
def _decode_rows(work, request):
    """Decode the window; False if the data is invalid."""
    plan, constants = work + PLAN, load_i64(request + asked.constants)
    y, out, channels = load_i64(request + asked.y), load_i64(request + asked.out), load_i64(request + asked.channels)
    stop, row_bytes = y + load_i64(request + asked.h), load_i64(request + asked.w) * channels
    first_y, ring_stop, take = y, load_i64(request + asked.ring_stop), load_i64(request + asked.take)
    mcu_rows = 8 * load_i64(work + LARGEST_V)
    looks_below = load_i64(plan + PARTS) == 3 and load_i64(work + LARGEST_V) == 2
    mcu = np.int64(0)
    for row in range(load_i64(plan + FIRST_ROW), load_i64(plan + STOP_ROW)):
        row_start = row * load_i64(plan + ACROSS)
        begin, stop_mcu = row_start + load_i64(plan + FIRST_MCU), row_start + load_i64(plan + STOP_MCU)
        if load_i64(work + MARKER) == PROGRESSIVE:
            _transform_kept(work, request, row)
            stop_mcu = begin
        for tile in range(begin, stop_mcu, TILE):
            end = smaller(tile + TILE, stop_mcu)
            clear_bytes(load_i64(plan + PART + COEFFICIENTS), load_i64(plan + COEFFICIENTS_STOP) - load_i64(plan + PART + COEFFICIENTS))
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
            if out == ring_stop:
                out = load_i64(request + asked.out)
            y += 1
        if take != 0:
            call2(take, load_i64(request + asked.state), y - first_y)
        _keep_last_row(work)
    return y == stop


@compiled(1)
def decode_window(request):
    """Decode the window that `request` describes. Returns 0, or HANDED_OVER if libjpeg-turbo has to decode it (the output is then
    undefined).

    Without `data` it builds the constants at `out` for the codes at `constants`. Doing that here compiles the code only once.
    """
    work, known = load_i64(request + asked.work), load_i64(request + asked.constants)
    data, size = load_i64(request + asked.data), load_i64(request + asked.bytes)
    if data == 0:
        return 0 if _build_constants(known, load_i64(request + asked.out)) else HANDED_OVER
    if load_i64(request + asked.room) < ROWS or not read_frame(data, size, work):
        return HANDED_OVER
    h, width = load_i64(work + LARGEST_H), load_i64(work + WIDTH)
    components = load_i64(work + COMPONENTS)
    if (
        width != load_i64(request + asked.picture_width)
        or load_i64(work + HEIGHT) != load_i64(request + asked.picture_height)
        or components != load_i64(request + asked.picture_components)
        or (h == 2 and width <= 4)  # libjpeg does not smooth planes of one or two columns of chroma.
    ):
        return HANDED_OVER
    plan = work + PLAN
    store_i64(plan + SOURCE, load_i64(work + SCAN_DATA))
    store_i64(plan + DATA_STOP, data + size)
    store_i64(plan + SEGMENT, -1)
    clear_bytes(work + HAZARD, 64)
    store_i64(plan + RECORD, 0)
    store_i64(request + asked.found, 0)
    _set_window(work, request)
    _set_factors(work, known)
    good = _decode_progressive(work, request) if load_i64(work + MARKER) == PROGRESSIVE else _decode_sequential(work, request)
    hazard = np.int64(0)
    for at in range(work + HAZARD, work + HAZARD + 64, 8):
        hazard |= load_i64(at)
    return 0 if good and hazard == 0 else HANDED_OVER


@inlined
def _decode_sequential(work, request):
    """Decode the window of a file of one scan; False if the data is invalid."""
    if not _set_tables(work, load_i64(request + asked.constants)) or not _set_memory(work, request):
        return False
    plan = work + PLAN
    beside = load_i64(plan + FIRST_ROW) > 0 or load_i64(plan + STOP_MCU) - load_i64(plan + FIRST_MCU) < load_i64(plan + ACROSS)
    index = load_i64(request + asked.index) if beside and load_i64(work + RESTART) == 0 else np.int64(0)
    store_i64(request + asked.found, find_positions(work, index, load_i64(request + asked.data), load_i64(request + asked.bytes)))
    return _decode_rows(work, request) and past_scan(work) != 0


@inlined
def _decode_progressive(work, request):
    """Decode the window of a progressive file; False if the data is invalid. The memory of its coefficients is freed immediately,
    because other files rarely need as much."""
    store_i64(work + PLAN + SPECS_STOP, work + SPECS)
    if not _set_memory(work, request):
        return False
    size = bytes_of_coefficients(work)
    memory = _calloc(size, 1) if size <= LARGEST_KEPT and load_i64(request + asked.scans) != 0 else np.int64(0)
    if memory == 0:
        return False
    begin = (memory + _HUGE - 1) & -_HUGE
    if _LINUX and memory + size >= begin + _HUGE:  # 10,000 page faults of a picture of 12 megapixels become 20
        _madvise(begin, (memory + size - begin) & -_HUGE, np.int32(_HUGE_PAGES))
    place_coefficients(work, memory)
    good = call2(load_i64(request + asked.scans), work, load_i64(request + asked.constants)) != 0 and _decode_rows(work, request)
    _free(memory)
    return good


@inlined
def _build_constants(payloads, constants):
    """Build tables for the codes at `payloads` (272 bytes each: DC, DC, AC, AC) in `constants`. Returns whether the codes are valid."""
    single = constants + CONSTANT_BYTES
    good = True
    for k in range(2):
        good = good and build_dc(constants + KNOWN_DC + k * DC_TABLE_BYTES, payloads + 272 * k)
        good = good and build_ac(constants + KNOWN_AC + k * AC_TABLE_BYTES, payloads + 272 * (2 + k), single)
    return good


@cache
def known_constants() -> np.ndarray:
    """Constants for all threads: positions of coefficients, and the standard's Huffman tables; uint8, 64-byte aligned."""
    memory = np.zeros(CONSTANT_BYTES + (8 << AC_BITS) + 64, np.uint8)
    start = -address_of(memory) % 64
    found = memory[start:]
    found[: PLACES.nbytes] = PLACES.view(np.uint8)
    payloads = np.zeros((4, 272), np.uint8)
    for row, codes in zip(payloads, STANDARD_CODES, strict=True):
        row[: len(codes)] = np.frombuffer(codes, np.uint8)
    request = DECODE_WINDOW.zeros(1)[0]
    request[DECODE_WINDOW.word.constants], request[DECODE_WINDOW.word.out] = address_of(payloads), address_of(found)
    assert decode_window(address_of(request)) == 0, "the standard's tables"
    return found

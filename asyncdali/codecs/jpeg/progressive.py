"""The scans of progressive files (ITU-T T.81, annex G): Huffman codes to coefficients, down to the window's last row.

A scan contains a band of coefficients, or one more bit of them. Coefficients are kept until the last scan, in groups with the layout of
huffman_decoding.py. Each block has a mask of its nonzero coefficients, in zigzag order.
"""

from __future__ import annotations

import numpy as np

from ...compiled.intrinsics import (  # fmt: skip
    load_i16,
    load_i64,
    load_u8,
    load_u16,
    lowest_bit,
    shift_left,
    shift_right,
    smaller,
    store_i16,
    store_i64,
    store_u8,
)
from ...compiled.step import compiled, inlined
from .bit_reader import refilled
from .fields import (  # fmt: skip
    AC_TABLES,
    ALL_COEFFICIENTS,
    COMPONENT_BYTES,
    COMPONENTS,
    DC_TABLES,
    FIRST_COMPONENT,
    HEIGHT,
    LARGEST_H,
    LARGEST_V,
    MASKS,
    NAME,
    PRECISIONS,
    RESTART,
    ROW_GROUPS,
    SAMPLING_H,
    SAMPLING_V,
    SCAN_HEADER,
    WIDTH,
)
from .huffman import DC_TABLE_BYTES, LARGEST_AC, build_dc, build_symbols, extended, symbol_of
from .huffman_decoding import (  # fmt: skip
    AC_TABLE,
    AT,
    BLOCK_BYTES,
    BLOCK_ROW,
    BLOCKS_PER_MCU,
    BUFFER,
    COLUMN,
    COUNT,
    DC_TABLE,
    END_RUN,
    FIRST_GROUP,
    GROUP_BLOCKS,
    GROUP_BYTES,
    LAST,
    LAST_DC,
    LENGTHS,
    LIMIT,
    dc_difference,
)
from .markers import big_endian, read_huffman
from .restart_segments import begin_segment, past_scan, segment_is_over
from .work_area import (  # fmt: skip
    ACROSS,
    DATA_STOP,
    DOWN,
    PARTS,
    PLAN,
    SCAN_COMPONENT,
    SCAN_SPECS_STOP,
    SEGMENT,
    SOURCE,
    SPECS,
    STATE,
    STOP_ROW,
    TABLES,
)

_LARGEST_SHIFT = 13
"""Largest point transform: the most low bits that a scan may leave to later scans."""


# --- runs: blocks within one row and one segment


@inlined
def _block(spec, column):
    """Address of the coefficients of a block of the row."""
    return load_i64(spec + FIRST_GROUP) + (column >> 2) * GROUP_BYTES + (column & 3) * 16


@inlined
def _save(state, buffer, count, at, run):
    store_i64(state + BUFFER, buffer)
    store_i64(state + COUNT, count)
    store_i64(state + AT, at)
    store_i64(state + END_RUN, run)


@inlined
def _dc_run(state, specs, stop, first, last, low, refines):
    """Decode DC values of the MCUs first..last of a row, or one more bit of them."""
    buffer, count, at, limit = load_i64(state + BUFFER), load_i64(state + COUNT), load_i64(state + AT), load_i64(state + LIMIT)
    for mcu in range(first, last):
        for spec in range(specs, stop, BLOCK_BYTES):
            if at > limit:
                return False
            block = _block(spec, mcu * load_i64(spec + BLOCKS_PER_MCU) + load_i64(spec + COLUMN))
            buffer, count, at = refilled(buffer, count, at)
            if refines:
                bit = shift_right(buffer, 63)
                store_i16(block, np.int16(np.int64(load_i16(block)) | bit << low))
                buffer, count = shift_left(buffer, 1), count - 1
                continue
            value, bits = dc_difference(load_i64(spec + DC_TABLE), buffer)
            if bits == 0:
                return False
            buffer, count = shift_left(buffer, bits), count - bits
            seat = load_i64(spec + LAST)
            value += load_i64(seat)
            store_i64(seat, value)
            store_i16(block, np.int16(value << low))
    _save(state, buffer, count, at, 0)
    return True


@inlined
def _ac_run(state, spec, places, first, last, start, end, low):
    """Decode coefficients start..end of the blocks first..last of a row."""
    buffer, count, at, limit = load_i64(state + BUFFER), load_i64(state + COUNT), load_i64(state + AT), load_i64(state + LIMIT)
    run, table, masks = load_i64(state + END_RUN), load_i64(spec + AC_TABLE), load_i64(spec + LENGTHS)
    column = first
    while column < last:
        if run > 0:
            covered = smaller(run, last - column)
            run -= covered
            column += covered
            continue
        if at > limit:
            return False
        block, seen = _block(spec, column), load_i64(masks + 8 * column)
        k = start
        while k <= end:
            buffer, count, at = refilled(buffer, count, at)
            entry = symbol_of(table, buffer)
            if entry < 0:
                return False
            bits, zeros, size = entry & 255, entry >> 12, (entry >> 8) & 15
            buffer, count = shift_left(buffer, bits), count - bits
            if size != 0:
                k += zeros
                if k > end or size > LARGEST_AC or size + low > 14:
                    return False
                value = extended(shift_right(buffer, 64 - size), size)
                buffer, count = shift_left(buffer, size), count - size
                store_i16(block + np.int64(load_u16(places + 2 * k)), np.int16(value << low))
                seen |= shift_left(1, k)
                k += 1
            elif zeros == 15:
                k += 16
            else:
                run = (1 << zeros) + shift_right(shift_right(buffer, 1), 63 - zeros) - 1
                buffer, count = shift_left(buffer, zeros), count - zeros
                break
        store_i64(masks + 8 * column, seen)
        column += 1
    _save(state, buffer, count, at, run)
    return True


@inlined
def _corrected(block, places, passed, plus, buffer, count, at):
    """Decode one more bit of the coefficients in the mask `passed`; (buffer, count, at)."""
    while passed != 0:
        buffer, count, at = refilled(buffer, count, at)
        for _ in range(48):
            if passed == 0:
                break
            place = block + np.int64(load_u16(places + 2 * lowest_bit(passed)))
            passed &= passed - 1
            value = np.int64(load_i16(place))
            sign = value >> 63
            store_i16(place, np.int16(value + (((plus & (buffer >> 63)) ^ sign) - sign)))
            buffer, count = shift_left(buffer, 1), count - 1
    return buffer, count, at


@inlined
def _ac_refining_run(state, spec, places, first, last, start, end, low):
    """Decode one more bit of coefficients start..end of the blocks first..last of a row, and new nonzero coefficients among them."""
    buffer, count, at, limit = load_i64(state + BUFFER), load_i64(state + COUNT), load_i64(state + AT), load_i64(state + LIMIT)
    run, table, masks = load_i64(state + END_RUN), load_i64(spec + AC_TABLE), load_i64(spec + LENGTHS)
    plus, band = np.int64(1) << low, shift_right(-1, 63 - end)
    for column in range(first, last):
        if at > limit:
            return False
        block, seen = _block(spec, column), load_i64(masks + 8 * column)
        k = start
        while run == 0 and k <= end:
            buffer, count, at = refilled(buffer, count, at)
            entry = symbol_of(table, buffer)
            if entry < 0:
                return False
            bits, zeros, size = entry & 255, entry >> 12, (entry >> 8) & 15
            buffer, count = shift_left(buffer, bits), count - bits
            if size == 0 and zeros != 15:
                run = (1 << zeros) + shift_right(shift_right(buffer, 1), 63 - zeros)
                buffer, count = shift_left(buffer, zeros), count - zeros
                break
            if size > 1:
                return False
            fresh = plus if buffer < 0 else -plus
            if size != 0:
                buffer, count = shift_left(buffer, 1), count - 1
            # The new coefficient's position follows `zeros` coefficients that are still 0.
            empty = ~seen & shift_left(-1, k)
            for _ in range(zeros):
                empty &= empty - 1
            if empty & band == 0:
                return False
            place = lowest_bit(empty)
            passed = seen & shift_left(-1, k) & (shift_left(1, place) - 1)
            buffer, count, at = _corrected(block, places, passed, plus, buffer, count, at)
            if size != 0:
                store_i16(block + np.int64(load_u16(places + 2 * place)), np.int16(fresh))
                seen |= shift_left(1, place)
            k = place + 1
        if run > 0:
            if k <= end:
                buffer, count, at = _corrected(block, places, seen & shift_left(-1, k) & band, plus, buffer, count, at)
            run -= 1
        store_i64(masks + 8 * column, seen)
    _save(state, buffer, count, at, run)
    return True


# --- scans


@inlined
def _open_scan(work, header, length):
    """Fill in the blocks of the scan's MCUs. False if the scan names components out of order, or tables that are missing or invalid."""
    plan, spec, count = work + PLAN, work + SPECS, np.int64(load_u8(header))
    if length != 4 + 2 * count or count < 1 or count > load_i64(work + COMPONENTS):
        return False
    start, high = np.int64(load_u8(header + 1 + 2 * count)), np.int64(load_u8(header + 3 + 2 * count)) >> 4
    k = np.int64(-1)
    for number in range(count):
        name, tables = np.int64(load_u8(header + 1 + 2 * number)), np.int64(load_u8(header + 2 + 2 * number))
        k += 1
        while k < load_i64(work + COMPONENTS) and load_i64(work + FIRST_COMPONENT + k * COMPONENT_BYTES + NAME) != name:
            k += 1
        if k == load_i64(work + COMPONENTS) or tables >> 4 > 3 or tables & 15 > 3:
            return False
        part, table = work + FIRST_COMPONENT + k * COMPONENT_BYTES, work + TABLES + k * DC_TABLE_BYTES
        dc_codes, ac_codes = load_i64(work + DC_TABLES + 8 * (tables >> 4)), load_i64(work + AC_TABLES + 8 * (tables & 15))
        if start == 0:
            if high == 0 and (dc_codes == 0 or not build_dc(table, dc_codes)):
                return False
        elif ac_codes == 0 or not build_symbols(table, ac_codes):
            return False
        h, v = (load_i64(part + SAMPLING_H), load_i64(part + SAMPLING_V)) if count > 1 else (1, 1)
        for block in range(h * v):
            store_i64(spec + DC_TABLE, table)
            store_i64(spec + AC_TABLE, table)
            store_i64(spec + LAST, work + STATE + LAST_DC + 8 * k)
            store_i64(spec + BLOCKS_PER_MCU, h)
            store_i64(spec + COLUMN, block % h)
            store_i64(spec + BLOCK_ROW, block // h)
            spec += BLOCK_BYTES
    store_i64(plan + SCAN_COMPONENT, k)
    store_i64(plan + SCAN_SPECS_STOP, spec)
    return True


@inlined
def _follows(part, start, end, high, low):
    """Record the scan's coefficients of a component. Returns whether the scan is the next one that these coefficients need."""
    precisions = load_i64(part + PRECISIONS)
    for k in range(start, end + 1):
        if np.int64(load_u8(precisions + k)) != (high + 1 if high > 0 else 0):
            return False
        store_u8(precisions + k, np.uint8(low + 1))
    return True


@inlined
def _decode_scan(work, places, header):
    """Decode a scan; False if the data is invalid."""
    plan, state, count = work + PLAN, work + STATE, np.int64(load_u8(header))
    if not _open_scan(work, header, big_endian(header - 2) - 2):
        return False
    parameters = header + 1 + 2 * count
    start, end = np.int64(load_u8(parameters)), np.int64(load_u8(parameters + 1))
    high, low = np.int64(load_u8(parameters + 2)) >> 4, np.int64(load_u8(parameters + 2)) & 15
    band = start <= end <= 63 and (end == 0 if start == 0 else count == 1)
    if not band or low > _LARGEST_SHIFT or (high > 0 and low != high - 1):
        return False
    specs, stop = work + SPECS, load_i64(plan + SCAN_SPECS_STOP)
    for spec in range(specs, stop, BLOCK_BYTES):
        if load_i64(spec + COLUMN) == 0 and load_i64(spec + BLOCK_ROW) == 0:
            part = work + FIRST_COMPONENT + COMPONENT_BYTES * ((load_i64(spec + LAST) - (state + LAST_DC)) >> 3)
            if not _follows(part, start, end, high, low):
                return False
    across, down, needed = load_i64(plan + ACROSS), load_i64(plan + DOWN), load_i64(plan + STOP_ROW)
    if count == 1:  # A scan of a single component has only the blocks that cover the picture.
        part = work + FIRST_COMPONENT + COMPONENT_BYTES * load_i64(plan + SCAN_COMPONENT)
        h, v = 8 * load_i64(work + LARGEST_H), 8 * load_i64(work + LARGEST_V)
        across = (load_i64(work + WIDTH) * load_i64(part + SAMPLING_H) + h - 1) // h
        down = (load_i64(work + HEIGHT) * load_i64(part + SAMPLING_V) + v - 1) // v
        needed *= load_i64(part + SAMPLING_V)
        if start > 0 and load_i64(plan + SCAN_COMPONENT) >= load_i64(plan + PARTS):  # The window does not need this component.
            return begin_segment(work)
    # Rows below the window are not decoded. The next scan begins behind the next marker.
    interval, mcu, total = load_i64(work + RESTART), np.int64(0), across * smaller(down, needed)
    while mcu < total:
        if (mcu == 0 or (interval != 0 and mcu % interval == 0)) and not begin_segment(work):
            return False
        row, column = mcu // across, mcu % across
        last = smaller(total, (row + 1) * across)
        if interval != 0:
            last = smaller(last, mcu - mcu % interval + interval)
        for spec in range(specs, stop, BLOCK_BYTES):
            part = work + FIRST_COMPONENT + COMPONENT_BYTES * ((load_i64(spec + LAST) - (state + LAST_DC)) >> 3)
            at_row = row * (load_i64(part + SAMPLING_V) if count > 1 else 1) + load_i64(spec + BLOCK_ROW)
            groups = at_row * load_i64(part + ROW_GROUPS)
            store_i64(spec + FIRST_GROUP, load_i64(part + ALL_COEFFICIENTS) + groups * GROUP_BYTES)
            store_i64(spec + LENGTHS, load_i64(part + MASKS) + groups * GROUP_BLOCKS * 8)
        to = column + last - mcu
        if start == 0:
            good = _dc_run(state, specs, stop, column, to, low, high > 0)
        elif high == 0:
            good = _ac_run(state, specs, places, column, to, start, end, low)
        else:
            good = _ac_refining_run(state, specs, places, column, to, start, end, low)
        if not good or not segment_is_over(work, interval != 0 and last % interval == 0 and last < total):
            return False
        mcu = last
    return True


@inlined
def _next_scan(work, source):
    """Read the segments from the marker before `source` on: the header of the next scan; 0 at the end of the file, -1 if one is invalid."""
    stop = load_i64(work + PLAN + DATA_STOP)
    while True:
        marker = np.int64(load_u8(source - 1))
        if marker == 0xD9:
            return np.int64(0)
        if source + 2 > stop:
            return np.int64(-1)
        start = source + 2
        end = source + big_endian(source)
        if end < start or end + 2 > stop:
            return np.int64(-1)
        if marker == 0xDA:
            store_i64(work + PLAN + SOURCE, end)
            return start
        if marker == 0xC4:
            if not read_huffman(start, end, work):
                return np.int64(-1)
        elif marker == 0xDD and end - start == 2:
            store_i64(work + RESTART, big_endian(start))
        elif marker >> 4 != 0xE and marker != 0xFE:
            return np.int64(-1)
        if load_u8(end) != 0xFF:
            return np.int64(-1)
        source = end + 2


@compiled(2)
def decode_scans(work, places):
    """Decode all scans of the file, down to the window's last row. Returns 1, or 0 if the data is invalid or a bit of a coefficient never
    came. (libjpeg-turbo smooths pictures with missing bits.)

    This is a separate function, compiled when the first progressive file comes, because most data sets have no such file.
    """
    plan, header = work + PLAN, load_i64(work + SCAN_HEADER)
    while header > 0:
        store_i64(plan + SEGMENT, -1)
        if not _decode_scan(work, places, header):
            return 0
        source = past_scan(work)
        header = np.int64(-1) if source == 0 else _next_scan(work, source)
    for k in range(load_i64(work + COMPONENTS)):
        precisions = load_i64(work + FIRST_COMPONENT + k * COMPONENT_BYTES + PRECISIONS)
        for coefficient in range(64):
            if load_u8(precisions + coefficient) != 1:
                return 0
    return 1 if header == 0 else 0

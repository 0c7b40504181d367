"""Block positions of files that were decoded before: with them, a window of a later epoch begins near its first block.

Huffman codes must be read from the first one on, because every code says where the next one begins. Two things are enough to begin
elsewhere: the position of a block's first bit, and the DC values before the block. They are noted for one MCU in 128 pixels of each row,
as far as a file is read, and are kept for all threads under a digest of the whole file.

The index is filled until it is full, and stays as it is then. An epoch visits each file once, so an entry that replaces an older one
would be replaced itself before its next visit. No thread waits: two threads that read the same file write the same numbers.
"""

from __future__ import annotations

import os
from functools import cache

import numpy as np

from ...compiled.addresses import address_of
from ...compiled.intrinsics import (  # fmt: skip
    fetch_add,
    load_big_endian_64,
    load_i16,
    load_i32,
    load_i64,
    multiply_high,
    smaller,
    store_i16,
    store_i32,
    store_i64,
)
from ...compiled.step import inlined
from .entropy import AT, BUFFER, COUNT, LAST_DC
from .fields import LARGEST_H, offsets
from .segments import used_bits
from .work_area import ACROSS, BYTES_AT, DOWN, PER_ROW, PLAN, RECORD, SEGMENT_BITS, STATE

STEP_BLOCKS = 16
"""Blocks of luma from one noted position to the next, in a row."""
SMALLEST_FILE = 4096
_MOST_BITS = (1 << 31) - 1

# The index: bytes that records may take and those taken, where they lie; slots, one less than their number (a power of two); secrets.
CAPACITY, USED, MEMORY, SLOTS, LAST_SLOT = offsets(5)
_SECRETS = offsets(8, LAST_SLOT + 8)
_KEY_A, _KEY_B, _KEY_C, _FIRST_A, _FIRST_B, _FIRST_C, _LAST_A, _LAST_B = _SECRETS
# A slot: the file's digest, threads that wanted the slot, its record.
_FIRST, _SECOND, _CLAIMS, _RECORD = offsets(4)
_SLOT_BYTES = 32
_PROBES = 16

# A record: positions noted so far, room for how many; then int32 of each position, then int16[3] of each: DC values.
_NOTED, _ROOM, _POSITIONS = offsets(3)
_TYPICAL_RECORD = 1000
"""Bytes of the record of a picture of 500x375 pixels: decides how many slots there are."""


@inlined
def _mixed(a, b):
    """Both halves of the product, one on the other."""
    return (a * b) ^ np.int64(multiply_high(np.uint64(a), np.uint64(b)))


@inlined
def _digest(data, size, index):
    """128 bits that say which file this is; the secrets differ between processes, so nobody can make two files with one digest."""
    key_a, key_b, key_c = load_i64(index + _KEY_A), load_i64(index + _KEY_B), load_i64(index + _KEY_C)
    a, b, c = load_i64(index + _FIRST_A) ^ size, load_i64(index + _FIRST_B), load_i64(index + _FIRST_C)
    at, stop = data, data + size
    while at < stop:
        at = smaller(at, stop - 48)  # the last bytes once more
        a = _mixed(load_big_endian_64(at) ^ key_a, load_big_endian_64(at + 8) ^ a)
        b = _mixed(load_big_endian_64(at + 16) ^ key_b, load_big_endian_64(at + 24) ^ b)
        c = _mixed(load_big_endian_64(at + 32) ^ key_c, load_big_endian_64(at + 40) ^ c)
        at += 48
    last_a, last_b = load_i64(index + _LAST_A), load_i64(index + _LAST_B)
    return _mixed(a ^ last_a, b ^ c), _mixed(b ^ last_a, c ^ last_b) ^ a


@inlined
def _record_of(index, data, size, count):
    """Address of the record of a file, of `count` positions; a new one if there is none, 0 if there is no room."""
    first, second = _digest(data, size, index)
    for k in range(_PROBES):
        slot = load_i64(index + SLOTS) + _SLOT_BYTES * ((first + k) & load_i64(index + LAST_SLOT))
        record = fetch_add(slot + _RECORD, 0)
        if record != 0:
            if load_i64(slot + _FIRST) == first and load_i64(slot + _SECOND) == second:
                return record if load_i64(record + _ROOM) == count else np.int64(0)
            continue
        taken = (_POSITIONS + 10 * count + 7) & -8
        if load_i64(index + USED) + taken > load_i64(index + CAPACITY):
            return np.int64(0)
        if fetch_add(slot + _CLAIMS, 1) == 0:
            at = fetch_add(index + USED, taken)
            if at + taken > load_i64(index + CAPACITY):
                return np.int64(0)
            store_i64(load_i64(index + MEMORY) + at + _ROOM, count)
            store_i64(slot + _FIRST, first)
            store_i64(slot + _SECOND, second)
            fetch_add(slot + _RECORD, load_i64(index + MEMORY) + at)  # from here on other threads see it
            return load_i64(index + MEMORY) + at
    return np.int64(0)


@inlined
def _step(work):
    """MCUs from one noted position to the next."""
    return STEP_BLOCKS // load_i64(work + LARGEST_H)


@inlined
def find_positions(work, index, data, size):
    """Look the file up in `index` (0: there is none); whether positions are known already."""
    plan, step = work + PLAN, _step(work)
    per_row = (load_i64(plan + ACROSS) + step - 1) // step
    record = np.int64(0)
    if index != 0 and SMALLEST_FILE <= size < _MOST_BITS // 8:
        record = _record_of(index, data, size, per_row * load_i64(plan + DOWN))
    store_i64(plan + RECORD, record)
    store_i64(plan + PER_ROW, per_row)
    return record != 0 and fetch_add(record + _NOTED, 0) > 0


@inlined
def wants_positions(work):
    """Whether positions of the file are to be noted still."""
    plan = work + PLAN
    record = load_i64(plan + RECORD)
    return record != 0 and load_i64(record + _NOTED) < load_i64(plan + PER_ROW) * load_i64(plan + DOWN)


@inlined
def next_mark(work, mcu):
    """The first MCU behind `mcu` whose position is to be noted."""
    across, step = load_i64(work + PLAN + ACROSS), _step(work)
    row = mcu // across * across
    return row + smaller((mcu - row) // step * step + step, across)


@inlined
def _dc_values(record, count):
    return record + _POSITIONS + 4 * count


@inlined
def note_position(work, mcu):
    """Note where the bits of `mcu` begin, if it is the next one to be noted."""
    plan, state, record = work + PLAN, work + STATE, load_i64(work + PLAN + RECORD)
    across, per_row, step = load_i64(plan + ACROSS), load_i64(plan + PER_ROW), _step(work)
    number, count = mcu // across * per_row + mcu % across // step, per_row * load_i64(plan + DOWN)
    if mcu % across % step != 0 or number >= count or load_i64(record + _NOTED) != number:
        return
    for k in range(3):
        value = load_i64(state + LAST_DC + 8 * k)
        if value != np.int64(np.int16(value)):
            return
        store_i16(_dc_values(record, count) + 6 * number + 2 * k, np.int16(value))
    store_i32(record + _POSITIONS + 4 * number, np.int32(used_bits(work)))
    fetch_add(record + _NOTED, 0)  # what is above comes first, for other threads
    store_i64(record + _NOTED, number + 1)


@inlined
def go_to_position(work, mcu, start):
    """Go from `mcu` to the last noted one up to `start`; the MCU at which decoding is then."""
    plan, state, record = work + PLAN, work + STATE, load_i64(work + PLAN + RECORD)
    across, per_row, step = load_i64(plan + ACROSS), load_i64(plan + PER_ROW), _step(work)
    count = per_row * load_i64(plan + DOWN)
    number = smaller(start // across * per_row + start % across // step, fetch_add(record + _NOTED, 0) - 1)
    found = number // per_row * across + number % per_row * step
    position = np.int64(load_i32(record + _POSITIONS + 4 * number)) if number >= 0 else np.int64(0)
    if found <= mcu or not 0 <= position <= load_i64(plan + SEGMENT_BITS):
        return mcu
    for k in range(3):
        store_i64(state + LAST_DC + 8 * k, np.int64(load_i16(_dc_values(record, count) + 6 * number + 2 * k)))
    at = load_i64(plan + BYTES_AT) + (position >> 3)
    store_i64(state + BUFFER, (load_big_endian_64(at) >> 56) << (56 + (position & 7)))
    store_i64(state + COUNT, 8 - (position & 7))
    store_i64(state + AT, at + 1)
    return found


@cache
def index(capacity: int) -> np.ndarray:
    """The process's index of up to `capacity` bytes of records, as compiled code reads it: int64. The memory is taken as it is used."""
    slots = 1 << max(10, (2 * capacity // _TYPICAL_RECORD).bit_length())
    records, table = np.zeros(capacity // 8, np.int64), np.zeros(slots * _SLOT_BYTES // 8, np.int64)
    _keep.append((records, table))
    head = [records.nbytes, 0, address_of(records), address_of(table), slots - 1]
    return np.concatenate([np.array(head, np.int64), np.frombuffer(os.urandom(8 * len(_SECRETS)), np.int64)])


_keep: list[tuple[np.ndarray, np.ndarray]] = []
"""The memory that indices point to: compiled code of any pipeline may read it until the process ends."""

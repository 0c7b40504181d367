"""Block positions of files that were decoded before. With them, decoding a window in a later epoch starts near the window's first block.

Huffman codes must be read from the first one on, because every code says where the next one begins. Two facts allow a start elsewhere:
the position of a block's first bit, and the DC values before the block. They are recorded for one MCU in 128 pixels of each row, as far as
a file is read. All threads share them; the key is a digest of the whole file.

Once the index is full, it no longer changes. An epoch visits each file once, so a new entry that replaced an older one
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
from .fields import LARGEST_H, offsets
from .huffman_decoding import AT, BUFFER, COUNT, LAST_DC
from .restart_segments import used_bits
from .work_area import ACROSS, BYTES_AT, DOWN, PER_ROW, PLAN, RECORD, SEGMENT_BITS, STATE

STEP_BLOCKS = 16
"""Blocks of luma between two recorded positions in a row."""
SMALLEST_FILE = 4096
_MOST_BITS = (1 << 31) - 1

# The index: capacity of the memory for records, its used bytes, its address; the slots; the number of slots (a power of two) minus 1; the
# secrets of the digest.
CAPACITY, USED, MEMORY, SLOTS, LAST_SLOT = offsets(5)
_SECRETS = offsets(8, LAST_SLOT + 8)
_KEY_A, _KEY_B, _KEY_C, _FIRST_A, _FIRST_B, _FIRST_C, _LAST_A, _LAST_B = _SECRETS
# A slot: the file's digest, the number of threads that claimed the slot, its record.
_FIRST, _SECOND, _CLAIMS, _RECORD = offsets(4)
_SLOT_BYTES = 32
_PROBES = 16

# A record: number of positions recorded, capacity; then int32 per position, then int16[3] per position: DC values.
_NOTED, _ROOM, _POSITIONS = offsets(3)
_TYPICAL_RECORD = 1000
"""Bytes of the record of a picture of 500x375 pixels. The number of slots follows from it."""


@inlined
def _mixed(a, b):
    """The upper half of the product xor its lower half."""
    return (a * b) ^ np.int64(multiply_high(np.uint64(a), np.uint64(b)))


@inlined
def _digest(data, size, index):
    """A digest of 128 bits. The secrets differ between processes, so an attacker cannot construct two files with one digest."""
    key_a, key_b, key_c = load_i64(index + _KEY_A), load_i64(index + _KEY_B), load_i64(index + _KEY_C)
    a, b, c = load_i64(index + _FIRST_A) ^ size, load_i64(index + _FIRST_B), load_i64(index + _FIRST_C)
    at, stop = data, data + size
    while at < stop:
        at = smaller(at, stop - 48)  # The last step reads some bytes a second time.
        a = _mixed(load_big_endian_64(at) ^ key_a, load_big_endian_64(at + 8) ^ a)
        b = _mixed(load_big_endian_64(at + 16) ^ key_b, load_big_endian_64(at + 24) ^ b)
        c = _mixed(load_big_endian_64(at + 32) ^ key_c, load_big_endian_64(at + 40) ^ c)
        at += 48
    last_a, last_b = load_i64(index + _LAST_A), load_i64(index + _LAST_B)
    return _mixed(a ^ last_a, b ^ c), _mixed(b ^ last_a, c ^ last_b) ^ a


@inlined
def _record_of(index, data, size, count):
    """Address of the record of a file, with `count` positions. Makes a record if there is none; 0 if there is no room."""
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
            fetch_add(slot + _RECORD, load_i64(index + MEMORY) + at)  # This addition publishes the record to other threads.
            return load_i64(index + MEMORY) + at
    return np.int64(0)


@inlined
def _step(work):
    """MCUs between two recorded positions."""
    return STEP_BLOCKS // load_i64(work + LARGEST_H)


@inlined
def find_positions(work, index, data, size):
    """Look the file up in `index` (0: no index); returns whether positions are known already."""
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
    """Whether positions of the file still have to be recorded."""
    plan = work + PLAN
    record = load_i64(plan + RECORD)
    return record != 0 and load_i64(record + _NOTED) < load_i64(plan + PER_ROW) * load_i64(plan + DOWN)


@inlined
def next_mark(work, mcu):
    """The first MCU behind `mcu` whose position has to be recorded."""
    across, step = load_i64(work + PLAN + ACROSS), _step(work)
    row = mcu // across * across
    return row + smaller((mcu - row) // step * step + step, across)


@inlined
def _dc_values(record, count):
    return record + _POSITIONS + 4 * count


@inlined
def note_position(work, mcu):
    """Record where the bits of `mcu` begin, if `mcu` is the next one to record."""
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
    fetch_add(record + _NOTED, 0)  # A memory barrier: the writes above become visible first.
    store_i64(record + _NOTED, number + 1)


@inlined
def go_to_position(work, mcu, start):
    """Jump from `mcu` to the last recorded MCU up to `start`. Returns the MCU at which decoding continues."""
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
    """Make the process's index with up to `capacity` bytes of records: int64, read by compiled code. Memory is committed when used."""
    slots = 1 << max(10, (2 * capacity // _TYPICAL_RECORD).bit_length())
    records, table = np.zeros(capacity // 8, np.int64), np.zeros(slots * _SLOT_BYTES // 8, np.int64)
    _keep.append((records, table))
    head = [records.nbytes, 0, address_of(records), address_of(table), slots - 1]
    return np.concatenate([np.array(head, np.int64), np.frombuffer(os.urandom(8 * len(_SECRETS)), np.int64)])


_keep: list[tuple[np.ndarray, np.ndarray]] = []
"""The memory that indices point to. Compiled code of any pipeline may read it until the process ends."""

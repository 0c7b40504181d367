"""Which JPEGs the decoders of a GPU take, and what they and the CPU are told of them: a batch in a few calls.

Whether a decoder can take a file is a question to its header alone, so that the answer never changes.
"""

from __future__ import annotations

import numpy as np

from ...compiled.intrinsics import larger, load_f64, load_i64, load_u8, store_i64
from ...compiled.step import compiled, inlined
from .jpeg_kernels import HEADER_FIELDS, IS_JPEG
from .jpeg_sound_kernels import is_sound

SMALLEST_SIDE, LARGEST_SIDE = 64, 16000
_TAIL = 32  # files may be padded behind the end marker


@inlined
def _ends(data, size):
    """Whether the end marker is there: what is cut off is left to the decoder that says so."""
    found = False
    for k in range(2, _TAIL):
        found = found or (k <= size and load_u8(data + size - k) == 0xFF and load_u8(data + size - k + 1) == 0xD9)
    return found


@compiled(1)
def find_eligible(table):
    """0 addresses, 1 sizes, 2 headers, 3 samples, 4 int64[samples] to be filled in with 0 or 1."""
    eligible = 0
    for i in range(load_i64(table + 24)):
        data, size = load_i64(load_i64(table) + 8 * i), load_i64(load_i64(table + 8) + 8 * i)
        header = load_i64(table + 16) + 8 * HEADER_FIELDS * i
        width, height = load_i64(header + 8), load_i64(header + 16)
        found = load_i64(header) == IS_JPEG and load_i64(header + 24) == 3 and load_i64(header + 32) == 1 and load_i64(header + 56) == 1
        found = found and (load_i64(header + 48) == 0xC0 or load_i64(header + 48) == 0xC1)
        found = found and SMALLEST_SIDE <= width <= LARGEST_SIDE and SMALLEST_SIDE <= height <= LARGEST_SIDE
        found = found and _ends(data, size) and is_sound(data, size)
        store_i64(load_i64(table + 32) + 8 * i, 1 if found else 0)
        eligible += 1 if found else 0
    return eligible


# --- who takes which: lanes int64[samples], one of these
CPU, ENGINES, HYBRID = 0, 1, 2

# Table of take_smallest and take_evenly: 0 samples, 1 sizes, 2 eligible and 3 lanes int64[samples], 4 how many the multiprocessors get,
# 5 how many at least, if any, 6 room for int64[samples], 7 the engines' part of the others (float64).
_INDEX = (1 << 24) - 1


@inlined
def _sort(keys, count):
    """Shell's, in place."""
    gap = 1
    while gap < count:
        gap = 3 * gap + 1
    while gap > 0:
        for i in range(gap, count):
            key, j = load_i64(keys + 8 * i), i
            while j >= gap and load_i64(keys + 8 * (j - gap)) > key:
                store_i64(keys + 8 * j, load_i64(keys + 8 * (j - gap)))
                j -= gap
            store_i64(keys + 8 * j, key)
        gap //= 3


@compiled(1, brief=True)
def take_smallest(table):
    """The multiprocessors take the smallest eligible files, of equal ones the first; gives how many."""
    sizes, lanes, keys = load_i64(table + 8), load_i64(table + 24), load_i64(table + 48)
    count = 0
    for i in range(load_i64(table)):
        if load_i64(load_i64(table + 16) + 8 * i) != 0:
            store_i64(keys + 8 * count, (load_i64(sizes + 8 * i) << 24) | i)
            count += 1
    _sort(keys, count)
    taken = load_i64(table + 32) if load_i64(table + 32) < count else count
    if taken < load_i64(table + 40):
        return 0
    for k in range(taken):
        store_i64(lanes + 8 * (load_i64(keys + 8 * k) & _INDEX), HYBRID)
    return taken


@compiled(1, brief=True)
def take_evenly(table):
    """The engines take an evenly spread part of what is left, as far as it is eligible; gives how many."""
    part, turn, taken = load_f64(table + 56), 0, 0
    for i in range(load_i64(table)):
        lane = load_i64(table + 24) + 8 * i
        if load_i64(lane) != CPU:
            continue
        mine = np.floor((turn + 1) * part + 1e-9) > np.floor(turn * part + 1e-9)
        turn += 1
        if mine and load_i64(load_i64(table + 16) + 8 * i) != 0:
            store_i64(lane, ENGINES)
            taken += 1
    return taken


# --- what each is told
IMAGE_BYTES = 64  # of nvjpegImage_t: addresses of four channels, then their pitches
_ROUND = 256

# Table of describe_files: 0 samples, 1 lanes, 2 which lane, 3 addresses and 4 sizes of files, 5 headers, 6 anchors int64[samples, 2] and
# 7 extents of windows (y, x), 8 addresses of the outputs; filled in, for the lane's samples one after another: 9 addresses, 10 sizes,
# 11 images (nvjpegImage_t), 12 bytes of memory for whole images, 0 if all go to the outputs.


@compiled(1, brief=True)
def describe_files(table):
    """What a decoder of the GPU is told. Channels are addresses if all windows are whole images, else places in memory to be allocated."""
    lane, lanes, whole = load_i64(table + 16), load_i64(table + 8), True
    for i in range(load_i64(table)):
        if load_i64(lanes + 8 * i) == lane:
            header = load_i64(table + 40) + 8 * HEADER_FIELDS * i
            anchor, extent = load_i64(table + 48) + 16 * i, load_i64(table + 56) + 16 * i
            whole = whole and load_i64(anchor) == 0 and load_i64(anchor + 8) == 0
            whole = whole and load_i64(extent) == load_i64(header + 16) and load_i64(extent + 8) == load_i64(header + 8)
    data, length, image, size = load_i64(table + 72), load_i64(table + 80), load_i64(table + 88), 0
    for i in range(load_i64(table)):
        if load_i64(lanes + 8 * i) == lane:
            header = load_i64(table + 40) + 8 * HEADER_FIELDS * i
            pitch = 3 * load_i64(header + 8)
            for k in range(IMAGE_BYTES // 8):
                store_i64(image + 8 * k, 0)
            store_i64(data, load_i64(load_i64(table + 24) + 8 * i))
            store_i64(length, load_i64(load_i64(table + 32) + 8 * i))
            store_i64(image, load_i64(load_i64(table + 64) + 8 * i) if whole else size)
            store_i64(image + 32, pitch)
            size += (pitch * load_i64(header + 16) + _ROUND - 1) // _ROUND * _ROUND
            data, length, image = data + 8, length + 8, image + IMAGE_BYTES
    store_i64(table + 96, 0 if whole else size)
    return 0


# Table of place_rest: 0 samples, 1 lanes, 2 bytes of each output; filled in: 3 places of the CPU's outputs in memory to be allocated, 4 its
# samples int64[samples], of others -1; 5 how many they are.


@compiled(1, brief=True)
def place_rest(table):
    """Where the CPU's outputs lie; gives the bytes of all."""
    size = count = 0
    for i in range(load_i64(table)):
        mine = load_i64(load_i64(table + 8) + 8 * i) == CPU
        store_i64(load_i64(table + 24) + 8 * i, size)
        store_i64(load_i64(table + 32) + 8 * i, i if mine else -1)
        size += load_i64(load_i64(table + 16) + 8 * i) if mine else 0
        count += 1 if mine else 0
    store_i64(table + 40, count)
    return size


# Table of find_moves: 0 samples, 1 lanes, 2 anchors int64[samples, 2], 3 output shapes int64[samples, 3], 4 output addresses, 5 where the
# CPU put its outputs; 6 images of the engines' lane and 7 of the multiprocessors', 0 where they are in place or there are none; filled in,
# int64[samples] each: 8 sources, 9 pitches, 10 rows, 11 bytes of a row, 12 targets; 13 most rows, 14 most bytes of a row; 15 how far the
# CPU's outputs are in device memory from where it put them.


@compiled(1, brief=True)
def find_moves(table):
    """Which windows lie elsewhere than in the outputs, one after another; gives how many."""
    count, rows_of_all, bytes_of_all = 0, 0, 0
    engines, hybrid = load_i64(table + 48), load_i64(table + 56)
    for i in range(load_i64(table)):
        lane = load_i64(load_i64(table + 8) + 8 * i)
        shape = load_i64(table + 24) + 24 * i
        rows, row_bytes = load_i64(shape), load_i64(shape + 8) * load_i64(shape + 16)
        source, pitch = load_i64(load_i64(table + 40) + 8 * i) + load_i64(table + 120), row_bytes
        if lane != CPU:
            image = engines if lane == ENGINES else hybrid
            if image == 0:
                continue
            pitch, anchor = load_i64(image + 32), load_i64(table + 16) + 16 * i
            source = load_i64(image) + load_i64(anchor) * pitch + 3 * load_i64(anchor + 8)
            if lane == ENGINES:
                engines += IMAGE_BYTES
            else:
                hybrid += IMAGE_BYTES
        store_i64(load_i64(table + 64) + 8 * count, source)
        store_i64(load_i64(table + 72) + 8 * count, pitch)
        store_i64(load_i64(table + 80) + 8 * count, rows)
        store_i64(load_i64(table + 88) + 8 * count, row_bytes)
        store_i64(load_i64(table + 96) + 8 * count, load_i64(load_i64(table + 32) + 8 * i))
        rows_of_all, bytes_of_all, count = larger(rows_of_all, rows), larger(bytes_of_all, row_bytes), count + 1
    store_i64(table + 104, rows_of_all)
    store_i64(table + 112, bytes_of_all)
    return count

"""Select the JPEGs for each decoder of a GPU, and describe them to the GPU's decoders and the CPU: a few calls per batch.

Whether a decoder can take a file depends only on the file's header, so the answer never changes.
"""

from __future__ import annotations

import numpy as np

from ...codecs.jpeg.jpeg_kernels import IS_JPEG, is_plain, scan_header
from ...codecs.jpeg.jpeg_soundness_kernels import is_sound
from ...codecs.jpeg.jpeg_tables import CPU, ELIGIBLE, ENGINES, HYBRID, JPEG_HEADER, JPEG_SPLIT, JPEG_WINDOW, PLAIN
from ...compiled.intrinsics import larger, load_f64, load_i64, load_u8, store_i64
from ...compiled.shape_tables import HWC
from ...compiled.step import compiled, inlined
from ...compiled.tables import WORD
from ...device.cuda.gather_tables import GATHER_WINDOW
from ...device.cuda.nvjpeg_tables import NVJPEG_IMAGE

split, head, picture, place, hwc, gathered = JPEG_SPLIT.at, JPEG_HEADER.at, NVJPEG_IMAGE.at, JPEG_WINDOW.at, HWC.at, GATHER_WINDOW.at

SMALLEST_SIDE, LARGEST_SIDE = 64, 16000
_TAIL = 32  # Files may have padding behind the end marker.


@inlined
def _ends(data, size):
    """Whether the end marker is there. Truncated files are left to the decoder that reports the truncation."""
    found = False
    for k in range(2, _TAIL):
        found = found or (k <= size and load_u8(data + size - k) == 0xFF and load_u8(data + size - k + 1) == 0xD9)
    return found


@inlined
def _is_eligible(data, size, header):
    """Whether a decoder of a GPU can take a file."""
    width, height = load_i64(header + head.width), load_i64(header + head.height)
    found = load_i64(header + head.found) == IS_JPEG and load_i64(header + head.components) == 3
    found = found and load_i64(header + head.orientation) == 1 and load_i64(header + head.scans) == 1
    found = found and (load_i64(header + head.marker) == 0xC0 or load_i64(header + head.marker) == 0xC1)
    found = found and SMALLEST_SIDE <= width <= LARGEST_SIDE and SMALLEST_SIDE <= height <= LARGEST_SIDE
    return found and _ends(data, size) and is_sound(data, size)


@compiled(1)
def find_eligible(table):
    """Find the files that a decoder of a GPU can take (JPEG_SPLIT); returns their number."""
    eligible = 0
    for i in range(load_i64(table + split.samples)):
        data, size = load_i64(load_i64(table + split.addresses) + 8 * i), load_i64(load_i64(table + split.sizes) + 8 * i)
        found = _is_eligible(data, size, load_i64(table + split.headers) + head.size * i)
        store_i64(load_i64(table + split.marks) + 8 * i, ELIGIBLE if found else 0)
        eligible += 1 if found else 0
    return eligible


@compiled(3)
def scan_file_for_gpu(data, size, header):
    """Like ``jpeg_kernels.scan_file``. The result also has ELIGIBLE if a decoder of a GPU can take the file."""
    scan_header(data, size, header)
    marks = PLAIN if is_plain(header, size) else 0
    return marks | (ELIGIBLE if _is_eligible(data, size, header) else 0)


# --- assignment of lanes

_INDEX = (1 << 24) - 1


@inlined
def _sort(keys, count):
    """Shell sort, in place."""
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


@inlined
def _take_smallest(table):
    """Assign the smallest eligible files, the first of equal ones, to the multiprocessors; returns their number."""
    sizes, lanes, keys = load_i64(table + split.sizes), load_i64(table + split.lanes), load_i64(table + split.keys)
    count, wanted = 0, load_i64(table + split.hybrid)
    if wanted == 0:
        return 0
    for i in range(load_i64(table + split.samples)):
        if load_i64(load_i64(table + split.marks) + 8 * i) & ELIGIBLE != 0:
            store_i64(keys + 8 * count, (load_i64(sizes + 8 * i) << 24) | i)
            count += 1
    _sort(keys, count)
    taken = wanted if wanted < count else count
    if taken < load_i64(table + split.least):
        return 0
    for k in range(taken):
        store_i64(lanes + 8 * (load_i64(keys + 8 * k) & _INDEX), HYBRID)
    return taken


@inlined
def _take_evenly(table):
    """Assign an evenly spread part of the remaining files to the engines, if eligible; returns their number."""
    part, turn, taken = load_f64(table + split.part), 0, 0
    for i in range(load_i64(table + split.samples)):
        lane = load_i64(table + split.lanes) + 8 * i
        if load_i64(lane) != CPU:
            continue
        mine = np.floor((turn + 1) * part + 1e-9) > np.floor(turn * part + 1e-9)
        turn += 1
        if mine and load_i64(load_i64(table + split.marks) + 8 * i) & ELIGIBLE != 0:
            store_i64(lane, ENGINES)
            taken += 1
    return taken


@compiled(1, brief=True)
def share_out(table):
    """Choose the lanes of all samples."""
    for i in range(load_i64(table + split.samples)):
        store_i64(load_i64(table + split.lanes) + 8 * i, CPU)
    store_i64(table + split.taken_hybrid, _take_smallest(table))
    store_i64(table + split.taken_engines, _take_evenly(table))
    return 0


# --- descriptions for each decoder
_ROUND = 256


@compiled(4, brief=True)
def describe_files(table, lane, files, at):
    """Describe the `files` files of a lane to a decoder of the GPU: at the address `at` their addresses, sizes, the places of the last rows
    of their pictures, and NVJPEG_IMAGEs.

    Channels and places are addresses if all windows are whole images, else offsets in memory that is still to be allocated.
    """
    lanes, windows, whole = load_i64(table + split.lanes), load_i64(table + split.windows), True
    for i in range(load_i64(table + split.samples)):
        if load_i64(lanes + 8 * i) == lane:
            window = windows + place.size * i
            whole = whole and load_i64(window + place.y) == 0 and load_i64(window + place.x) == 0
            whole = whole and load_i64(window + place.h) == load_i64(window + place.height)
            whole = whole and load_i64(window + place.w) == load_i64(window + place.width)
    data, length, last, image, size = at, at + WORD * files, at + 2 * WORD * files, at + 3 * WORD * files, 0
    for i in range(load_i64(table + split.samples)):
        if load_i64(lanes + 8 * i) == lane:
            window = windows + place.size * i
            pitch = 3 * load_i64(window + place.width)
            for word in range(image, image + picture.size, WORD):
                store_i64(word, 0)
            store_i64(data, load_i64(load_i64(table + split.addresses) + 8 * i))
            store_i64(length, load_i64(load_i64(table + split.sizes) + 8 * i))
            channel = load_i64(load_i64(table + split.outputs) + 8 * i) if whole else size
            store_i64(image + picture.channel_0, channel)
            store_i64(image + picture.pitch_0, pitch)
            store_i64(last, channel + pitch * (load_i64(window + place.height) - 1))
            size += (pitch * load_i64(window + place.height) + _ROUND - 1) // _ROUND * _ROUND
            data, length, last, image = data + WORD, length + WORD, last + WORD, image + picture.size
    store_i64(table + split.whole_bytes, 0 if whole else size)
    return 0


@inlined
def _output_of(table, i):
    """Rows of an output, and bytes of a row."""
    shape, window = load_i64(table + split.shapes) + hwc.size * i, load_i64(table + split.windows) + place.size * i
    return load_i64(shape + hwc.height), load_i64(shape + hwc.width) * load_i64(window + place.pixel)


@compiled(1, brief=True)
def place_rest(table):
    """Place the CPU's outputs; returns their total bytes."""
    size = left = 0
    for i in range(load_i64(table + split.samples)):
        store_i64(load_i64(table + split.targets) + 8 * i, size)
        if load_i64(load_i64(table + split.lanes) + 8 * i) == CPU:
            rows, row_bytes = _output_of(table, i)
            size, left = size + rows * row_bytes, left + 1
    store_i64(table + split.left, left)
    return size


@compiled(5, brief=True)
def find_moves(table, engines, hybrid, moved_by, at):
    """List the windows that are not in the outputs; returns their number.

    engines, hybrid   NVJPEG_IMAGE[files] of these lanes; 0: its images are in place, or it has none
    moved_by          bytes from `targets` to the CPU's outputs in device memory
    at                address of GATHER_WINDOW[samples], for the windows that move
    """
    count, rows_of_all, bytes_of_all = 0, 0, 0
    for i in range(load_i64(table + split.samples)):
        lane = load_i64(load_i64(table + split.lanes) + 8 * i)
        rows, row_bytes = _output_of(table, i)
        source, pitch = load_i64(load_i64(table + split.targets) + 8 * i) + moved_by, row_bytes
        if lane != CPU:
            image = engines if lane == ENGINES else hybrid
            if image == 0:
                continue
            pitch, window = load_i64(image + picture.pitch_0), load_i64(table + split.windows) + place.size * i
            source = load_i64(image + picture.channel_0) + load_i64(window + place.y) * pitch + 3 * load_i64(window + place.x)
            if lane == ENGINES:
                engines += picture.size
            else:
                hybrid += picture.size
        found = at + gathered.size * count
        store_i64(found + gathered.source, source)
        store_i64(found + gathered.pitch, pitch)
        store_i64(found + gathered.rows, rows)
        store_i64(found + gathered.row_bytes, row_bytes)
        store_i64(found + gathered.target, load_i64(load_i64(table + split.outputs) + 8 * i))
        rows_of_all, bytes_of_all, count = larger(rows_of_all, rows), larger(bytes_of_all, row_bytes), count + 1
    store_i64(table + split.most_rows, rows_of_all)
    store_i64(table + split.most_row_bytes, bytes_of_all)
    return count

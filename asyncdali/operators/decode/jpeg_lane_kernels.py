"""Select the JPEGs for each decoder of a GPU, and describe them to the GPU's decoders and the CPU: a few calls per batch.

Whether a decoder can take a file depends only on the file's header, so the answer never changes.
"""

from __future__ import annotations

import numpy as np

from ...codecs.jpeg.jpeg_kernels import IS_JPEG, is_plain, scan_header
from ...codecs.jpeg.jpeg_soundness_kernels import is_sound
from ...codecs.jpeg.jpeg_tables import (
    DESCRIBE_FILES,
    ELIGIBLE,
    FIND_ELIGIBLE,
    FIND_MOVES,
    HWC,
    JPEG_HEADER,
    PLACE_REST,
    PLAIN,
    TAKE_LANES,
    YX,
)  # fmt: skip
from ...compiled.intrinsics import larger, load_f64, load_i64, load_u8, store_i64
from ...compiled.step import compiled, inlined
from ...compiled.tables import WORD
from ...device.cuda.nvjpeg_tables import NVJPEG_IMAGE

finding, taking, describing, resting, moving = FIND_ELIGIBLE.at, TAKE_LANES.at, DESCRIBE_FILES.at, PLACE_REST.at, FIND_MOVES.at
head, picture, yx, hwc = JPEG_HEADER.at, NVJPEG_IMAGE.at, YX.at, HWC.at

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
    """Find the files that a decoder of a GPU can take; returns their number."""
    eligible = 0
    for i in range(load_i64(table + finding.samples)):
        data, size = load_i64(load_i64(table + finding.addresses) + 8 * i), load_i64(load_i64(table + finding.sizes) + 8 * i)
        found = _is_eligible(data, size, load_i64(table + finding.headers) + head.size * i)
        store_i64(load_i64(table + finding.eligible) + 8 * i, ELIGIBLE if found else 0)
        eligible += 1 if found else 0
    return eligible


@compiled(3)
def scan_file_for_gpu(data, size, header):
    """Like ``jpeg_kernels.scan_file``. The result also has ELIGIBLE if a decoder of a GPU can take the file."""
    scan_header(data, size, header)
    marks = PLAIN if is_plain(header, size) else 0
    return marks | (ELIGIBLE if _is_eligible(data, size, header) else 0)


# --- assignment: lanes int64[samples], with one of these values
CPU, ENGINES, HYBRID = 0, 1, 2

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


@compiled(1, brief=True)
def take_smallest(table):
    """Assign the smallest eligible files, the first of equal ones, to the multiprocessors; returns their number."""
    sizes, lanes, keys = load_i64(table + taking.sizes), load_i64(table + taking.lanes), load_i64(table + taking.keys)
    count = 0
    for i in range(load_i64(table + taking.samples)):
        if load_i64(load_i64(table + taking.eligible) + 8 * i) & ELIGIBLE != 0:
            store_i64(keys + 8 * count, (load_i64(sizes + 8 * i) << 24) | i)
            count += 1
    _sort(keys, count)
    taken = load_i64(table + taking.hybrid) if load_i64(table + taking.hybrid) < count else count
    if taken < load_i64(table + taking.least):
        return 0
    for k in range(taken):
        store_i64(lanes + 8 * (load_i64(keys + 8 * k) & _INDEX), HYBRID)
    return taken


@compiled(1, brief=True)
def take_evenly(table):
    """Assign an evenly spread part of the remaining files to the engines, if eligible; returns their number."""
    part, turn, taken = load_f64(table + taking.part), 0, 0
    for i in range(load_i64(table + taking.samples)):
        lane = load_i64(table + taking.lanes) + 8 * i
        if load_i64(lane) != CPU:
            continue
        mine = np.floor((turn + 1) * part + 1e-9) > np.floor(turn * part + 1e-9)
        turn += 1
        if mine and load_i64(load_i64(table + taking.eligible) + 8 * i) & ELIGIBLE != 0:
            store_i64(lane, ENGINES)
            taken += 1
    return taken


# --- descriptions for each decoder
_ROUND = 256


@compiled(1, brief=True)
def describe_files(table):
    """Describe files to a decoder of the GPU.

    Channels are addresses if all windows are whole images, else offsets in memory that is still to be allocated.
    """
    lane, lanes, whole = load_i64(table + describing.lane), load_i64(table + describing.lanes), True
    for i in range(load_i64(table + describing.samples)):
        if load_i64(lanes + 8 * i) == lane:
            header = load_i64(table + describing.headers) + head.size * i
            anchor, extent = load_i64(table + describing.anchors) + yx.size * i, load_i64(table + describing.extents) + yx.size * i
            whole = whole and load_i64(anchor + yx.y) == 0 and load_i64(anchor + yx.x) == 0
            whole = whole and load_i64(extent + yx.y) == load_i64(header + head.height)
            whole = whole and load_i64(extent + yx.x) == load_i64(header + head.width)
    data, length = load_i64(table + describing.lane_addresses), load_i64(table + describing.lane_sizes)
    image, size = load_i64(table + describing.lane_images), 0
    for i in range(load_i64(table + describing.samples)):
        if load_i64(lanes + 8 * i) == lane:
            header = load_i64(table + describing.headers) + head.size * i
            pitch = 3 * load_i64(header + head.width)
            for word in range(image, image + picture.size, WORD):
                store_i64(word, 0)
            store_i64(data, load_i64(load_i64(table + describing.addresses) + 8 * i))
            store_i64(length, load_i64(load_i64(table + describing.sizes) + 8 * i))
            store_i64(image + picture.channel_0, load_i64(load_i64(table + describing.outputs) + 8 * i) if whole else size)
            store_i64(image + picture.pitch_0, pitch)
            size += (pitch * load_i64(header + head.height) + _ROUND - 1) // _ROUND * _ROUND
            data, length, image = data + WORD, length + WORD, image + picture.size
    store_i64(table + describing.whole_bytes, 0 if whole else size)
    return 0


@compiled(1, brief=True)
def place_rest(table):
    """Place the CPU's outputs; returns their total bytes."""
    size = count = 0
    for i in range(load_i64(table + resting.samples)):
        mine = load_i64(load_i64(table + resting.lanes) + 8 * i) == CPU
        store_i64(load_i64(table + resting.places) + 8 * i, size)
        store_i64(load_i64(table + resting.rows) + 8 * i, i if mine else -1)
        size += load_i64(load_i64(table + resting.sizes) + 8 * i) if mine else 0
        count += 1 if mine else 0
    store_i64(table + resting.count, count)
    return size


@compiled(1, brief=True)
def find_moves(table):
    """List the windows that are not in the outputs; returns their number."""
    count, rows_of_all, bytes_of_all = 0, 0, 0
    engines, hybrid = load_i64(table + moving.engine_images), load_i64(table + moving.hybrid_images)
    for i in range(load_i64(table + moving.samples)):
        lane = load_i64(load_i64(table + moving.lanes) + 8 * i)
        shape = load_i64(table + moving.shapes) + hwc.size * i
        rows, row_bytes = load_i64(shape + hwc.height), load_i64(shape + hwc.width) * load_i64(shape + hwc.channels)
        source, pitch = load_i64(load_i64(table + moving.places) + 8 * i) + load_i64(table + moving.moved_by), row_bytes
        if lane != CPU:
            image = engines if lane == ENGINES else hybrid
            if image == 0:
                continue
            pitch, anchor = load_i64(image + picture.pitch_0), load_i64(table + moving.anchors) + yx.size * i
            source = load_i64(image + picture.channel_0) + load_i64(anchor + yx.y) * pitch + 3 * load_i64(anchor + yx.x)
            if lane == ENGINES:
                engines += picture.size
            else:
                hybrid += picture.size
        store_i64(load_i64(table + moving.sources) + 8 * count, source)
        store_i64(load_i64(table + moving.pitches) + 8 * count, pitch)
        store_i64(load_i64(table + moving.rows) + 8 * count, rows)
        store_i64(load_i64(table + moving.row_bytes) + 8 * count, row_bytes)
        store_i64(load_i64(table + moving.targets) + 8 * count, load_i64(load_i64(table + moving.outputs) + 8 * i))
        rows_of_all, bytes_of_all, count = larger(rows_of_all, rows), larger(bytes_of_all, row_bytes), count + 1
    store_i64(table + moving.most_rows, rows_of_all)
    store_i64(table + moving.most_row_bytes, bytes_of_all)
    return count

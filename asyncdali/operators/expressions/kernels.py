"""The compiled step of arithmetic expressions: walks a sample and calls the program's own kernel (``expressions_code``)."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from ...compiled.intrinsics import call1, copy_bytes, load_i64, store_i64
from ...compiled.step import inlined, step
from ..base import Step, context_table
from .shapes import RECORD_HEAD, TILE, Walk

# Context table: 0 output addresses, 1 records int64[samples, width], 2 width, 3 groups, 4 inputs, 5 bytes of an output element,
# 6 address of the addresses of the inputs' address arrays, 7 offset of this step's scratch, 8 bytes of the inputs' elements int64[inputs].
#
# Scratch: the kernel's table, a counter for each group, and for each input a tile, its position, and its step within a row.
SCRATCH_FIELD = 7
_TILE_BYTES = (TILE + TILE // 4 + 8) * 8


@inlined
def _tiled(kernel, table, tiles, steps, itemsizes, inputs, rows, count, factor, itemsize):
    """The kernel with `factor` rows made one: inputs that repeat every row are copied out that often.

    `steps` is the address of each input's bytes from one element of a row to the next, 0 where there is one element for all of them.
    """
    starts = table + 24
    strides = starts + 8 * inputs
    for k in range(inputs):
        size = load_i64(itemsizes + 8 * k)
        if load_i64(strides + 8 * k) == 0:
            source = load_i64(starts + 8 * k)
            tile = tiles + k * _TILE_BYTES
            if load_i64(steps + 8 * k) != 0:
                for r in range(factor):
                    copy_bytes(tile + r * count * size, source, count * size)
                store_i64(starts + 8 * k, tile)
        else:
            store_i64(strides + 8 * k, factor * count * size)
    whole = rows // factor
    store_i64(table, whole)
    store_i64(table + 8, factor * count)
    status = call1(kernel, table)
    rest = rows - whole * factor
    if rest > 0:
        store_i64(table, 1)
        store_i64(table + 8, rest * count)
        store_i64(table + 16, load_i64(table + 16) + whole * factor * count * itemsize)
        for k in range(inputs):
            store_i64(starts + 8 * k, load_i64(starts + 8 * k) + whole * load_i64(strides + 8 * k))
        status |= call1(kernel, table)
    return status


@step
def expression_step(context, sample, thread):
    """See the table at the top."""
    groups, inputs = load_i64(context + 24), load_i64(context + 32)
    record = load_i64(context + 8) + 8 * load_i64(context + 16) * sample
    kernel, factor = load_i64(record), load_i64(record + 8)
    extents = record + 8 * RECORD_HEAD
    strides = extents + 8 * groups
    rows, count = load_i64(extents + 8 * (groups - 2)), load_i64(extents + 8 * (groups - 1))
    itemsize = load_i64(context + 40)
    table = load_i64(thread) + load_i64(context + 56)
    starts = table + 24
    counters = starts + 16 * inputs
    tiles = (counters + 8 * groups + 63) & -64
    steps = tiles + inputs * (_TILE_BYTES + 8)
    out = load_i64(load_i64(context) + 8 * sample)
    outer = 1
    for g in range(groups - 2):
        outer *= load_i64(extents + 8 * g)
        store_i64(counters + 8 * g, 0)
    positions = tiles + inputs * _TILE_BYTES
    for k in range(inputs):
        store_i64(positions + 8 * k, load_i64(load_i64(load_i64(context + 48) + 8 * k) + 8 * sample))
        store_i64(steps + 8 * k, load_i64(strides + 8 * (k * groups + groups - 1)))
    status = 0
    for _ in range(outer):
        store_i64(table, rows)
        store_i64(table + 8, count)
        store_i64(table + 16, out)
        for k in range(inputs):
            store_i64(starts + 8 * k, load_i64(positions + 8 * k))
            store_i64(starts + 8 * (inputs + k), load_i64(strides + 8 * (k * groups + groups - 2)))
        if factor > 0:
            status |= _tiled(kernel, table, tiles, steps, load_i64(context + 64), inputs, rows, count, factor, itemsize)
        else:
            status |= call1(kernel, table)
        out += rows * count * itemsize
        g = groups - 3
        while g >= 0:
            turn = load_i64(counters + 8 * g) + 1
            extent = load_i64(extents + 8 * g)
            back = extent if turn == extent else 0
            store_i64(counters + 8 * g, turn - back)
            for k in range(inputs):
                move = load_i64(strides + 8 * (k * groups + g))
                store_i64(positions + 8 * k, load_i64(positions + 8 * k) + move * (1 - back))
            if back == 0:
                break
            g -= 1
    return status


def scratch_bytes(groups: int, inputs: int) -> int:
    """Scratch of a step."""
    return 8 * (3 + 2 * inputs + groups) + 64 + inputs * (_TILE_BYTES + 16)


def make_expression_step(
    plan: Walk,
    inputs: Sequence[np.ndarray],
    output: np.ndarray,
    itemsizes: Sequence[int],
    itemsize: int,
    explain: Callable[[int, str, int], str],
) -> Step:
    """The step for a batch; `inputs` and `output` are address arrays, and the records have their kernels."""
    pointers = np.array([addresses.ctypes.data for addresses in inputs], np.int64)
    sizes = np.array(itemsizes, np.int64)
    table, keep = context_table(
        (output, plan.records, plan.records.shape[1], plan.groups, len(inputs), itemsize, pointers, 0, sizes)
    )
    return Step(
        expression_step.address, table, explain, scratch_bytes(plan.groups, len(inputs)), SCRATCH_FIELD, keep=[*keep, *inputs]
    )

"""The compiled step of arithmetic expressions: walks a sample and calls the program's own kernel (``expressions_code``)."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from ...compiled.intrinsics import call1, copy_bytes, load_i64, store_i64
from ...compiled.job_tables import THREAD
from ...compiled.step import inlined, step
from ..base import Step
from .expressions_tables import EXPRESSION, PROGRAM, WALK_HEAD
from .shapes import TILE, Walk

# Scratch memory: the program's table; a counter for each group of axes; for each input a tile, its position and its step within a row.
at, _head, _program, thread_at = EXPRESSION.at, WALK_HEAD.at, PROGRAM.at, THREAD.at
_TILE_BYTES = (TILE + TILE // 4 + 8) * 8


@inlined
def _tiled(kernel, table, tiles, steps, itemsizes, inputs, rows, count, factor, itemsize):
    """The kernel with `factor` rows merged into one: inputs that repeat in every row are expanded to `factor` rows.

    `steps` is the address of each input's stride in bytes between elements of a row; 0 if one element serves all of them.
    """
    starts = table + _program.size
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
    store_i64(table + _program.rows, whole)
    store_i64(table + _program.count, factor * count)
    status = call1(kernel, table)
    rest = rows - whole * factor
    if rest > 0:
        store_i64(table + _program.rows, 1)
        store_i64(table + _program.count, rest * count)
        store_i64(table + _program.output, load_i64(table + _program.output) + whole * factor * count * itemsize)
        for k in range(inputs):
            store_i64(starts + 8 * k, load_i64(starts + 8 * k) + whole * load_i64(strides + 8 * k))
        status |= call1(kernel, table)
    return status


@step
def expression_step(context, sample, thread):
    """Compute one sample; see ``expressions_tables``."""
    groups, inputs = load_i64(context + at.groups), load_i64(context + at.input_count)
    record = load_i64(context + at.records) + 8 * load_i64(context + at.width) * sample
    kernel, factor = load_i64(record + _head.kernel), load_i64(record + _head.tile_rows)
    extents = record + _head.size
    strides = extents + 8 * groups
    rows, count = load_i64(extents + 8 * (groups - 2)), load_i64(extents + 8 * (groups - 1))
    itemsize = load_i64(context + at.itemsize)
    table = load_i64(thread + thread_at.scratch) + load_i64(context + at.scratch)
    starts = table + _program.size
    counters = starts + 16 * inputs
    tiles = (counters + 8 * groups + 63) & -64
    steps = tiles + inputs * (_TILE_BYTES + 8)
    out = load_i64(load_i64(context + at.outputs) + 8 * sample)
    outer = 1
    for g in range(groups - 2):
        outer *= load_i64(extents + 8 * g)
        store_i64(counters + 8 * g, 0)
    positions = tiles + inputs * _TILE_BYTES
    for k in range(inputs):
        store_i64(positions + 8 * k, load_i64(load_i64(load_i64(context + at.inputs) + 8 * k) + 8 * sample))
        store_i64(steps + 8 * k, load_i64(strides + 8 * (k * groups + groups - 1)))
    status = 0
    for _ in range(outer):
        store_i64(table + _program.rows, rows)
        store_i64(table + _program.count, count)
        store_i64(table + _program.output, out)
        for k in range(inputs):
            store_i64(starts + 8 * k, load_i64(positions + 8 * k))
            store_i64(starts + 8 * (inputs + k), load_i64(strides + 8 * (k * groups + groups - 2)))
        if factor > 0:
            status |= _tiled(kernel, table, tiles, steps, load_i64(context + at.itemsizes), inputs, rows, count, factor, itemsize)
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
    size: int = _program.size + 8 * (2 * inputs + groups) + 64 + inputs * (_TILE_BYTES + 16)
    return size


def make_expression_step(
    plan: Walk,
    inputs: Sequence[np.ndarray],
    output: np.ndarray,
    itemsizes: Sequence[int],
    itemsize: int,
    explain: Callable[[int, str, int], str],
) -> Step:
    """The step for a batch. `inputs` and `output` are arrays of addresses; the records contain their kernels."""
    sizes = np.array(itemsizes, np.int64)
    table, keep = EXPRESSION.make(
        outputs=output, records=plan.records, width=plan.records.shape[1], groups=plan.groups, input_count=len(inputs), itemsize=itemsize,
        inputs=tuple(inputs), scratch=0, itemsizes=sizes,
    )  # fmt: skip
    scratch = scratch_bytes(plan.groups, len(inputs))
    return Step(expression_step.address, table, explain, scratch, EXPRESSION.word.scratch, keep)

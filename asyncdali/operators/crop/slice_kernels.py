"""Compiled steps of ``slice``: those of pieces, and a step for windows beyond the bounds of their input."""

from __future__ import annotations

from functools import cache

from ...compiled.convert_kernels import slicing_converter, view
from ...compiled.intrinsics import load_i64, view_i64
from ...compiled.step import Compiled, step_variant
from ..moves.pieces_kernels import converting_step, copy_step
from .crop_kernels import inside
from .slice import BORDERED

__all__ = ["bordered_step", "converting_step", "copy_step"]

at = BORDERED.at


@cache
def bordered_step(in_dtype: str, out_dtype: str) -> Compiled:
    """Copy a window that extends beyond the bounds of its input. An input without elements has no border: the window is zeros."""
    view_in, view_out, convert = view(in_dtype), view(out_dtype), slicing_converter(in_dtype, out_dtype)

    @step_variant("border", in_dtype, out_dtype)
    def bordered(context, sample, thread):
        axes, border = load_i64(context + at.axes), load_i64(context + at.border)
        record = load_i64(context + at.records) + 32 * axes * sample
        extents, inputs = view_i64(record, axes), view_i64(record + 8 * axes, axes)
        begins, strides = view_i64(record + 16 * axes, axes), view_i64(record + 24 * axes, axes)
        source, total, elements = load_i64(load_i64(context + at.inputs) + 8 * sample), 1, 1
        for k in range(axes):
            total *= extents[k]
            elements *= inputs[k]
        out = view_out(load_i64(load_i64(context + at.outputs) + 8 * sample), total)
        if elements == 0:
            for i in range(total):
                out[i] = 0
            return 0
        if total == 0:
            return 0
        # Innermost axes that are copied whole are moved as one block.
        left, block = axes, 1
        while left > 1 and begins[left - 1] == 0 and extents[left - 1] == inputs[left - 1]:
            left -= 1
            block *= extents[left]
        last = left - 1
        width, begin, extent = extents[last], begins[last], inputs[last]
        done = 0
        for row in range(total // (width * block)):
            rest, base = row, source
            for k in range(last - 1, -1, -1):
                base += inside(rest % extents[k] + begins[k], inputs[k], border) * strides[k]
                rest //= extents[k]
            line = view_in(base, extent * block)
            for i in range(width):
                first = inside(i + begin, extent, border) * block
                for c in range(block):
                    out[done + c] = convert(line[first + c])
                done += block
        return 0

    return bordered

"""Compiled step of ``cast``: every element to another type, saturating; see ``convert_kernels`` for the rules."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import numpy as np

from ...compiled.convert_kernels import converter, storage, view
from ...compiled.intrinsics import load_i64
from ...compiled.step import Compiled, step_variant
from ...device.launch import PACK, Kernel, Launch, element_type, grid_of
from ..base import Step, TableStep, no_explanation
from .cast import CAST

_SOURCE = Path(__file__).with_suffix(".cu")
at = CAST.at


@cache
def cast_step(in_dtype: str, out_dtype: str) -> Compiled:
    """The step for an input and an output dtype (NumPy names)."""
    view_in, view_out, convert = view(in_dtype), view(out_dtype), converter(in_dtype, out_dtype)

    @step_variant(in_dtype, out_dtype)
    def cast(context, sample, thread):
        count = load_i64(load_i64(context + at.counts) + 8 * sample)
        source = view_in(load_i64(load_i64(context + at.inputs) + 8 * sample), count)
        out = view_out(load_i64(load_i64(context + at.outputs) + 8 * sample), count)
        for i in range(count):
            out[i] = convert(source[i])
        return 0

    return cast


def make_cast_step(
    in_addresses: np.ndarray, out_addresses: np.ndarray, counts: np.ndarray, in_dtype: np.dtype, out_dtype: np.dtype
) -> Step:
    """The step for a batch; counts int64[samples]."""
    in_name, out_name = np.dtype(in_dtype).name, np.dtype(out_dtype).name
    if in_name == out_name:  # One variant for all types of a size.
        in_name = out_name = f"uint{8 * storage(in_name).itemsize}"
    counts = np.ascontiguousarray(counts, np.int64)
    entries = CAST.entries(inputs=in_addresses, outputs=out_addresses, counts=counts, samples=len(counts))
    types = ("IN", element_type(in_name)), ("OUT", element_type(out_name))

    def launches() -> list[Launch]:
        return [Launch(Kernel(_SOURCE, "cast", types), entries, grid_of(-(-int(counts.max(initial=0)) // PACK), len(counts)))]

    return TableStep(cast_step(in_name, out_name).address, entries, no_explanation, launches=launches)

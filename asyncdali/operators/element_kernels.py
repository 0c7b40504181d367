"""Compiled step of the operators that compute every element by itself; see ``elements.py``."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from ..compiled.convert_kernels import converter, view
from ..compiled.element_tables import ELEMENTS
from ..compiled.intrinsics import load_i64, view_f32
from ..compiled.step import Compiled, inlined, step_variant
from ..compiled.tables import laid_out
from ..device.launch import PACK, Kernel, Launch, element_type, grid_of
from .base import Step, no_explanation

at = ELEMENTS.at


@cache
def elements_step(element: Callable[[Any, Any], Any], dtype: str) -> Compiled:
    """The step that applies ``element(value, numbers)`` to every element of a numpy dtype."""
    view_elements, to_float, from_float, compute = view(dtype), converter(dtype, "float32"), converter("float32", dtype), inlined(element)

    @step_variant(element.__module__, element.__qualname__, dtype)
    def elements(context, sample, thread):
        count = load_i64(load_i64(context + at.counts) + 8 * sample)
        source = view_elements(load_i64(load_i64(context + at.inputs) + 8 * sample), count)
        out = view_elements(load_i64(load_i64(context + at.outputs) + 8 * sample), count)
        width = load_i64(context + at.width)
        numbers = view_f32(load_i64(context + at.numbers) + 4 * width * sample, width)
        for i in range(count):
            out[i] = from_float(np.float32(compute(to_float(source[i]), numbers)))
        return 0

    return elements


def make_elements_step(
    function: Compiled, cuda_source: Path, inputs: np.ndarray, outputs: np.ndarray, counts: np.ndarray, numbers: np.ndarray, dtype: np.dtype
) -> Step:
    """The step for a batch: addresses and counts are int64[samples], `numbers` float32[samples, arguments]."""
    samples, width = numbers.shape
    entries = ELEMENTS.entries(inputs=inputs, outputs=outputs, counts=counts, numbers=numbers, width=width, samples=samples)
    table, keep = laid_out(entries)

    def launches() -> list[Launch]:
        kernel = Kernel(cuda_source, "elements", (("T", element_type(dtype)),))
        return [Launch(kernel, entries, grid_of(-(-int(counts.max(initial=0)) // PACK), samples))]

    return Step(function.address, table, no_explanation, keep=keep, launches=launches)

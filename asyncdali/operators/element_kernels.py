"""Compiled step of the operators that compute every element by itself; see ``elements.py``."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np

from ..compiled.byte_vectors import has_byte_tables, translator
from ..compiled.convert_kernels import converter, view
from ..compiled.element_tables import ELEMENTS
from ..compiled.intrinsics import address, load_f32, load_i64, local_array
from ..compiled.step import Compiled, inlined, step_variant

at = ELEMENTS.at


@inlined
def _nothing(memory):
    return ()


def _with_number(before: Any, count: int) -> Any:
    """``numbers(memory)``: the numbers of `before`, and float32 number `count` at an address."""

    @inlined
    def numbers(memory):
        return before(memory) + (load_f32(memory + 4 * count),)  # noqa: RUF005, because Numba does not know (*a, b)

    return numbers


@cache
def elements_step(element: Callable[[Any, Any], Any], in_dtype: str, out_dtype: str, width: int, group: int) -> Compiled:
    """The step that applies ``element(value, numbers)`` to every element, or group of elements. Dtypes are NumPy names."""
    view_in, view_out = view(in_dtype), view(out_dtype)
    to_float, from_float = converter(in_dtype, "float32"), converter("float32", out_dtype)
    compute, loaded = inlined(element), _nothing
    for count in range(width):
        loaded = _with_number(loaded, count)
    row = 4 * max(width, 1)
    key = (element.__module__, element.__qualname__, in_dtype, out_dtype)
    if group == 1 and in_dtype == out_dtype == "uint8" and has_byte_tables():
        return _by_table(compute, loaded, row, from_float, key)

    @step_variant(*key)
    def elements(context, sample, thread):
        count = load_i64(load_i64(context + at.counts) + 8 * sample)
        source = view_in(load_i64(load_i64(context + at.inputs) + 8 * sample), count)
        out = view_out(load_i64(load_i64(context + at.outputs) + 8 * sample), count)
        numbers = loaded(load_i64(context + at.numbers) + row * sample)
        for i in range(count):
            out[i] = from_float(np.float32(compute(to_float(source[i]), numbers)))
        return 0

    @step_variant(*key)
    def pixels(context, sample, thread):
        count = load_i64(load_i64(context + at.counts) + 8 * sample)
        source = view_in(load_i64(load_i64(context + at.inputs) + 8 * sample), 3 * count)
        out = view_out(load_i64(load_i64(context + at.outputs) + 8 * sample), 3 * count)
        numbers = loaded(load_i64(context + at.numbers) + row * sample)
        for i in range(count):
            a, b, c = compute((to_float(source[3 * i]), to_float(source[3 * i + 1]), to_float(source[3 * i + 2])), numbers)
            out[3 * i], out[3 * i + 1], out[3 * i + 2] = from_float(np.float32(a)), from_float(np.float32(b)), from_float(np.float32(c))
        return 0

    return elements if group == 1 else pixels


def _by_table(compute: Any, loaded: Any, row: int, from_float: Any, key: tuple[Any, ...]) -> Compiled:
    """Bytes to bytes: all 256 results are computed once per sample."""
    new_table, translate = local_array(np.uint8, 256), translator(1)

    @step_variant(*key, "table")
    def elements(context, sample, thread):
        count = load_i64(load_i64(context + at.counts) + 8 * sample)
        numbers, table = loaded(load_i64(context + at.numbers) + row * sample), new_table()
        for k in range(256):
            table[k] = from_float(np.float32(compute(np.float32(k), numbers)))
        source, out = load_i64(load_i64(context + at.inputs) + 8 * sample), load_i64(load_i64(context + at.outputs) + 8 * sample)
        translate(source, out, address(table), count)
        return 0

    return elements

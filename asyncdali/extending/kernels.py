"""The building blocks for compiled steps of other packages. Import it only in modules with kernels (``*_kernels.py``).

``@step`` compiles ``step(context, sample, thread) -> status``; ``step_variant(name, dtype)`` does so for each of several element types;
``@inlined`` compiles helpers of steps. ``load_*`` and ``store_*`` read and write one number at an address. ``view_*`` are arrays over
memory (address, elements); ``view_of(dtype)`` makes such a function for a dtype.
"""

from __future__ import annotations

from ..compiled.intrinsics import (
    load_f32,
    load_f64,
    load_i64,
    load_u8,
    local_array,
    store_f32,
    store_f64,
    store_i32,
    store_i64,
    store_u8,
    view_f32,
    view_f64,
    view_i32,
    view_i64,
    view_of,
    view_u8,
    view_u32,
)
from ..compiled.step import Compiled, inlined, step, step_variant

__all__ = [
    "step", "step_variant", "inlined", "Compiled", "local_array", "view_of",
    "load_u8", "load_i64", "load_f32", "load_f64", "store_u8", "store_i32", "store_i64", "store_f32", "store_f64",
    "view_u8", "view_i32", "view_u32", "view_i64", "view_f32", "view_f64",
]  # fmt: skip

"""Compiled steps of lookup_table. Output elements are moved, not computed, so variants depend only on their size."""

from __future__ import annotations

from functools import cache

import numpy as np

from ...compiled.byte_vectors import has_byte_tables, translator
from ...compiled.convert_kernels import storage, view
from ...compiled.intrinsics import address, load_i64, local_array, view_u8
from ...compiled.step import Compiled, step_variant
from .lookup_table import LOOKUP

at = LOOKUP.at


@cache
def lookup_step(in_dtype: str, out_dtype: str) -> Compiled:
    """``out = table[in]``; the table is LOOKUP."""
    view_in, view_out = view(in_dtype), view(out_dtype)
    if in_dtype == out_dtype == "uint8" and has_byte_tables():
        return _lookup_of_bytes()

    if in_dtype == "uint8":
        return _lookup_with_bytes(out_dtype)

    @step_variant("lookup", in_dtype, out_dtype)
    def lookup(context, sample, thread):
        count, length = load_i64(load_i64(context + at.counts) + 8 * sample), load_i64(context + at.length)
        source = view_in(load_i64(load_i64(context + at.inputs) + 8 * sample), count)
        out = view_out(load_i64(load_i64(context + at.outputs) + 8 * sample), count)
        table = view_out(load_i64(context + at.table), length + 1)
        for i in range(count):
            # As an unsigned number, a negative key exceeds `length` and gets the default value.
            key = np.uint64(np.int64(source[i]))
            out[i] = table[key if key < np.uint64(length) else np.uint64(length)]
        return 0

    return lookup


def _lookup_with_bytes(out_dtype: str) -> Compiled:
    """Keys are bytes: a table of 256 elements has one for each, so that keys are not compared with its length."""
    view_out, new_table = view(out_dtype), local_array(storage(out_dtype), 256)

    @step_variant("lookup with bytes", out_dtype)
    def lookup(context, sample, thread):
        count, length = load_i64(load_i64(context + at.counts) + 8 * sample), load_i64(context + at.length)
        given, table = view_out(load_i64(context + at.table), length + 1), new_table()
        for k in range(256):
            table[k] = given[k if k < length else length]
        source = view_u8(load_i64(load_i64(context + at.inputs) + 8 * sample), count)
        out = view_out(load_i64(load_i64(context + at.outputs) + 8 * sample), count)
        for i in range(count):
            out[i] = table[source[i]]
        return 0

    return lookup


def _lookup_of_bytes() -> Compiled:
    new_table, translate = local_array(np.uint8, 256), translator(1)

    @step_variant("lookup of bytes")
    def lookup(context, sample, thread):
        count, length = load_i64(load_i64(context + at.counts) + 8 * sample), load_i64(context + at.length)
        given, table = view_u8(load_i64(context + at.table), length + 1), new_table()
        for k in range(256):
            table[k] = given[k if k < length else length]
        source, out = load_i64(load_i64(context + at.inputs) + 8 * sample), load_i64(load_i64(context + at.outputs) + 8 * sample)
        translate(source, out, address(table), count)
        return 0

    return lookup

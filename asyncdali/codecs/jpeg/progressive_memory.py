"""Memory for all coefficients of a progressive picture."""

from __future__ import annotations

import numpy as np

from ...compiled.intrinsics import load_i64, store_i64
from ...compiled.step import inlined
from .fields import (  # fmt: skip
    ALL_COEFFICIENTS,
    COMPONENT_BYTES,
    COMPONENTS,
    FIRST_COMPONENT,
    MASKS,
    PRECISIONS,
    ROW_GROUPS,
    SAMPLING_H,
    SAMPLING_V,
)
from .huffman_decoding import GROUP_BLOCKS, GROUP_BYTES
from .work_area import ACROSS, DOWN, PLAN


@inlined
def _place(work, at):
    """Assign memory from address `at` on to the components; returns the address behind it."""
    plan = work + PLAN
    for k in range(load_i64(work + COMPONENTS)):
        part = work + FIRST_COMPONENT + k * COMPONENT_BYTES
        groups = (load_i64(plan + ACROSS) * load_i64(part + SAMPLING_H) + GROUP_BLOCKS - 1) // GROUP_BLOCKS
        rows = load_i64(plan + DOWN) * load_i64(part + SAMPLING_V)
        store_i64(part + ROW_GROUPS, groups)
        store_i64(part + ALL_COEFFICIENTS, at)
        store_i64(part + MASKS, at + rows * groups * GROUP_BYTES)
        at += rows * groups * (GROUP_BYTES + 8 * GROUP_BLOCKS)
        store_i64(part + PRECISIONS, at)
        at += 64
    return at


@inlined
def bytes_of_coefficients(work):
    """Bytes that :func:`place_coefficients` needs."""
    return _place(work, np.int64(0)) + 64


@inlined
def place_coefficients(work, memory):
    """Place all coefficients in `memory`, which must be zeroed."""
    _place(work, (memory + 63) & -64)

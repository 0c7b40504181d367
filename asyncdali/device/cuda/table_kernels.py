"""Brings the tables of an iteration's launches together in pinned memory."""

from __future__ import annotations

from ...compiled.intrinsics import copy_bytes, load_i64
from ...compiled.step import compiled


@compiled(1, brief=True)
def write_tables(table):
    """Table (int64 each): 0 target, 1 arrays; then of each its address, its place behind the target, its bytes."""
    target, entry = load_i64(table), table + 16
    for _ in range(load_i64(table + 8)):
        copy_bytes(target + load_i64(entry + 8), load_i64(entry), load_i64(entry + 16))
        entry += 24
    return 0

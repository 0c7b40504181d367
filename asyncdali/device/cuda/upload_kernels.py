"""Writes the upload of an iteration (arrays, then the tables of launches) into pinned memory."""

from __future__ import annotations

from ...compiled.intrinsics import copy_bytes, load_i64
from ...compiled.step import compiled
from ...compiled.tables import Field, Table

PIECE = Table(
    "PIECE",
    Field("place", "int64", "offset of the array in the upload, in bytes"),
    Field("source", "address", "of the array"),
    Field("bytes", "int64", "bytes of the array"),
)

piece = PIECE.at


@compiled(5)
def fill_upload(staged, pieces, count, start, words):
    """Copy the arrays of PIECE[count] to `staged`, and the `words` words behind these records to `start` bytes behind `staged`."""
    for _ in range(count):
        copy_bytes(staged + load_i64(pieces + piece.place), load_i64(pieces + piece.source), load_i64(pieces + piece.bytes))
        pieces += piece.size
    copy_bytes(staged + start, pieces, 8 * words)
    return 0

"""Writes the upload of an iteration (the tables of launches, then arrays) into pinned memory."""

from __future__ import annotations

from ...compiled.intrinsics import copy_bytes, load_i64, store_i64
from ...compiled.step import compiled
from ...compiled.tables import Field, Table

PIECE = Table(
    "PIECE",
    Field("place", "int64", "offset of the array in the upload, in bytes"),
    Field("source", "address", "of the array"),
    Field("bytes", "int64", "bytes of the array"),
)

piece = PIECE.at


@compiled(6)
def fill_upload(staged, pieces, count, words, addresses, base):
    """Copy the arrays of PIECE[count] and the tables to `staged`.

    Behind the records are the `words` words of the tables, then the indices of the `addresses` words that are offsets from `base`.
    """
    for _ in range(count):
        copy_bytes(staged + load_i64(pieces + piece.place), load_i64(pieces + piece.source), load_i64(pieces + piece.bytes))
        pieces += piece.size
    for k in range(addresses):
        word = pieces + 8 * load_i64(pieces + 8 * (words + k))
        store_i64(word, load_i64(word) + base)
    copy_bytes(staged, pieces, 8 * words)
    return 0

"""Lays out the upload of an iteration (the tables of launches, then arrays), and writes it into pinned memory."""

from __future__ import annotations

from ...compiled.intrinsics import copy_bytes, larger, load_i64, store_i64
from ...compiled.step import compiled
from ...compiled.tables import Field, Table

ALIGNMENT = 64

UPLOAD = Table(
    "UPLOAD",
    Field("table_words", "int64", "number of words of the tables"),
    Field("addresses", "int64", "number of words that are addresses"),
    Field("arrays", "int64", "number of arrays"),
    Field("things", "int64", "number of arrays and of pieces of scratch memory"),
    Field("upload_bytes", "int64", "size of tables and arrays, set by `place_upload`"),
    Field("total_bytes", "int64", "size of all, set by `place_upload`"),
)
"""Behind the table are, as int64: the words of the launches' tables; the indices of those that are addresses, which have the number of a
thing instead; the bytes of each thing, arrays first; its place."""

at = UPLOAD.at


@compiled(1)
def place_upload(upload):
    """Give each thing its place, and the addresses the places of their things."""
    words = upload + at.size
    indices = words + 8 * load_i64(upload + at.table_words)
    sizes = indices + 8 * load_i64(upload + at.addresses)
    things, arrays = load_i64(upload + at.things), load_i64(upload + at.arrays)
    places = sizes + 8 * things
    end = indices - words
    store_i64(upload + at.upload_bytes, larger(end, ALIGNMENT))
    for k in range(things):
        store_i64(places + 8 * k, end)
        end += (load_i64(sizes + 8 * k) + ALIGNMENT - 1) & -ALIGNMENT
        if k + 1 == arrays:
            store_i64(upload + at.upload_bytes, larger(end, ALIGNMENT))
    store_i64(upload + at.total_bytes, larger(end, ALIGNMENT))
    for k in range(load_i64(upload + at.addresses)):
        word = words + 8 * load_i64(indices + 8 * k)
        store_i64(word, load_i64(places + 8 * load_i64(word)))
    return 0


@compiled(4)
def fill_upload(upload, sources, staged, base):
    """Copy the tables, with addresses from `base` on, and the arrays to `staged`. `sources` are addresses of the arrays' addresses."""
    words = upload + at.size
    indices = words + 8 * load_i64(upload + at.table_words)
    sizes = indices + 8 * load_i64(upload + at.addresses)
    places = sizes + 8 * load_i64(upload + at.things)
    for k in range(load_i64(upload + at.arrays)):
        source = load_i64(load_i64(sources + 8 * k))
        copy_bytes(staged + load_i64(places + 8 * k), source, load_i64(sizes + 8 * k))
    for k in range(load_i64(upload + at.addresses)):
        word = words + 8 * load_i64(indices + 8 * k)
        store_i64(word, load_i64(word) + base)
    copy_bytes(staged, words, indices - words)
    return 0

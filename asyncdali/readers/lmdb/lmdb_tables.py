"""Table of the walk through an LMDB file."""

from __future__ import annotations

from ...compiled.tables import Field, Table

ENTRY = Table(
    "ENTRY",
    Field("value", "uint8[length]", "offset in the file and bytes of a record's value", ("offset", "length")),
    Field("key", "uint8[length]", "offset in the file and bytes of the record's key", ("offset", "length")),
)
"""The place of one record."""

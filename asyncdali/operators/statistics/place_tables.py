"""Locations of numbers of samples: three words in the tables of reductions and of ``normalize``."""

from __future__ import annotations

from ...compiled.tables import Field, Table
from ...device.launch import Entry

PLACE = Table(
    "PLACE",
    Field("addresses", "addresses", "of the samples' numbers; 0: they lie in a block"),
    Field("block", "address", "of a block of memory with the numbers of all samples"),
    Field("offsets", "int64[samples]", "bytes from the block's begin to a sample's numbers"),
)
"""Compiled steps read only `addresses`."""

_PARTS = tuple(field.name for field in PLACE.fields)

Place = tuple[Entry, Entry, Entry]
"""The words of a PLACE: addresses, 0, 0; or 0, a block, offsets."""
NOWHERE: Place = (0, 0, 0)


def place_field(name: str, kind: str, meaning: str) -> Field:
    """The field of a table that locates numbers. `kind` is the type of a sample's numbers."""
    return Field(name, f"PLACE of {kind}", meaning, _PARTS)


def placed(name: str, place: Place) -> dict[str, object]:
    """The words of :func:`place_field` by name."""
    return {f"{name}_{part}": entry for part, entry in zip(_PARTS, place, strict=True)}

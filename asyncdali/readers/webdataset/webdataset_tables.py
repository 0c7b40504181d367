"""Tables of the scan of a tar archive."""

from __future__ import annotations

from ...compiled.tables import Field, Table

MEMBER = Table(
    "MEMBER",
    Field("data", "uint8[length]", "offset in the archive and bytes of the member's data", ("offset", "length")),
    Field("kind", "int64", "the header's type flag, a character"),
    Field("name", "uint8[length]", "offset in the archive and bytes of a long name; length 0: the short name counts", ("offset", "length")),
    Field("link", "uint8[length]", "offset in the archive and bytes of the name that a link has as its target", ("offset", "length")),
)
"""The place of one member."""

PAX = Table(
    "PAX",
    Field("path", "uint8[length]", "offset in the attributes and bytes of the attribute `path`", ("offset", "length")),
    Field("link", "uint8[length]", "offset in the attributes and bytes of the attribute `linkpath`", ("offset", "length")),
    Field("data_length", "int64", "value of the attribute `size`; -1: there is none"),
    Field("sparse", "int64", "1: there are attributes of a sparse file"),
)
"""The pax attributes of a member."""

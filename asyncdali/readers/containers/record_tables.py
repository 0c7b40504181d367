"""Tables of the steps that read records of container files (``record_kernels``)."""

from __future__ import annotations

from ...compiled.tables import Field, Table

_DESCRIPTORS = Field("descriptors", "int64[samples]", "of the records' files")
_OFFSETS = Field("offsets", "int64[samples]", "of the records in their files, in bytes")

READ_RECORDS = Table(
    "READ_RECORDS",
    _DESCRIPTORS,
    _OFFSETS,
    Field("lengths", "int64[samples]", "bytes to read"),
    Field("needed", "int64[samples]", "bytes that there must be at least"),
    Field("addresses", "addresses", "where the records are read to"),
)
MAPPED_RECORDS = Table(
    "MAPPED_RECORDS",
    _DESCRIPTORS,
    _OFFSETS,
    Field("sizes", "int64[samples]", "bytes of each record"),
    Field("one_byte", "iovec", "a byte without meaning; stores to it keep the compiler from removing the loads"),
    Field("addresses", "addresses", "of the records in the maps"),
    Field("indices", "int64[samples]", "numbers of the records"),
    Field("touched", "uint8[records]", "1: the record has its pages in the map"),
)
COPY_PARTS = Table(
    "COPY_PARTS",
    Field("sources", "addresses", "of the parts"),
    Field("sizes", "int64[samples]", "bytes of each part"),
    Field("targets", "addresses", "where the parts are copied to"),
)
ADVISE_RECORDS = Table("ADVISE_RECORDS", _DESCRIPTORS, _OFFSETS, Field("sizes", "int64[samples]", "bytes of each record"))

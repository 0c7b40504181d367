"""Tables of ``readers.mxnet``."""

from __future__ import annotations

from ...compiled.tables import Field, Table

IMAGE_RECORD = Table(
    "IMAGE_RECORD",
    Field("image", "uint8[length]", "the image's bytes in the record; address 0: the record has to be joined first", ("address", "length")),
    Field("labels", "float32[count]", "the labels in the record", ("address", "count")),
    Field("label", "float32", "bits of the single label"),
)
"""The parts of a record."""

PARSE_RECORD = Table(
    "PARSE_RECORD",
    Field("addresses", "addresses", "of the records"),
    Field("sizes", "int64[samples]", "bytes of each record"),
    Field("found", "IMAGE_RECORD[samples]", "written by the step"),
    Field("which", "int64", "ALL, IN_PLACE or UNJOINED of ``mxnet_kernels``: which records are looked at"),
)

"""Tables of ``readers.caffe``."""

from __future__ import annotations

from ...compiled.tables import Field, Table

SAID_ENCODED, SAID_RAW = 1, 2
"""Values of DATUM's `encoding`; 0: the record has no such field."""

DATUM = Table(
    "DATUM",
    Field("data", "uint8[length]", "the image's bytes in the record", ("address", "length")),
    Field("shape", "int64", "of an image that is not encoded", ("channels", "height", "width")),
    Field("label", "int64", "of the record"),
    Field("has_label", "int64", "1: the record has a label"),
    Field("encoding", "int64", "whether the image is an encoded file: 0, SAID_ENCODED or SAID_RAW"),
    Field("floats", "int64", "1: the record has pixels as floats"),
)
"""The parts of a record."""

PARSE_DATUM = Table(
    "PARSE_DATUM",
    Field("addresses", "addresses", "of the records"),
    Field("sizes", "int64[samples]", "bytes of each record"),
    Field("found", "DATUM[samples]", "zeros; written by the step"),
)
JOIN_PLANES = Table(
    "JOIN_PLANES",
    Field("planes", "addresses", "of the images as they are stored, uint8[channels, height, width]"),
    Field("areas", "int64[samples]", "height times width"),
    Field("channels", "int64[samples]", "planes of each image"),
    Field("pixels", "addresses", "of the outputs, uint8[height, width, channels]"),
)

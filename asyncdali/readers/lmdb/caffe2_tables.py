"""Tables of ``readers.caffe2``."""

from __future__ import annotations

from ...compiled.tables import Field, Table

AXES = 3
"""Most dimensions of a tensor whose extents are stored."""

TENSOR = Table(
    "TENSOR",
    Field("message", "uint8[length]", "the TensorProto in the record", ("address", "length")),
    Field("type", "int64", "element type (FLOAT, INT32, BYTE, STRING or INT64)"),
    Field("dimensions", "int64", "number of dimensions"),
    Field("extent", "int64", "of the first dimensions", tuple(map(str, range(AXES)))),
    Field("numbers", "int64", "numbers of the tensor's type, or strings"),
    Field("data", "uint8[length]", "bytes of the tensor, or the first string", ("address", "length")),
)
"""The description of one tensor of a record."""

PARSE_TENSORS = Table(
    "PARSE_TENSORS",
    Field("addresses", "addresses", "of the records"),
    Field("sizes", "int64[samples]", "bytes of each record"),
    Field("tensors", "int64", "tensors of each record"),
    Field("found", "TENSOR[samples, tensors]", "zeros; written by the step"),
)
WRITE_TENSORS = Table(
    "WRITE_TENSORS",
    Field("found", "TENSOR[samples, tensors]", "the tensors of all records"),
    Field("tensors", "int64", "tensors of each record"),
    Field("count", "int64", "tensors of each record that are written"),
    Field("which", "int64[count]", "numbers of these tensors"),
    Field("targets", "addresses[count]", "of an int64[samples] each: where the numbers are written"),
)

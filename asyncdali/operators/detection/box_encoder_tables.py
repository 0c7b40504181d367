"""Tables of ``box_encoder``."""

from __future__ import annotations

from ...compiled.tables import SAMPLES, Field, Table

_CENTRED = ("x", "y", "width", "height")

ENCODING = Table(
    "ENCODING",
    Field("scale", "float32", "factor of boxes and anchors before offsets are computed"),
    Field("mean", "float32", "subtracted from offsets", _CENTRED),
    Field("std", "float32", "divisors of offsets", _CENTRED),
    Field("criteria", "float32", "overlap above which an anchor takes a box"),
)
"""Record of the operator, of float32."""

BOX_ENCODER = Table(
    "BOX_ENCODER",
    Field("boxes", "addresses", "of the boxes: left, top, right, bottom"),
    Field("labels", "addresses", "of the boxes' labels"),
    Field("encoded", "addresses", "of the output: a box for each anchor"),
    Field("classes", "addresses", "of the output: a label for each anchor"),
    Field("counts", "int64[samples]", "boxes of each sample"),
    Field("anchors", "float32[anchor_count, 4]", "left, top, right, bottom"),
    Field("anchor_count", "int64", "number of anchors"),
    Field("numbers", "ENCODING", "constants of the encoding"),
    Field("offsets", "int64", "1: offsets are wanted; 0: boxes"),
    Field("columns", "float32[6, columns_length]", "left, top, right, bottom, area of the anchors; int32: their numbers"),
    Field("columns_length", "int64", "`anchor_count`, rounded up to whole vectors"),
    Field("scratch", "int64", "offset of the scratch: int32[columns_length], float32[16], then two vectors per box"),
)

BOX_ENCODER_GPU = BOX_ENCODER.extended(
    Field("winners", "int32[all boxes]", "best anchor of each box; scratch"),
    Field("starts", "int64[samples]", "number of each sample's first box"),
    SAMPLES,
)
"""The table of a GPU's kernels, which do not use `scratch`."""

"""Tables of the kernels that move elements between strided places."""

from __future__ import annotations

from ...compiled.tables import INPUTS, OUTPUTS, SAMPLES, Field, Table

PIECE_HEAD = Table(
    "PIECE_HEAD",
    Field("input", "int64", "index of the input"),
    Field("offset", "int64", "bytes from the begin of the input's sample to the piece"),
    Field("target_offset", "int64", "bytes from the begin of the output's sample to the piece"),
    Field("made", "int64", "1: elements already have the output's type, and are not converted"),
)
"""Begin of the record of a piece. Behind it: the extent of each axis, the strides in the input, the strides in the output (bytes)."""

_SHARED = (
    OUTPUTS,
    Field("pieces", "int64", "pieces of a sample"),
    Field("axes", "int64", "axes of a piece"),
    Field("records", "int64[samples, pieces, PIECE_HEAD.words + 3 * axes]", "the pieces"),
)
PIECES = Table(
    "PIECES",
    *_SHARED,
    Field("inputs", "addresses[inputs]", "of the addresses of each input's samples"),
    Field("itemsize", "int64", "bytes of an element"),
)
"""The compiled step's table."""

PIECE = Table(
    "PIECE",
    *_SHARED,
    INPUTS,
    Field("common", "IN[]", "the array that all samples share, if `inputs` is 0"),
    SAMPLES,
    Field("number", "int64", "of the piece"),
)
"""The table of a GPU's kernel, which moves one piece of every sample."""

BORDERED = Table(
    "BORDERED",
    INPUTS,
    OUTPUTS,
    Field("records", "int64[samples, 4, axes]", "extents of the output, those of the input, where the window begins, strides of the input"),
    Field("axes", "int64", "axes of a sample"),
    Field("border", "int64", "how the input goes on beyond its bounds (crop_rules.BORDERS)"),
    SAMPLES,
)

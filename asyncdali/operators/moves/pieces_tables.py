"""Tables of the kernels that move elements between strided places."""

from __future__ import annotations

from ...compiled.tables import OUTPUTS, SAMPLES, Field, Table

PIECE_HEAD = Table(
    "PIECE_HEAD",
    Field("input", "int64", "index of the input"),
    Field("offset", "int64", "bytes from the begin of the input's sample to the piece"),
    Field("target_offset", "int64", "bytes from the begin of the output's sample to the piece"),
    Field("made", "int64", "1: the input is one array of the output's type, which all samples share; its elements are not converted"),
)
"""Head of a piece's record. Behind it: the extent of each axis, the strides in the input, the strides in the output (bytes)."""

_SHARED = (
    OUTPUTS,
    Field("pieces", "int64", "pieces of a sample"),
    Field("axes", "int64", "axes of a piece"),
    Field("records", "int64[samples, pieces, PIECE_HEAD.words + 3 * axes]", "the pieces"),
)
PIECES = Table(
    "PIECES",
    *_SHARED,
    Field("inputs", "addresses[inputs]", "of the addresses of each input's samples, or of the array that all samples share"),
    Field("itemsize", "int64", "bytes of an element"),
)
"""The compiled step's table."""

MOVE_HEAD = Table(
    "MOVE_HEAD",
    Field("source", "int64", "bytes from the begin of the input's sample, or of `common`, to the first element"),
    Field("target", "int64", "bytes from the begin of the output's sample to the first element"),
    Field("rows", "int64", "product of all extents but the last; 0: there is nothing to do"),
)
"""Head of a sample's record of a piece on a GPU. The rest is as in PIECE_HEAD; axes adjacent in memory are merged."""

MOVE = Table(
    "MOVE",
    Field("inputs", "addresses", "of the input's samples; not read if `common` is used"),
    OUTPUTS,
    Field("records", "int64[samples, MOVE_HEAD.words + 3 * AXES]", "the pieces"),
    Field("common", "IN[]", "the array that all samples share; 0: each has its own"),
    SAMPLES,
)
"""The table of a GPU's kernels, which move one piece of every sample."""

MOVING = Table(
    "MOVING",
    Field("pieces", "int64", "pieces of a sample"),
    Field("axes", "int64", "axes of a piece"),
    Field("records", "int64[samples, pieces, PIECE_HEAD.words + 3 * axes]", "the pieces"),
    SAMPLES,
    Field("number", "int64", "of the piece"),
    Field("in_size", "int64", "bytes of an element of the input"),
    Field("out_size", "int64", "bytes of an element of the output"),
    Field("moves", "int64[samples, MOVE_HEAD.words + 3 * axes]", "result: the records of MOVE, with `left` axes each"),
    Field("left", "int64", "result: axes of a piece, at least 1"),
    Field("runs", "int64", "result: 1 if the last axis is dense in the input and the output of all samples"),
    Field("fills", "int64", "result: 1 if the last axis repeats one element of the input, and is dense in the output"),
    Field("dense", "int64", "result: 1 if the elements of every piece follow each other in the output"),
    Field("elements", "int64", "result: of the largest piece"),
    Field("width", "int64", "result: elements of the longest row"),
)
"""Arguments and results of ``pieces_merging_kernels.plan_moves``."""

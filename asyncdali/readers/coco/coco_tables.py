"""Tables that draw the masks of ``readers.coco``."""

from __future__ import annotations

from ...compiled.tables import Field, Table

POLYGON, RUNS = 0, 1
"""Kinds of a drawing step."""

DRAWING = Table(
    "DRAWING",
    Field("label", "int64", "value that is written to the pixels"),
    Field("kind", "int64", "POLYGON or RUNS"),
    Field("first", "int64", "first vertex, or first run"),
    Field("end", "int64", "behind the last vertex, or the last run"),
)
"""One shape of a mask."""

DRAW_MASKS = Table(
    "DRAW_MASKS",
    Field("targets", "addresses", "of the masks, int32[height, width] each"),
    Field("heights", "int64[samples]", "rows of each mask"),
    Field("widths", "int64[samples]", "columns of each mask"),
    Field("firsts", "int64[samples]", "number of each sample's first drawing"),
    Field("counts", "int64[samples]", "drawings of each sample"),
    Field("drawings", "DRAWING[drawings]", "the shapes of all images"),
    Field("vertices", "float32[vertices, 2]", "of all polygons: x, y"),
    Field("runs", "int64[runs]", "lengths of runs along columns, outside and inside in turns"),
    Field("scratch", "int64", "offset of the scratch: LIMITS, then a byte for each pixel of the largest mask and one more"),
)
LIMITS = Table(
    "LIMITS",
    Field("low", "int64", "the first pixel that is marked, counted along columns"),
    Field("high", "int64", "the last pixel that is marked"),
)
"""The part of the marks that an outline has touched."""

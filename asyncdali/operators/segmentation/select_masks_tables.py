"""Table of ``segmentation.select_masks``."""

from __future__ import annotations

from ...compiled.tables import SAMPLES, Field, Table

SELECT_MASKS = Table(
    "SELECT_MASKS",
    SAMPLES,
    Field("ids", "addresses", "of the samples' ids"),
    Field("id_shapes", "int64[samples, 1]", "ids of each sample"),
    Field("polygons", "addresses", "of the samples' polygons"),
    Field("polygon_shapes", "int64[samples, 2]", "polygons of each sample, and 3"),
    Field("vertices", "addresses", "of the samples' vertices"),
    Field("vertex_shapes", "int64[samples, 2]", "vertices of each sample, coordinates of a vertex"),
    Field("itemsize", "int64", "bytes of a coordinate"),
    Field("reindex", "int64", "1: ids become their indices; 0: they stay"),
    Field("slots", "int64[most slots]", "scratch: a hash table of a sample's ids"),
    Field("slot_mask", "int64", "slots - 1; slots are a power of two, twice as many as ids or more"),
    Field("begins", "int64[most ids + 1]", "scratch: where the polygons of each id begin"),
    Field("firsts", "int64[samples + 1]", "first row in `chosen`; a sample has as many rows as polygons; written by `measure`"),
    Field("chosen", "int64[all, 2]", "number of the polygon, index of its id; written by `choose`"),
    Field("kept", "int64[samples]", "polygons that are selected; written by `choose`"),
    Field("new_shapes", "int64[samples, 2]", "vertices that are selected, coordinates of a vertex; written by `choose`"),
    Field("new_polygons", "int32[all, 3]", "in rows as `chosen`; written by `take`"),
    Field("new_vertices", "addresses", "of the samples' new vertices, written by `take`; `choose` writes their offsets"),
)

"""Tables of ``grid_mask``."""

from __future__ import annotations

from ...compiled.tables import INPUTS, OUTPUTS, SAMPLES, Field, Table

GEOMETRY = Table(
    "GEOMETRY",
    Field("planes", "int64", "frames, times channels that come first"),
    Field("height", "int64", "rows"),
    Field("width", "int64", "pixels of a row"),
    Field("channels", "int64", "channels that come last"),
)
"""Record of a sample."""

GRID = Table(
    "GRID",
    Field("cosine", "float32", "of the grid's angle, by the tile's side"),
    Field("sine", "float32", "of the grid's angle, by the tile's side"),
    Field("shift", "float32", "in tiles, after turning", "xy"),
    Field("ratio", "float32", "side of a black square by the tile's"),
)
"""Record of a sample, of float32."""

GRID_MASK = Table(
    "GRID_MASK",
    INPUTS,
    OUTPUTS,
    Field("geometry", "GEOMETRY[samples]", "extents of the images"),
    Field("grids", "GRID[samples]", "the grids"),
    SAMPLES,
    Field("scratch", "int64", "offset of the step's scratch in the thread's: uint8[width]; a GPU does not use it"),
)

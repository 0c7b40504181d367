"""Tables of ``optical_flow``."""

from __future__ import annotations

from ...compiled.tables import INPUTS, OUTPUTS, SAMPLES, Field, Table

FLOW_RECORD = Table(
    "FLOW_RECORD",
    Field("frames", "int64", "of the sequence"),
    Field("height", "int64", "rows of a frame"),
    Field("width", "int64", "pixels of a row"),
    Field("channels", "int64", "of a pixel"),
    Field("rows", "int64", "of the pictures that are searched: not less than SMALLEST"),
    Field("columns", "int64", "of the pictures that are searched: not less than SMALLEST"),
    Field("levels", "int64", "of the pyramid"),
    Field("finest", "int64", "the last level that is searched"),
    Field("pyramid", "int64", "elements of the pyramid of a picture"),
    Field("work", "int64", "elements of the work memory of a pair of frames"),
    Field("begin", "int64", "elements of the work memory of the samples before, on a GPU"),
)
FLOW = Table(
    "FLOW",
    INPUTS,
    Field("hints", "addresses", "of the samples; where `hinted` is 0 they are not read"),
    OUTPUTS,
    Field("records", "FLOW_RECORD[samples]", "extents"),
    Field("scratch", "int64", "work memory: its place in the scratch of a thread, on a GPU its address"),
    Field("hinted", "int64", "1: begin at the hints"),
    Field("temporal", "int64", "1: begin at the flow of the pair before"),
    Field("order", "int64", "0: RGB, 1: BGR"),
    Field("grid", "int64", "pixels of a cell of the output, along each axis"),
    Field("hint_grid", "int64", "pixels of a cell of the hints, along each axis"),
    Field("descents", "int64", "steps of the search of a patch"),
    Field("refinements", "int64", "rounds of the refinement"),
    SAMPLES,
    Field("first", "int64", "first pair of frames of a launch"),
    Field("pairs", "int64", "pairs of frames of a launch"),
    Field("level", "int64", "of a launch"),
    Field("colour", "int64", "pixels that a launch refines: those whose row and column have this parity"),
)

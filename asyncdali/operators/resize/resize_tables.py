"""Tables of ``resize`` and of all operators that resample pictures."""

from __future__ import annotations

from ...compiled.tables import INPUTS, OUTPUTS, SAMPLES, Field, Table

RESIZE_RECORD = Table(
    "RESIZE_RECORD",
    Field("outer", "int64", "frames times leading channels"),
    Field("in", "int64", "extents of the input", ("depth", "height", "width")),
    Field("channels", "int64", "trailing channels"),
    Field("out", "int64", "extents of the output", ("depth", "height", "width")),
    Field("min_filter", "int64", "DALIInterpType of axes that shrink"),
    Field("mag_filter", "int64", "DALIInterpType of the other axes"),
    Field("antialias", "int64", "1: filters widen where an axis shrinks"),
)
"""Record of a sample, which is addressed as ``[outer][depth][height][width][channels]``."""

INTERVAL = Table(
    "INTERVAL",
    Field("lo", "float64", "start of the source along the axis, in pixels"),
    Field("hi", "float64", "end of the source along the axis; less than `lo`: the axis is flipped"),
)
"""A sample has three of these records: depth, height and width."""

FILTER = Table(
    "FILTER",
    Field("offset", "int64", "index of the filter's first entry in the filter tables"),
    Field("entries", "int64", "entries of the filter, without the zero before and the zero after"),
    Field("radius", "int64", "source pixels from the filter's centre to its edge"),
)
"""Description of a filter; DALIInterpType is the index."""

TAPS = Table(
    "TAPS",
    Field("first", "int32[outputs]", "index of the first source position of each output"),
    Field("weights", "float32[outputs, count]", "of source positions"),
    Field("count", "int64", "source positions that one output takes"),
)
"""The taps of an axis. On the host `first` and `weights` are addresses; on a GPU they are offsets in 4-byte words from the first tap."""

_PARTS = tuple(field.name for field in TAPS.fields)
_AXES = tuple(Field(axis, "TAPS", f"of the {axis}", _PARTS) for axis in ("depth", "height", "width"))
TAP_HEAD = Table("TAP_HEAD", *_AXES, Field("free", "address", "of the scratch behind the taps"))
"""Head of the taps of a sample in scratch."""
PLACES = Table("PLACES", *_AXES)
"""Record of a sample: its taps on a GPU."""

_SHARED = (
    INPUTS,
    OUTPUTS,
    Field("records", "RESIZE_RECORD[samples]", "extents and filters"),
    Field("intervals", "INTERVAL[samples, 3]", "source of each axis"),
    Field("filters", "float32[]", "entries of all filters, each with a zero before and after"),
    Field("descriptions", "FILTER[filters]", "where the filters are"),
)
RESIZE = Table(
    "RESIZE",
    *_SHARED,
    Field("scratch", "int64", "offset of the step's scratch in the thread's"),
    Field("tap_tables", "address", "of the compiled function that computes the taps"),
    Field("fed", "int64[samples]", "not 0: the sample was resized while its input was decoded (resize_rows.py); 0: no sample was"),
)
"""The compiled step's table."""
RESIZE_CUDA = Table(
    "RESIZE_CUDA",
    *_SHARED,
    Field("places", "PLACES[samples]", "where the taps of each axis are"),
    Field("taps", "int32[] and float32[]", "all taps"),
    SAMPLES,
)
"""The table of a GPU's kernels: the first launch computes the taps, the second one reads them."""

FILLING = Table(
    "FILLING",
    Field("samples", "int64", "samples of the batch"),
    Field("ndim", "int64", "axes of a sample"),
    Field("first_axis", "int64", "the first axis that is resampled"),
    Field("axes", "int64", "number of axes that are resampled: two or three"),
    Field("shapes", "int64[samples, ndim]", "of the inputs"),
    Field("extents", "int64[samples, axes]", "of the outputs along the axes that are resampled"),
    Field("extents_step", "int64", "bytes from a sample's extents to the next one's; 0: all have the same"),
    Field("source", "float64[samples, axes]", "begin and end of the source along these axes; 0: the whole input", ("lo", "hi")),
    Field("filters", "int64[samples]", "DALIInterpType of axes that shrink, and of the others", ("min", "mag")),
    Field("filters_step", "int64", "bytes from a sample's filter to the next one's; 0: all have the same"),
    Field("antialias", "int64", "1: filters widen where an axis shrinks"),
    Field("descriptions", "FILTER[filters]", "where the filters are"),
    Field("records", "RESIZE_RECORD[samples]", "result"),
    Field("intervals", "INTERVAL[samples, 3]", "result"),
    Field("out_shapes", "int64[samples, ndim]", "result: shapes of the outputs"),
    Field("volume", "int64", "result: 1 if the depth is resampled"),
    Field("plane_bytes", "int64", "result: scratch for the largest blended plane"),
    Field("largest", "int64", "result: elements of the largest input"),
)
"""Arguments and results of ``resampling.fill_records``."""

PLACING = Table(
    "PLACING",
    Field("samples", "int64", "samples of the batch"),
    Field("records", "RESIZE_RECORD[samples]", "extents and filters"),
    Field("intervals", "INTERVAL[samples, 3]", "source of each axis"),
    Field("descriptions", "FILTER[filters]", "where the filters are"),
    Field("places", "PLACES[samples]", "result"),
    Field("rows", "int64", "result: rows of the output that has most"),
    Field("channels", "int64", "result: channels of all samples if they have the same, at most 4; else 0"),
    Field("whole", "int64", "result: 1 if no input is empty in height or width"),
    Field("signed", "int64", "result: 1 if weights may be negative"),
)
"""Arguments and results of ``resampling.place_taps``."""

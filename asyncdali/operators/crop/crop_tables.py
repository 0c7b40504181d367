"""Tables of ``crop`` and ``crop_mirror_normalize``: both copy a window of a sample that is addressed with five axes."""

from __future__ import annotations

from ...compiled.tables import INPUTS, OUTPUTS, SAMPLES, Field, Table

AXES = "FDHWC"
"""The axes of every sample: frames, depth, height, width, channels."""

WINDOW = Table(
    "WINDOW",
    Field("in_stride", "int64", "bytes from one position of the input's axis to the next; 0: the layout lacks the axis", AXES.lower()),
    Field("out_stride", "int64", "the same in the output", AXES.lower()),
    Field("in_extent", "int64", "positions along each axis of the input; 1 for an axis that the layout lacks", AXES.lower()),
    Field("anchor", "int64", "where the window begins in the input; may be negative", AXES.lower()),
    Field("out_extent", "int64", "positions along each axis of the output", AXES.lower()),
    Field("row", "int64", "row of the means and multipliers that the sample uses"),
)
"""Record of a sample."""

CROP = Table(
    "CROP",
    INPUTS,
    OUTPUTS,
    Field("records", "WINDOW[samples]", "the windows"),
    Field("fills", "OUT[channels]", "values outside the input"),
    Field("border", "int64", "0: `fills` are outside the input, else the extension of the input (crop_rules.BORDERS)"),
    SAMPLES,
)

NORMALIZE = Table(
    "NORMALIZE",
    INPUTS,
    OUTPUTS,
    Field("records", "WINDOW[samples]", "the windows"),
    Field("step", "int64", "words from the record of a sample to the next one; 0: all samples have the same record"),
    Field("mirrors", "int64[samples]", "not 0: columns are stored in reverse order"),
    Field("means", "float32[rows, channels]", "subtracted from elements"),
    Field("multipliers", "float32[rows, channels]", "factors of the differences"),
    Field("fills", "OUT[output channels]", "values outside the input and of added channels"),
    Field("channels", "int64", "channels per row of `means` and `multipliers`"),
    SAMPLES,
)
"""If a GPU's kernel resizes its input, the table of ``resize`` follows this one."""

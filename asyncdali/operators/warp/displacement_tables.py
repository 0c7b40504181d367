"""Tables of ``sphere`` and ``water``."""

from __future__ import annotations

from ...compiled.tables import INPUTS, OUTPUTS, SAMPLES, Field, Table

IMAGE = Table(
    "IMAGE",
    Field("height", "int64", "rows"),
    Field("width", "int64", "pixels of a row"),
    Field("channels", "int64", "elements of a pixel"),
)
"""Record of a sample: its shape."""

DISPLACEMENT = Table(
    "DISPLACEMENT",
    INPUTS,
    OUTPUTS,
    Field("shapes", "IMAGE[samples]", "of the images"),
    Field("masks", "int64[samples]", "0: the image stays as it is"),
    Field("fill", "float32[1]", "value outside the image"),
    Field("linear", "int64", "1: linear interpolation; 0: nearest"),
    Field("scratch", "int64", "offset of the step's scratch in the thread's"),
    Field("parameters", "float32[6]", "of water: amplitude, frequency and phase, each along x and y"),
    SAMPLES,
)

"""Table of ``ssd_random_crop``."""

from __future__ import annotations

from ...compiled.tables import SAMPLES, Field, Table
from ...sampling.stream_tables import POSITION

SSD_CROP = Table(
    "SSD_CROP",
    POSITION,
    SAMPLES,
    Field("boxes", "float32[all, 4]", "left, top, right, bottom of all samples' boxes"),
    Field("firsts", "int64[samples + 1]", "first box of each sample"),
    Field("attempts", "int64", "proposals for each choice"),
    Field("windows", "float64[samples, 4]", "left, top, right, bottom; written by the kernel"),
    Field("kept", "int64[samples]", "boxes that are left; written by the kernel"),
    Field("indices", "int32[all]", "numbers of these boxes in their samples; written by the kernel"),
    Field("cropped", "int64[samples]", "1: the image is cropped; written by the kernel"),
)

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
    Field("images", "int64[samples, 3]", "shapes of the images, HWC"),
    Field("itemsize", "int64", "bytes of an element of an image"),
    Field("shapes", "int64[samples, 3]", "of the cropped images; written by the kernel"),
    Field("offsets", "int64[samples]", "bytes before the first pixel of the window; written by the kernel"),
    Field("kept", "int64[samples]", "boxes that are left; written by the kernel"),
    Field("indices", "int32[all]", "numbers of these boxes in their samples; written by the kernel"),
    Field("moved", "float32[all, 4]", "these boxes in their windows; written by the kernel"),
)

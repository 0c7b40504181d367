"""Table of ``random_bbox_crop``."""

from __future__ import annotations

from ...compiled.tables import SAMPLES, Field, Table
from ...sampling.stream_tables import POSITION

BBOX_CROP = Table(
    "BBOX_CROP",
    POSITION,
    SAMPLES,
    Field("axes", "int64", "dimensions of a box"),
    Field("boxes", "float32[all, 2, axes]", "low corner and high corner of all samples' boxes"),
    Field("firsts", "int64[samples + 1]", "first box of each sample"),
    Field("thresholds", "float32[threshold_count]", "least overlaps"),
    Field("threshold_count", "int64", "number of thresholds"),
    Field("no_crop", "int64", "1: leaving the image whole is one more choice"),
    Field("attempts", "int64", "proposals for each threshold that is picked"),
    Field("all_attempts", "int64", "proposals of a sample; -1: without limit"),
    Field("scaling", "float32[2]", "range of the window's extents"),
    Field("aspects", "float32[aspect_count, 2]", "ranges of aspect ratios"),
    Field("aspect_count", "int64", "number of ranges"),
    Field("crop_shapes", "int64[samples, axes]", "extents of the window in pixels, or 0"),
    Field("input_shapes", "int64[samples, axes]", "extents of the image in pixels, or 0"),
    Field("need_all", "int64", "1: all boxes must overlap the window enough; 0: one box"),
    Field("iou", "int64", "1: overlaps are intersections over unions; 0: over the box"),
    Field("prune", "float32[1]", "the least part of a box in the window, or 0: the centre decides"),
    Field("anchors", "float32[samples, axes]", "low corners of the windows; written by the kernel"),
    Field("extents", "float32[samples, axes]", "of the windows; written by the kernel"),
    Field("kept", "int64[samples]", "boxes that are left; written by the kernel"),
    Field("indices", "int32[all]", "numbers of these boxes in their samples; written by the kernel"),
    Field("moved", "float32[all, 2, axes]", "these boxes in their windows; written by the kernel"),
    Field("settled", "int64[1]", "samples that got the best of all proposals, for none was good enough; written by the kernel"),
)

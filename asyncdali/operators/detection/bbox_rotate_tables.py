"""Table of ``bbox_rotate``."""

from __future__ import annotations

from ...compiled.tables import INPUTS, SAMPLES, Field, Table

BBOX_ROTATE = Table(
    "BBOX_ROTATE",
    INPUTS,
    SAMPLES,
    Field("firsts", "int64[samples + 1]", "first box of each sample among those of the batch"),
    Field("labels", "addresses", "of the samples' labels, or 0"),
    Field("rotations", "float64[samples, 2, 2]", "source directions of a step on the canvas along x and y"),
    Field("rotation_step", "int64", "bytes between the rotations of two samples; 0: one for all"),
    Field("images", "int64[samples, 2]", "width and height"),
    Field("canvases", "int64[samples, 2]", "width and height"),
    Field("size_step", "int64", "bytes between images, and between canvases; 0: one for all"),
    Field("corners", "int64", "1: boxes are two corners; 0: a corner and extents"),
    Field("relative", "int64", "1: boxes are relative to the image; 0: in pixels"),
    Field("mode", "int64", "index in MODES"),
    Field("least", "float64[1]", "the part of a box that must be left"),
    Field("boxes", "float32[all, 4]", "those that are left, from the sample's first on; written by the kernel"),
    Field("new_labels", "int32[all]", "their labels; written by the kernel"),
    Field("kept", "int64[samples]", "boxes that are left; written by the kernel"),
)
MODES = ("expand", "fixed", "halfway")

"""Tables of ``segmentation.random_object_bbox``."""

from __future__ import annotations

from ...compiled.tables import INPUTS, Field, Table
from ...sampling.stream_tables import POSITION

OBJECT = Table("OBJECT", Field("label", "int64", "of the object"))
"""The record of an object. The start and the end of its box follow, int64[axes] each."""

OBJECT_BBOX = Table(
    "OBJECT_BBOX",
    INPUTS,
    Field("shapes", "int64[samples, axes]", "extents of each mask"),
    Field("axes", "int64", "dimensions of the masks"),
    Field("begins", "addresses", "of the output where boxes begin"),
    Field("ends", "addresses", "of the output of ends or extents; 0: they follow the begins in the same output"),
    Field("labels", "addresses", "of the output of labels, or 0"),
    Field("extents", "int64", "1: `ends` are extents"),
    Field("foreground", "float32[samples]", "probability that an object is picked instead of the whole mask"),
    Field("backgrounds", "int64[samples]", "label of the background"),
    Field("classes", "int64[all classes]", "labels that are drawn among, of all samples; 0: all labels but the background"),
    Field("weights", "float32[all classes]", "weights of these labels"),
    Field("firsts", "int64[samples + 1]", "where each sample's classes begin"),
    Field("least", "int64[samples, axes]", "least extents of a box, or 0"),
    Field("largest", "int64", "number of objects that count, the ones with the largest boxes; 0: all objects"),
    POSITION,
    Field("scratch", "int64", "offset of the scratch: int32 for each element of the largest mask"),
    Field("any_class", "int64", "1: all objects form one class"),
)

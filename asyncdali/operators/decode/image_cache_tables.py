"""Tables of the steps that cache decoded pictures (``image_cache_kernels``)."""

from __future__ import annotations

from ...compiled.tables import INPUTS, Field, Table

DIGEST_FILES = Table(
    "DIGEST_FILES",
    INPUTS,
    Field("sizes", "int64[samples]", "bytes of each encoded picture"),
    Field("digests", "uint64[samples, 2]", "written by the step"),
    Field("seed", "int64", "of this process"),
)
KEEP_PICTURES = Table(
    "KEEP_PICTURES",
    Field("pictures", "addresses", "of the decoded samples"),
    Field("sizes", "int64[samples]", "bytes of each decoded sample"),
    Field("slots", "addresses", "of the memory that keeps each sample; 0: the sample is not kept"),
    Field("header", "int64", "bytes of a slot in front of the pixels; the first word becomes 1 when the pixels are there"),
)

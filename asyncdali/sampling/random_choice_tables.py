"""The table of ``random.choice``."""

from __future__ import annotations

from ..compiled.tables import SAMPLES, Field, Table

CHOICE = Table(
    "CHOICE",
    Field("stream", "uint64", "where the draws begin, see StreamPosition", ("key", "hi", "lo", "phase")),
    SAMPLES,
    Field("kind", "int64", "the element type of scalar inputs, below which is drawn (a DALIDataType); -1: inputs are lists"),
    Field("picks", "int64[samples]", "elements to draw"),
    Field("populations", "int64[samples]", "elements to choose from"),
    Field("inputs", "addresses", "of the lists"),
    Field("sizes", "int64[samples]", "bytes of one element"),
    Field("shared", "int64", "1: all draws of a sample come from one stream; 0: each has its own"),
    Field("cumulated", "float64[weights]", "cumulated weights of all samples; 0: all elements are as likely"),
    Field("firsts", "int64[samples + 1]", "the place of each sample's first weight"),
    Field("output", "address", "of the first sample; the others follow it"),
)

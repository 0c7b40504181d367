"""Tables of feeds: rows of a sample on their way from the step that computes them to the step that reads them (operators/row_feeds.py)."""

from __future__ import annotations

from .tables import Field, Table

FEED = Table(
    "FEED",
    Field("function", "address", "of the compiled function take(state, rows) of the reader: `rows` rows of the sample are complete"),
    Field("context", "address", "of the reader's table"),
    Field("capacities", "int64[samples]", "rows in the ring of a sample; 0: the sample is stored whole"),
    Field("scratch", "int64", "offset of the state in the scratch of the step that makes the rows"),
)
"""The reader of rows, as described to the step that computes them."""

FEED_STATE = Table(
    "FEED_STATE",
    Field("context", "address", "of the reader's table"),
    Field("sample", "int64", "index of the sample"),
    Field("scratch", "address", "of the reader's scratch"),
    Field("ring", "address", "of the ring; row k is in place k modulo `capacity`"),
    Field("capacity", "int64", "rows of the ring"),
    Field("next", "int64", "the reader's own: the row of the output that is made next"),
)
"""The reader's progress in a sample. A call with 0 rows starts from the first row: the decoder may restart with another library."""

STATE_BYTES = 64
"""Bytes of a FEED_STATE in scratch. The data behind it is aligned."""

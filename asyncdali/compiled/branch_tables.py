"""Tables of the steps in ``branches``.

`rows` arrays map a sample of the iteration to its index in a partial batch, or to -1 if the sample is not in the partial batch. A table
with 0 instead of the address of `rows` means that every sample keeps its index.
"""

from __future__ import annotations

from .tables import Field, Table

_ADDRESSES = Field("addresses", "addresses", "of the sub-batch's samples")
_ROWS = Field("rows", "int64[samples]", "places of the iteration's samples in the sub-batch, or 0")

BRANCH = Table(
    "BRANCH",
    Field("rows", "int64[samples]", "places of the iteration's samples in the branch, or 0"),
    Field("function", "address", "of the step that runs for the samples of the branch"),
    Field("context", "address", "of that step's table"),
)
LINK = Table(
    "LINK",
    Field("addresses", "addresses", "of the samples of the batch that is filled in"),
    Field("rows", "int64[samples]", "places of the iteration's samples in that batch, or 0"),
    Field("source_addresses", "addresses", "of the samples of the batch whose memory is used"),
    Field("source_rows", "int64[samples]", "places of the iteration's samples in that batch, or 0"),
)
SLOT = Table("SLOT", _ADDRESSES, _ROWS, Field("offset", "int64", "bytes from the start of the thread's scratch to the sample"))
OWN = Table(
    "OWN",
    _ADDRESSES,
    _ROWS,
    Field("targets", "addresses", "where the samples move to"),
    Field("sizes", "int64[samples]", "bytes of each sample; 0: the sample stays where it is"),
)

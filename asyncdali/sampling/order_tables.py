"""Table of the shuffle buffer over the samples of a shard."""

from __future__ import annotations

from ..compiled.tables import Field, Table

SHUFFLE = Table(
    "SHUFFLE",
    Field("engine", "int64", "state of the random engine"),
    Field("delivered", "int64", "samples of the shard delivered so far"),
    Field("samples", "int64", "samples in the shard"),
    Field("slots", "int64", "slots of the buffer in use"),
    Field("oldest", "int64", "slot of the oldest position"),
    Field("held", "int64[slots]", "indices in the slots"),
    Field("source", "int64[samples]", "indices of the shard in order; 0: the order is `first`, `first` + 1, ..."),
    Field("first", "int64", "the shard's first index, used where `source` is 0"),
    Field("last", "int64", "the index delivered last"),
)

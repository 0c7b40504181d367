"""Tables of ``decoders.inflate``."""

from __future__ import annotations

from ...compiled.tables import INPUTS, OUTPUTS, SAMPLES, Field, Table

INFLATE_RECORD = Table(
    "INFLATE_RECORD",
    Field("first", "int64", "number of the sample's first chunk"),
    Field("chunks", "int64", "chunks of the sample"),
    Field("bytes", "int64", "of a chunk in the output"),
)
INFLATE_CHUNK = Table(
    "INFLATE_CHUNK",
    Field("offset", "int64", "bytes of the sample before the chunk"),
    Field("bytes", "int64", "of the chunk, compressed"),
)
INFLATE = Table(
    "INFLATE",
    INPUTS,
    OUTPUTS,
    Field("records", "INFLATE_RECORD[samples]", "samples"),
    Field("chunks", "INFLATE_CHUNK[chunks]", "chunks of all samples"),
    Field("exact", "int64", "1: a chunk must have the size of its output"),
    SAMPLES,
    Field("statuses", "int64[chunks]", "of the chunks, written by the kernel"),
)

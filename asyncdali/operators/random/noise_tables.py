"""The table of ``noise.gaussian``, ``noise.shot`` and ``noise.salt_and_pepper``."""

from __future__ import annotations

from ...compiled.tables import INPUTS, OUTPUTS, SAMPLES, Field, Table

NOISE = Table(
    "NOISE",
    INPUTS,
    OUTPUTS,
    Field("counts", "int64[samples]", "elements"),
    Field(
        "parameters",
        "address",
        "gaussian: float32[samples, 2] mean and deviation; shot: float32[samples] factor; salt_and_pepper: float32[samples, 2], the chance "
        "that a pixel changes, and the chance that it becomes salt",
    ),
    Field("stream", "uint64", "where the draws begin, see StreamPosition", ("key", "hi", "lo", "phase")),
    Field("flavours", "address", "salt_and_pepper: salt and pepper of each sample, in the element type; else 0"),
    Field("together", "int64[samples]", "salt_and_pepper: elements that change together; else 0"),
    Field("inner", "int64[samples]", "salt_and_pepper: elements from one of these to the next; else 0"),
    SAMPLES,
)

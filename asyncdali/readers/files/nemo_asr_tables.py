"""Tables of the steps that read speech (``nemo_asr_kernels``)."""

from __future__ import annotations

from ...compiled.tables import OUTPUTS, Field, Table

_PATHS = Field("paths", "uint8", "NUL-terminated paths, one after another")
_STARTS = Field("starts", "int64[samples]", "where the path of each sample begins in `paths`")
_DESCRIPTORS = Field("descriptors", "int64[samples]", "of files that are open; -1: not open")
_HEADS = Field("heads", "uint8[samples, HEAD]", "the first bytes of each file")
_HELD = Field("held", "int64[samples]", "bytes of each file in `heads`")

OPEN_SPEECH = Table(
    "OPEN_SPEECH",
    _PATHS,
    _STARTS,
    _DESCRIPTORS,
    _HEADS,
    _HELD,
    Field("records", "SOUND[samples]", "the wanted parts of the files; written by the step"),
    Field("indices", "int64[samples]", "numbers of the entries"),
    Field("windows", "float64[entries, 2]", "offset and duration in seconds; a negative duration means to the end"),
    Field("rate", "int64", "the sampling rate that the files must have; 0: any"),
    Field("mono", "int64", "1: the files must have one channel"),
    Field("exact", "int64", "1: the numbers must be integers, because floats are rounded in another way"),
    Field("may_stay_open", "int64", "how many of the files may stay open"),
)
READ_SPEECH = Table(
    "READ_SPEECH",
    _PATHS,
    _STARTS,
    _DESCRIPTORS,
    _HEADS,
    _HELD,
    Field("records", "SOUND[samples]", "the parts of the files that are wanted: `data` is where they begin, `frames` how long they are"),
    OUTPUTS,
    Field("kind", "int64", "element type of the outputs: 0 INT16, 1 INT32, 2 FLOAT"),
    Field("scratch", "int64", "offset of the step's own scratch in the thread's"),
)

"""Tables of the code that numbers frames and puts them together (``sequence_kernels``)."""

from __future__ import annotations

from ...compiled.tables import OUTPUTS, Field, Table

COPY_FRAMES = Table(
    "COPY_FRAMES",
    Field("frames", "int64[samples, length]", "addresses of the frames of each sequence"),
    Field("length", "int64", "frames of a sequence"),
    Field("sizes", "int64[samples]", "bytes of each frame of the sequence"),
    OUTPUTS,
)

_EXTENTS = (Field("height", "int64", "rows"), Field("width", "int64", "columns"), Field("channels", "int64", "numbers of a pixel"))
FRAME_SHAPE = Table("FRAME_SHAPE", *_EXTENTS)
SEQUENCE_SHAPE = Table("SEQUENCE_SHAPE", Field("frames", "int64", "of the sequence"), *_EXTENTS)

_LENGTH = Field("length", "int64", "frames of a sequence")
_USES = Field("uses", "int64[samples, length]", "numbers of the frames of each sequence")

NUMBER_FRAMES = Table(
    "NUMBER_FRAMES",
    Field("indices", "int64[samples]", "numbers of the sequences in the data set"),
    Field("starts", "int64[sequences]", "first frame of each sequence of the data set"),
    _LENGTH,
    Field("stride", "int64", "frames from one frame of a sequence to the next"),
    Field("order", "int64[samples * length]", "written: the frames, each once"),
    _USES,
    Field("slots", "int64[1 << bits]", "scratch: a hash table of numbers"),
    Field("bits", "int64", "binary logarithm of the slots, which are more than the frames"),
)

JOIN_FRAMES = Table(
    "JOIN_FRAMES",
    _USES,
    _LENGTH,
    Field("shapes", "FRAME_SHAPE[frames]", "of the frames"),
    Field("addresses", "addresses", "of the frames"),
    Field("frames", "int64[samples, length]", "written: addresses of the frames of each sequence"),
    Field("extents", "SEQUENCE_SHAPE[samples]", "written: of the sequences"),
    Field("sizes", "int64[samples]", "written: bytes of each frame of the sequence"),
)

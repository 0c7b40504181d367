"""Tables of the compiled decoders of sound."""

from __future__ import annotations

from ...compiled.tables import INPUTS, OUTPUTS, Field, Table

SOUND = Table(
    "SOUND",
    Field("format", "int64", "0: not for us; or one of the formats in ``audio_decoder_kernels``"),
    Field("data", "int64", "offset of the samples, or of the first frame"),
    Field("bytes", "int64", "bytes from there to the end of the samples, or of the file"),
    Field("frames", "int64", "samples of each channel"),
    Field("channels", "int64", "number of channels"),
    Field("bits", "int64", "bits of a sample as it is stored"),
    Field("rate", "int64", "samples per second"),
    Field("block", "int64", "most samples of a FLAC frame, or of a Vorbis block"),
    Field("setup", "int64", "bytes of the third header of a Vorbis stream; then the address of its VORBIS"),
    Field("part", "int64", "Vorbis: 0 the whole stream; 1 a part from the begin; 2 a part from a page within the stream on"),
    Field("first", "int64", "Vorbis: first wanted sample; a part ends at `frames`"),
    Field("failed", "int64", "1: it could not be decoded after all; written by the steps"),
)
"""The header of a file: a record for each sample."""

SCAN = Table(
    "SCAN",
    INPUTS,
    Field("sizes", "int64[samples]", "bytes of the files"),
    Field("wanted", "float32[samples]", "sampling rates of the outputs; 0 and below: those of the files"),
    Field("records", "SOUND[samples]", "filled by the scan"),
    Field("kind", "int64", "element type of the outputs: 0 INT16, 1 INT32, 2 FLOAT"),
    Field("downmix", "int64", "1 if channels are mixed"),
    Field("later", "int64", "found: FLAC and Ogg files, which another kernel scans"),
    Field("known", "int64", "found: files that compiled code decodes"),
    Field("flac", "int64", "found: FLAC files among them"),
    Field("vorbis", "int64", "found: Vorbis files among them"),
    Field("scratch", "int64", "found: bytes of scratch that decoding needs"),
)

SOUNDS = Table(
    "SOUNDS",
    INPUTS,
    OUTPUTS,
    Field("records", "SOUND[samples]", "the files"),
    Field("kind", "int64", "element type of the outputs: 0 INT16, 1 INT32, 2 FLOAT"),
    Field("scratch", "int64", "offset of the steps' own scratch in the thread's"),
)

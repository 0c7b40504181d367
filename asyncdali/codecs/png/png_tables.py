"""Tables of the PNG decoder."""

from __future__ import annotations

from ...compiled.tables import Field, Table

PNG_HEADER = Table(
    "PNG_HEADER",
    Field("found", "int64", "1: the decoder can decode the file; 0: it is another file"),
    Field("width", "int64", "of the image, in pixels"),
    Field("height", "int64", "of the image, in pixels"),
    Field("channels", "int64", "stored: 1 grey, 2 grey and alpha, 3 RGB, 4 RGB and alpha"),
    Field("packed", "int64", "bytes of deflated data"),
)
DECODE_PNGS = Table(
    "DECODE_PNGS",
    Field("addresses", "addresses", "of the files"),
    Field("sizes", "int64[samples]", "of the files, in bytes"),
    Field("headers", "PNG_HEADER[samples]", "of the files"),
    Field("samples", "int64[count]", "numbers of the samples to decode"),
    Field("targets", "addresses", "of the pixels, in C order"),
    Field("statuses", "int64[samples]", "written: 0 for an image that is complete"),
    Field("scratch", "int64", "offset of the scratch"),
)

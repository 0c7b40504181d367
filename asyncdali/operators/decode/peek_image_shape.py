"""peek_image_shape: the shape that an encoded image will have, from its header."""

from __future__ import annotations

import numpy as np

from ...batch import Batch, storage_dtype
from ...codecs import image_headers
from ...codecs.jpeg.jpeg_tables import JPEG_HEADER
from ...types import DALIDataType, DALIImageType
from ..accepts import Input, Output, argument
from ..base import (  # fmt: skip
    Arg,
    Arguments,
    Environment,
    Iteration,
    Operator,
    Planned,
    Preparation,
    PythonJob,
    SampleError,
    Schema,
    Spec,
    refuse_where,
    register,
)

head = JPEG_HEADER.word

_CHANNELS = {DALIImageType.RGB: 3, DALIImageType.BGR: 3, DALIImageType.GRAY: 1, DALIImageType.YCbCr: 3}
_TYPES = tuple(
    DALIDataType[name] for name in ("INT8", "UINT8", "INT16", "UINT16", "INT32", "UINT32", "INT64", "UINT64", "FLOAT", "FLOAT64")
)


@register
class PeekImageShape(Operator):
    reads = (0,)
    eager = True
    schema = Schema(
        name="peek_image_shape",
        aliases=("experimental.peek_image_shape",),
        doc="""The shape (height, width, channels) of encoded images, from their headers alone.

        Input: encoded bytes (1-D UINT8). Output: three numbers.""",
        accepts=(Input((DALIDataType.UINT8,), name="encoded images", ranks=(1,)),),
        gives=(Output(argument("dtype"), 1, ""),),
        args=(
            Arg("adjust_orientation", "bool", True, "Return the shape of the image after its EXIF rotation."),
            Arg("dtype", "dtype", DALIDataType.INT64, "Element type of the output."),
            Arg("image_type", "image_type", DALIImageType.RGB, "Colour space of the decoded image; ANY_DATA: the stored channels."),
        ),
    )

    def __init__(self, spec: Spec, environment: Environment):
        super().__init__(spec, environment)
        self._type, self._dtype = spec.constant("image_type"), spec.constant("dtype")
        if self._dtype not in _TYPES:
            raise ValueError(f"`dtype` is {self._dtype.name}; supported are {', '.join(kind.name for kind in _TYPES)}")
        from ...compiled.step import compile_all
        from . import peek_image_shape_kernels

        compile_all(peek_image_shape_kernels)
        self._kernels = peek_image_shape_kernels
        environment.pictures.append(None)  # This operator needs the files even if decoders have the pictures in a cache.

    @property
    def may_wait(self) -> bool:
        return False

    def prepare(self, inputs: list[Batch], arguments: Arguments, iteration: Iteration) -> Preparation:
        source = inputs[0]
        headers, _ = self._kernels.read_headers(source.addresses, np.ascontiguousarray(source.shapes[:, 0]))
        others = np.flatnonzero(headers[:, head.found] == self._kernels.NOT_JPEG)
        if len(others):
            yield PythonJob([int(i) for i in others], lambda i: self._read(source, headers, i))
        return headers

    def _read(self, source: Batch, headers: np.ndarray, i: int) -> None:
        """Read the header of a file that is not a JPEG."""
        try:
            header = image_headers.read_header(source.sample(i).tobytes())
        except ValueError as error:
            raise SampleError(i, str(error)) from None
        headers[i, JPEG_HEADER.span("width", "orientation")] = header.width, header.height, header.channels, header.orientation

    def plan(self, inputs: list[Batch], arguments: Arguments, iteration: Iteration) -> Planned:
        headers = iteration.prepared
        width, height, orientation = headers[:, head.width], headers[:, head.height], headers[:, head.orientation]
        refuse_where((width <= 0) | (height <= 0), lambda _: "broken JPEG: no frame header")
        turned = (orientation >= 5) & bool(self.spec.constant("adjust_orientation"))
        channels = headers[:, head.components] if self._type == DALIImageType.ANY_DATA else np.full(len(width), _CHANNELS[self._type])
        shapes = np.stack([np.where(turned, width, height), np.where(turned, height, width), channels], axis=1)
        return Planned([Batch.from_values(shapes.astype(storage_dtype(self._dtype)), dtype=self._dtype)])

"""jpeg_compression_distortion: images as they come out of a JPEG."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from ...batch import Batch
from ...types import DALIDataType
from ..arrays.strided import like
from ..base import Arg, Arguments, Environment, Iteration, Operator, Planned, PythonJob, SampleError, Schema, Spec, register
from ..layouts import input_layout

_LARGEST = 65500
"""Most rows and columns that libjpeg writes."""


@register
class JpegCompressionDistortion(Operator):
    """See the schema."""

    # The codec is OpenCV's, called from Python (it does not hold the interpreter): the result is there when it is planned.
    reads = (0,)
    eager = True
    schema = Schema(
        name="jpeg_compression_distortion",
        doc="""Images with the artefacts of JPEG: written as one (4:2:0) and decoded again.

        Layouts HWC and FHWC, UINT8, three channels (RGB).""",
        devices=("cpu", "gpu"),
        args=(Arg("quality", "int", 50, "Quality from 1 (worst) to 100; what is outside is moved to the nearest.", tensor=True),),
    )

    def __init__(self, spec: Spec, environment: Environment):
        super().__init__(spec, environment)
        self._output: Batch | None = None

    def infer(self, dtypes: list[DALIDataType | None]) -> list[DALIDataType | None]:
        return [DALIDataType.UINT8]

    def prepare(self, inputs: list[Batch], arguments: Arguments, iteration: Iteration) -> Iterable[PythonJob]:
        source = inputs[0]
        layout = input_layout(source, ("HWC", "FHWC"))
        if source.dtype != DALIDataType.UINT8:
            raise ValueError(f"jpeg_compression_distortion works on UINT8 images, got {source.dtype.name}")
        wrong = source.shapes[:, -1] != 3
        if wrong.any():
            i = int(np.argmax(wrong))
            raise SampleError(i, f"the image must have 3 channels (RGB), got shape {tuple(source.shapes[i].tolist())}")
        extents = source.shapes[:, -3:-1]
        wrong = ((extents == 0) | (extents > _LARGEST)).any(axis=1)
        if wrong.any():
            i = int(np.argmax(wrong))
            raise SampleError(i, f"height and width must be from 1 to {_LARGEST}, got {extents[i].tolist()}")
        quality = np.clip(arguments.scalars("quality", np.int64), 1, 100)
        output = like(source, source.shapes, layout)
        output.place(self.environment.allocate(int(output.sizes().sum())))
        self._output = output
        yield PythonJob(range(len(source)), lambda i: _through_jpeg(source.sample(i), output.sample(i), int(quality[i])))

    def plan(self, inputs: list[Batch], arguments: Arguments, iteration: Iteration) -> Planned:
        output, self._output = self._output, None
        assert output is not None, "prepare comes first"
        return Planned([output])


def _through_jpeg(source: np.ndarray, target: np.ndarray, quality: int) -> None:
    """Write `source`, images uint8[..., height, width, 3], as JPEGs and decode them into `target`."""
    import cv2

    for image, out in zip(source.reshape(-1, *source.shape[-3:]), target.reshape(-1, *target.shape[-3:]), strict=True):
        _, encoded = cv2.imencode(".jpg", cv2.cvtColor(image, cv2.COLOR_RGB2BGR), [cv2.IMWRITE_JPEG_QUALITY, quality])
        cv2.cvtColor(cv2.imdecode(encoded, cv2.IMREAD_COLOR), cv2.COLOR_BGR2RGB, dst=out)

"""jpeg_compression_distortion: images with the artefacts of JPEG compression."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...batch import Batch
from ...types import DALIDataType
from ..accepts import Input, Output, listed
from ..base import Arg, Arguments, Environment, Iteration, Operator, Planned, SampleError, Schema, Spec, register
from ..moves.strided import like
from .jpeg_distortion_launches import distortion_launches, distortion_records, divisors_of

_CHANNELS = 3
_LARGEST = 65500
"""Most rows and columns that libjpeg can write."""


@register
class JpegCompressionDistortion(Operator):
    repeatable = True
    on_cuda = True
    schema = Schema(
        name="jpeg_compression_distortion",
        doc="""Adds the artefacts of JPEG: images are encoded (4:2:0) and decoded.

        Layouts HWC and FHWC, UINT8, three channels (RGB).""",
        accepts=(Input((DALIDataType.UINT8,), listed("HWC", "FHWC"), "images"),),
        gives=(Output(),),
        devices=("cpu", "gpu"),
        args=(Arg("quality", "int", 50, "Quality from 1 (worst) to 100; other values are clamped.", tensor=True),),
    )

    def __init__(self, spec: Spec, environment: Environment):
        super().__init__(spec, environment)
        from . import jpeg_distortion_kernels

        self._kernels: Any = jpeg_distortion_kernels
        jpeg_distortion_kernels.distortion_step.compile()

    def plan(self, inputs: list[Batch], arguments: Arguments, iteration: Iteration) -> Planned:
        source = inputs[0]
        layout = self.layout_of(source)
        wrong = source.shapes[:, -1] != _CHANNELS
        if wrong.any():
            i = int(np.argmax(wrong))
            raise SampleError(i, f"the image must have {_CHANNELS} channels, got shape {tuple(source.shapes[i].tolist())}")
        divisors = divisors_of(self._qualities(source, arguments))
        output, records = like(source, layout=layout), distortion_records(source)
        step = self._kernels.make_distortion_step(source.addresses, output.addresses, records, divisors)
        step.launches = lambda: distortion_launches(source, output, records, divisors)
        return Planned([output], [step])

    @staticmethod
    def _qualities(source: Batch, arguments: Arguments) -> np.ndarray:
        """int64[samples], from 1 to 100. SampleError for images that no JPEG holds."""
        extents = source.shapes[:, -3:-1]
        wrong = ((extents == 0) | (extents > _LARGEST)).any(axis=1)
        if wrong.any():
            i = int(np.argmax(wrong))
            raise SampleError(i, f"height and width must be from 1 to {_LARGEST}, got {extents[i].tolist()}")
        qualities: np.ndarray = np.clip(arguments.scalars("quality", np.int64), 1, 100)
        return qualities

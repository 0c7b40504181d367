"""jpeg_compression_distortion: images with the artefacts of JPEG compression."""

from __future__ import annotations

import numpy as np

from ...batch import Batch
from ...types import DALIDataType
from ..accepts import Input, Output, listed
from ..base import Arg, Arguments, Iteration, Planned, Schema, refuse_where, register
from ..kernel_operator import KernelOperator, Kernels, Names, ThreadScratch
from .jpeg_distortion_launches import distortion_launches, distortion_records, divisors_of
from .jpeg_distortion_tables import DISTORTION, DISTORTION_RECORD

_CHANNELS = 3
_LARGEST = 65500
"""Most rows and columns that libjpeg can write."""


@register
class JpegCompressionDistortion(KernelOperator):
    repeatable = True
    kernel_module = "jpeg_distortion_kernels"
    schema = Schema(
        name="jpeg_compression_distortion",
        doc="""Adds the artefacts of JPEG: images are encoded (4:2:0) and decoded.

        Layouts HWC and FHWC, UINT8, three channels (RGB).""",
        accepts=(Input((DALIDataType.UINT8,), listed("HWC", "FHWC"), "images"),),
        gives=(Output(),),
        devices=("cpu", "gpu"),
        args=(Arg("quality", "int", 50, "Quality from 1 (worst) to 100; other values are clamped.", tensor=True),),
    )

    def kernels_for(self, inputs: Names, outputs: Names) -> Kernels:
        return [self.kernels.distortion_step]

    def plan(self, inputs: list[Batch], arguments: Arguments, iteration: Iteration) -> Planned:
        source = inputs[0]
        wrong = source.shapes[:, -1] != _CHANNELS
        refuse_where(wrong, lambda i: f"the image must have {_CHANNELS} channels, got shape {tuple(source.shapes[i].tolist())}")
        divisors = divisors_of(self._qualities(source, arguments))
        output, records = self.output(source), distortion_records(source)
        entries = DISTORTION.entries(
            inputs=source.addresses, outputs=output.addresses, records=records, tables=self.kernels.quantisation(divisors), scratch=0,
            samples=len(records),
        )  # fmt: skip
        size = self.kernels.scratch_bytes(int(records[:, DISTORTION_RECORD.word.width].max(initial=0)))
        step = self.step(self.kernels.distortion_step, entries, scratch=ThreadScratch(size, DISTORTION.word.scratch))
        step.launches = lambda: distortion_launches(source, output, records, divisors)
        return Planned([output], [step])

    @staticmethod
    def _qualities(source: Batch, arguments: Arguments) -> np.ndarray:
        """int64[samples], from 1 to 100. SampleError for images that no JPEG holds."""
        extents = source.shapes[:, -3:-1]
        wrong = ((extents == 0) | (extents > _LARGEST)).any(axis=1)
        refuse_where(wrong, lambda i: f"height and width must be from 1 to {_LARGEST}, got {extents[i].tolist()}")
        qualities: np.ndarray = np.clip(arguments.scalars("quality", np.int64), 1, 100)
        return qualities

"""equalize: histogram equalisation of images."""

from __future__ import annotations

import numpy as np

from ...batch import Batch
from ...types import DALIDataType
from ..accepts import Input, Output, listed
from ..base import Arguments, Iteration, Planned, Schema, register
from ..kernel_operator import Cuda, KernelOperator, Kernels, Names
from .color_tables import EQUALIZE, EQUALIZE_RECORD

word = EQUALIZE_RECORD.word

_LAYOUTS = ("HW", "HWC", "CHW", "FHW", "FHWC", "FCHW")


@register
class Equalize(KernelOperator):
    repeatable = True
    kernel_module = "equalize_kernels"
    schema = Schema(
        name="equalize",
        aliases=("experimental.equalize",),
        doc="""Equalizes the histogram of each channel: its values are spread evenly over 0 to 255.

        Layouts HW, HWC, CHW, FHW, FHWC, FCHW (each frame by itself), UINT8. A channel with a single value does not change.""",
        accepts=(Input((DALIDataType.UINT8,), listed(*_LAYOUTS), "images"),),
        gives=(Output(),),
        devices=("cpu", "gpu"),
    )

    def kernels_for(self, inputs: Names, outputs: Names) -> Kernels:
        return [self.kernels.equalize_step]

    def plan(self, inputs: list[Batch], arguments: Arguments, iteration: Iteration) -> Planned:
        source = inputs[0]
        layout = self.layout_of(source)
        output = self.output(source)
        total, pixels = source.shapes.prod(axis=1), source.shapes[:, [layout.index("H"), layout.index("W")]].prod(axis=1)
        planes = source.shapes[:, -1] if layout.endswith("C") else np.ones(len(source), np.int64)
        groups = total // np.maximum(pixels * planes, 1)
        records = EQUALIZE_RECORD.zeros(len(source))
        records[:, word.groups], records[:, word.planes], records[:, word.pixels] = groups, planes, pixels
        entries = EQUALIZE.entries(inputs=source.addresses, outputs=output.addresses, records=records, samples=len(records))
        blocks = Cuda("equalize", groups * planes, block=1)
        return self.made(source, output, entries, lambda: blocks)

"""equalize: histogram equalisation of images."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...batch import Batch
from ...types import DALIDataType
from ..accepts import Input, Output, listed
from ..base import Arguments, Environment, Iteration, Operator, Planned, Schema, Spec, register
from ..moves.strided import like
from .color_tables import EQUALIZE_RECORD

word = EQUALIZE_RECORD.word

_LAYOUTS = ("HW", "HWC", "CHW", "FHW", "FHWC", "FCHW")


@register
class Equalize(Operator):
    repeatable = True
    on_cuda = True
    schema = Schema(
        name="equalize",
        aliases=("experimental.equalize",),
        doc="""Equalizes the histogram of each channel: its values are spread evenly over 0 to 255.

        Layouts HW, HWC, CHW, FHW, FHWC, FCHW (each frame by itself), UINT8. A channel with a single value does not change.""",
        accepts=(Input((DALIDataType.UINT8,), listed(*_LAYOUTS), "images"),),
        gives=(Output(),),
        devices=("cpu", "gpu"),
    )

    def __init__(self, spec: Spec, environment: Environment):
        super().__init__(spec, environment)
        from . import equalize_kernels

        self._kernels: Any = equalize_kernels
        equalize_kernels.equalize_step.compile()

    def plan(self, inputs: list[Batch], arguments: Arguments, iteration: Iteration) -> Planned:
        source = inputs[0]
        layout = self.layout_of(source)
        output = like(source, layout=layout)
        total, pixels = source.shapes.prod(axis=1), source.shapes[:, [layout.index("H"), layout.index("W")]].prod(axis=1)
        planes = source.shapes[:, -1] if layout.endswith("C") else np.ones(len(source), np.int64)
        groups = total // np.maximum(pixels * planes, 1)
        records = EQUALIZE_RECORD.zeros(len(source))
        records[:, word.groups], records[:, word.planes], records[:, word.pixels] = groups, planes, pixels
        return Planned([output], [self._kernels.make_equalize_step(source.addresses, output.addresses, records)])

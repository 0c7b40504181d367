"""flip: reverse the width, height or depth."""

from __future__ import annotations

import numpy as np

from ...batch import Batch
from ...types import DALIDataType
from ..accepts import NUMBERS_AND_BOOL, Input, Output, listed
from ..base import Arg, Arguments, Environment, Iteration, Operator, Planned, Schema, Spec, register
from .flip_tables import FLIP_RECORD

LAYOUTS = ("HWC", "FHWC", "DHWC", "FDHWC", "CHW", "FCHW", "CDHW", "FCDHW")


@register
class Flip(Operator):
    repeatable = True
    on_cuda = True
    schema = Schema(
        name="flip",
        doc="Flips images, sequences and volumes along the axes whose argument is not zero. Layouts: [F][D]HWC, [F]C[D]HW.",
        accepts=(Input(NUMBERS_AND_BOOL, listed(*LAYOUTS), "images"),),
        gives=(Output(),),
        args=(
            Arg("depthwise", "int", 0, "Flip the depth.", tensor=True),
            Arg("horizontal", "int", 1, "Flip the width.", tensor=True),
            Arg("vertical", "int", 0, "Flip the height.", tensor=True),
        ),
        devices=("cpu", "gpu"),
    )

    def __init__(self, spec: Spec, environment: Environment):
        super().__init__(spec, environment)
        from . import flip_kernels

        self._kernels = flip_kernels

    def infer(self, dtypes: list[DALIDataType | None]) -> list[DALIDataType | None]:
        self._kernels.flip_step.compile()
        return dtypes

    def plan(self, inputs: list[Batch], arguments: Arguments, iteration: Iteration) -> Planned:
        source = inputs[0]
        layout = self.layout_of(source)
        output = Batch(source.shapes, source.dtype, layout, device=source.device, source_info=source.source_info)
        first = layout.index("D") if "D" in layout else layout.index("H")
        height = layout.index("H")
        records, word = FLIP_RECORD.ones(len(source)), FLIP_RECORD.word
        records[:, word.outer] = source.shapes[:, :first].prod(axis=1)
        if "D" in layout:
            records[:, word.depth] = source.shapes[:, first]
        records[:, word.height] = source.shapes[:, height]
        records[:, word.width] = source.shapes[:, height + 1]
        records[:, word.pixel] = source.shapes[:, height + 2 :].prod(axis=1) * source.itemsize
        for name in ("depthwise", "vertical", "horizontal"):
            records[:, FLIP_RECORD.columns(name)] = arguments.scalars(name, np.int64) != 0
        return Planned([output], [self._kernels.make_flip_step(source.addresses, output.addresses, records)])

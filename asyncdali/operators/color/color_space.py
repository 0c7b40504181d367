"""color_space_conversion: between RGB, BGR, grey and YCbCr."""

from __future__ import annotations

import numpy as np

from ...batch import Batch
from ...device.launch import LINE
from ...types import DALIDataType, DALIImageType
from ..accepts import Input, Output, listed
from ..base import REQUIRED, Arg, Arguments, Environment, Iteration, Planned, Schema, Spec, refuse_where, register
from ..kernel_operator import Cuda, KernelOperator, Kernels, Names
from .color_tables import CONVERSION

_LAYOUTS = ("HWC", "FHWC", "DHWC", "FDHWC")
_CHANNELS = {DALIImageType.RGB: 3, DALIImageType.BGR: 3, DALIImageType.GRAY: 1, DALIImageType.YCbCr: 3}


@register
class ColorSpaceConversion(KernelOperator):
    repeatable = True
    kernel_module = "color_space_kernels"
    schema = Schema(
        name="color_space_conversion",
        doc="""Converts images between RGB, BGR, GRAY and YCbCr.

        YCbCr is ITU-R BT.601 with head-room (luma 16-235, chroma 16-240); grey of RGB is its luma without head-room.
        Layouts: HWC, FHWC, DHWC, FDHWC; element type UINT8.""",
        accepts=(Input((DALIDataType.UINT8,), listed(*_LAYOUTS), "images"),),
        gives=(Output(),),
        devices=("cpu", "gpu"),
        args=(
            Arg("image_type", "image_type", REQUIRED, "Colour space of the input: RGB, BGR, GRAY or YCbCr."),
            Arg("output_type", "image_type", REQUIRED, "Colour space of the output: RGB, BGR, GRAY or YCbCr."),
        ),
    )

    def __init__(self, spec: Spec, environment: Environment):
        super().__init__(spec, environment)
        self._from, self._to = spec.constant("image_type"), spec.constant("output_type")
        for name, kind in (("image_type", self._from), ("output_type", self._to)):
            if kind not in _CHANNELS:
                raise ValueError(f"`{name}` is {kind.name}; supported are {', '.join(known.name for known in _CHANNELS)}")

    def kernels_for(self, inputs: Names, outputs: Names) -> Kernels:
        return [self.kernels.step_for(self._from, self._to)]

    def plan(self, inputs: list[Batch], arguments: Arguments, iteration: Iteration) -> Planned:
        source = inputs[0]
        wrong = source.shapes[:, -1] != _CHANNELS[self._from]
        refuse_where(wrong, lambda i: f"{self._from.name} images have {_CHANNELS[self._from]} channels, got {int(source.shapes[i, -1])}")
        shapes = source.shapes.copy()
        shapes[:, -1] = _CHANNELS[self._to]
        output, pixels = self.output(source, shapes), np.ascontiguousarray(shapes[:, :-1].prod(axis=1))
        entries = CONVERSION.entries(
            inputs=source.addresses, outputs=output.addresses, pixels=pixels, factors=self.kernels.coefficients(self._from, self._to),
            first=2 if self._from == DALIImageType.BGR else 0, pixel_bytes=_CHANNELS[self._from], samples=len(source),
        )  # fmt: skip
        channels = ("FROM", _CHANNELS[self._from]), ("TO", _CHANNELS[self._to])
        return self.made(source, output, entries, lambda: Cuda("conversion", pixels, LINE, channels))

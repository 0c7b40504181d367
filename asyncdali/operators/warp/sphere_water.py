"""The shared part of sphere and water: every pixel is copied from a displaced position."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from ...batch import Batch
from ...compiled.tables import INPUTS, OUTPUTS, SAMPLES, Field, Table
from ...device.launch import PACK
from ...types import DALIDataType, DALIInterpType
from ..base import Arg, Arguments, Environment, Iteration, Planned, Spec
from ..kernel_operator import Cuda, KernelOperator, Kernels, Names, ThreadScratch, types_of
from ..moves.pieces import fill_values
from .quads import in_quads

IMAGE = Table(
    "IMAGE",
    Field("height", "int64", "rows"),
    Field("width", "int64", "pixels of a row"),
    Field("channels", "int64", "elements of a pixel"),
)
"""Record of a sample: its shape."""

DISPLACEMENT = Table(
    "DISPLACEMENT",
    INPUTS,
    OUTPUTS,
    Field("shapes", "IMAGE[samples]", "of the images"),
    Field("masks", "int64[samples]", "0: the image stays as it is"),
    Field("fill", "float32[1]", "value outside the image"),
    Field("linear", "int64", "1: linear interpolation; 0: nearest"),
    Field("scratch", "int64", "offset of the step's scratch in the thread's"),
    Field("parameters", "float32[6]", "of water: amplitude, frequency and phase, each along x and y"),
    SAMPLES,
)

TYPES = (DALIDataType.UINT8, DALIDataType.FLOAT)
DISPLACEMENT_ARGS = (
    Arg("fill_value", "float", 0.0, "Value outside the image; UINT8: without its fraction, the low 8 bits."),
    Arg("interp_type", "interp", DALIInterpType.INTERP_NN, "INTERP_NN or INTERP_LINEAR."),
    Arg("mask", "int", 1, "0: the image does not change.", tensor=True),
)


class Displacement(KernelOperator):
    """Common base. The operators differ in their parameters, and in the warp that the kernels compute."""

    repeatable = True
    kernel_module = "sphere_water_kernels"
    warp: ClassVar[str]
    """A key of ``sphere_water_kernels._WARPS``."""
    parameters: ClassVar[tuple[str, ...]] = ()

    def __init__(self, spec: Spec, environment: Environment):
        super().__init__(spec, environment)
        interpolation = spec.constant("interp_type")
        if interpolation not in (DALIInterpType.INTERP_NN, DALIInterpType.INTERP_LINEAR):
            raise ValueError(f"Only nearest and linear interpolation is supported, got {interpolation.name}")
        self._linear = interpolation == DALIInterpType.INTERP_LINEAR

    def kernels_for(self, inputs: Names, outputs: Names) -> Kernels:
        return [self.kernels.displacement_step(self.warp, inputs[0])]

    def plan(self, inputs: list[Batch], arguments: Arguments, iteration: Iteration) -> Planned:
        source = inputs[0]
        output = self.output(source)
        numbers = np.zeros(6, np.float32)
        numbers[: len(self.parameters)] = [self.spec.constant(name) for name in self.parameters]
        fill = fill_values([self.spec.constant("fill_value")], source.dtype).astype(np.float32)
        shapes, masks = np.ascontiguousarray(source.shapes), arguments.scalars("mask", np.int64)
        entries = DISPLACEMENT.entries(
            inputs=source.addresses, outputs=output.addresses, shapes=shapes, masks=masks, fill=fill, linear=self._linear, scratch=0,
            parameters=numbers, samples=len(source),
        )  # fmt: skip
        scratch = ThreadScratch(4 * self.kernels.ROWS_OF_SCRATCH * int(source.shapes[:, 1].max(initial=0)), DISPLACEMENT.word.scratch)

        def cuda() -> Cuda:
            types = (*types_of(source, output), ("WATER", int(self.warp == "water")))
            quads = source.dtype == DALIDataType.UINT8 and in_quads(*source.shapes.T)
            return Cuda("displace_quads" if quads else "displace", source.shapes[:, 0] * source.shapes[:, 1], each=PACK, types=types)

        return self.made(source, output, entries, cuda, scratch)

"""The shared part of sphere and water: every pixel is copied from a displaced position."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from ...batch import Batch, storage_dtype
from ...compiled.tables import laid_out
from ...types import DALIDataType, DALIInterpType
from ..base import Arg, Arguments, Environment, Iteration, Operator, Planned, Spec, Step, no_explanation
from ..moves.strided import fill_values, like
from .displacement_tables import DISPLACEMENT

TYPES = (DALIDataType.UINT8, DALIDataType.FLOAT)
DISPLACEMENT_ARGS = (
    Arg("fill_value", "float", 0.0, "Value outside the image; UINT8: without its fraction, the low 8 bits."),
    Arg("interp_type", "interp", DALIInterpType.INTERP_NN, "INTERP_NN or INTERP_LINEAR."),
    Arg("mask", "int", 1, "0: the image does not change.", tensor=True),
)


class Displacement(Operator):
    """Common base. The operators differ in their parameters, and in the warp that the kernels compute."""

    repeatable = True
    on_cuda = True
    warp: ClassVar[str]
    """A key of ``displacement_kernels._WARPS``."""
    parameters: ClassVar[tuple[str, ...]] = ()

    def __init__(self, spec: Spec, environment: Environment):
        super().__init__(spec, environment)
        interpolation = spec.constant("interp_type")
        if interpolation not in (DALIInterpType.INTERP_NN, DALIInterpType.INTERP_LINEAR):
            raise ValueError(f"Only nearest and linear interpolation is supported, got {interpolation.name}")
        self._linear = interpolation == DALIInterpType.INTERP_LINEAR
        from . import displacement_kernels

        self._kernels: Any = displacement_kernels

    def infer(self, dtypes: list[DALIDataType | None]) -> list[DALIDataType | None]:
        source = DALIDataType.UINT8 if dtypes[0] is None else dtypes[0]
        if source in TYPES:
            self._kernel(source).compile()
        return dtypes

    def _kernel(self, dtype: DALIDataType) -> Any:
        return self._kernels.displacement_step(self.warp, storage_dtype(dtype).name)

    def plan(self, inputs: list[Batch], arguments: Arguments, iteration: Iteration) -> Planned:
        source = inputs[0]
        layout = self.layout_of(source)
        output = like(source, layout=layout)
        numbers = np.zeros(6, np.float32)
        numbers[: len(self.parameters)] = [self.spec.constant(name) for name in self.parameters]
        fill = fill_values([self.spec.constant("fill_value")], source.dtype).astype(np.float32)
        shapes, masks = np.ascontiguousarray(source.shapes), arguments.scalars("mask", np.int64)
        entries = DISPLACEMENT.entries(
            inputs=source.addresses, outputs=output.addresses, shapes=shapes, masks=masks, fill=fill, linear=self._linear, scratch=0,
            parameters=numbers, samples=len(source),
        )  # fmt: skip
        table, keep = laid_out(entries)
        scratch = 4 * self._kernels.ROWS_OF_SCRATCH * int(source.shapes[:, 1].max(initial=0))
        launches = self._kernels.launches_of(self.warp, source, entries)
        step = Step(self._kernel(source.dtype).address, table, no_explanation, scratch, DISPLACEMENT.word.scratch, keep, launches=launches)
        return Planned([output], [step])

"""cast_like: convert to the element type of another input."""

from __future__ import annotations

from typing import Any

from ...batch import Batch, storage_dtype
from ...types import DALIDataType
from ...types.conversions import STORAGE
from ..accepts import DATA, Output, of_input
from ..base import Arguments, Environment, Iteration, Operator, Planned, Schema, Spec, register
from ..moves.strided import like


@register
class CastLike(Operator):
    repeatable = True
    on_cuda = True
    schema = Schema(
        name="cast_like",
        doc="Converts the first input to the element type of the second one, by the rules of `cast`.",
        accepts=(DATA,),
        gives=(Output(type=of_input(1)),),
        inputs=(2, 2),
        devices=("cpu", "gpu"),
        metadata_inputs=(1,),
    )

    def __init__(self, spec: Spec, environment: Environment):
        super().__init__(spec, environment)
        from . import cast_kernels

        self._kernels: Any = cast_kernels

    def infer(self, dtypes: list[DALIDataType | None]) -> list[DALIDataType | None]:
        source, target = dtypes
        if source in STORAGE and target in STORAGE and source != target:
            self._kernels.cast_step(storage_dtype(source).name, storage_dtype(target).name).compile()
        return [target]

    def plan(self, inputs: list[Batch], arguments: Arguments, iteration: Iteration) -> Planned:
        source, target = inputs[0], inputs[1].dtype
        if source.dtype == target:
            return Planned([Batch.alias(source, source.shapes, source.dtype, source.layout)])
        output = like(source)
        output.dtype = target
        step = self._kernels.make_cast_step(
            source.addresses, output.addresses, source.shapes.prod(axis=1), storage_dtype(source.dtype), storage_dtype(target)
        )
        return Planned([output], [step])

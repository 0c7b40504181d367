"""cast: convert to another element type."""

from __future__ import annotations

from ...batch import Batch, storage_dtype
from ...types import DALIDataType
from ...types.conversions import STORAGE
from ..accepts import DATA, Output, argument
from ..base import REQUIRED, Arg, Arguments, Environment, Iteration, Operator, Planned, Schema, Spec, Trait, register


def _castable(dtype: DALIDataType) -> bool:
    return dtype in STORAGE


@register
class Cast(Operator):
    repeatable = True
    on_cuda = True
    traits = Trait.WIDENS
    schema = Schema(
        name="cast",
        doc="Converts elements to another type: integers saturate, floats are rounded half away from zero to integers.",
        accepts=(DATA,),
        gives=(Output(type=argument("dtype")),),
        args=(Arg("dtype", "dtype", REQUIRED, "Element type of the output."),),
        devices=("cpu", "gpu"),
    )

    def __init__(self, spec: Spec, environment: Environment):
        super().__init__(spec, environment)
        self._dtype: DALIDataType = spec.constant("dtype")
        if not _castable(self._dtype):
            raise ValueError(f"`dtype` {self._dtype.name} is not supported: elements of a fixed size are needed")
        from . import cast_kernels

        self._kernels = cast_kernels

    def infer(self, dtypes: list[DALIDataType | None]) -> list[DALIDataType | None]:
        source = DALIDataType.UINT8 if dtypes[0] is None else dtypes[0]
        if _castable(source) and source != self._dtype:
            self._kernels.cast_step(storage_dtype(source).name, storage_dtype(self._dtype).name).compile()
        return [self._dtype]

    def plan(self, inputs: list[Batch], arguments: Arguments, iteration: Iteration) -> Planned:
        source = inputs[0]
        if source.dtype == self._dtype:
            return Planned([Batch.alias(source, source.shapes, source.dtype, source.layout)])
        output = Batch(source.shapes, self._dtype, source.layout, device=source.device, source_info=source.source_info)
        counts = source.shapes.prod(axis=1)
        step = self._kernels.make_cast_step(
            source.addresses, output.addresses, counts, storage_dtype(source.dtype), storage_dtype(self._dtype)
        )
        return Planned([output], [step])

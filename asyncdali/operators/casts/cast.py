"""cast: convert to another element type."""

from __future__ import annotations

from ...batch import Batch, storage_dtype
from ...compiled.tables import INPUTS, OUTPUTS, SAMPLES, Field, Table
from ...types import DALIDataType
from ...types.conversions import STORAGE
from ..accepts import DATA, Output, argument
from ..base import REQUIRED, Arg, Arguments, Environment, Iteration, Planned, Schema, Spec, Trait, register
from ..kernel_operator import KernelOperator, Kernels, Names

CAST = Table("CAST", INPUTS, OUTPUTS, Field("counts", "int64[samples]", "elements of each sample"), SAMPLES)


def _castable(dtype: DALIDataType) -> bool:
    return dtype in STORAGE


class Casting(KernelOperator):
    """Base of operators that convert elements."""

    kernel_module = "cast_kernels"

    def kernels_for(self, inputs: Names, outputs: Names) -> Kernels:
        return [self.kernels.cast_step(inputs[0], outputs[0])] if inputs[0] != outputs[0] else []

    def cast(self, source: Batch, output: Batch) -> Planned:
        """The plan for batches of different types."""
        types = storage_dtype(source.dtype), storage_dtype(output.dtype)
        return Planned([output], [self.kernels.make_cast_step(source.addresses, output.addresses, source.counts(), *types)])


@register
class Cast(Casting):
    repeatable = True
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

    def plan(self, inputs: list[Batch], arguments: Arguments, iteration: Iteration) -> Planned:
        source = inputs[0]
        if source.dtype == self._dtype:
            return Planned([Batch.alias(source, source.shapes, source.dtype, source.layout)])
        return self.cast(source, self.output(source))

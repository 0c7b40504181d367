"""lookup_table: map integers to values."""

from __future__ import annotations

import numpy as np

from ...batch import Batch
from ...compiled.tables import INPUTS, OUTPUTS, SAMPLES, Field, Table
from ...device.launch import PACK
from ...types import DALIDataType
from ...types.conversions import STORAGE
from ...types.saturate import saturated
from ..accepts import ANY_RANK, INTEGERS, Input, Output, argument
from ..base import Arg, Arguments, Environment, Iteration, Planned, Schema, Spec, register
from ..kernel_operator import Cuda, KernelOperator, Kernels, Names, types_of
from ..moves.pieces import sized_name

LOOKUP = Table(
    "LOOKUP",
    INPUTS,
    OUTPUTS,
    Field("counts", "int64[samples]", "elements"),
    Field("table", "address", "of the values in the output's type, by key; the last one is the default"),
    Field("length", "int64", "values of the table, without the default"),
    SAMPLES,
)

_LARGEST_KEY = 65535


def _checked_dtype(dtype: DALIDataType) -> DALIDataType:
    if dtype not in STORAGE or dtype > DALIDataType.BOOL:
        raise ValueError(f"`dtype` {dtype.name} is not supported; numbers and BOOL are")
    return dtype


@register
class LookupTable(KernelOperator):
    repeatable = True
    kernel_module = "lookup_table_kernels"
    schema = Schema(
        name="lookup_table",
        doc="Replaces each integer in `keys` by the value at the same index of `values`, and others by `default_value`.",
        accepts=(Input(INTEGERS, name="keys", ranks=ANY_RANK),),
        gives=(Output(type=argument("dtype")),),
        devices=("cpu", "gpu"),
        args=(
            Arg("default_value", "float", 0.0, "Value of integers that are not in `keys`."),
            Arg("dtype", "dtype", DALIDataType.FLOAT, "Element type of the output; values are rounded and saturated."),
            Arg("keys", "int_list", [], "The keys, 0 to 65535. Of equal keys the last counts."),
            Arg("output_dtype", "dtype", None, "Deprecated name of `dtype`."),
            Arg("values", "float_list", [], "A value for each key."),
        ),
        deprecated={"output_dtype": "dtype"},
    )

    def __init__(self, spec: Spec, environment: Environment):
        super().__init__(spec, environment)
        self._dtype = _checked_dtype(spec.constant("dtype"))
        keys, values = spec.constant("keys"), spec.constant("values")
        if len(keys) != len(values):
            raise ValueError(f"`keys` and `values` must have the same length, got {len(keys)} and {len(values)}")
        wrong = [key for key in keys if not 0 <= key <= _LARGEST_KEY]
        if wrong:
            raise ValueError(f"`keys` must be in 0 to {_LARGEST_KEY}, got {wrong[0]}")
        numbers = np.full(max(keys, default=-1) + 2, spec.constant("default_value"), np.float32)
        for key, value in zip(keys, values):
            numbers[key] = value
        self._table = np.ascontiguousarray(saturated(numbers, self._dtype))

    def kernels_for(self, inputs: Names, outputs: Names) -> Kernels:
        return [self.kernels.lookup_step(inputs[0], sized_name(self._dtype))]

    def plan(self, inputs: list[Batch], arguments: Arguments, iteration: Iteration) -> Planned:
        source = inputs[0]
        output = self.output(source)
        counts = source.counts()
        entries = LOOKUP.entries(
            inputs=source.addresses,
            outputs=output.addresses,
            counts=counts,
            table=self._table,
            length=len(self._table) - 1,
            samples=len(counts),
        )
        return self.made(source, output, entries, lambda: Cuda("lookup", counts, PACK, sized_types(source, output)))


def sized_types(source: Batch, output: Batch) -> tuple[tuple[str, str], ...]:
    """The macros IN, and OUT: the unsigned integer of the size of an output element."""
    return types_of(source, output)[0], ("OUT", sized_name(output.dtype))

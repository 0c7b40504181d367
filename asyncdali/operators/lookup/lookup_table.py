"""lookup_table: map integers to values."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from ...batch import Batch, storage_dtype
from ...compiled.tables import laid_out
from ...device.launch import Entry, Kernel, Launch, element_type, grid_of
from ...types import DALIDataType
from ...types.conversions import STORAGE
from ...types.saturate import saturated
from ..accepts import ANY_RANK, INTEGERS, Input, Output, argument
from ..base import (
    Arg,
    Arguments,
    Environment,
    Iteration,
    Operator,
    Planned,
    Schema,
    Spec,
    Step,
    no_explanation,
    register,
)
from ..moves.strided import sized_name
from .lookup_tables import LOOKUP, ONE_HOT_RECORD

_LARGEST_KEY = 65535
word = ONE_HOT_RECORD.word
_SOURCE = Path(__file__).with_name("lookup_kernels.cu")


def _checked_dtype(dtype: DALIDataType) -> DALIDataType:
    if dtype not in STORAGE or dtype > DALIDataType.BOOL:
        raise ValueError(f"`dtype` {dtype.name} is not supported; numbers and BOOL are")
    return dtype


@register
class LookupTable(Operator):
    repeatable = True
    on_cuda = True
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
        from . import lookup_kernels

        self._kernels: Any = lookup_kernels

    def infer(self, dtypes: list[DALIDataType | None]) -> list[DALIDataType | None]:
        source = DALIDataType.UINT8 if dtypes[0] is None else dtypes[0]
        if source in INTEGERS:
            self._step(source).compile()
        return [self._dtype]

    def _step(self, source: DALIDataType) -> Any:
        return self._kernels.lookup_step(storage_dtype(source).name, sized_name(self._dtype))

    def plan(self, inputs: list[Batch], arguments: Arguments, iteration: Iteration) -> Planned:
        source = inputs[0]
        output = Batch(source.shapes, self._dtype, source.layout, device=source.device, source_info=source.source_info)
        counts = source.shapes.prod(axis=1, dtype=np.int64)
        entries = LOOKUP.entries(
            inputs=source.addresses,
            outputs=output.addresses,
            counts=counts,
            table=self._table,
            length=len(self._table) - 1,
            samples=len(counts),
        )
        table, keep = laid_out(entries)
        step = Step(self._step(source.dtype).address, table, no_explanation, keep=keep)
        largest = int(counts.max(initial=0))
        step.launches = lambda: [_launch("lookup", source, output, entries, -(-largest // 4))]
        return Planned([output], [step])


def _launch(entry: str, source: Batch, output: Batch, context: tuple[Entry, ...], largest: int) -> Launch:
    names = ("IN", element_type(storage_dtype(source.dtype))), ("OUT", sized_name(output.dtype))
    return Launch(Kernel(_SOURCE, entry, names), context, grid_of(largest, len(output)))

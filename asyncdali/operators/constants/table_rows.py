"""Rows of a constant table: the hidden operator behind magnitudes of ``auto_aug``."""

from __future__ import annotations

import numpy as np

from ...batch import Batch
from ...types import DALIDataType
from ..accepts import CHOSEN, INTEGERS, Input, Output
from ..base import Arg, Arguments, Environment, Iteration, Operator, Planned, SampleError, Schema, Spec, register


@register
class TableRow(Operator):
    schema = Schema(
        name="_table_row",
        doc="One row of a constant table per sample, chosen by an integer. Negative integers count from the end.",
        accepts=(Input(INTEGERS, name="rows", ranks=(0,)),),
        gives=(Output(CHOSEN, CHOSEN, ""),),
        devices=("cpu", "gpu"),
        cpu_inputs=(0,),
        only_here=True,
        args=(Arg("table", "any", None, "The rows."), Arg("dtype", "dtype", None, "Element type of the table.")),
    )

    on_cuda = True
    reads = (0,)
    eager = True

    def __init__(self, spec: Spec, environment: Environment):
        super().__init__(spec, environment)
        self._table: np.ndarray = spec.constant("table")
        self._dtype: DALIDataType = spec.constant("dtype")

    @property
    def instant(self) -> bool:
        return True

    def infer(self, dtypes: list[DALIDataType | None]) -> list[DALIDataType | None]:
        return [self._dtype]

    def plan(self, inputs: list[Batch], arguments: Arguments, iteration: Iteration) -> Planned:
        (index,) = inputs
        count = len(self._table)
        numbers = index.values if index.values is not None else np.array([index.sample(k).item() for k in range(len(index))], np.int64)
        wrong = np.flatnonzero((numbers < -count) | (numbers >= count))
        if len(wrong):
            sample = int(wrong[0])
            raise SampleError(sample, f"row {numbers[sample]} is out of range: the table has {count} rows")
        made = Batch.from_values(self._table[numbers], "", self._dtype)
        made.rows = index.rows
        return Planned([made])

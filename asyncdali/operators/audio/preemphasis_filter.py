"""preemphasis_filter: each sample less a part of the one before."""

from __future__ import annotations

import numpy as np

from ...batch import Batch
from ...compiled.tables import Field, Table
from ...types import DALIDataType
from ..accepts import ANY_RANK, Input, Output, argument
from ..base import Arg, Arguments, Environment, Example, Iteration, Planned, Schema, Spec, register
from ..samples import SampleOperator, stored
from .signal_types import SIGNAL_TYPES

PREEMPHASIS = Table("PREEMPHASIS", Field("border", "int64", "value before the first sample: 0 zero, 1 the first sample, 2 the second one"))
word = PREEMPHASIS.word
_BORDERS = ("zero", "clamp", "reflect")


@register
class PreemphasisFilter(SampleOperator):
    repeatable = True
    schema = Schema(
        name="preemphasis_filter",
        doc="""Emphasises high frequencies: ``output[t] = input[t] - preemph_coeff * input[t - 1]``.

        Computed in FLOAT, rounded and saturated to `dtype`. Samples of several dimensions are treated as one row.""",
        accepts=(Input(SIGNAL_TYPES, name="sound", ranks=ANY_RANK, likely=DALIDataType.FLOAT),),
        gives=(Output(type=argument("dtype")),),
        devices=("cpu", "gpu"),
        args=(
            Arg("border", "str", "clamp", 'Value before the first sample: "zero", "clamp" (the first sample), "reflect" (the second).',
                choices=_BORDERS),
            Arg("dtype", "dtype", DALIDataType.FLOAT, "Element type of the output."),
            Arg("preemph_coeff", "float", 0.97, "The coefficient.", tensor=True),
        ),
        examples=(Example(([1.0, 2.0, 4.0],), ([0.5, 1.5, 3.0],), {"preemph_coeff": 0.5}),),
    )
    record = PREEMPHASIS
    numbers = ("preemph_coeff",)

    def __init__(self, spec: Spec, environment: Environment):
        super().__init__(spec, environment)
        if spec.constant("border") not in _BORDERS:
            raise ValueError(f"Border mode {spec.constant('border')!r} is not supported; supported are {', '.join(_BORDERS)}")
        wanted = spec.constant("dtype")
        if wanted not in SIGNAL_TYPES:
            raise ValueError(f"Unsupported output type: {wanted.name}; supported are {', '.join(kind.name for kind in SIGNAL_TYPES)}")

    def plan(self, inputs: list[Batch], arguments: Arguments, iteration: Iteration) -> Planned:
        border = _BORDERS.index(self.spec.constant("border"))
        return self.planned(inputs, [self.output(inputs[0])], arguments, border=border)

    @staticmethod
    def sample(sound: np.ndarray, out: np.ndarray, record: np.ndarray, numbers: np.ndarray) -> None:
        count, coefficient, border, before = len(out), numbers[0], record[word.border], np.float32(0)
        if count == 0:
            return
        if border == 1 or (border == 2 and count == 1):
            before = np.float32(sound[0])
        elif border == 2:
            before = np.float32(sound[1])
        out[0] = stored(np.float32(sound[0]) - coefficient * before)
        # These arrays start one element later: an index i - 1 could be negative, which would prevent vectorisation.
        after, made = sound[1:], out[1:]
        for i in range(count - 1):
            made[i] = stored(np.float32(after[i]) - coefficient * np.float32(sound[i]))

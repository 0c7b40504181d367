"""batch_permutation: a random permutation of a batch's samples."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...batch import Batch
from ...compiled.addresses import address_of
from ...types import DALIDataType
from ..accepts import Output
from ..base import Arg, Arguments, Environment, Iteration, Planned, Schema, Spec, register
from ..random.random import StreamOperator

_FEW = 1024
"""So many indices are drawn in less time than another thread needs to take the interpreter lock."""


@register
class BatchPermutation(StreamOperator):
    schema = Schema(
        name="batch_permutation",
        doc="""A random permutation of 0..batch size - 1, one INT32 scalar per sample; for `permute_batch`.

        Streams are DALI's for the same seed.""",
        gives=(Output(DALIDataType.INT32, 0, ""),),
        inputs=(0, 0),
        seeded=True,
        looks_across=True,
        args=(
            Arg("allow_repetitions", "bool", False, "Whether indices may occur more than once.", stream=True),
            Arg("no_fixed_points", "bool", False, "Whether every sample must move (in batches of more than one sample).", stream=True),
        ),
    )
    eager = True

    def __init__(self, spec: Spec, environment: Environment):
        super().__init__(spec, environment)
        from . import batch_permutation_kernels

        self._draw: Any = batch_permutation_kernels.draw_permutation
        self._draw.compile()

    @property
    def instant(self) -> bool:
        return self.environment.batch_size <= 1024

    def plan(self, inputs: list[Batch], arguments: Arguments, iteration: Iteration) -> Planned:
        indices, position = np.empty(arguments.count, np.int32), iteration.position
        repeated, moved = arguments.constant("allow_repetitions"), arguments.constant("no_fixed_points")
        draw = self._draw.held if len(indices) <= _FEW else self._draw
        draw(position.key, position.hi, position.lo, position.phase, len(indices), repeated, moved, address_of(indices))
        return Planned([Batch.from_values(indices)])

"""batch_permutation draws a permutation of the samples; permute_batch applies one to a batch."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...batch import Batch
from ...types import DALIDataType
from ..accepts import ANYTHING, Output
from ..base import REQUIRED, Arg, Arguments, Environment, Iteration, Operator, Planned, SampleError, Schema, Spec, register
from ..random.random import StreamOperator


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
        from . import permutation_kernels

        self._draw: Any = permutation_kernels.draw_permutation
        self._draw.compile()

    @property
    def instant(self) -> bool:
        return self.environment.batch_size <= 1024

    def infer(self, dtypes: list[DALIDataType | None]) -> list[DALIDataType | None]:
        return [DALIDataType.INT32]

    def plan(self, inputs: list[Batch], arguments: Arguments, iteration: Iteration) -> Planned:
        indices, position = np.empty(arguments.count, np.int32), iteration.position
        repeated, moved = arguments.constant("allow_repetitions"), arguments.constant("no_fixed_points")
        self._draw(position.key, position.hi, position.lo, position.phase, len(indices), repeated, moved, indices.ctypes.data)
        return Planned([Batch.from_values(indices)])


@register
class PermuteBatch(Operator):
    on_cuda = True
    schema = Schema(
        name="permute_batch",
        doc="""A batch of the samples in `indices`. Samples may be omitted or repeated.

        The data are not copied: equal samples share their memory.""",
        accepts=(ANYTHING,),
        gives=(Output(),),
        devices=("cpu", "gpu"),
        args=(
            Arg("indices", "int_list", REQUIRED, "A list of as many indices as there are samples, or one index per sample.", tensor=True),
        ),
    )
    # The output refers to the input's memory, in another order. The input must therefore be complete, and then the output is, too.
    reads = (0,)
    eager = True

    @classmethod
    def why_whole(cls, spec: Spec) -> str:
        return "a sample may end up anywhere in the batch"

    def infer(self, dtypes: list[DALIDataType | None]) -> list[DALIDataType | None]:
        return dtypes

    def plan(self, inputs: list[Batch], arguments: Arguments, iteration: Iteration) -> Planned:
        source = inputs[0]
        indices = self._indices(arguments, len(source))
        view = Batch(
            source.shapes[indices], source.dtype, source.layout, source.addresses[indices], source.owner, device=source.device
        )  # fmt: skip
        view.alias_of = source if source.alias_of is None else source.alias_of
        if source.source_info is not None:
            view.source_info = [source.source_info[i] for i in indices.tolist()]
        if source.values is not None and source.values.nbytes <= _SMALL:
            values = Batch.from_values(source.values[indices], source.layout, source.dtype)
            values.source_info = view.source_info
            view = values
        return Planned([view])

    def _indices(self, arguments: Arguments, count: int) -> np.ndarray:
        if arguments.is_input("indices"):
            indices = arguments.scalars("indices", np.int64)
        else:
            indices = np.array(arguments.constant("indices"), np.int64)
        if len(indices) != count:
            raise ValueError(f"`indices` has {len(indices)} indices for a batch of {count} samples; give one index per sample")
        wrong = (indices < 0) | (indices >= count)
        if wrong.any():
            i = int(np.flatnonzero(wrong)[0])
            raise SampleError(i, f"`indices` must be in 0 to {count - 1}, got {int(indices[i])}")
        return indices


_SMALL = 1 << 16
"""Known values up to this many bytes are copied, so that they remain known."""

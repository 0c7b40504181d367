"""permute_batch: a batch of chosen samples of a batch."""

from __future__ import annotations

import numpy as np

from ...batch import Batch
from ..accepts import ANYTHING, Output
from ..base import REQUIRED, Arg, Arguments, Environment, Iteration, Operator, Planned, Schema, Spec, refuse_where, register

_SMALL = 1 << 16
"""Known values up to this many bytes are copied, so that they remain known."""


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

    def __init__(self, spec: Spec, environment: Environment):
        super().__init__(spec, environment)
        self._checked: np.ndarray | None = None
        """The constant indices, once they were compared with the size of a batch."""

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
        given, checked = arguments.is_input("indices"), self._checked
        if checked is not None and len(checked) == count:
            return checked
        indices = arguments.scalars("indices", np.int64) if given else np.array(arguments.constant("indices"), np.int64)
        if len(indices) != count:
            raise ValueError(f"`indices` has {len(indices)} indices for a batch of {count} samples; give one index per sample")
        refuse_where((indices < 0) | (indices >= count), lambda i: f"`indices` must be in 0 to {count - 1}, got {int(indices[i])}")
        if not given:
            self._checked = indices
        return indices

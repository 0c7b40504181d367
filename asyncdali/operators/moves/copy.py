"""copy: copy the data to separate memory."""

from __future__ import annotations

import numpy as np

from ...batch import Batch
from ...types import DALIDataType
from ..accepts import DATA, Output
from ..base import Arguments, Environment, Iteration, Operator, Planned, Schema, Spec, Step, register


@register
class Copy(Operator):
    repeatable = True
    on_cuda = True
    schema = Schema(name="copy", doc="Copies the input.", devices=("cpu", "gpu"), accepts=(DATA,), gives=(Output(),))

    def __init__(self, spec: Spec, environment: Environment):
        super().__init__(spec, environment)
        from .copy_kernels import copy_step

        self._step = copy_step

    def infer(self, dtypes: list[DALIDataType | None]) -> list[DALIDataType | None]:
        self._step.compile()
        return dtypes

    def plan(self, inputs: list[Batch], arguments: Arguments, iteration: Iteration) -> Planned:
        source = inputs[0]
        result = Batch(source.shapes, source.dtype, source.layout, device=source.device)
        return Planned([result], [copied(source.addresses, result)])


def copied(sources: np.ndarray, result: Batch) -> Step:
    """The step that copies from addresses, int64[samples], into `result`. ``copy_kernels.copy_step`` must be compiled."""
    from .copy_kernels import make_copy_step

    return make_copy_step(sources, result.addresses, np.ascontiguousarray(result.sizes()))

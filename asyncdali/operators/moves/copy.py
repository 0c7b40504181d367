"""copy: copy the data to separate memory."""

from __future__ import annotations

import numpy as np

from ...batch import Batch
from ...compiled.tables import INPUTS, OUTPUTS, SAMPLES, Field, Table
from ..accepts import DATA, Output
from ..base import Arguments, Iteration, Planned, Schema, Step, register
from ..kernel_operator import KernelOperator, Kernels, Names

COPY = Table("COPY", INPUTS, OUTPUTS, Field("sizes", "int64[samples]", "bytes of each sample"), SAMPLES)


@register
class Copy(KernelOperator):
    repeatable = True
    kernel_module = "copy_kernels"
    schema = Schema(name="copy", doc="Copies the input.", devices=("cpu", "gpu"), accepts=(DATA,), gives=(Output(),))

    def kernels_for(self, inputs: Names, outputs: Names) -> Kernels:
        return [self.kernels.copy_step]

    def plan(self, inputs: list[Batch], arguments: Arguments, iteration: Iteration) -> Planned:
        source = inputs[0]
        result = Batch(source.shapes, source.dtype, source.layout, device=source.device)
        return Planned([result], [copied(source.addresses, result)])


def copied(sources: np.ndarray, result: Batch) -> Step:
    """The step that copies from addresses, int64[samples], into `result`. ``copy_kernels.copy_step`` must be compiled."""
    from .copy_kernels import make_copy_step

    return make_copy_step(sources, result.addresses, np.ascontiguousarray(result.sizes()))

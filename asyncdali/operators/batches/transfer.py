"""Transfers between CPU and GPU: the operators behind `.gpu()` and `.cpu()`."""

from __future__ import annotations

from ...batch import Batch
from ..accepts import ANYTHING, Output
from ..base import Arg, Arguments, Iteration, Operator, Planned, Role, Schema, register


@register
class Transfer(Operator):
    """``.gpu()`` and ``.cpu()``: one per edge and direction. On the host device the data is not copied."""

    schema = Schema(
        name="_transfer",
        doc="Moves a batch between CPU and GPU.",
        accepts=(ANYTHING,),
        gives=(Output(),),
        devices=("cpu", "gpu"),
        args=(Arg("to", "str", "gpu"),),
        role=Role.TRANSFER,
        only_here=True,
    )
    eager = True
    reads = (0,)
    on_cuda = True  # device_segments.py copies the data.

    def plan(self, inputs: list[Batch], arguments: Arguments, iteration: Iteration) -> Planned:
        source = inputs[0]
        moved = Batch.alias(source, source.shapes, source.dtype, source.layout)
        return Planned([moved])

    @property
    def output_device(self) -> str:
        device: str = self.spec.constant("to")
        return device

"""cast_like: convert to the element type of another input."""

from __future__ import annotations

from ...batch import Batch
from ..accepts import DATA, Output, of_input
from ..base import Arguments, Iteration, Planned, Schema, register
from ..moves.pieces import like
from .cast import Casting


@register
class CastLike(Casting):
    kernel_module = "cast_like_kernels"
    repeatable = True
    schema = Schema(
        name="cast_like",
        doc="Converts the first input to the element type of the second one, by the rules of `cast`.",
        accepts=(DATA,),
        gives=(Output(type=of_input(1)),),
        inputs=(2, 2),
        devices=("cpu", "gpu"),
        metadata_inputs=(1,),
    )

    def plan(self, inputs: list[Batch], arguments: Arguments, iteration: Iteration) -> Planned:
        source, target = inputs[0], inputs[1].dtype
        if source.dtype == target:
            return Planned([Batch.alias(source, source.shapes, source.dtype, source.layout)])
        output = like(source)
        output.dtype = target
        return self.cast(source, output)

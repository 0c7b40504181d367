"""per_frame: mark samples as sequences of frames."""

from __future__ import annotations

from ...batch import Batch
from ..accepts import CHOSEN, ELEMENTS, Input, Output, at_least
from ..base import Arg, Arguments, Iteration, Operator, Planned, Schema, Trait, register


@register
class PerFrame(Operator):
    repeatable = True
    traits = Trait.VIEWS
    on_cuda = True
    schema = Schema(
        name="per_frame",
        doc="""Marks the input as a sequence: its layout begins with F. The data are not copied.

        An input with another layout is refused, unless `replace` is true: then its first letter becomes F.""",
        accepts=(Input(ELEMENTS, ranks=at_least(1)),),
        gives=(Output(layout=CHOSEN),),
        devices=("cpu", "gpu"),
        args=(Arg("replace", "bool", False, "Whether another first letter is replaced."),),
    )

    def plan(self, inputs: list[Batch], arguments: Arguments, iteration: Iteration) -> Planned:
        source = inputs[0]
        if source.layout and source.layout[0] != "F" and not arguments.constant("replace"):
            raise ValueError(f"the layout must begin with F, got {source.layout!r} (`replace=True` replaces its first letter)")
        layout = "F" + (source.layout[1:] if source.layout else "*" * (source.ndim - 1))
        return Planned([Batch.alias(source, source.shapes, source.dtype, layout)])

"""full: an input, broadcast to a shape."""

from __future__ import annotations

from ...batch import Batch
from ...types import DALIDataType
from ..accepts import CHOSEN, DATA, LIKE, Output, argument
from ..base import Arguments, Iteration, Planned, Schema, register
from .broadcasts import Broadcast
from .equal_values import LAYOUT_ARG, SHAPE_ARG, checked_layout, wanted_shapes


@register
class Full(Broadcast):
    repeatable = True
    schema = Schema(
        name="full",
        input_names=("fill_value",),
        doc="The input, broadcast to the given shape.",
        accepts=(DATA,),
        gives=(Output(LIKE, CHOSEN, argument("layout", "")),),
        args=(LAYOUT_ARG, SHAPE_ARG),
    )

    def infer(self, dtypes: list[DALIDataType | None]) -> list[DALIDataType | None]:
        self._kernels.copy_step.compile()
        return dtypes

    def plan(self, inputs: list[Batch], arguments: Arguments, iteration: Iteration) -> Planned:
        shapes = wanted_shapes(arguments)
        return self._repeated(inputs[0], shapes, inputs[0].dtype, checked_layout(arguments.constant("layout"), shapes.shape[1]))

"""stack: join several inputs along a new axis."""

from __future__ import annotations

from ..accepts import ANY_RANK, CHOSEN, ELEMENTS, LIKE, ONE_MORE, Input, Output
from ..base import Arg, Schema, register
from ..moves.pieces import normal_axis
from .joining import AXIS_ARGS, Join


@register
class Stack(Join):
    kernel_module = "stack_kernels"
    schema = Schema(
        name="stack",
        doc="""Joins the inputs along a new axis.

        They must have the same type and equal shapes. The output has a layout if `axis_name` names the new axis. Then the first
        input must have a layout, unless its samples are scalars.""",
        accepts=(Input(ELEMENTS, ranks=ANY_RANK, like=("type", "shape")),),
        gives=(Output(LIKE, ONE_MORE, CHOSEN),),
        inputs=(1, 999),
        devices=("cpu", "gpu"),
        args=(AXIS_ARGS[0], Arg("axis_name", "str", None, "The letter of the new axis in the output's layout.")),
    )
    new_axis = True

    def _place(self, layout: str, ndim: int) -> tuple[int, str]:
        axis = normal_axis(self.spec.constant("axis"), ndim, new=1)
        if self._name is None:
            return axis, ""
        if ndim and not layout:
            raise ValueError("`axis_name` needs inputs with a layout, unless they are scalars")
        return axis, layout[:axis] + self._name + layout[axis:]

"""cat: join several inputs along an existing axis."""

from __future__ import annotations

from ...batch import Batch
from ..accepts import ANY_RANK, ELEMENTS, Input, Output
from ..base import Schema, register
from ..moves.pieces import normal_axis
from .joining import AXIS_ARGS, Join, refuse


@register
class Cat(Join):
    kernel_module = "cat_kernels"
    schema = Schema(
        name="cat",
        doc="""Joins the inputs along an existing axis.

        They must have the same type and number of dimensions, and equal extents along the other axes. The layout is that of
        the first input.""",
        accepts=(Input(ELEMENTS, ranks=ANY_RANK, like=("type", "rank")),),
        gives=(Output(),),
        inputs=(1, 999),
        devices=("cpu", "gpu"),
        args=AXIS_ARGS,
    )

    def _place(self, layout: str, ndim: int) -> tuple[int, str]:
        if self._name is None:
            return normal_axis(self.spec.constant("axis"), ndim), layout
        if self._name not in layout:
            raise ValueError(f"`axis_name` '{self._name}' is not in the layout of input 0, \"{layout}\"")
        return layout.index(self._name), layout

    def _check(self, inputs: list[Batch], axis: int) -> None:
        for k, batch in enumerate(inputs):
            wrong = batch.shapes != inputs[0].shapes
            wrong[:, axis] = False
            refuse(inputs, wrong, k, f"joined samples may differ in extent along axis {axis} only")

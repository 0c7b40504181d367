"""cat and stack: join several inputs."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from ...batch import Batch
from ...types import DALIDataType
from ..accepts import ANY_RANK, CHOSEN, ELEMENTS, LIKE, ONE_MORE, Input, Output
from ..base import Arg, Arguments, Environment, Iteration, Operator, Planned, SampleError, Schema, Spec, register
from ..moves.strided import Pieces, dense_strides, like, normal_axis

_AXIS_ARGS = (
    Arg("axis", "int", 0, "The axis; negative ones count from the back."),
    Arg("axis_name", "str", None, "The axis by its letter, instead of `axis`."),
)


class _Join(Operator):
    """Common base: inputs of one type and rank, and one strided piece of the output per input."""

    on_cuda = True
    new_axis: ClassVar[bool] = False

    def __init__(self, spec: Spec, environment: Environment):
        super().__init__(spec, environment)
        self._name = spec.constant("axis_name")
        if self._name is not None and spec.given("axis") and not self.new_axis:
            raise ValueError("`axis` and `axis_name` cannot be used together")
        if self._name is not None and len(self._name) != 1:
            raise ValueError(f"`axis_name` must be a single character, got {self._name!r}")
        from ..moves import strided_kernels

        self._kernels: Any = strided_kernels

    def infer(self, dtypes: list[DALIDataType | None]) -> list[DALIDataType | None]:
        self._kernels.copy_step.compile()
        return [next((dtype for dtype in dtypes if dtype is not None), None)]

    def plan(self, inputs: list[Batch], arguments: Arguments, iteration: Iteration) -> Planned:
        first = inputs[0]
        axis, out_layout = self._place(first.layout, first.ndim)
        self._check(inputs, axis)
        if self.new_axis:
            shapes = np.insert(first.shapes, axis, len(inputs), axis=1)
        else:
            shapes = first.shapes.copy()
            shapes[:, axis] = sum(batch.shapes[:, axis] for batch in inputs)
        output = like(first, shapes, out_layout)
        pieces = Pieces(output)
        along = pieces.targets[:, axis]
        targets = np.delete(pieces.targets, axis, axis=1) if self.new_axis else pieces.targets
        if targets.shape[1] == 0:  # Scalars get an axis of extent 1.
            targets = along[:, None]
        offset = np.zeros(len(first), np.int64)
        for batch in inputs:
            extents, strides = batch.shapes, dense_strides(batch.shapes, batch.itemsize)
            if batch.ndim == 0:
                extents = strides = np.ones((len(batch), 1), np.int64)
            pieces.add(batch, extents, strides, targets=targets, target_offset=offset)
            offset = offset + along * (1 if self.new_axis else batch.shapes[:, axis])
        return Planned([output], [pieces.step(self._kernels.copy_step)])

    def _place(self, layout: str, ndim: int) -> tuple[int, str]:
        """The axis, and the layout of the output."""
        raise TypeError("abstract")

    def _check(self, inputs: list[Batch], axis: int) -> None:
        """Raise SampleError if the shapes do not match."""


def _refuse(inputs: list[Batch], wrong: np.ndarray, k: int, rule: str) -> None:
    if wrong.any():
        i = int(np.flatnonzero(wrong.any(axis=1))[0])
        shapes = [tuple(inputs[n].shapes[i].tolist()) for n in (0, k)]
        raise SampleError(i, f"{rule}; input 0 has shape {shapes[0]}, input {k} {shapes[1]}")


@register
class Cat(_Join):
    schema = Schema(
        name="cat",
        doc="""Joins the inputs along an existing axis.

        They must have the same type and number of dimensions, and equal extents along the other axes. The layout is that of
        the first input.""",
        accepts=(Input(ELEMENTS, ranks=ANY_RANK, like=("type", "rank")),),
        gives=(Output(),),
        inputs=(1, 999),
        devices=("cpu", "gpu"),
        args=_AXIS_ARGS,
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
            _refuse(inputs, wrong, k, f"joined samples may differ in extent along axis {axis} only")


@register
class Stack(_Join):
    schema = Schema(
        name="stack",
        doc="""Joins the inputs along a new axis.

        They must have the same type and equal shapes. The output has a layout if `axis_name` names the new axis. Then the first
        input must have a layout, unless its samples are scalars.""",
        accepts=(Input(ELEMENTS, ranks=ANY_RANK, like=("type", "shape")),),
        gives=(Output(LIKE, ONE_MORE, CHOSEN),),
        inputs=(1, 999),
        devices=("cpu", "gpu"),
        args=(_AXIS_ARGS[0], Arg("axis_name", "str", None, "The letter of the new axis in the output's layout.")),
    )
    new_axis = True

    def _place(self, layout: str, ndim: int) -> tuple[int, str]:
        axis = normal_axis(self.spec.constant("axis"), ndim, new=1)
        if self._name is None:
            return axis, ""
        if ndim and not layout:
            raise ValueError("`axis_name` needs inputs with a layout, unless they are scalars")
        return axis, layout[:axis] + self._name + layout[axis:]

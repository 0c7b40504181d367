"""The shared part of cat and stack: inputs of one type and rank, and one strided piece of the output per input."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from ...batch import Batch
from ..base import Arg, Arguments, Environment, Iteration, Planned, Spec
from ..moves.moving import MovingOperator
from ..moves.pieces import Pieces, dense_strides, like

AXIS_ARGS = (
    Arg("axis", "int", 0, "The axis; negative ones count from the back."),
    Arg("axis_name", "str", None, "The axis by its letter, instead of `axis`."),
)


class Join(MovingOperator):
    """Common base: inputs of one type and rank, and one strided piece of the output per input."""

    repeatable = True
    new_axis: ClassVar[bool] = False

    def __init__(self, spec: Spec, environment: Environment):
        super().__init__(spec, environment)
        self._name = spec.constant("axis_name")
        if self._name is not None and spec.given("axis") and not self.new_axis:
            raise ValueError("`axis` and `axis_name` cannot be used together")
        if self._name is not None and len(self._name) != 1:
            raise ValueError(f"`axis_name` must be a single character, got {self._name!r}")

    def plan(self, inputs: list[Batch], arguments: Arguments, iteration: Iteration) -> Planned:
        axis, out_layout = self._place(inputs[0].layout, inputs[0].ndim)
        inputs = self._joined(inputs, axis)
        first = inputs[0]
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
        return self.copied(pieces)

    def _place(self, layout: str, ndim: int) -> tuple[int, str]:
        """The axis, and the layout of the output."""
        raise TypeError("abstract")

    def _joined(self, inputs: list[Batch], axis: int) -> list[Batch]:
        """The inputs that are joined. SampleError if the shapes do not match."""
        return inputs

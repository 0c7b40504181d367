"""cat: join several inputs along an existing axis."""

from __future__ import annotations

import numpy as np

from ...batch import Batch
from ..accepts import ANY_RANK, ELEMENTS, Input, Output
from ..base import Schema, refuse_where, register
from ..moves.pieces import normal_axis
from .joining import AXIS_ARGS, Join


@register
class Cat(Join):
    kernel_module = "cat_kernels"
    schema = Schema(
        name="cat",
        doc="""Joins the inputs along an existing axis.

        They must have the same type and number of dimensions, and equal extents along the other axes. An input that has other
        extents is left out if it has no elements in the whole batch. The layout is that of the first input.""",
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

    def _joined(self, inputs: list[Batch], axis: int) -> list[Batch]:
        if not any(_other_extents(batch, inputs[0], axis).any() for batch in inputs):
            return inputs
        base = next((k for k, batch in enumerate(inputs) if _has_elements(batch)), 0)
        joined = []
        for k, batch in enumerate(inputs):
            wrong = _other_extents(batch, inputs[base], axis)
            if _has_elements(batch):
                refuse_where(wrong, lambda i, k=k: _difference(inputs, (base, k), i, axis))  # type: ignore[misc]  # its `k` of now
            if not wrong.any():
                joined.append(batch)
        return joined


def _other_extents(batch: Batch, base: Batch, axis: int) -> np.ndarray:
    """The samples whose extents differ along other axes."""
    differing = batch.shapes != base.shapes
    differing[:, axis] = False
    samples: np.ndarray = differing.any(axis=1)
    return samples


def _has_elements(batch: Batch) -> bool:
    return bool(batch.shapes.all(axis=1).any())


def _difference(inputs: list[Batch], pair: tuple[int, int], sample: int, axis: int) -> str:
    first, other = (f"input {k}{' has shape' if k == pair[0] else ''} {tuple(inputs[k].shapes[sample].tolist())}" for k in pair)
    return f"joined samples may differ in extent along axis {axis} only; {first}, {other}"

"""expand_dims: insert axes of extent 1. The data is not copied."""

from __future__ import annotations

import numpy as np

from ...batch import Batch
from ..accepts import CHOSEN, DATA, LIKE, Output
from ..base import REQUIRED, Arg, Arguments, Environment, Iteration, Operator, Planned, Schema, Spec, Trait, register


@register
class ExpandDims(Operator):
    repeatable = True
    traits = Trait.VIEWS
    on_cuda = True
    schema = Schema(
        name="expand_dims",
        input_names=("data",),
        doc="""Inserts axes of extent 1; the data are not copied.

        Without `new_axis_names` the layout is dropped; with them the input must have one, unless its samples are scalars.""",
        accepts=(DATA,),
        gives=(Output(LIKE, CHOSEN, CHOSEN),),
        devices=("cpu", "gpu"),
        args=(
            Arg("axes", "int_list", REQUIRED, "Positions of the new axes in the output."),
            Arg("new_axis_names", "layout", "", "A letter for each of `axes`, in their order."),
        ),
    )

    def __init__(self, spec: Spec, environment: Environment):
        super().__init__(spec, environment)
        axes, names = spec.constant("axes"), spec.constant("new_axis_names")
        if names and len(names) != len(axes):
            raise ValueError(f"`new_axis_names` has {len(names)} letters ({names!r}) for {len(axes)} new axes")
        if any(axis < 0 for axis in axes):
            raise ValueError(f"`axes` must not be negative, got {axes}")
        if len(set(axes)) != len(axes):
            raise ValueError(f"an axis occurs more than once in `axes`, got {axes}")
        self._axes = sorted(axes)
        self._names = [name for _, name in sorted(zip(axes, names))] if names else []

    def plan(self, inputs: list[Batch], arguments: Arguments, iteration: Iteration) -> Planned:
        source = inputs[0]
        ndim = source.ndim + len(self._axes)
        if self._axes and self._axes[-1] >= ndim:
            raise ValueError(f"`axes` {self._axes} are beyond the {ndim} dimensions of the output (the input has {source.ndim})")
        if self._names and source.ndim and not source.layout:
            raise ValueError("`new_axis_names` needs an input with a layout, unless its samples are scalars")
        kept = [axis for axis in range(ndim) if axis not in self._axes]
        shapes = np.ones((len(source), ndim), np.int64)
        shapes[:, kept] = source.shapes
        layout = "" if self._axes else source.layout
        if self._names:
            letters = dict(zip(self._axes, self._names)) | dict(zip(kept, source.layout))
            layout = "".join(letters[axis] for axis in range(ndim))
        return Planned([Batch.alias(source, shapes, source.dtype, layout)])

"""expand_dims, squeeze: insert or remove axes of extent 1. The data is not copied."""

from __future__ import annotations

import numpy as np

from ...batch import Batch
from ...types import DALIDataType
from ..accepts import CHOSEN, DATA, LIKE, Output
from ..base import REQUIRED, Arg, Arguments, Environment, Iteration, Operator, Planned, SampleError, Schema, Spec, register
from ..moves.strided import named_axes, normal_axes


@register
class ExpandDims(Operator):
    on_cuda = True
    schema = Schema(
        name="expand_dims",
        doc="""Inserts axes of extent 1; the data are not copied.

        Without `new_axis_names` the layout is dropped; with them the input must have one, unless its samples are scalars.""",
        accepts=(DATA,),
        gives=(Output(LIKE, CHOSEN, CHOSEN),),
        devices=("cpu", "gpu"),
        args=(
            Arg("axes", "int_list", REQUIRED, "Where the new axes are in the output."),
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

    def infer(self, dtypes: list[DALIDataType | None]) -> list[DALIDataType | None]:
        return dtypes

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


@register
class Squeeze(Operator):
    on_cuda = True
    schema = Schema(
        name="squeeze",
        doc="Removes axes of extent 1, given by number or by letter; the data are not copied.",
        accepts=(DATA,),
        gives=(Output(LIKE, CHOSEN, CHOSEN),),
        devices=("cpu", "gpu"),
        args=(
            Arg("axes", "int_list", None, "The axes; negative ones count from the back.", tensor=True),
            Arg("axis_names", "layout", None, "The axes by their letters in the layout."),
        ),
    )

    def __init__(self, spec: Spec, environment: Environment):
        super().__init__(spec, environment)
        if spec.given("axes") == spec.given("axis_names"):
            raise ValueError("exactly one of `axes` and `axis_names` must be given")

    def infer(self, dtypes: list[DALIDataType | None]) -> list[DALIDataType | None]:
        return dtypes

    def plan(self, inputs: list[Batch], arguments: Arguments, iteration: Iteration) -> Planned:
        source = inputs[0]
        if arguments.is_input("axes"):
            return Planned([Batch.alias(source, self._per_sample(source, arguments), source.dtype, "")])
        if arguments.given("axes"):
            axes = normal_axes(arguments.constant("axes"), source.ndim)
        else:
            axes = named_axes(arguments.constant("axis_names"), source.layout)
        _check_ones(source.shapes, source.shapes[:, axes])
        kept = [axis for axis in range(source.ndim) if axis not in axes]
        layout = "".join(source.layout[axis] for axis in kept) if source.layout else ""
        return Planned([Batch.alias(source, source.shapes[:, kept], source.dtype, layout)])

    def _per_sample(self, source: Batch, arguments: Arguments) -> np.ndarray:
        """Shapes after each sample drops its own axes. All samples drop the same number."""
        axes = arguments.vectors("axes", None, np.int64)
        wrong = (axes < -source.ndim) | (axes >= source.ndim)
        if wrong.any():
            i = int(np.flatnonzero(wrong.any(axis=1))[0])
            raise SampleError(i, f"`axes` {axes[i].tolist()} are out of range for {source.ndim}-D samples")
        drop = np.zeros(source.shapes.shape, bool)
        np.put_along_axis(drop, np.where(axes < 0, axes + source.ndim, axes), True, 1)
        repeated = drop.sum(axis=1) != axes.shape[1]
        if repeated.any():
            i = int(np.flatnonzero(repeated)[0])
            raise SampleError(i, f"an axis occurs more than once in `axes` {axes[i].tolist()}")
        _check_ones(source.shapes, np.where(drop, source.shapes, 1))
        return source.shapes[~drop].reshape(len(source), source.ndim - axes.shape[1])


def _check_ones(shapes: np.ndarray, dropped: np.ndarray) -> None:
    wrong = (dropped != 1).any(axis=1)
    if wrong.any():
        i = int(np.flatnonzero(wrong)[0])
        raise SampleError(i, f"only axes of extent 1 can be removed; the shape is {tuple(shapes[i].tolist())}")

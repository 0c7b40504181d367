"""squeeze: remove axes of extent 1. The data is not copied."""

from __future__ import annotations

import numpy as np

from ...batch import Batch
from ..accepts import CHOSEN, DATA, LIKE, Output
from ..base import Arg, Arguments, Environment, Iteration, Operator, Planned, Schema, Spec, Trait, refuse_where, register
from ..moves.pieces import named_axes, normal_axes


@register
class Squeeze(Operator):
    repeatable = True
    traits = Trait.VIEWS
    on_cuda = True
    schema = Schema(
        name="squeeze",
        input_names=("data",),
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

    def plan(self, inputs: list[Batch], arguments: Arguments, iteration: Iteration) -> Planned:
        source = inputs[0]
        if arguments.is_input("axes"):
            return Planned([Batch.alias(source, self._per_sample(source, arguments), source.dtype, "")])
        if arguments.given("axes"):
            axes = normal_axes(arguments.constant("axes"), source.ndim)
        else:
            axes = named_axes(arguments.constant("axis_names"), source.layout)
        kept = [axis for axis in range(source.ndim) if axis not in axes]
        _check_volumes(source.shapes, source.shapes[:, kept])
        layout = "".join(source.layout[axis] for axis in kept) if source.layout else ""
        return Planned([Batch.alias(source, source.shapes[:, kept], source.dtype, layout)])

    def _per_sample(self, source: Batch, arguments: Arguments) -> np.ndarray:
        """Shapes after each sample drops its own axes. All samples drop the same number."""
        axes = arguments.vectors("axes", None, np.int64)
        wrong = (axes < -source.ndim) | (axes >= source.ndim)
        refuse_where(wrong, lambda i: f"`axes` {axes[i].tolist()} are out of range for {source.ndim}-D samples")
        drop = np.zeros(source.shapes.shape, bool)
        np.put_along_axis(drop, np.where(axes < 0, axes + source.ndim, axes), True, 1)
        refuse_where(drop.sum(axis=1) != axes.shape[1], lambda i: f"an axis occurs more than once in `axes` {axes[i].tolist()}")
        kept = source.shapes[~drop].reshape(len(source), source.ndim - axes.shape[1])
        _check_volumes(source.shapes, kept)
        return kept


def _check_volumes(shapes: np.ndarray, kept: np.ndarray) -> None:
    """Refuse to remove axes that hold data. As in DALI, any axis of a sample without elements may be removed if it stays empty."""
    wrong = kept.prod(axis=1) != shapes.prod(axis=1)
    refuse_where(wrong, lambda i: f"only axes of extent 1 can be removed; the shape is {tuple(shapes[i].tolist())}")

"""pad: extend samples to equal shape, to a given shape or to aligned extents."""

from __future__ import annotations

import numpy as np

from ...batch import Batch
from ..accepts import DATA, Output
from ..base import Arg, Arguments, Environment, Iteration, Planned, Schema, Spec, refuse_where, register
from ..moves.moving import MovingOperator
from ..moves.pieces import Pieces, dense_strides, fill_values, like, named_axes


@register
class Pad(MovingOperator):
    kernel_module = "pad_kernels"
    repeatable = True
    schema = Schema(
        name="pad",
        doc="""Pads samples at their ends, along all axes or those given by `axes` or `axis_names`.

        The extent along a padded axis is that of `shape`. If it is missing or not positive, it is the largest extent in the batch.
        No sample is cut. The extent is then rounded up to a multiple of `align`.""",
        accepts=(DATA,),
        gives=(Output(),),
        devices=("cpu", "gpu"),
        args=(
            Arg("align", "int_list", None, "Extents become multiples of these numbers: one, or one per padded axis.", tensor=True),
            Arg("axes", "int_list", None, "The padded axes; negative ones count from the back. By default all.", tensor=True),
            Arg("axis_names", "layout", None, "The padded axes by their letters in the layout."),
            Arg("fill_value", "float", 0.0, "Value of the new elements.", tensor=True),
            Arg("shape", "int_list", None, "Least extents: one, or one per padded axis.", tensor=True),
        ),
    )

    def __init__(self, spec: Spec, environment: Environment):
        super().__init__(spec, environment)
        if spec.given("axes") and spec.given("axis_names"):
            raise ValueError("`axes` and `axis_names` are mutually exclusive")

    @classmethod
    def why_whole(cls, spec: Spec) -> str:
        if "shape" in spec.constants and all(extent > 0 for extent in np.atleast_1d(spec.constants["shape"]).tolist()):
            return ""
        return "samples are padded to the largest of the batch; give `shape`"

    def plan(self, inputs: list[Batch], arguments: Arguments, iteration: Iteration) -> Planned:
        source = inputs[0]
        output = like(source, self._shapes(source, arguments))
        pieces = Pieces(output)
        grown = (output.shapes != source.shapes).any(axis=1)
        if grown.any():
            values = fill_values(arguments.scalars("fill_value", np.float32), source.dtype)
            pieces.fill(values, where=grown, per_sample=True)
        pieces.add(source, source.shapes, dense_strides(source.shapes, source.itemsize))
        return self.copied(pieces)

    def _shapes(self, source: Batch, arguments: Arguments) -> np.ndarray:
        axes, lengths = self._axes(source, arguments)
        chosen = np.take_along_axis(source.shapes, axes, 1)
        largest = np.broadcast_to(source.shapes.max(axis=0, initial=0), source.shapes.shape)
        wanted = np.take_along_axis(largest, axes, 1)
        if arguments.given("shape"):
            least = arguments.rows("shape", lengths, np.zeros_like(axes), np.int64)
            wanted = np.where(least > 0, least, wanted)
        wanted = np.maximum(wanted, chosen)
        if arguments.given("align"):
            align = arguments.rows("align", lengths, np.ones_like(axes), np.int64)
            refuse_where(align <= 0, lambda i: f"`align` must be positive, got {align[i].tolist()}")
            wanted = -(-wanted // align) * align
        shapes = source.shapes.copy()
        rows, columns = np.nonzero(np.arange(axes.shape[1]) < lengths[:, None])
        shapes[rows, axes[rows, columns]] = wanted[rows, columns]
        return shapes

    def _axes(self, source: Batch, arguments: Arguments) -> tuple[np.ndarray, np.ndarray]:
        """The padded axes, int64[samples, most], and the number of padded axes per sample, int64[samples]."""
        ndim, count = source.ndim, len(source)
        if arguments.given("axis_names") and arguments.constant("axis_names"):
            axes = np.array(named_axes(arguments.constant("axis_names"), source.layout), np.int64)
            if len(np.unique(axes)) != len(axes):
                raise ValueError(f"an axis occurs more than once in `axis_names`, {arguments.constant('axis_names')!r}")
        elif arguments.given("axes"):
            return arguments.chosen_axes("axes", ndim)
        else:
            axes = np.arange(ndim)
        return np.tile(axes, (count, 1)), np.full(count, len(axes))

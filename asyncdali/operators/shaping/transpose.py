"""transpose: permute axes."""

from __future__ import annotations

from ...batch import Batch
from ..accepts import CHOSEN, DATA, Output
from ..base import Arg, Arguments, Environment, Iteration, Planned, Schema, Spec, register
from ..moves.moving import MovingOperator
from ..moves.pieces import Pieces, dense_strides, like


@register
class Transpose(MovingOperator):
    kernel_module = "transpose_kernels"
    repeatable = True
    schema = Schema(
        name="transpose",
        doc="Permutes the axes; by default reverses their order.",
        accepts=(DATA,),
        gives=(Output(layout=CHOSEN),),
        devices=("cpu", "gpu"),
        args=(
            Arg("output_layout", "layout", None, "Layout of the output; overrides `transpose_layout`."),
            Arg("perm", "int_list", None, "The input's axes in the order of the output."),
            Arg("transpose_layout", "bool", True, "Whether the letters of the layout move with their axes."),
        ),
    )

    def __init__(self, spec: Spec, environment: Environment):
        super().__init__(spec, environment)
        self._order: list[int] | None = spec.constant("perm")
        if self._order is not None and sorted(self._order) != list(range(len(self._order))):
            raise ValueError(f"`perm` must be a permutation of 0 to {len(self._order) - 1}, got {self._order}")
        if spec.constant("output_layout") == "":
            raise ValueError("`output_layout` is empty")

    def plan(self, inputs: list[Batch], arguments: Arguments, iteration: Iteration) -> Planned:
        source = inputs[0]
        order = list(range(source.ndim))[::-1] if self._order is None else self._order
        if len(order) != source.ndim:
            raise ValueError(f"`perm` {order} has {len(order)} axes, the input {source.ndim}")
        output = like(source, source.shapes[:, order], self._layout(source, order))
        moved = [axis for axis in order if (source.shapes[:, axis] != 1).any()]
        if moved == sorted(moved):  # Only axes of extent 1 move.
            return Planned([Batch.alias(source, output.shapes, source.dtype, output.layout)])
        pieces = Pieces(output)
        pieces.add(source, output.shapes, dense_strides(source.shapes, source.itemsize)[:, order])
        return self.copied(pieces)

    def _layout(self, source: Batch, order: list[int]) -> str:
        wanted: str | None = self.spec.constant("output_layout")
        if wanted is not None:
            if len(wanted) != source.ndim:
                raise ValueError(f"`output_layout` {wanted!r} has {len(wanted)} letters for {source.ndim} dimensions")
            return wanted
        if not source.layout or not self.spec.constant("transpose_layout"):
            return source.layout
        return "".join(source.layout[axis] for axis in order)

"""reshape: view the same data with another shape or layout."""

from __future__ import annotations

import numpy as np

from ...batch import Batch
from ..accepts import CHOSEN, DATA, INTEGERS, LIKE, Input, Output
from ..base import Arg, Arguments, Environment, Iteration, Operator, Planned, SampleError, Schema, Spec, Trait, register

_MOST_KEPT = 16
"""Shapes of inputs for which the shapes of outputs are kept."""


@register
class Reshape(Operator):
    repeatable = True
    traits = Trait.VIEWS
    on_cuda = True
    schema = Schema(
        name="reshape",
        doc="""Gives the input another shape or layout. The data is not copied.

        The shape comes from `shape`, `rel_shape`, `src_dims` or the second input (a 1-D tensor of integers per sample).
        One extent may be negative: it follows from the others. `rel_shape` are multiples of the input's extents
        (of the axes `src_dims`, if given, which must be as many). `src_dims` picks and reorders input extents, -1 inserts a 1.""",
        accepts=(DATA, Input(INTEGERS, name="shape", ranks=(0, 1))),
        gives=(Output(LIKE, CHOSEN, CHOSEN),),
        inputs=(1, 2),
        input_names=("data", "shape_input"),
        devices=("cpu", "gpu"),
        cpu_inputs=(1,),
        args=(
            Arg("layout", "layout", None, "Layout of the output; by default kept when the number of dimensions is."),
            Arg("rel_shape", "float_list", None, "Shape relative to the input's.", tensor=True),
            Arg("shape", "int_list", None, "The shape.", tensor=True),
            Arg("src_dims", "int_list", None, "Input axes whose extents are used, in output order.", tensor=True),
        ),
    )
    reads = (1,)

    def __init__(self, spec: Spec, environment: Environment):
        super().__init__(spec, environment)
        self._kept: dict[object, np.ndarray] = {}
        ways = [name for name in ("shape", "rel_shape") if spec.given(name)] + (["a shape input"] if spec.input_count == 2 else [])
        if len(ways) > 1:
            raise ValueError(f"the shape is given twice: by {' and by '.join(ways)}")
        if not ways and self._changes_nothing():
            raise ValueError(
                f"{self.schema.name} needs a shape: one of `shape`, `rel_shape`, `src_dims`, a second input, or at least `layout`"
            )

    def _changes_nothing(self) -> bool:
        """Whether no argument requests a change."""
        return not self.spec.given("src_dims") and self.spec.constant("layout") is None

    def plan(self, inputs: list[Batch], arguments: Arguments, iteration: Iteration) -> Planned:
        source = inputs[0]
        shapes = self._known_shapes(inputs, arguments)
        layout = arguments.constant("layout")
        if layout is None:
            layout = source.layout if shapes.shape[1] == source.ndim else ""
        elif layout and len(layout) != shapes.shape[1]:
            raise ValueError(f"layout {layout!r} has {len(layout)} letters for {shapes.shape[1]} dimensions")
        return Planned([self._view(source, shapes, layout)])

    def _known_shapes(self, inputs: list[Batch], arguments: Arguments) -> np.ndarray:
        """The new shapes. Without data among the arguments they follow from the input's shapes: computing them takes 25 us."""
        if len(inputs) > 1 or self.spec.argument_inputs:
            return self._shapes(inputs, arguments)
        shapes = inputs[0].shapes
        key = inputs[0].dtype, shapes.shape, shapes.tobytes()
        found = self._kept.get(key)
        if found is None:
            found = self._shapes(inputs, arguments)
            if len(self._kept) >= _MOST_KEPT:
                self._kept = {}
            self._kept[key] = found
        return found

    def _view(self, source: Batch, shapes: np.ndarray, layout: str) -> Batch:
        return Batch.alias(source, shapes, source.dtype, layout)

    def _shapes(self, inputs: list[Batch], arguments: Arguments) -> np.ndarray:
        source = inputs[0]
        base = self._source_extents(source, arguments)
        if len(inputs) == 2:
            rows = [inputs[1].sample(i).reshape(-1) for i in range(len(source))]
            wanted = np.stack(rows).astype(np.int64) if rows else np.empty((0, 0), np.int64)
        elif arguments.given("shape"):
            wanted = np.array(arguments.vectors("shape", None, np.int64))
        elif arguments.given("rel_shape"):
            relative = arguments.vectors("rel_shape")
            if relative.shape[1] != base.shape[1] and arguments.given("src_dims"):
                raise ValueError(f"`src_dims` and `rel_shape` must have the same length; got {base.shape[1]} and {relative.shape[1]}")
            if (relative[:, base.shape[1] :] >= 0).any():
                raise ValueError(
                    f"`rel_shape` has {relative.shape[1]} numbers for {base.shape[1]} dimensions, and only a negative one may be extra; "
                    "`src_dims` with -1 adds dimensions of extent 1"
                )
            if not (np.abs(relative) < 2**31).all():
                raise ValueError(f"`rel_shape` must be small numbers, got {relative[~(np.abs(relative) < 2**31)][0]:g}")
            wanted = np.full(relative.shape, -1, np.int64)
            shared = min(relative.shape[1], base.shape[1])
            scaled = relative[:, :shared] * base[:, :shared]
            wanted[:, :shared] = np.where(relative[:, :shared] < 0, -1, np.floor(scaled + 0.5))
        else:
            wanted = base.copy()
        return self._resolve(source, wanted)

    def _source_extents(self, source: Batch, arguments: Arguments) -> np.ndarray:
        if not arguments.given("src_dims"):
            return source.shapes
        dims = arguments.vectors("src_dims", None, np.int64)
        if dims.size and (dims.max() >= source.ndim or dims.min() < -1):
            raise ValueError(f"`src_dims` must be in [-1, {source.ndim - 1}], got {dims[0].tolist()}")
        padded = np.concatenate([source.shapes, np.ones((len(source), 1), np.int64)], axis=1)
        return np.take_along_axis(padded, np.where(dims < 0, source.ndim, dims), axis=1)

    def _resolve(self, source: Batch, wanted: np.ndarray) -> np.ndarray:
        """Fill in the one negative extent, and check the volumes."""
        volumes = source.shapes.prod(axis=1)
        negative = wanted < 0
        if (negative.sum(axis=1) > 1).any():
            raise ValueError("only one extent of the new shape may be negative")
        rest = np.where(negative, 1, wanted).prod(axis=1)
        free = negative.any(axis=1)
        filled = np.where(free & (rest > 0), volumes // np.maximum(rest, 1), 0)
        result = np.where(negative, filled[:, None], wanted)
        wrong = result.prod(axis=1) != volumes
        if wrong.any():
            i = int(np.flatnonzero(wrong)[0])
            raise SampleError(i, f"cannot reshape {tuple(source.shapes[i].tolist())} to {tuple(wanted[i].tolist())}: the volumes differ")
        return result

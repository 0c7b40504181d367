"""Indexing of nodes: ``x[1]``, ``x[2:7, ::-1]``, ``x[node]``, new axes. The bounds may differ between samples."""

from __future__ import annotations

import numpy as np

from ...batch import Batch, storage_dtype
from ...types import DALIDataType
from ..accepts import CHOSEN, DATA, LIKE, Output
from ..base import Arg, Arguments, Environment, Planned, SampleError, Schema, Spec, register
from ..moves.pieces import Pieces, dense_strides, like
from .eager import EAGER, SMALL, EagerOperator

MAX_SUBSCRIPTS = 32
_NOTHING = np.iinfo(np.int64).min
"""Represents a bound that was left out. Indices are clipped, so they cannot reach it."""


def _axis_arguments() -> tuple[Arg, ...]:
    made = []
    for axis in range(MAX_SUBSCRIPTS):
        made.append(Arg(f"at_{axis}", "int", None, f"Index on axis {axis}, which is removed.", tensor=True))
        made.append(Arg(f"lo_{axis}", "int", None, f"First element on axis {axis}.", tensor=True))
        made.append(Arg(f"hi_{axis}", "int", None, f"End of the elements on axis {axis}.", tensor=True))
        made.append(Arg(f"step_{axis}", "int", None, f"Step between elements on axis {axis}.", tensor=True))
    return tuple(made)


@register
class TensorSubscript(EagerOperator):
    on_cuda = True
    schema = Schema(
        name="_tensor_subscript",
        doc="Elements of each sample by index. New axes are inserted afterwards.",
        dali_class="_TensorSubscript",
        accepts=(DATA,),
        gives=(Output(LIKE, CHOSEN, CHOSEN),),
        devices=("cpu", "gpu"),
        args=(
            Arg("count", "int", 0, "Number of indices, full slices included."),
            *_axis_arguments(),
            Arg("new_axes", "int_list", [], "Places of new axes in the result."),
            Arg("new_axis_names", "str", None, "Their names."),
            EAGER,
        ),
    )

    def __init__(self, spec: Spec, environment: Environment):
        super().__init__(spec, environment)
        self._count: int = spec.constant("count")
        self._picked = [axis for axis in range(self._count) if spec.given(f"at_{axis}")]
        self._sliced = [axis for axis in range(self._count) if any(spec.given(f"{name}_{axis}") for name in ("lo", "hi", "step"))]
        self._new: list[int] = spec.constant("new_axes")
        self._names: str | None = spec.constant("new_axis_names")
        from . import subscript_kernels

        self._kernels = subscript_kernels

    @classmethod
    def names_for_dali(cls, spec: Spec) -> list[str]:
        """DALI has operators of their own for full slices alone, and for new axes, which has the next number."""
        (name,) = super().names_for_dali(spec)
        if not name.startswith("___"):
            return [name]
        number, count, axes = int(name.rpartition("_")[2]), spec.constant("count"), spec.constant("new_axes")
        chosen = any(spec.given(f"{kind}_{axis}") for axis in range(count) for kind in ("at", "lo", "hi", "step"))
        at_end = bool(axes) and axes[-1] == count + len(axes) - 1
        first = [name] if chosen else [f"___SubscriptDimCheck_{number}"] if count and not at_end else []
        return [*first, *([f"__ExpandDims_{number + len(first)}"] if axes else [])]

    def infer(self, dtypes: list[DALIDataType | None]) -> list[DALIDataType | None]:
        if self._picked or self._sliced:
            self._kernels.copy_step.compile()
        return dtypes[:1]

    # --- one iteration

    def _dense(self, inputs: list[Batch]) -> bool:
        (source,) = inputs
        return source.has_small_values(SMALL) and not self.spec.argument_inputs

    def _nothing(self, inputs: list[Batch]) -> Batch:
        (source,) = inputs
        ndim = max(0, source.ndim - len(self._picked)) + len(self._new)
        layout = self._checked_layout(source) if source.dtype is not DALIDataType.NO_TYPE else ""
        return Batch.from_values(np.empty((0, *[1] * ndim), storage_dtype(source.dtype)), layout, source.dtype)

    def _now(self, inputs: list[Batch]) -> Batch:
        (source,) = inputs
        layout = self._checked_layout(source)
        self._starts_and_extents(source.shapes[:1], Arguments(self.spec, {}, 1))  # Refuses bounds that are out of range.
        item: list[int | slice] = [slice(None)]
        for axis in range(self._count):
            if axis in self._picked:
                item.append(self.spec.constant(f"at_{axis}"))
            else:
                item.append(slice(*[self.spec.constant(f"{name}_{axis}") for name in ("lo", "hi", "step")]))
        assert source.values is not None
        values = np.ascontiguousarray(source.values[tuple(item)])
        return Batch.from_values(np.expand_dims(values, [1 + place for place in self._new]), layout, source.dtype)

    def _later(self, inputs: list[Batch], arguments: Arguments) -> Planned:
        (source,) = inputs
        layout = self._checked_layout(source)
        first, extents, steps = self._starts_and_extents(source.shapes, arguments)
        kept = [axis for axis in range(source.ndim) if axis not in self._picked]
        shapes = self._with_new_axes(extents[:, kept])
        if not self._picked and not self._sliced:
            return Planned([Batch.alias(source, shapes, source.dtype, layout)])
        output = like(source, shapes, layout)
        strides = dense_strides(source.shapes, source.itemsize)
        pieces = Pieces(output)
        if not kept:  # Scalars get an axis of extent 1.
            kept, steps = [0], np.zeros_like(steps)
            walked = np.ones((len(source), 1), np.int64)
        else:
            walked = extents[:, kept]
        targets = dense_strides(walked, source.itemsize)
        pieces.add(source, walked, (strides * steps)[:, kept], (strides * first).sum(axis=1), targets)
        return Planned([output], [pieces.step(self._kernels.copy_step)])

    # --- shapes

    def _starts_and_extents(self, shapes: np.ndarray, arguments: Arguments) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Per sample and axis: the first element, the number of elements, and the step."""
        first, extents, steps = np.zeros_like(shapes), shapes.copy(), np.ones_like(shapes)
        for axis in self._picked:
            first[:, axis] = self._picked_at(axis, shapes[:, axis], arguments)
            extents[:, axis] = 1
        for axis in self._sliced:
            first[:, axis], extents[:, axis], steps[:, axis] = self._slice_of(axis, shapes[:, axis], arguments)
        return first, extents, steps

    def _picked_at(self, axis: int, extent: np.ndarray, arguments: Arguments) -> np.ndarray:
        at = self._bound("at", axis, arguments)
        index = np.where(at < 0, at + extent, at)
        wrong = np.flatnonzero((index < 0) | (index >= extent))
        if len(wrong):
            sample = int(wrong[0])
            raise SampleError(sample, f"Index {at[sample]} is out of range for axis {axis} of length {extent[sample]}")
        return index

    def _slice_of(self, axis: int, extent: np.ndarray, arguments: Arguments) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Slices with Python's rules: bounds out of range are clipped."""
        step = self._bound("step", axis, arguments, 1)
        zero = np.flatnonzero(step == 0)
        if len(zero):
            raise SampleError(int(zero[0]), f"Step cannot be zero, at axis {axis}")
        back = step < 0
        lowest, highest = np.where(back, -1, 0), np.where(back, extent - 1, extent)

        def clipped(name: str, absent: np.ndarray) -> np.ndarray:
            value = self._bound(name, axis, arguments, _NOTHING)
            counted = np.where(value < 0, np.maximum(value, -(2**62)) + extent, value)
            return np.where(value == _NOTHING, absent, np.clip(counted, lowest, highest))

        start, stop = clipped("lo", np.where(back, highest, lowest)), clipped("hi", np.where(back, lowest, highest))
        distance, pace = np.where(back, start - stop, stop - start), np.abs(np.maximum(step, _NOTHING + 1))
        count = np.where(distance > 0, (distance - 1) // pace + 1, 0)
        # The step of a single element does not matter, and may be too large to be multiplied.
        return np.where(count > 0, start, 0), count, np.where(count > 1, step, 1)

    def _bound(self, name: str, axis: int, arguments: Arguments, absent: int = 0) -> np.ndarray:
        """A bound per sample; node or number."""
        full = f"{name}_{axis}"
        if not arguments.is_input(full):
            value = arguments.constant(full)
            return np.full(arguments.count, absent if value is None else value, np.int64)
        batch = arguments.batch(full)
        if batch.dtype > DALIDataType.INT64:
            raise RuntimeError(f"Array indices must be of integral type; the index of axis {axis} is {batch.dtype.name}")
        if batch.ndim:
            raise RuntimeError(f"Array indices must be scalar (0D); the index of axis {axis} is a {batch.ndim}-D tensor")
        if batch.dtype is DALIDataType.UINT64:
            unsigned: np.ndarray = np.minimum(arguments.scalars(full, np.uint64), np.uint64(2**63 - 1))
            return unsigned.astype(np.int64)
        bounds: np.ndarray = np.maximum(arguments.scalars(full, np.int64), _NOTHING + 1)
        return bounds

    def _checked_layout(self, source: Batch) -> str:
        """The result's layout; refuses more indices or new axes than there are dimensions."""
        ndim = source.ndim
        if self._count > ndim:
            raise RuntimeError(f"Too many indices ({self._count}) for a {ndim}-D tensor")
        kept = ndim - len(self._picked)
        if self._new and self._new[-1] >= kept + len(self._new):
            raise RuntimeError(f"The {ndim}-D tensor has not enough dimensions to add new axes at {self._new}")
        layout = "".join(letter for axis, letter in enumerate(source.layout) if axis not in self._picked)
        if not self._new:
            return layout
        if self._names is None:
            return ""
        if not layout and kept:
            raise RuntimeError(f"naming a new axis needs an input with a layout, or no dimensions; this one has {kept} without layout")
        for place, name in zip(self._new, self._names):
            layout = layout[:place] + name + layout[place:]
        return layout

    def _with_new_axes(self, extents: np.ndarray) -> np.ndarray:
        for place in self._new:
            extents = np.insert(extents, place, 1, axis=1)
        return extents

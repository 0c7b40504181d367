"""reinterpret: view the same bytes as another element type, shape or layout."""

from __future__ import annotations

import numpy as np

from ...batch import Batch, storage_dtype
from ...types import DALIDataType
from ...types.conversions import STORAGE
from ..accepts import CHOSEN, Output, argument
from ..base import Arg, Environment, SampleError, Schema, Spec, register
from .reshape import Reshape


@register
class Reinterpret(Reshape):
    schema = Schema(
        name="reinterpret",
        doc="""Interprets the bytes of the input as elements of another type, shape or layout. The data is not copied.

        If no shape is given, the innermost extent changes with the size of the elements. Otherwise as `reshape`; the size in bytes must
        remain the same, and extents in `rel_shape` are relative to those of the input.""",
        accepts=Reshape.schema.accepts,
        gives=(Output(argument("dtype"), CHOSEN, CHOSEN),),
        inputs=(1, 2),
        input_names=("data", "shape_input"),
        devices=("cpu", "gpu"),
        cpu_inputs=(1,),
        args=(Arg("dtype", "dtype", None, "The new element type; by default the input's."), *Reshape.schema.args),
    )

    def __init__(self, spec: Spec, environment: Environment):
        self._dtype: DALIDataType | None = spec.constant("dtype")
        if self._dtype is not None and self._dtype not in STORAGE:
            raise ValueError(f"`dtype` {self._dtype.name} has no elements of a fixed size")
        super().__init__(spec, environment)
        self._explicit = spec.given("shape") or spec.given("rel_shape") or spec.input_count == 2

    def _changes_nothing(self) -> bool:
        return self._dtype is None and super()._changes_nothing()

    def _view(self, source: Batch, shapes: np.ndarray, layout: str) -> Batch:
        dtype = self._dtype
        if dtype is None or source.itemsize == storage_dtype(dtype).itemsize:
            return Batch.alias(source, shapes, source.dtype if dtype is None else dtype, layout)
        # The alias is made by hand, because Batch's alias needs elements of the same size.
        view = Batch(
            shapes, dtype, layout, source.addresses, source.owner, contiguous=source.contiguous,
            device=source.device, source_info=source.source_info,
        )  # fmt: skip
        view.alias_of = source if source.alias_of is None else source.alias_of
        if source.values is not None and len(shapes) and (shapes == shapes[0]).all():
            view.values = source.values.reshape(len(shapes), -1).view(storage_dtype(dtype)).reshape(len(shapes), *shapes[0])
        return view

    def _resolve(self, source: Batch, wanted: np.ndarray) -> np.ndarray:
        if self._dtype is None:
            return super()._resolve(source, wanted)
        size = storage_dtype(self._dtype).itemsize
        if not self._explicit:
            wanted = self._scaled(wanted, source.itemsize, size)
        total = source.sizes()
        if (total % size).any():
            i = int(np.flatnonzero(total % size)[0])
            raise SampleError(i, f"{int(total[i])} bytes are not a whole number of {self._dtype.name} elements of {size} bytes")
        # A one-dimensional stand-in for the source with elements of the new type, for the check of volumes.
        return super()._resolve(Batch((total // size)[:, None], self._dtype), wanted)

    def _scaled(self, shapes: np.ndarray, old: int, new: int) -> np.ndarray:
        """Shapes whose innermost extent counts elements of the new type, each of `new` bytes."""
        if old == new:
            return shapes
        innermost = shapes[:, -1] * old if shapes.shape[1] else np.full(len(shapes), old)
        if not shapes.shape[1] or (innermost % new).any():
            i = int(np.flatnonzero(innermost % new)[0]) if (innermost % new).any() else 0
            shape = tuple(shapes[i].tolist())
            raise SampleError(i, f"the innermost extent of {shape} is {innermost[i]} bytes, no multiple of {new}; give a shape")
        return np.concatenate([shapes[:, :-1], (innermost // new)[:, None]], axis=1)

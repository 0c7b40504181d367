"""full, zeros, ones and their "like" forms: samples filled with one value, or with repeated data."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
from asyncdali_workers import limits

from ...batch import Batch, storage_dtype
from ...types import DALIDataType
from ...types.conversions import STORAGE
from ..accepts import CHOSEN, DATA, LIKE, Output, argument
from ..base import Arg, Arguments, Environment, Iteration, Operator, Planned, SampleError, Schema, Spec, register
from ..moves.strided import Pieces, dense_strides

_SHAPE = Arg("shape", "int_list", None, "Shape of the samples; by default scalars.", tensor=True)
_LAYOUT = Arg("layout", "layout", None, "Layout of the samples.")


def _wanted_shapes(arguments: Arguments) -> np.ndarray:
    """The argument `shape` as int64[samples, ndim]."""
    if not arguments.given("shape"):
        return np.empty((arguments.count, 0), np.int64)
    shapes = arguments.vectors("shape", None, np.int64)
    if shapes.size and shapes.min() < 0:
        i = int(np.flatnonzero((shapes < 0).any(axis=1))[0])
        raise SampleError(i, f"`shape` must not be negative, got {shapes[i].tolist()}")
    return shapes


def _checked_layout(layout: str | None, ndim: int) -> str:
    if layout and len(layout) != ndim:
        raise ValueError(f"`layout` {layout!r} has {len(layout)} letters for {ndim} dimensions")
    return layout or ""


class _OneValue(Operator):
    """Samples filled with one number. Their contents are known after planning."""

    eager = True
    value: ClassVar[int] = 0

    def __init__(self, spec: Spec, environment: Environment):
        super().__init__(spec, environment)
        self._dtype: DALIDataType | None = spec.constant("dtype")
        if self._dtype is not None and self._dtype not in STORAGE:
            raise ValueError(f"`dtype` {self._dtype.name} has no elements")
        self._made: Batch | None = None

    def _batch(self, shapes: np.ndarray, dtype: DALIDataType, layout: str) -> Batch:
        storage = storage_dtype(dtype)
        batch = Batch(shapes, dtype, layout)
        total = int(batch.checked_sizes().sum())
        limits.check_size(total, "a batch of equal values")
        if len(shapes) and (shapes == shapes[0]).all():
            values = np.full((len(shapes), *shapes[0]), self.value, storage)
            return Batch.from_values(values, layout, dtype)
        memory = np.full(total // storage.itemsize, self.value, storage)
        batch.place(memory.view(np.uint8))
        return batch


class _Filled(_OneValue):
    """zeros and ones. Results that depend only on constants are made once."""

    @property
    def instant(self) -> bool:
        return not self.spec.argument_inputs

    def infer(self, dtypes: list[DALIDataType | None]) -> list[DALIDataType | None]:
        return [self._dtype]

    def plan(self, inputs: list[Batch], arguments: Arguments, iteration: Iteration) -> Planned:
        made = self._made
        if made is not None and len(made) == arguments.count:
            return Planned([made])
        shapes = _wanted_shapes(arguments)
        assert self._dtype is not None
        batch = self._batch(shapes, self._dtype, _checked_layout(arguments.constant("layout"), shapes.shape[1]))
        if not arguments.is_input("shape"):
            batch.reused = True
            self._made = batch
        return Planned([batch])


@register
class Zeros(_Filled):
    schema = Schema(
        name="zeros",
        doc="Samples of zeros.",
        gives=(Output(argument("dtype"), CHOSEN, argument("layout", "")),),
        inputs=(0, 0),
        args=(Arg("dtype", "dtype", DALIDataType.INT32, "Element type."), _LAYOUT, _SHAPE),
    )


@register
class Ones(_Filled):
    schema = Schema(name="ones", doc="Samples of ones.", inputs=(0, 0), gives=Zeros.schema.gives, args=Zeros.schema.args)
    value = 1


class _FilledLike(_OneValue):
    """zeros_like and ones_like."""

    def infer(self, dtypes: list[DALIDataType | None]) -> list[DALIDataType | None]:
        return dtypes if self._dtype is None else [self._dtype]

    def plan(self, inputs: list[Batch], arguments: Arguments, iteration: Iteration) -> Planned:
        source = inputs[0]
        return Planned([self._batch(source.shapes, source.dtype if self._dtype is None else self._dtype, source.layout)])


@register
class ZerosLike(_FilledLike):
    schema = Schema(
        name="zeros_like",
        doc="Zeros of the shape, layout and (by default) type of the input.",
        accepts=(DATA,),
        gives=(Output(type=argument("dtype")),),
        metadata_inputs=(0,),
        args=(Arg("dtype", "dtype", None, "Element type; by default the input's."),),
    )


@register
class OnesLike(_FilledLike):
    schema = Schema(
        name="ones_like",
        doc="Ones of the shape, layout and (by default) type of the input.",
        accepts=(DATA,),
        gives=(Output(type=argument("dtype")),),
        metadata_inputs=(0,),
        args=ZerosLike.schema.args,
    )
    value = 1


class _Broadcast(Operator):
    """full and full_like: repeat an input along axes that the input lacks, or where its extent is 1."""

    def __init__(self, spec: Spec, environment: Environment):
        super().__init__(spec, environment)
        from ..moves import strided_kernels

        self._kernels: Any = strided_kernels

    def _step(self, source: DALIDataType, target: DALIDataType) -> Any:
        if source == target:
            return self._kernels.copy_step
        return self._kernels.converting_step(storage_dtype(source).name, storage_dtype(target).name, False)

    def _repeated(self, source: Batch, shapes: np.ndarray, dtype: DALIDataType, layout: str) -> Planned:
        output = Batch(shapes, dtype, layout, device=source.device)
        extents, strides = source.shapes, dense_strides(source.shapes, source.itemsize)
        surplus, ndim = extents.shape[1] - shapes.shape[1], shapes.shape[1]
        fits = np.ones(len(source), bool)
        if surplus > 0:  # Leading extents of 1 may be dropped.
            fits = (extents[:, :surplus] == 1).all(axis=1)
            extents, strides = extents[:, surplus:], strides[:, surplus:]
        missing = ndim - extents.shape[1]
        extents = np.concatenate([np.ones((len(source), missing), np.int64), extents], axis=1)
        strides = np.concatenate([np.zeros((len(source), missing), np.int64), strides], axis=1)
        fits &= ((extents == shapes) | (extents == 1)).all(axis=1)
        if not fits.all():
            i = int(np.flatnonzero(~fits)[0])
            raise SampleError(
                i, f"data of shape {tuple(source.shapes[i].tolist())} cannot be broadcast to shape {tuple(shapes[i].tolist())}"
            )
        strides = np.where(extents == 1, 0, strides)
        pieces = Pieces(output)
        if ndim:
            pieces.add(source, shapes, strides)
        else:
            one = np.ones((len(source), 1), np.int64)
            pieces.add(source, one, 0 * one, targets=0 * one)
        return Planned([output], [pieces.step(self._step(source.dtype, dtype))])


@register
class Full(_Broadcast):
    schema = Schema(
        name="full",
        doc="The input, broadcast to the given shape.",
        accepts=(DATA,),
        gives=(Output(LIKE, CHOSEN, argument("layout", "")),),
        args=(_LAYOUT, _SHAPE),
    )

    def infer(self, dtypes: list[DALIDataType | None]) -> list[DALIDataType | None]:
        self._kernels.copy_step.compile()
        return dtypes

    def plan(self, inputs: list[Batch], arguments: Arguments, iteration: Iteration) -> Planned:
        shapes = _wanted_shapes(arguments)
        return self._repeated(inputs[0], shapes, inputs[0].dtype, _checked_layout(arguments.constant("layout"), shapes.shape[1]))


@register
class FullLike(_Broadcast):
    schema = Schema(
        name="full_like",
        doc="The second input, broadcast to the shape of the first input, with the first input's type (converted as by `cast`) and layout.",
        accepts=(DATA,),
        gives=(Output(),),
        inputs=(2, 2),
        metadata_inputs=(0,),
    )

    def infer(self, dtypes: list[DALIDataType | None]) -> list[DALIDataType | None]:
        like, data = dtypes
        if like is not None and data is not None:
            self._step(data, like).compile()
        return [like]

    def plan(self, inputs: list[Batch], arguments: Arguments, iteration: Iteration) -> Planned:
        return self._repeated(inputs[1], inputs[0].shapes, inputs[0].dtype, inputs[0].layout)

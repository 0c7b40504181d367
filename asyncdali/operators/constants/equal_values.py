"""The shared part of zeros, ones and their "like" forms: samples that are filled with one number."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
from asyncdali_workers import limits

from ...batch import Batch, Extents, storage_dtype
from ...types import DALIDataType
from ...types.conversions import STORAGE
from ..base import Arg, Arguments, Environment, Iteration, Operator, Planned, Spec, refuse_where

_BLOCK = 1 << 13
"""Bytes that are filled one by one. They stay in the first cache while the rest is copied from them."""
SHAPE_ARG = Arg("shape", "int_list", None, "Shape of the samples; by default scalars.", tensor=True)
LAYOUT_ARG = Arg("layout", "layout", None, "Layout of the samples.")


def wanted_shapes(arguments: Arguments) -> np.ndarray:
    """The argument `shape` as int64[samples, ndim]."""
    if not arguments.given("shape"):
        return np.empty((arguments.count, 0), np.int64)
    shapes = arguments.vectors("shape", None, np.int64)
    refuse_where(shapes < 0, lambda i: f"`shape` must not be negative, got {shapes[i].tolist()}")
    return shapes


def checked_layout(layout: str | None, ndim: int) -> str:
    if layout and len(layout) != ndim:
        raise ValueError(f"`layout` {layout!r} has {len(layout)} letters for {ndim} dimensions")
    return layout or ""


class _Sizes:
    """Sizes of the samples of a batch. `dense`: the shape of the array of all samples; None: samples differ."""

    __slots__ = ("dense", "dtype", "extents", "shapes", "storage")

    def __init__(self, shapes: np.ndarray, dtype: DALIDataType):
        self.shapes, self.dtype, self.storage = shapes, dtype, storage_dtype(dtype)
        self.extents = Extents.of(shapes, dtype)
        equal = len(shapes) and (shapes == shapes[0]).all()
        self.dense = (len(shapes), *shapes[0].tolist()) if equal else None


class OneValue(Operator):
    """Samples filled with one number. Their contents are known after planning."""

    eager = True
    value: ClassVar[int] = 0

    def __init__(self, spec: Spec, environment: Environment):
        super().__init__(spec, environment)
        self._dtype: DALIDataType | None = spec.constant("dtype")
        if self._dtype is not None and self._dtype not in STORAGE:
            raise ValueError(f"`dtype` {self._dtype.name} has no elements")
        self._made: Batch | None = None
        self._sizes: _Sizes | None = None
        """The sizes of the last batch. Dense inputs have the same array of shapes in every iteration, and finding its sizes takes 20 us."""

    def _batch(self, shapes: np.ndarray, dtype: DALIDataType, layout: str) -> Batch:
        sizes = self._sizes
        if sizes is None or sizes.shapes is not shapes or sizes.dtype is not dtype:
            self._sizes = sizes = _Sizes(shapes, dtype)
        total = sizes.extents.total
        limits.check_size(total, "a batch of equal values")
        # New memory would take 20 times as long as the values: the system maps and clears it page by page.
        memory = self.environment.allocate(total)
        values = memory.view(sizes.storage)
        _fill(values, self.value)
        if sizes.dense is not None:
            return Batch.from_values(values.reshape(sizes.dense), layout, dtype)
        batch = Batch(shapes, dtype, layout)
        batch.place_known(memory, sizes.extents)
        return batch


def _fill(memory: np.ndarray, value: int) -> None:
    """Fill a contiguous array. For 4.5 MB numpy takes 46 us for bytes, 77 us for longer elements, and 66 us for copies of a block."""
    if value == 0 or memory.itemsize == 1:
        memory.view(np.uint8).fill(value)
        return
    block = _BLOCK // memory.itemsize
    memory[:block].fill(value)
    rows = len(memory) // block
    if rows:
        memory[block : rows * block].reshape(rows - 1, block)[:] = memory[:block]
        memory[rows * block :] = memory[: len(memory) - rows * block]


class Filled(OneValue):
    """zeros and ones. Results that depend only on constants are made once."""

    @property
    def instant(self) -> bool:
        return not self.spec.argument_inputs

    def plan(self, inputs: list[Batch], arguments: Arguments, iteration: Iteration) -> Planned:
        made = self._made
        if made is not None and len(made) == arguments.count:
            return Planned([made])
        shapes = wanted_shapes(arguments)
        assert self._dtype is not None
        batch = self._batch(shapes, self._dtype, checked_layout(arguments.constant("layout"), shapes.shape[1]))
        if not arguments.is_input("shape"):
            batch.reused = True
            self._made = batch
        return Planned([batch])


class FilledLike(OneValue):
    """zeros_like and ones_like."""

    def plan(self, inputs: list[Batch], arguments: Arguments, iteration: Iteration) -> Planned:
        source = inputs[0]
        return Planned([self._batch(source.shapes, source.dtype if self._dtype is None else self._dtype, source.layout)])

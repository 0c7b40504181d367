"""constant, and the hidden operator behind array constants in a graph."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from asyncdali_workers import limits

from ...batch import Batch
from ...types import DALIDataType
from ...types.saturate import saturated
from ..accepts import CHOSEN, Output, argument
from ..base import Arg, Arguments, Environment, Iteration, Operator, Planned, Role, Schema, Spec, register


class _Repeated(Operator):
    """The same array for every sample. The batch is made once per batch size."""

    on_cuda = True
    eager = True

    def __init__(self, spec: Spec, environment: Environment):
        super().__init__(spec, environment)
        self._value, self._dtype = self._array()
        self._layout = spec.constant("layout") or ""
        if self._layout and len(self._layout) != self._value.ndim:
            raise ValueError(f"layout {self._layout!r} has {len(self._layout)} letters, the constant has {self._value.ndim} dimensions")
        self._batch: Batch | None = None

    def _array(self) -> tuple[np.ndarray, DALIDataType]:
        return self.spec.constant("value"), self.spec.constant("dtype")

    @property
    def instant(self) -> bool:
        return True  # The batch is made once; later iterations refer to it.

    def infer(self, dtypes: list[DALIDataType | None]) -> list[DALIDataType | None]:
        return [self._dtype]

    def plan(self, inputs: list[Batch], arguments: Arguments, iteration: Iteration) -> Planned:
        batch = self._batch
        if batch is None or len(batch) != arguments.count:
            limits.check_size(self._value.nbytes * arguments.count, f"a batch of constants of shape {self._value.shape}")
            values = np.repeat(self._value[None], arguments.count, 0)
            batch = Batch.from_values(values, self._layout, self._dtype)
            batch.reused = True
            self._batch = batch
        return Planned([batch])


@register
class ArrayConstant(_Repeated):
    """A constant array in the graph (``types.Constant``, a number given as an input or output)."""

    schema = Schema(
        name="_constant",
        doc="A constant in the graph.",
        gives=(Output(CHOSEN, CHOSEN, argument("layout", "")),),
        inputs=(0, 0),
        devices=("cpu", "gpu"),
        args=(Arg("value", "any"), Arg("dtype", "dtype"), Arg("layout", "layout")),
        role=Role.CONSTANT,
    )


@register
class Constant(_Repeated):
    schema = Schema(
        name="constant",
        doc="""A batch of equal samples, given as numbers.

        Exactly one of `fdata` and `idata` must be given. A single number fills `shape`; several numbers must match its volume.""",
        gives=(Output(CHOSEN, CHOSEN, argument("layout", "")),),
        inputs=(0, 0),
        devices=("cpu", "gpu"),
        graphs_only=True,
        args=(
            Arg("dtype", "dtype", None, "Element type; by default FLOAT for `fdata`, INT32 for `idata`."),
            Arg("fdata", "float_list", None, "The numbers, as floats."),
            Arg("idata", "int_list", None, "The numbers, as integers."),
            Arg("layout", "layout", "", "Layout of the samples."),
            Arg("shape", "int_list", None, "Shape of a sample; by default 1-D with all numbers."),
        ),
    )

    def _array(self) -> tuple[np.ndarray, DALIDataType]:
        fdata, idata = self.spec.constant("fdata"), self.spec.constant("idata")
        if (fdata is None) == (idata is None):
            raise ValueError("exactly one of `fdata` and `idata` must be given")
        data: list[Any] = fdata if fdata is not None else idata
        dtype = self.spec.constant("dtype")
        if dtype is None:
            dtype = DALIDataType.FLOAT if fdata is not None else DALIDataType.INT32
        shape = self.spec.constant("shape")
        numbers = np.array(data, np.float32).astype(np.float64) if fdata is not None else np.array(data, np.int64)
        numbers = saturated(numbers, dtype)
        if shape is None:
            return numbers, dtype
        volume = math.prod(map(int, shape))
        if len(numbers) not in (1, volume):
            raise RuntimeError(f"{len(numbers)} numbers were given for shape {shape} of volume {volume}; give one number, or {volume}")
        if volume * numbers.itemsize >= limits.CHECKED:
            limits.check_cap(shape, numbers.itemsize, "a constant")
            limits.check_size(volume * numbers.itemsize, f"a constant of shape {tuple(shape)}")
        return np.full(shape, numbers[0]) if len(numbers) == 1 else numbers.reshape(shape), dtype

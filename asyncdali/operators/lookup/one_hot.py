"""one_hot: one-hot encoding of integers."""

from __future__ import annotations

import numpy as np

from ...batch import Batch
from ...compiled.tables import INPUTS, OUTPUTS, SAMPLES, Field, Table
from ...types import DALIDataType
from ..accepts import ANY_RANK, CHOSEN, NUMBERS_AND_BOOL, Input, Output, argument
from ..base import Arg, Arguments, Environment, Iteration, Planned, SampleError, Schema, Spec, register
from ..kernel_operator import Cuda, KernelOperator, Kernels, Names
from ..moves.pieces import fill_values, sized_name
from .lookup_table import _checked_dtype, sized_types

ONE_HOT_RECORD = Table(
    "ONE_HOT_RECORD",
    Field("outer", "int64", "elements before the new axis"),
    Field("classes", "int64", "extent of the new axis"),
    Field("inner", "int64", "elements after the new axis"),
)
ONE_HOT = Table(
    "ONE_HOT",
    INPUTS,
    OUTPUTS,
    Field("records", "ONE_HOT_RECORD[samples]", "shapes"),
    Field("values", "address", "of two values in the output's type: off and on"),
    SAMPLES,
)

word = ONE_HOT_RECORD.word


@register
class OneHot(KernelOperator):
    repeatable = True
    kernel_module = "one_hot_kernels"
    schema = Schema(
        name="one_hot",
        doc="""Replaces each number by a vector along a new axis: `on_value` at its index (without its fraction), `off_value` elsewhere.

        Numbers outside 0 to `num_classes` - 1 give a vector without `on_value`. If `axis` is left out and all samples have one element,
        they count as scalars, whatever their shape.""",
        accepts=(Input(NUMBERS_AND_BOOL, name="indices", ranks=ANY_RANK, likely=DALIDataType.INT32),),
        gives=(Output(argument("dtype"), CHOSEN, CHOSEN),),
        devices=("cpu", "gpu"),
        args=(
            Arg("axis", "int", -1, "Position of the new axis in the output; -1: the last."),
            Arg("axis_name", "str", None, "The letter of the new axis; without it the layout is dropped."),
            Arg("dtype", "dtype", DALIDataType.FLOAT, "Element type of the output."),
            Arg("num_classes", "int", 0, "Extent of the new axis."),
            Arg("off_value", "float", 0.0, "Value of the other elements."),
            Arg("on_value", "float", 1.0, "Value at the index."),
        ),
    )

    def __init__(self, spec: Spec, environment: Environment):
        super().__init__(spec, environment)
        self._dtype = _checked_dtype(spec.constant("dtype"))
        self._classes, self._name = spec.constant("num_classes"), spec.constant("axis_name")
        if self._classes < 0:
            raise ValueError(f"`num_classes` must not be negative, got {self._classes}")
        if self._name is not None and len(self._name) != 1:
            raise ValueError(f"`axis_name` must be a single character, got {self._name!r}")
        self._values = fill_values([spec.constant("off_value"), spec.constant("on_value")], self._dtype)

    def kernels_for(self, inputs: Names, outputs: Names) -> Kernels:
        return [self.kernels.one_hot_step(inputs[0], sized_name(self._dtype))]

    def plan(self, inputs: list[Batch], arguments: Arguments, iteration: Iteration) -> Planned:
        source = inputs[0]
        shapes, layout = source.shapes, source.layout
        if not self.spec.given("axis") and len(source) and (shapes.prod(axis=1) == 1).all():
            shapes, layout = shapes[:, :0], ""
        axis, ndim = self.spec.constant("axis"), shapes.shape[1]
        if not -1 <= axis <= ndim:
            raise ValueError(f"`axis` must be in -1 to {ndim} for {ndim}-D samples, got {axis}")
        axis = ndim if axis < 0 else axis
        if self._name is not None and len(layout) != ndim:
            raise ValueError(f"`axis_name` needs an input with a layout of {ndim} letters, got {layout!r}")
        layout = "" if self._name is None else layout[:axis] + self._name + layout[axis:]
        output = Batch(np.insert(shapes, axis, self._classes, axis=1), self._dtype, layout, device=source.device)
        records = ONE_HOT_RECORD.zeros(len(source))
        records[:, word.outer], records[:, word.classes] = shapes[:, :axis].prod(axis=1), self._classes
        records[:, word.inner] = shapes[:, axis:].prod(axis=1)
        if (output.sizes() > 2**40).any():
            raise SampleError(int(np.argmax(output.sizes())), f"{self._classes} classes make more than 2^40 bytes per sample")
        entries = ONE_HOT.entries(
            inputs=source.addresses, outputs=output.addresses, records=records, values=self._values, samples=len(records)
        )
        cuda = Cuda("one_hot", records.prod(axis=1), types=sized_types(source, output))
        return self.made(source, output, entries, lambda: cuda)

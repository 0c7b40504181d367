"""_shape: the shapes of samples as data, for ``DataNode.shape()``."""

from __future__ import annotations

from ...batch import Batch, storage_dtype
from ...types import DALIDataType
from ..accepts import ANYTHING, Output, argument
from ..base import Arg, Arguments, Iteration, Operator, Planned, Schema, register


@register
class Shape(Operator):
    """``DataNode.shape()``: reads only metadata, so a GPU input is neither copied nor awaited."""

    on_cuda = True
    schema = Schema(
        name="_shape",
        dali_class="_Shape",
        doc="Shape of each sample: a 1-D tensor of length ndim.",
        accepts=(ANYTHING,),
        gives=(Output(argument("dtype", DALIDataType.INT64), 1, ""),),
        devices=("cpu", "gpu"),
        metadata_inputs=(0,),
        args=(Arg("dtype", "dtype", None, "Element type, INT64 by default."),),
    )
    eager = True

    def infer(self, dtypes: list[DALIDataType | None]) -> list[DALIDataType | None]:
        dtype = self.spec.constant("dtype")
        return [DALIDataType.INT64 if dtype is None else dtype]

    def plan(self, inputs: list[Batch], arguments: Arguments, iteration: Iteration) -> Planned:
        dtype = arguments.constant("dtype")
        kind = DALIDataType.INT64 if dtype is None else dtype
        return Planned([Batch.from_values(inputs[0].shapes.astype(storage_dtype(kind)), dtype=kind)])

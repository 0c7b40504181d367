"""Metadata as data: shapes, layouts, origins of samples."""

from __future__ import annotations

import numpy as np

from ...batch import Batch, storage_dtype
from ...types import DALIDataType
from ..accepts import ANYTHING, Output, argument
from ..base import REQUIRED, Arg, Arguments, Environment, Iteration, Operator, Planned, Schema, Spec, register


def text_batch(texts: list[bytes]) -> Batch:
    """1-D UINT8 samples of different lengths."""
    shapes = np.array([[len(text)] for text in texts], np.int64).reshape(len(texts), 1)
    batch = Batch(shapes, DALIDataType.UINT8)
    batch.place(np.frombuffer(b"".join(texts) or b"\0", np.uint8).copy())
    return batch


@register
class GetProperty(Operator):
    on_cuda = True
    schema = Schema(
        name="get_property",
        doc="A property of each sample of the input as 1-D UINT8 (ASCII), empty when unset.",
        accepts=(ANYTHING,),
        gives=(Output(DALIDataType.UINT8, 1, ""),),
        devices=("cpu", "gpu"),
        metadata_inputs=(0,),
        args=(Arg("key", "str", REQUIRED, '"layout" or "source_info".'),),
    )
    eager = True

    def __init__(self, spec: Spec, environment: Environment):
        super().__init__(spec, environment)
        if spec.constant("key") not in ("layout", "source_info"):
            raise RuntimeError(f"unknown property key {spec.constant('key')!r}; known are 'layout' and 'source_info'")

    def infer(self, dtypes: list[DALIDataType | None]) -> list[DALIDataType | None]:
        return [DALIDataType.UINT8]

    def plan(self, inputs: list[Batch], arguments: Arguments, iteration: Iteration) -> Planned:
        batch = inputs[0]
        if arguments.constant("key") == "layout":
            result = text_batch([batch.layout.encode()] * len(batch))
        else:
            info = batch.source_info
            result = text_batch([(info[i] or "").encode("utf-8", "surrogateescape") if info else b"" for i in range(len(batch))])
        return Planned([result])


@register
class Shape(Operator):
    """``DataNode.shape()``: reads only metadata, so a GPU input is neither copied nor awaited."""

    on_cuda = True
    schema = Schema(
        name="_shape",
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

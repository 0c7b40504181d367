"""get_property: layouts and origins of samples as data."""

from __future__ import annotations

import numpy as np

from ...batch import Batch
from ...types import DALIDataType
from ..accepts import ANYTHING, Output
from ..base import REQUIRED, Arg, Arguments, Environment, Iteration, Operator, Planned, Schema, Spec, register


def text_batch(texts: list[bytes]) -> Batch:
    """1-D UINT8 samples of different lengths."""
    shapes = np.array([[len(text)] for text in texts], np.int64).reshape(len(texts), 1)
    batch = Batch(shapes, DALIDataType.UINT8)
    batch.place(np.frombuffer(b"".join(texts) or b"\0", np.uint8).copy())
    return batch


_KEYS = ("layout", "source_info")


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
        args=(Arg("key", "str", REQUIRED, '"layout" or "source_info".', choices=_KEYS),),
    )
    eager = True

    def __init__(self, spec: Spec, environment: Environment):
        super().__init__(spec, environment)
        if spec.constant("key") not in _KEYS:
            raise RuntimeError(f"unknown property key {spec.constant('key')!r}; known are 'layout' and 'source_info'")

    def plan(self, inputs: list[Batch], arguments: Arguments, iteration: Iteration) -> Planned:
        batch = inputs[0]
        if arguments.constant("key") == "layout":
            result = text_batch([batch.layout.encode()] * len(batch))
        else:
            info = batch.source_info
            result = text_batch([(info[i] or "").encode("utf-8", "surrogateescape") if info else b"" for i in range(len(batch))])
        return Planned([result])

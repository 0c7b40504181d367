"""zeros_like: zeros in the shape of an input."""

from __future__ import annotations

from ..accepts import DATA, Output, argument
from ..base import Arg, Schema, register
from .equal_values import FilledLike


@register
class ZerosLike(FilledLike):
    schema = Schema(
        name="zeros_like",
        input_names=("data_like",),
        doc="Zeros of the shape, layout and (by default) type of the input.",
        accepts=(DATA,),
        gives=(Output(type=argument("dtype")),),
        metadata_inputs=(0,),
        args=(Arg("dtype", "dtype", None, "Element type; by default the input's."),),
    )

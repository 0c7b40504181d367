"""ones_like: ones in the shape of an input."""

from __future__ import annotations

from ..accepts import DATA, Output, argument
from ..base import Schema, register
from .equal_values import FilledLike
from .zeros_like import ZerosLike


@register
class OnesLike(FilledLike):
    schema = Schema(
        name="ones_like",
        input_names=("data_like",),
        doc="Ones of the shape, layout and (by default) type of the input.",
        accepts=(DATA,),
        gives=(Output(type=argument("dtype")),),
        metadata_inputs=(0,),
        args=ZerosLike.schema.args,
    )
    value = 1

"""zeros: samples of zeros."""

from __future__ import annotations

from ...types import DALIDataType
from ..accepts import CHOSEN, Output, argument
from ..base import Arg, Schema, register
from .equal_values import LAYOUT_ARG, SHAPE_ARG, Filled


@register
class Zeros(Filled):
    schema = Schema(
        name="zeros",
        doc="Samples of zeros.",
        gives=(Output(argument("dtype"), CHOSEN, argument("layout", "")),),
        inputs=(0, 0),
        args=(Arg("dtype", "dtype", DALIDataType.INT32, "Element type."), LAYOUT_ARG, SHAPE_ARG),
    )

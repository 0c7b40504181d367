"""shapes: the shape of each sample as data."""

from __future__ import annotations

from ...types import DALIDataType
from ..accepts import ANYTHING, Output, argument
from ..base import Arg, Environment, Schema, Spec, register
from .node_shape import Shape

_TYPES = ("INT32", "UINT32", "INT64", "UINT64", "FLOAT", "FLOAT64")


@register
class Shapes(Shape):
    """The old name of ``DataNode.shape()``."""

    schema = Schema(
        name="shapes",
        graphs_only=True,
        doc="Shape of each sample of the input, a 1-D tensor. An older form of ``DataNode.shape()``.",
        accepts=(ANYTHING,),
        gives=(Output(argument("dtype", DALIDataType.INT64), 1, ""),),
        devices=("cpu", "gpu"),
        metadata_inputs=(0,),
        args=(
            Arg("dtype", "dtype", DALIDataType.INT64, "Element type: INT32, UINT32, INT64, UINT64, FLOAT or FLOAT64."),
            Arg("type", "dtype", None, "Deprecated name of `dtype`."),
        ),
        deprecated={"type": "dtype"},
    )

    def __init__(self, spec: Spec, environment: Environment):
        super().__init__(spec, environment)
        if spec.constant("dtype").name not in _TYPES:
            raise ValueError(f"`dtype` must be one of {', '.join(_TYPES)}; got {spec.constant('dtype').name}")

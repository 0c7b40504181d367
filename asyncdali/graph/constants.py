"""Constants in the graph: nodes whose samples are all the same array."""

from __future__ import annotations

import numpy as np

from ..data_node import DataNode
from ..errors import OperatorTypeError
from ..types import DALIDataType, ScalarConstant, constant_array
from . import node as graph_node


def constant_node(values: np.ndarray, dtype: DALIDataType, layout: str = "", device: str = "cpu", name: str | None = None) -> DataNode:
    """A node whose every sample is `values` (already in the storage type of `dtype`)."""
    from ..operators.base import REGISTRY
    from ..operators.constants.constant import ArrayConstant

    schema = REGISTRY[ArrayConstant.schema.name].schema
    arguments = {"value": values, "dtype": dtype, "layout": layout or None, "device": device, "name": name}
    result: DataNode = graph_node.make(schema, (), arguments)
    result.dtype, result.ndim, result.layout = dtype, values.ndim, layout or None
    return result


def input_constant(value: object, device: str) -> DataNode:
    """An operator's input that was given as a number, array or flat list: a constant node on `device`."""
    if isinstance(value, ScalarConstant):
        array, dtype = constant_array(value.value, value.dtype, None)
    else:
        array, dtype = constant_array(value, None, None)
    return constant_node(array, dtype, "", device)


def output_constant(value: object, index: int = 0) -> tuple[np.ndarray, DALIDataType]:
    """One sample of a pipeline output that is not a node: its values (as from `constant_array`) and type.

    TypeError if output number `index` cannot be a constant: "nested `DataNode`" for lists and tuples of nodes, "Illegal output type" for
    strings, dictionaries, None and others. OverflowError as in `constant_array`.
    """
    if _holds_node(value):
        raise OperatorTypeError(
            f"Illegal pipeline output type. The output {index} contains a nested `DataNode`. "
            "Missing list/tuple expansion (*) is the likely cause."
        )
    try:
        return constant_array(value)
    except TypeError as error:
        raise OperatorTypeError(
            f"Illegal output type. The output {index} is a `{type(value)}`. Allowed types are `DataNode` and types convertible to "
            "`types.Constant` (numerical constants, 1D lists/tuple of numbers and ND arrays)."
        ) from error


def _holds_node(value: object) -> bool:
    return isinstance(value, (list, tuple)) and any(isinstance(item, DataNode) or _holds_node(item) for item in value)

"""Constants in the graph: nodes whose every sample is the same array."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..data_node import DataNode
from ..types import DALIDataType
from . import node as graph_node


def constant_node(values: np.ndarray, dtype: DALIDataType, layout: str = "", device: str = "cpu", name: str | None = None) -> DataNode:
    """A node that delivers `values` (already in the storage type of `dtype`) for every sample."""
    from ..operators.base import REGISTRY
    from ..operators.constant import ArrayConstant

    schema = REGISTRY[ArrayConstant.schema.name].schema
    arguments = {"value": values, "dtype": dtype, "layout": layout or None, "device": device, "name": name}
    result = graph_node.make(schema, (), arguments)
    result.dtype, result.ndim, result.layout = dtype, values.ndim, layout or None
    return result


def input_constant(value: Any, device: str) -> DataNode:
    """An operator's input given as a number, array or flat list: a constant node on `device`."""
    from ..types import ScalarConstant, constant_array

    if isinstance(value, ScalarConstant):
        array, dtype = constant_array(value.value, value.dtype, None)
    else:
        array, dtype = constant_array(value, None, None)
    return constant_node(array, dtype, "", device)

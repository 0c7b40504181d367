"""Choices by number: among functions of the graph, each traced once for its samples; and among rows of a table."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..data_node import DataNode
from ..errors import OperatorValueError
from ..types import DALIDataType
from . import conditionals, context, node
from .constants import constant_node
from .rewrite.convert import call


def choose(index: DataNode, functions: Sequence[Callable[[], Any]], what: str) -> Any:
    """The result of ``functions[k]()`` for the samples whose `index` is k. Smaller numbers take the first function, larger ones the last.

    Works with and without ``enable_conditionals``; the functions may contain conditions on nodes. `what` names the result in errors. Raises
    RuntimeError outside of a pipeline definition, and ValueError for an index on the GPU.
    """
    if index.device == "gpu":
        raise OperatorValueError(
            f'Invalid device "gpu" for the choice of {what}: choices must be on the CPU (compute them there, or use .cpu())'
        )
    definition = context.definition()
    if definition is None:
        raise RuntimeError(f"Current Pipeline not set! {what} is chosen per sample, which works only inside a pipeline definition")
    if len(functions) == 1:
        return call(functions[0])()
    if definition.scopes is not None:
        return definition.scopes.choose(index, len(functions), lambda k: call(functions[k])(), what)
    scopes = definition.scopes = conditionals.Conditionals()  # while this choice is traced
    try:
        return scopes.choose(index, len(functions), lambda k: call(functions[k])(), what)
    finally:
        definition.scopes = None


def row(table: np.ndarray, dtype: DALIDataType, index: DataNode | int, device: str) -> DataNode:
    """Row number `index` of `table` (in the storage type of `dtype`): a node on `device`; a constant if `index` is a number."""
    from ..operators.base import REGISTRY

    if not isinstance(index, DataNode):
        return constant_node(np.array(table[index]), dtype, device=device)
    made: DataNode = node.make(REGISTRY["_table_row"].schema, (index,), {"table": table, "dtype": dtype, "device": device})
    made.dtype, made.ndim = dtype, table.ndim - 1
    return made

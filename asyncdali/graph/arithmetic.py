"""Operations on nodes: checks operands, turns numbers into literals and arrays into nodes, and makes the result's node."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..data_node import DataNode, on_device
from ..errors import OperatorOverflowError, OperatorTypeError, OperatorValueError
from ..operators.expressions.expressions import ArithmeticGenericOp
from ..operators.expressions.types import OPERATIONS, SIGNED, UNSIGNED, Operation
from ..types import DALIDataType, ScalarConstant
from ..types.conversions import STORAGE
from . import context
from .constants import input_constant
from .node import make

_SCHEMA = ArithmeticGenericOp.schema
_INTEGERS = {**SIGNED, **UNSIGNED}


def operation(name: str, *operands: object) -> DataNode:
    """The node of one operation; see ``operators.expressions.types`` for the names.

    Raises TypeError for an operand that is no node and no number, OverflowError for an integer that its type cannot hold, ValueError if no
    operand is a node, and RuntimeError if types are known and the operation does not accept them.
    """
    known = OPERATIONS[name]
    nodes: list[DataNode] = []
    stored: list[Any] = []
    for position, operand in enumerate(operands):
        literal = _literal(operand)
        if literal is None:
            nodes.append(_node(operand, known, position))
            stored.append(len(nodes) - 1)
        else:
            stored.append([_checked(*literal), literal[1]])
    if not nodes:
        raise OperatorValueError(f"{known.symbol} expects at least one DataNode among its operands, got only constants: {operands!r}")
    kinds = [nodes[item].dtype if isinstance(item, int) else item[1] for item in stored]
    dtype = known.result([kind for kind in kinds if kind is not None]) if None not in kinds else None
    device = "gpu" if any(node.device == "gpu" for node in nodes) else "cpu"
    arguments = {"op": name, "operands": stored, "device": device}
    result: DataNode = make(_SCHEMA, [on_device(node, device) for node in nodes], arguments)
    result.dtype = dtype
    ndims = [node.ndim for node in nodes if node.ndim is not None]
    result.ndim = max(ndims) if len(ndims) == len(nodes) else None
    return result


def _literal(value: object) -> tuple[object, DALIDataType] | None:
    """A number and its type; None for any other object."""
    if isinstance(value, DataNode):
        return None
    if isinstance(value, ScalarConstant):
        return value.value, value.dtype
    if isinstance(value, np.generic) or (isinstance(value, np.ndarray) and value.ndim == 0):
        constant = ScalarConstant(value)
        return constant.value, constant.dtype
    if type(value) is bool or type(value) is int or type(value) is float:
        constant = ScalarConstant(value)
        return constant.value, constant.dtype
    return None


def _checked(value: Any, dtype: DALIDataType) -> Any:
    """A number as its type stores it: floats rounded, integers checked."""
    if dtype in _INTEGERS:
        bits = _INTEGERS[dtype]
        low, high = (-(1 << (bits - 1)), (1 << (bits - 1)) - 1) if dtype in SIGNED else (0, (1 << bits) - 1)
        if not low <= value <= high:
            raise OperatorOverflowError(
                f"Integer constant {value} out of range for {dtype.name} [{low}, {high}]; "
                "a wider type is given by types.Constant(value).int64() and the like"
            )
        return value
    with np.errstate(over="ignore"):
        return float(np.asarray(value, STORAGE[dtype]))


def _node(value: object, known: Operation, position: int) -> DataNode:
    """An operand that is a node, or data or an array that becomes a node."""
    definition = context.definition()
    value = value if definition is None else definition.as_node(value)
    if isinstance(value, DataNode):
        return value
    what = f"operand {position} of `{known.symbol}`"
    if isinstance(value, (list, tuple)) and any(isinstance(item, DataNode) for item in value):
        raise OperatorTypeError(
            f"{what} is a {type(value).__name__} with nested DataNodes: probably the outputs of an operator with several outputs; unpack "
            "them"
        )
    if isinstance(value, (list, tuple)) or hasattr(value, "__array__"):
        return input_constant(value, "cpu")
    given = repr(value) if isinstance(value, (int, float)) else f"a {type(value).__name__}"  # an enumeration is an int, but no operand
    raise OperatorTypeError(f"{what} is {given}; it must be a DataNode, a bool, int or float, types.Constant, an array or a flat list")

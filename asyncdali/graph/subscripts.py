"""``node[...]``: integers, slices, nodes as indices, and new axes."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any

import numpy as np

from ..data_node import DataNode, NewAxis
from ..errors import OperatorError, OperatorKeyError, OperatorTypeError, OperatorValueError
from ..operators.expressions.subscript import MAX_SUBSCRIPTS, TensorSubscript
from ..types import DALIDataType, ScalarConstant
from . import context
from .node import make

_SCHEMA = TensorSubscript.schema
_INTEGERS = frozenset(kind for kind in DALIDataType if kind.name.removeprefix("U").startswith("INT"))
_LIMIT = 2**63 - 1


def subscript(node: DataNode, selection: object) -> DataNode:
    """The node of ``node[selection]``.

    Raises TypeError for an index that is no integer, slice, node or `newaxis`; NotImplementedError for an ellipsis; ValueError for a node
    on the GPU, and if only some axes are named; RuntimeError for an index that is known to be out of range.
    """
    items = selection if isinstance(selection, tuple) else (selection,)
    if not items:
        return node
    arguments: dict[str, Any] = {}
    places: list[int] = []
    axes: list[NewAxis] = []
    count = surviving = 0
    for item in items:
        if isinstance(item, NewAxis):
            places.append(surviving + len(axes))
            axes.append(item)
            continue
        kept = _one(arguments, count, item)
        surviving += kept
        count += 1
    if count > MAX_SUBSCRIPTS:
        raise OperatorKeyError(f"at most {MAX_SUBSCRIPTS} indices are possible, got {count}")
    if node.ndim is not None and count > node.ndim:
        raise OperatorError(f"Too many indices ({count}) for a {node.ndim}-D tensor")
    result: DataNode = make(_SCHEMA, [node], {"count": count, **arguments, **_new_axes(places, axes)})
    definition = context.definition()
    if definition is not None and axes and (arguments or (count and places[-1] < count + len(axes) - 1)):
        definition.next_id()  # DALI makes two operators of it, so automatic names of later operators are DALI's
    result.dtype = node.dtype
    result.ndim = None if node.ndim is None else node.ndim - (count - surviving) + len(axes)
    return result


def _new_axes(places: Sequence[int], axes: Sequence[NewAxis]) -> dict[str, object]:
    if not axes:
        return {}
    named = [axis.name for axis in axes if axis.name is not None]
    if named and len(named) < len(axes):
        raise OperatorValueError("New axis names must be specified for all new axes or none of them")
    return {"new_axes": list(places), "new_axis_names": "".join(named) or None}


def _one(arguments: dict[str, object], axis: int, item: object) -> bool:
    """Add the arguments of one index. Returns whether the axis remains."""
    if item is None:
        return True
    if item is Ellipsis:
        raise NotImplementedError("Ellipsis in indexing is not implemented; give the number of `:` that it stands for")
    if not isinstance(item, slice):
        arguments[f"at_{axis}"] = _bound(item, "an index", clip=False)
        return False
    for name, bound in (("lo", item.start), ("hi", item.stop), ("step", item.step)):
        if bound is not None:
            arguments[f"{name}_{axis}"] = _bound(bound, f"the {['start', 'stop', 'step'][['lo', 'hi', 'step'].index(name)]} of a slice")
    if isinstance(arguments.get(f"step_{axis}"), int) and arguments[f"step_{axis}"] == 0:
        raise OperatorError(f"Step cannot be zero: {item} at axis {axis}")
    return True


def _bound(value: Any, what: str, clip: bool = True) -> DataNode | int:
    """A node or an integer. Bounds of slices are clipped to 64 bits."""
    if isinstance(value, DataNode):
        if value.dtype is not None and value.dtype not in _INTEGERS:
            raise OperatorError(f"{what} must be of integral type, got a node of {value.dtype.name}")
        if value.ndim:
            raise OperatorError(f"{what} must be scalar (0D), got a {value.ndim}-D node")
        return value
    if isinstance(value, ScalarConstant):
        value = value.value
    elif isinstance(value, np.ndarray) and value.size == 1:
        value = value.reshape(-1)[0]
    try:
        number = operator.index(int(value) if isinstance(value, np.bool_) else value)
    except TypeError:
        raise OperatorTypeError(
            f"{what} is {value!r} of type {type(value).__name__}; it must be an integer, a slice of integers, a DataNode of integers, "
            "None or newaxis"
        ) from None
    return max(-_LIMIT, min(number, _LIMIT)) if clip else number

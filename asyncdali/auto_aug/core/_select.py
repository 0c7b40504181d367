"""Select one operation per sample by number."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ...data_node import DataNode
from ...graph.choices import choose
from ...graph.rewrite.convert import call


def select(ops: Sequence[Callable[..., Any]], selected_op_idx: DataNode | int, *op_args: object, **op_kwargs: object) -> Any:
    """Call ``ops[k](*op_args, **op_kwargs)`` for the samples whose `selected_op_idx` is k.

    - ops: functions of the graph. Each is called once while the graph is defined, and runs only for the samples that chose it.
    - selected_op_idx: int, or CPU node of integer scalars. Smaller numbers take the first operation, larger ones the last.

    Returns the results of the operations: nodes, or tuples, lists and dicts of nodes, of one structure. AssertionError without operations.
    """
    assert len(ops) > 0, "select needs at least one operation to choose from"
    if len(ops) == 1:
        return call(ops[0])(*op_args, **op_kwargs)
    if not isinstance(selected_op_idx, DataNode):
        return call(ops[min(max(int(selected_op_idx), 0), len(ops) - 1)])(*op_args, **op_kwargs)

    def applied(operation: Callable[..., object]) -> Callable[[], Any]:
        return lambda: call(operation)(*op_args, **op_kwargs)

    return choose(selected_op_idx, [applied(operation) for operation in ops], "the result of `select`")

"""One operation per sample, chosen by number."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ...data_node import DataNode
from ...graph.choices import choose
from ...graph.rewrite.convert import call


def select(ops: Sequence[Callable[..., Any]], selected_op_idx: DataNode | int, *op_args: Any, **op_kwargs: Any) -> Any:
    """Calls ``ops[k](*op_args, **op_kwargs)`` for the samples for which `selected_op_idx` is k.

    - ops: functions of the graph; each is called once while the graph is defined, and runs for the samples that chose it only.
    - selected_op_idx: int, or CPU node of integer scalars. Smaller numbers take the first operation, larger ones the last.

    Returns what the operations return: nodes, or tuples, lists and dicts of nodes, of one structure. AssertionError without operations.
    """
    assert len(ops) > 0, "select needs at least one operation to choose from"
    if len(ops) == 1:
        return call(ops[0])(*op_args, **op_kwargs)
    if not isinstance(selected_op_idx, DataNode):
        return call(ops[min(max(int(selected_op_idx), 0), len(ops) - 1)])(*op_args, **op_kwargs)

    def applied(operation: Callable[..., Any]) -> Callable[[], Any]:
        return lambda: call(operation)(*op_args, **op_kwargs)

    return choose(selected_op_idx, [applied(operation) for operation in ops], "the result of `select`")

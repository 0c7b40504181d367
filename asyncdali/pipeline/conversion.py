"""pipeline_def with `enable_conditionals=True`: rewrites and traces the graph function."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..data_node import DataNode
from ..graph.conditionals import Conditionals
from ..graph.node import Definition
from ..graph.rewrite.convert import converted
from ..graph.rewrite.marks import is_unconverted


def check_convertible(function: Callable[..., object]) -> None:
    """Raise ValueError for a graph function marked with `do_not_convert`."""
    if is_unconverted(function):
        raise ValueError("a graph function cannot be marked with do_not_convert; define the pipeline with enable_conditionals=False")


def trace(definition: Definition, function: Callable[..., Any], args: tuple[object, ...], kwargs: dict[str, Any]) -> Any:
    """The outputs of a graph function with conditions on nodes, whose operators are added to `definition`.

    RuntimeError for an output with only a branch's samples; ValueError for a function marked with `do_not_convert`.
    """
    check_convertible(function)
    scopes = definition.scopes = Conditionals()
    try:
        outputs = converted(function)(*args, **kwargs)
        for output in outputs if isinstance(outputs, (tuple, list)) else [outputs]:
            if isinstance(output, DataNode):
                scopes.bring(output, scopes.root)
        return outputs
    finally:
        definition.scopes = None

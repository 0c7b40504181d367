"""Control flow of statements: which of them leave a construct early, and which conditions cannot depend on a node."""

from __future__ import annotations

import ast
from collections.abc import Sequence

from .liveness import FUNCTIONS, LOOPS, own_nodes

SUSPENDS = (ast.Yield, ast.YieldFrom, ast.Await)
_STATEMENT_HOLDERS = (ast.stmt, ast.ExceptHandler, ast.match_case)
_NEVER_NODES = (ast.Is, ast.IsNot, ast.In, ast.NotIn)


def suspends(*nodes: ast.AST) -> bool:
    """Whether the tree contains `yield` or `await`."""
    return any(isinstance(node, SUSPENDS) or (isinstance(node, ast.comprehension) and node.is_async) for node in own_nodes(nodes))


def is_plain_test(test: ast.expr) -> bool:
    """Whether a condition cannot be a node."""
    if isinstance(test, ast.Constant):
        return True
    return isinstance(test, ast.Compare) and len(test.ops) == 1 and isinstance(test.ops[0], _NEVER_NODES)


def jumps_out(body: Sequence[ast.AST]) -> bool:
    """Whether statements can leave their construct: `return`, or `continue` and `break` of an enclosing loop."""
    return any(isinstance(node, ast.Return) for node in own_nodes(body)) or bool(loop_jumps(body))


def loop_jumps(body: Sequence[ast.AST]) -> list[ast.AST]:
    """The `continue` and `break` statements of the loop whose body contains these statements."""
    found: list[ast.AST] = []
    for node in body:
        if isinstance(node, (ast.Continue, ast.Break)):
            found.append(node)
        elif isinstance(node, LOOPS):
            found += loop_jumps(node.orelse)
        elif not isinstance(node, (*FUNCTIONS, ast.ClassDef)):
            found += loop_jumps([child for child in ast.iter_child_nodes(node) if isinstance(child, _STATEMENT_HOLDERS)])
    return found


def jumps_under_if(body: Sequence[ast.AST]) -> bool:
    """Whether a loop's body has its own `continue` or `break` inside a rewritten `if`."""
    for node in body:
        if isinstance(node, (*FUNCTIONS, ast.ClassDef)):
            continue
        if isinstance(node, ast.If) and not is_plain_test(node.test):
            found = bool(loop_jumps([node]))
        elif isinstance(node, LOOPS):
            found = jumps_under_if(node.orelse)
        else:
            found = jumps_under_if([child for child in ast.iter_child_nodes(node) if isinstance(child, _STATEMENT_HOLDERS)])
        if found:
            return True
    return False

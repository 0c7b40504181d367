"""Builds pieces of syntax trees for the rewriting.

Its names begin with ``_adali_``. `RUNTIME` is the module ``runtime``, given to the function as a closure variable.
"""

from __future__ import annotations

import ast
from collections.abc import Sequence
from typing import Any

PREFIX = "_adali_"
RUNTIME = PREFIX + "rt"
CALL = PREFIX + "call"
"""The local variable of one call of the function (``runtime.RewrittenCall``)."""


def load(name: str) -> ast.Name:
    """``name``, read"""
    return ast.Name(name, ast.Load())


def store(name: str) -> ast.Name:
    """``name``, assigned"""
    return ast.Name(name, ast.Store())


def attribute_of(name: str, attribute: str) -> ast.Attribute:
    """``name.attribute``"""
    return ast.Attribute(load(name), attribute, ast.Load())


def call(name: str, attribute: str, *arguments: Any) -> ast.Call:
    """``name.attribute(*arguments)``. Arguments that are no expressions become constants."""
    given = [item if isinstance(item, ast.expr) else ast.Constant(item) for item in arguments]
    return ast.Call(attribute_of(name, attribute), given, [])


def names_of(items: Sequence[str]) -> ast.expr:
    """A tuple of strings."""
    return ast.Tuple([ast.Constant(item) for item in items], ast.Load())


def mangled(name: str, class_name: str | None) -> str:
    """A name with the mangling of a class body."""
    if class_name is None or not name.startswith("__") or name.endswith("__") or "." in name:
        return name
    stripped = class_name.lstrip("_")
    return f"_{stripped}{name}" if stripped else name


def as_index(node: ast.expr) -> ast.expr:
    """The index between brackets, as an expression."""
    if isinstance(node, ast.Slice):
        parts = [part or ast.Constant(None) for part in (node.lower, node.upper, node.step)]
        return ast.Call(attribute_of(RUNTIME, "slice"), parts, [])
    if isinstance(node, ast.Tuple):
        return ast.Tuple([as_index(item) for item in node.elts], ast.Load())
    return node


def at_line(item: Any, where: ast.AST) -> Any:
    """`item` at the line of the statement that it replaces. Parts with lines keep them."""
    return ast.fix_missing_locations(ast.copy_location(item, where))

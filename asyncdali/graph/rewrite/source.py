"""Finds the definition of a function in its source file."""

from __future__ import annotations

import ast
import linecache
import types
from typing import Any

Definition = Any  # ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda


class NotFound(Exception):
    """There is no source, or it is not the source of the function."""


class _File:
    """All functions of a file by their first line, each with its enclosing class."""

    def __init__(self, lines: list[str]):
        self.lines = lines
        self.found: dict[int, list[tuple[Definition, str | None]]] = {}
        self._collect(ast.parse("".join(lines)), None)

    def _collect(self, node: ast.AST, class_name: str | None) -> None:
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)):
            decorators = [] if isinstance(node, ast.Lambda) else node.decorator_list
            line = min(item.lineno for item in (node, *decorators))
            self.found.setdefault(line, []).append((node, class_name))
        elif isinstance(node, ast.ClassDef):
            class_name = node.name
        for child in ast.iter_child_nodes(node):
            self._collect(child, class_name)


_files: dict[str, _File] = {}


def _file(function: types.FunctionType) -> _File:
    name = function.__code__.co_filename
    linecache.checkcache(name)
    lines = linecache.getlines(name, function.__globals__)
    if not lines:
        raise NotFound(f"the source of {name} is not available")
    known = _files.get(name)
    if known is None or known.lines != lines:
        try:
            known = _files[name] = _File(lines)
        except (SyntaxError, ValueError, RecursionError) as error:
            raise NotFound(f"{name} cannot be read as Python ({error})") from error
    return known


def definition(function: types.FunctionType) -> tuple[Definition, str | None]:
    """The definition of a function and the name of its enclosing class. NotFound if it is not certain."""
    code = function.__code__
    found = [item for item in _file(function).found.get(code.co_firstlineno, []) if _looks_like(item[0], code)]
    if len(found) > 1:
        found = [item for item in found if _same_code(item[0], function)]
    if not found:
        raise NotFound("the file has other code on the lines of the function; was the file changed after the import?")
    return found[0]  # if several have the same code, any of them will do


def _looks_like(node: Definition, code: types.CodeType) -> bool:
    name = "<lambda>" if isinstance(node, ast.Lambda) else node.name
    positional = [item.arg for item in (*node.args.posonlyargs, *node.args.args)]
    keywords = [item.arg for item in node.args.kwonlyargs]
    extra = [item.arg for item in (node.args.vararg, node.args.kwarg) if item]
    names = [*positional, *keywords, *extra]
    given = code.co_varnames[: len(names)]
    counts = (code.co_argcount, code.co_kwonlyargcount) == (len(positional), len(keywords))
    return name == code.co_name and counts and all(one.endswith(two) for one, two in zip(given, names, strict=True))


def _same_code(node: Definition, function: types.FunctionType) -> bool:
    """Whether a definition compiles to the function's code. For several lambdas on one line."""
    code = function.__code__
    if isinstance(node, ast.Lambda) and hasattr(code, "co_positions"):
        columns = [(line, column) for line, _, column, _ in code.co_positions() if line is not None and column is not None]
        inside = [(item.lineno, item.col_offset) for item in ast.walk(node.body) if isinstance(item, ast.expr)]
        return bool(set(columns) & set(inside)) and min(inside) <= max(columns) and _covers(node, columns)
    wrapped = ast.Module([ast.copy_location(ast.Expr(node), node) if isinstance(node, ast.Lambda) else node], [])
    made = compile(wrapped, code.co_filename, "exec", dont_inherit=True)
    return any(isinstance(item, types.CodeType) and item.co_code == code.co_code and item.co_names == code.co_names
               and [c for c in item.co_consts if not isinstance(c, types.CodeType)]
               == [c for c in code.co_consts if not isinstance(c, types.CodeType)] for item in made.co_consts)  # fmt: skip


def _covers(node: ast.Lambda, columns: list[tuple[int, int]]) -> bool:
    """Whether all positions of the code are inside the lambda, and its body begins where the code does."""
    first, last = (node.body.lineno, node.body.col_offset), (node.body.end_lineno or 0, node.body.end_col_offset or 0)
    return all(first <= place <= last or place == (node.lineno, 0) or place == (node.lineno, node.col_offset) for place in columns)

"""Code objects of rewritten definitions, and of definitions as the user wrote them."""

from __future__ import annotations
import __future__

import ast
import functools
import sys
import types
from typing import Any

from .marks import MARK
from .source import NotFound, definition
from .syntax import PREFIX, RUNTIME
from .transform import stripped

_FUTURE = functools.reduce(lambda flags, name: flags | getattr(__future__, name).compiler_flag, __future__.all_feature_names, 0)


def compiled_like(code: types.CodeType, node: Any, class_name: str | None) -> types.CodeType:
    """The code of a rewritten definition, with the names and lines of the original."""
    # Neither the function nor the class may hide a global name from the function's body.
    name = "<lambda>" if isinstance(node, ast.Lambda) else PREFIX + "function"
    wrapper = None if class_name is None else "____" + class_name  # leading underscores are removed before private names are mangled
    if isinstance(node, ast.Lambda):
        body: list[ast.stmt] = [ast.Expr(node)]
    else:
        node.name = name
        body = [node]
    if wrapper is not None:
        body = [ast.ClassDef(wrapper, [], [], body, [])]
        if sys.version_info >= (3, 12):
            body[0].type_params = []  # type: ignore[attr-defined]
    outside = [ast.arg(item) for item in (RUNTIME, *(free for free in code.co_freevars if free != RUNTIME))]
    factory = ast.FunctionDef(PREFIX + "factory", ast.arguments([], outside, None, [], [], None, []), body, [])
    if sys.version_info >= (3, 12):
        factory.type_params = []  # type: ignore[attr-defined]
    module = ast.fix_missing_locations(ast.copy_location(ast.Module([ast.copy_location(factory, node)], []), node))
    made: Any = compile(module, code.co_filename, "exec", flags=code.co_flags & _FUTURE, dont_inherit=True)
    path = [PREFIX + "factory", *([wrapper] if wrapper is not None else []), name]
    for step in path:
        made = next(item for item in made.co_consts if isinstance(item, types.CodeType) and item.co_name == step)
    changes: dict[str, Any] = {"co_name": code.co_name}  # not the first line: all other lines are relative to it, decorators included
    if hasattr(code, "co_qualname"):
        changes["co_qualname"] = code.co_qualname
    replaced: types.CodeType = made.replace(**changes)
    return replaced


def as_written(function: object) -> object:
    """The user's version of a function whose definition was rewritten with its enclosing function. Other objects are returned unchanged.

    For libraries that compile functions. RuntimeError if the source is not available.
    """
    if not isinstance(function, types.FunctionType) or function.__dict__.get(MARK) is not function.__code__:
        return function
    try:
        node, class_name = definition(function)
    except NotFound as error:
        raise RuntimeError(
            f"{function.__qualname__} was rewritten for conditional execution and cannot be compiled; define it outside of the pipeline "
            f"function ({error})"
        ) from error
    code = compiled_like(function.__code__, stripped(node), class_name)
    cells = dict(zip(function.__code__.co_freevars, function.__closure__ or ()))
    closure = tuple(cells[name] for name in code.co_freevars)
    plain = types.FunctionType(code, function.__globals__, function.__name__, function.__defaults__, closure)
    plain.__kwdefaults__, plain.__qualname__, plain.__module__ = function.__kwdefaults__, function.__qualname__, function.__module__
    return plain



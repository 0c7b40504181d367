"""Replaces functions by their rewritten versions. A function that a pipeline function calls is rewritten at the call."""

from __future__ import annotations

import dis
import functools
import logging
import sys
import types
from collections import Counter
from types import FunctionType
from typing import Any

from .. import conditionals
from . import blocks, expressions, runtime
from .code import compiled_like
from .marks import MARK, UNCONVERTED, is_unconverted
from .source import NotFound, definition
from .syntax import RUNTIME
from .transform import rewritten, stripped

_CHECKED_LIBRARIES = frozenset({
    "asyncdali", "asyncdali_workers", "numpy", "pandas", "PIL", "matplotlib", "scipy", "numba", "torch", "jax", "tensorflow", "cupy", "cv2",
    "pytest", "_pytest", "cloudpickle",
})  # fmt: skip
_HEAP_TYPE = 1 << 9
_SHALLOW = 6
"""Number of levels of `if` that are rewritten in a function with too many levels."""

_log = logging.getLogger("asyncdali")

_codes: dict[int, tuple[types.CodeType, types.CodeType | None]] = {}
"""id of a function's code -> the code (which keeps the id unique) and the rewritten code; None: not rewritten."""


def call(function: Any) -> Any:
    """The object that rewritten code calls instead of `function`."""
    scopes = conditionals.active()
    if scopes is None:
        return function
    if isinstance(function, type):
        return _class(function, scopes)
    return converted(function)


def _class(kind: type, scopes: Any) -> Any:
    """A class. New objects made in a branch belong to the branch. ``super`` must be called from the user's frame."""
    in_branch = scopes.open and any(entry.symbolic or entry.block.split_up for entry in scopes.open)
    if not in_branch or kind is super or not (kind.__flags__ & _HEAP_TYPE or kind in (dict, list)):
        return kind
    return lambda *args, **kwargs: blocks.born(kind(*args, **kwargs))


def converted(function: object) -> Any:
    """A version of `function` that accepts conditions on nodes; `function` itself if there is nothing to rewrite or it must not be
    changed."""
    if isinstance(function, types.FunctionType):
        return _function(function)
    if is_unconverted(function):
        return function
    if isinstance(function, types.MethodType):
        inner = converted(function.__func__)
        return function if inner is function.__func__ else types.MethodType(inner, function.__self__)
    if type(function) is functools.partial:
        inner = converted(function.func)
        return function if inner is function.func else functools.partial(inner, *function.args, **function.keywords)
    if isinstance(function, (types.BuiltinFunctionType, type)) or not callable(function):
        return function
    method = type(function).__call__
    if isinstance(method, types.FunctionType):
        inner = _function(method)
        return function if inner is method else types.MethodType(inner, function)
    return function


def _function(function: types.FunctionType) -> FunctionType:
    given = function.__dict__
    if given and (given.get(MARK) is function.__code__ or UNCONVERTED in given):
        return function
    code = function.__code__
    known = _codes.get(id(code))
    if known is None:
        known = _codes[id(code)] = (code, None if _excluded(function) else _rewritten_code(function))
    return function if known[1] is None else _with_code(function, known[1])


def _excluded(function: types.FunctionType) -> bool:
    """Whether a function belongs to a library that never handles nodes."""
    name = function.__globals__.get("__name__") or function.__module__ or ""
    first = name.partition(".")[0]
    return first in _CHECKED_LIBRARIES or (first in sys.stdlib_module_names and first not in ("functools", "__main__"))


def _with_code(function: types.FunctionType, code: types.CodeType) -> types.FunctionType:
    """`function` with other code. Closure variables stay shared."""
    cells = dict(zip(function.__code__.co_freevars, function.__closure__ or ()))
    cells[RUNTIME] = _runtime_cell
    closure = tuple(cells[name] for name in code.co_freevars)
    made = types.FunctionType(code, function.__globals__, function.__name__, function.__defaults__, closure)
    made.__kwdefaults__ = function.__kwdefaults__
    made.__qualname__, made.__module__, made.__doc__ = function.__qualname__, function.__module__, function.__doc__
    made.__dict__.update(function.__dict__)
    setattr(made, MARK, code)
    return made


def _rewritten_code(function: types.FunctionType) -> types.CodeType | None:
    try:
        node, class_name = definition(function)
        if not _is_code_of(function.__code__, node, class_name):
            raise NotFound("the source differs from the compiled code; was the file changed after the import?")
        try:
            return compiled_like(function.__code__, rewritten(node, class_name), class_name)
        except SyntaxError:  # Python allows 20 nested loops, and every rewritten `if` is a loop
            return compiled_like(function.__code__, rewritten(node, class_name, _SHALLOW), class_name)
    except Exception as error:
        reason = str(error) if isinstance(error, NotFound) else f"{type(error).__name__}: {error}"
        code = function.__code__
        _log.warning(
            "%s (%s, line %d) could not be rewritten for conditional execution and runs as it is; conditions on DataNodes will fail "
            "in it: %s", function.__qualname__, code.co_filename, code.co_firstlineno, reason,
        )  # fmt: skip
        return None


def _is_code_of(code: types.CodeType, node: object, class_name: str | None) -> bool:
    """Whether a definition is that of `code`: it has the same names, constants and operators, or fewer (pytest adds some on import).

    Byte code cannot be compared, because it depends on the rest of the file (which names are imported).
    """
    source = compiled_like(code, stripped(node), class_name)
    return all(not one - other for one, other in zip(_contents(source), _contents(code), strict=True))


def _contents(code: types.CodeType) -> tuple[Counter[str], Counter[str], Counter[str]]:
    names = {*code.co_names, *code.co_varnames, *code.co_cellvars}
    constants = [repr(item) for item in code.co_consts if not isinstance(item, types.CodeType) and not _names_inner(item)]
    operators = [
        f"{item.opname} {item.argrepr}"
        for item in dis.get_instructions(code) if item.opname.startswith(("BINARY_", "INPLACE_", "COMPARE_", "UNARY_"))
    ]  # fmt: skip
    return Counter(names), Counter(constants), Counter(operators)


def _names_inner(constant: object) -> bool:
    """Whether a constant is the qualified name of an inner function, which Python 3.10 stores. It depends on the place of the function."""
    return isinstance(constant, str) and "<locals>" in constant


def made(function: Any) -> Any:
    """A function that rewritten code has just made. It is already rewritten."""
    if isinstance(function, types.FunctionType):
        setattr(function, MARK, function.__code__)
    return function


_SEEN = {
    runtime: ("enter",),
    blocks: ("UNDEFINED", "born", "set_attribute", "set_item"),
    expressions: ("and_", "assert_node", "choose", "is_node", "not_", "or_", "plain"),
}
_runtime_cell = types.CellType(types.SimpleNamespace(
    call=call, made=made, slice=slice, **{name: getattr(module, name) for module, names in _SEEN.items() for name in names}
))  # fmt: skip

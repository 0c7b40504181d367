"""A digest of everything that a compiled kernel depends on.

Numba's own cache only checks the file of the outermost function. If a helper in another file changes, it loads machine code with the old
helper. The digest here covers all code of a kernel. It follows the function to everything that its code and its closure name, and covers

* the loaded code: instructions, constants, values of global variables. A file may change while a process runs, or keep its size and time
  (Python then runs the old ``.pyc``). Old code is never stored under the key of the new code;
* the source files of the modules on the way, for code that a walk over functions cannot see (methods, registrations).

An edit of one operator's kernels changes the digests of that file's kernels, and of kernels that call its helpers. No other digest changes.
"""

from __future__ import annotations

import enum
import functools
import hashlib
import os
import sys
import types
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from .kinds import ExternalFunction, KernelSignature, Kind

PACKAGE = Path(__file__).parent.parent
_PREFIX = __name__.partition(".")[0] + "."
_COMPILERS = tuple(PACKAGE / "compiled" / name for name in ("compiler.py", "lowering.py", "numba_vectors.py", "step.py"))
"""Every kernel depends on these modules, although no function names them."""
_VERSIONED = frozenset({"numba", "llvmlite", "numpy"}) | sys.stdlib_module_names
"""Functions of these packages are not followed. Their versions are part of the name of the kernels' folder."""
_UNKNOWN = object()
"""Marks a value with unknown contents. The kernel then depends on every source file of the package."""
_SCALARS = (type(None), bool, int, float, complex, str, bytes, type(Ellipsis))


def kernel_digest(function: object) -> bytes:
    """32 bytes that change with the code of a function and of everything it uses."""
    digest = hashlib.blake2b(digest_size=32)
    files = {str(path) for path in _COMPILERS}
    seen = {id(function)}
    waiting = [function]
    while waiting:  # in the order in which they are named, which is the same in every process
        own = _own(waiting.pop())
        digest.update(own.text)
        files |= own.files
        for value in own.functions:
            if id(value) not in seen:
                seen.add(id(value))
                waiting.append(value)
        if own.is_unknown:
            files.update(map(str, _all_sources()))
    for path in sorted(files):
        digest.update(_file_digest(path))
    return digest.digest()


def kernel_weight(function: Any) -> int:
    """Bytes of bytecode of a function and of everything it uses: about proportional to the time that compiling takes."""
    total = 0
    seen = {id(function)}
    waiting = [function]
    while waiting:
        current = waiting.pop()
        total += len(current.__code__.co_code)
        for value in _own(current).functions:
            if id(value) not in seen:
                seen.add(id(value))
                waiting.append(value)
    return total


class _Own(NamedTuple):
    """A function's part of the digest of kernels. `text`: a digest of its code and values."""

    text: bytes
    files: frozenset[str]
    functions: tuple[types.FunctionType, ...]
    is_unknown: bool


@functools.cache
def _own(function: types.FunctionType) -> _Own:
    text, used = _local(function)
    functions = tuple(value for value in used if isinstance(value, types.FunctionType))
    others = [value for value in used if value is not _UNKNOWN and not isinstance(value, types.FunctionType)]
    files = frozenset(file for value in (function, *others) if (file := _file_of(value)) is not None)
    return _Own(hashlib.blake2b(text, digest_size=32).digest(), files, functions, any(value is _UNKNOWN for value in used))


@functools.cache
def _all_sources() -> frozenset[Path]:
    return frozenset(PACKAGE.rglob("*.py"))


@functools.cache
def _file_digest(path: str) -> bytes:
    try:
        with open(path, "rb") as file:
            data = file.read()
    except OSError:  # an archive or a frozen program: the version and the loaded code replace the file
        data = b""
    return hashlib.blake2b(os.path.basename(path).encode() + data, digest_size=32).digest()


def _file_of(value: object) -> str | None:
    """The source file of a function, class or module, or of an object's class. None for objects of other packages."""
    if isinstance(value, types.ModuleType):
        name = value.__name__
    else:
        name = getattr(value if isinstance(value, (type, types.FunctionType)) else type(value), "__module__", "") or ""
    outside = not isinstance(value, types.FunctionType)  # functions of any package count
    if outside and not name.startswith(_PREFIX):
        return None
    return getattr(sys.modules.get(name), "__file__", None)


def _local(function: types.FunctionType) -> tuple[bytes, list[Any]]:
    """The text of a function's own code and values, and the functions, classes and modules that it uses."""
    used: list[Any] = []
    parts = [function.__qualname__]
    names: dict[str, None] = {}
    _code(function.__code__, parts, names)
    scope = function.__globals__
    for name in names:
        if name in scope:
            parts.append(name)
            _value(scope[name], parts, used)
    for cell in function.__closure__ or ():
        _value(_contents(cell), parts, used)
    _value(function.__defaults__, parts, used)
    _value(tuple((function.__kwdefaults__ or {}).items()), parts, used)
    return "\0".join(parts).encode(), used


def _contents(cell: Any) -> Any:
    try:
        return cell.cell_contents
    except ValueError:  # not assigned yet
        return None


def _code(code: types.CodeType, parts: list[str], names: dict[str, None]) -> None:
    """Instructions and constants, also of nested functions, without file names and line numbers."""
    parts += [code.co_code.hex(), getattr(code, "co_exceptiontable", b"").hex(), repr(code.co_names), repr(code.co_varnames)]
    parts += [repr(code.co_freevars), repr(code.co_cellvars), repr((code.co_argcount, code.co_flags))]
    names.update(dict.fromkeys(code.co_names))
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            _code(constant, parts, names)
        else:
            _value(constant, parts, [])


def _value(value: Any, parts: list[str], used: list[Any]) -> None:
    """Add a description of a value. Functions, classes and modules also go to `used`, for their source. Other objects are unknown."""
    kind = type(value)
    parts.append(kind.__name__)
    if kind in _SCALARS:
        parts.append(repr(value))
    elif isinstance(value, enum.Enum):
        parts += [value.name, repr(value.value)]
        used.append(kind)
    elif isinstance(value, (np.dtype, np.generic)):
        parts.append(str(value) if isinstance(value, np.dtype) else f"{value.dtype} {value.tobytes().hex()}")
    elif kind is np.ndarray:
        parts += [str(value.dtype), str(value.shape), hashlib.sha256(value.tobytes()).hexdigest()]
    elif isinstance(value, (tuple, list, dict, set, frozenset)):  # also named tuples, whose fields are constants
        parts += [str(len(value)), repr(getattr(value, "_fields", ""))]
        inner = sorted(value, key=repr) if isinstance(value, (set, frozenset)) else value.items() if isinstance(value, dict) else value
        for item in inner:
            _value(item, parts, used)
    elif isinstance(value, types.FunctionType):
        parts.append(f"{value.__module__}.{value.__qualname__}")
        if str(value.__module__).partition(".")[0] not in _VERSIONED:
            used.append(value)
    elif isinstance(value, (type, types.ModuleType, types.BuiltinFunctionType)):
        parts.append(f"{getattr(value, '__module__', '')}.{value.__name__}")
        used.append(value)
    else:
        _wrapped(value, parts, used)


def _wrapped(value: object, parts: list[str], used: list[object]) -> None:
    """Objects that wrap a function (Numba's dispatchers and intrinsics, our compiled functions), and all others."""
    if getattr(type(value), "__hash__", None) is None:
        used.append(_UNKNOWN)
        return
    text, found = _around(value)
    parts.append(text)
    used.append(found)


@functools.cache
def _around(value: object) -> tuple[str, object]:
    """The text of an object that may wrap a function, and that function."""
    for attribute in ("py_func", "_defn", "_function"):
        function = getattr(value, attribute, None)
        if isinstance(function, types.FunctionType):
            options = getattr(value, "targetoptions", None) or {}
            text = [f"{name}={_text(option)}" for name, option in sorted(options.items())]
            return f"{function.__module__}.{function.__qualname__} {text}", function
    if isinstance(value, (Kind, KernelSignature, ExternalFunction)):
        return str(value), type(value)
    if type(value).__module__.partition(".")[0] in ("numba", "llvmlite"):
        return f"{value} {getattr(value, 'symbol', '')}", type(value)  # types, and external functions with their symbol
    return "", _UNKNOWN


def _text(option: object) -> str:
    if isinstance(option, (set, frozenset)):
        return repr(sorted(option))
    return f"{option.__module__}.{option.__qualname__}" if isinstance(option, type) else repr(option)


def text_of(value: object) -> str:
    """A text that is equal in two processes for equal values (the name of a kernel's variant)."""
    parts: list[str] = []
    _value(value, parts, [])
    return "\0".join(parts)

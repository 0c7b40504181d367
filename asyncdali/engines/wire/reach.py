"""Digests of everything that a program's functions reach, for the handshake with engines on other machines (docs/fleet.md).

A function's result depends on its code, defaults and closure, on the helper functions, classes and constants of its module, on the
attributes of the object that is called, on the arguments of a partial. All of it is followed, as cloudpickle would follow it, and described
entry by entry, so that the handshake can name the difference. Modules of the standard library and of installed packages are described by
name and version. Names of the program's own modules do not count: the same file is ``__main__`` in one process and an import in another.
"""

from __future__ import annotations

import builtins
import copyreg
import dis
import functools
import hashlib
import inspect
import logging
import sys
import threading
import types
from collections.abc import Iterable, Mapping
from enum import Enum
from importlib import metadata
from importlib.machinery import PathFinder
from pathlib import PurePath
from types import CodeType, FunctionType, MethodType, ModuleType
from typing import Any

import numpy as np

from ...graph.plan import PlannedOperator

UNCHECKED = "cannot be compared: "
"""Begins the description of a value that nothing is known about."""
_MOST = 200
"""Entries of one operator. A description has to fit into a message, so more are described together."""
_SHOWN = 60
"""Characters of a value that are shown as they are."""
_OUR_OWN = ("asyncdali", "asyncdali_workers")
_NEUTRAL = (
    type(threading.Lock()), type(threading.RLock()), threading.Event, threading.Condition, threading.Semaphore, threading.Barrier,
    threading.local, threading.Thread, logging.Logger,
)  # fmt: skip
"""Kinds that coordinate or report. They hold no value that a result is made of."""
_WRAPPERS = (staticmethod, classmethod, property, functools.cached_property)
_GLOBAL_OPERATIONS = {"LOAD_GLOBAL", "LOAD_NAME", "STORE_GLOBAL", "DELETE_GLOBAL"}
_FLAGS = inspect.CO_VARARGS | inspect.CO_VARKEYWORDS | inspect.CO_GENERATOR | inspect.CO_COROUTINE | inspect.CO_ASYNC_GENERATOR
"""Flags of code that change what it does. Others say where it stands."""
_INSTALLED = {"site-packages", "dist-packages"}
_SKIPPED = {
    "__dict__", "__weakref__", "__doc__", "__module__", "__qualname__", "__firstlineno__", "__static_attributes__", "__annotations__",
}  # fmt: skip


def reached(operators: Iterable[PlannedOperator]) -> dict[str, str]:
    """By path ("python_function 'name', function: augment > SCALE"): a description of the code or value there.

    Only operators whose arguments reach code or objects have entries. Values that cannot be compared begin with :data:`UNCHECKED`.
    """
    found: dict[str, str] = {}
    for planned in operators:
        spec = planned.spec
        walk = _Walk()
        for name, value in sorted(spec.constants.items()):
            if not _is_plain(value):
                walk.begin(f"{spec.schema.name} {spec.name!r}, {name}", value)
        found.update(walk.entries if len(walk.entries) <= _MOST else _together(f"{spec.schema.name} {spec.name!r}", walk.entries))
    return found


def reached_from(values: Mapping[str, object]) -> dict[str, str]:
    """The same for values, which begin with their names. Values that are data have no entries."""
    found: dict[str, str] = {}
    for name, value in values.items():
        if not _is_plain(value):
            walk = _Walk()
            walk.begin(name, value)
            found.update(walk.entries if len(walk.entries) <= _MOST else _together(name, walk.entries))
    return found


def unchecked(description: dict[str, str]) -> list[str]:
    """The entries about which nothing is known, as text."""
    return [f"{path} {text}" for path, text in description.items() if text.startswith(UNCHECKED)]


def _together(name: str, entries: dict[str, str]) -> dict[str, str]:
    lacking = {path: text for path, text in entries.items() if text.startswith(UNCHECKED)}
    whole = {f"{name}: its functions and values": f"{len(entries)}, {_digest(repr(sorted(entries.items())).encode())}"}
    return {**whole, **dict(list(lacking.items())[:_MOST])}


def _digest(data: bytes) -> str:
    return hashlib.blake2b(data, digest_size=8).hexdigest()


def _is_plain(value: Any) -> bool:
    """Whether a constant is data that the description of the graph contains already."""
    if value is None or isinstance(value, (bool, int, float, str, bytes, Enum, np.generic)):
        return True
    if isinstance(value, np.ndarray):
        return not value.dtype.hasobject
    if type(value) in (list, tuple):
        return all(map(_is_plain, value))
    return type(value) is dict and all(map(_is_plain, value.values()))


class _Walk:
    """One walk through everything that a value reaches. Each function, class and object is described once, at its first path."""

    def __init__(self) -> None:
        self.entries: dict[str, str] = {}
        self._seen: dict[int, str] = {}
        self._paths: set[str] = set()
        self._kept: list[Any] = []  # an id is unique only while its object lives

    def begin(self, path: str, value: object) -> None:
        """Describe a value and what it reaches."""
        waiting = [(path + ":", value)]
        while waiting:
            at, item = waiting.pop(0)
            try:
                text = self._entry(item, at, waiting)
            except RecursionError:
                text = f"{UNCHECKED}its values are nested too deeply"
            except Exception as error:  # the methods of a user's class run here
                text = f"{UNCHECKED}{type(item).__module__}.{type(item).__qualname__} ({type(error).__name__}: {str(error)[:200]})"
            if text is not None:
                self.entries[at] = text

    def _path(self, at: str, name: str) -> str:
        """A new path of a part. Parts may have equal names, as the keys 1 and "1", and long keys that begin alike: each has its entry."""
        first = path = f"{at} > {name}" if not at.endswith(":") else f"{at} {name}"
        more = 1
        while path in self._paths:
            more += 1
            path = f"{first} ({more})"
        self._paths.add(path)
        return path

    def _entry(self, value: object, at: str, waiting: list[tuple[str, object]]) -> str | None:
        """The description of a value without what has a path of its own. That is appended to `waiting`."""
        parts: list[str] = []

        def child(name: str, item: object) -> str:
            """A part of the value: described here if it is data, else at a path of its own."""
            plain = self._data(item, child, name)
            if plain is not None:
                return plain
            known = self._seen.get(id(item))
            if known is None:
                known = self._seen[id(item)] = self._path(at, name)
                self._kept.append(item)
                waiting.append((known, item))
            return f"@{known}"

        def separate(name: str, item: object) -> None:
            """A part that gets an entry of its own, also if it is data: a changed constant is then named."""
            text = child(name, item)
            if not text.startswith("@"):
                self.entries[self._path(at, name)] = _short(text)

        plain = self._data(value, child, "item")
        if plain is not None:
            return _short(plain)
        library = _library(value)
        if library is not None:
            return library
        if isinstance(value, _NEUTRAL):
            return type(value).__qualname__
        if isinstance(value, FunctionType):
            return self._function(value, separate)
        if isinstance(value, MethodType):
            separate("object", value.__self__)
            separate(f"{value.__func__.__name__}()", value.__func__)
            return "method"
        if isinstance(value, functools.partial):
            separate(_name(value.func), value.func)
            for k, item in enumerate(value.args):
                separate(f"argument {k}", item)
            for name, item in sorted(value.keywords.items()):
                separate(f"argument {name}", item)
            return f"partial of {len(value.args)} and {len(value.keywords)} arguments"
        inner = getattr(value, "py_func", None)  # a function that Numba compiles
        if isinstance(inner, FunctionType):
            separate(f"{inner.__name__}()", inner)
            return f"Numba {child('options', dict(getattr(value, 'targetoptions', {})))}"
        inner = getattr(value, "__wrapped__", None)
        if isinstance(value, functools._lru_cache_wrapper):
            separate(_name(inner), inner)
            return "cached function"
        if isinstance(value, ModuleType):
            return "module"
        if isinstance(value, type):
            return self._class(value, separate)
        if isinstance(value, _WRAPPERS):
            for name in ("__func__", "fget", "fset", "fdel", "func"):
                if getattr(value, name, None) is not None:
                    separate(name, getattr(value, name))
            return type(value).__name__
        parts.append(self._object(value, separate, child))
        return _short(" ".join(parts))

    def _function(self, value: FunctionType, separate: Any) -> str:
        code = value.__code__
        for name, cell in zip(code.co_freevars, value.__closure__ or (), strict=False):
            try:
                content = cell.cell_contents
            except ValueError:  # not assigned yet
                continue
            separate(f"{name} (closure)", content)
        defaults = value.__defaults__ or ()
        for name, item in zip(code.co_varnames[code.co_argcount - len(defaults) : code.co_argcount], defaults, strict=False):
            separate(f"{name} (default)", item)
        for name, item in sorted((value.__kwdefaults__ or {}).items()):
            separate(f"{name} (default)", item)
        for name, item in sorted(vars(value).items()):
            separate(f"{name} (attribute)", item)
        names, attributes, imports = _names(code)
        for name in sorted(imports):
            source = _source(name, value.__globals__)
            if source is not None:
                separate(f"import {name}", source)
        for name in sorted(names):
            if name.startswith("__") and name.endswith("__"):  # __name__ and __file__ differ between processes
                continue
            if name in value.__globals__:
                self._global(name, value.__globals__[name], attributes, separate)
            elif not hasattr(builtins, name):
                separate(name, "not defined")
        return f"code {_digest(_code(code))}"

    def _global(self, name: str, item: Any, attributes: set[str], separate: Any, deep: int = 0) -> None:
        """A global of a module. Of a module of the program, the attributes that the code names count."""
        separate(_name(item, name), item)
        if isinstance(item, ModuleType) and _library(item) is None and deep < 4:
            for attribute in sorted(attributes & set(vars(item))):
                if not (attribute.startswith("__") and attribute.endswith("__")):
                    self._global(f"{name}.{attribute}", vars(item)[attribute], attributes, separate, deep + 1)

    def _class(self, value: type, separate: Any) -> str:
        for k, base in enumerate(value.__bases__):
            separate(f"base {k}", base)
        for name, item in sorted(vars(value).items()):
            special = name.startswith("__") and name.endswith("__")
            if name in _SKIPPED or name.startswith("_abc_") or isinstance(item, (types.MemberDescriptorType, types.GetSetDescriptorType)):
                continue
            if special and not isinstance(item, (FunctionType, staticmethod, classmethod, property)) and name != "__slots__":
                continue
            separate(name, item)
        if type(value) is not type:
            separate("metaclass", type(value))
        return f"class {value.__qualname__}"

    def _object(self, value: Any, separate: Any, child: Any) -> str:
        """An object as pickle would store it."""
        kind = type(value)
        separate(f"class {kind.__qualname__}", kind)
        reduce = copyreg.dispatch_table.get(kind)
        reduced = reduce(value) if reduce is not None else value.__reduce_ex__(4)
        if isinstance(reduced, str):
            return f"global {reduced}"
        make, args, *rest = reduced
        state, items, entries = (*rest, None, None, None)[:3]
        text = [f"made by {child('constructor', make)}"]
        text += [child(f"argument {k}", item) for k, item in enumerate(args) if item is not kind]
        for k, part in enumerate(state if isinstance(state, tuple) else (state,)):
            if type(part) is dict:
                for name, item in sorted(part.items(), key=lambda pair: str(pair[0])):
                    separate(str(name), item)
            elif part is not None:
                separate(f"state {k}", part)
        if items is not None:
            separate("items", list(items))
        if entries is not None:
            separate("entries", dict(entries))
        return " ".join(text)

    def _data(self, value: Any, child: Any, name: str) -> str | None:
        """The text of plain data, which is equal in all processes for equal data. None for everything else."""
        kind = type(value)
        if value is None or kind in (bool, int, float, complex, str, type(Ellipsis), type(NotImplemented)):
            return f"{value!r}"
        if kind in (bytes, bytearray):
            return f"{kind.__name__}[{len(value)}] {_digest(bytes(value))}"
        if isinstance(value, Enum) and isinstance(value.value, (int, str)):
            return f"{value!s} {value.value!r}"
        if isinstance(value, np.dtype):
            return f"dtype {value.str}"
        if kind in (np.ndarray, *_SCALARS) and not value.dtype.hasobject:
            array = np.asarray(value)
            content = repr(value) if kind is not np.ndarray else _digest(np.ascontiguousarray(array).tobytes())
            return f"{array.dtype.str}{list(array.shape)} {content}"
        if kind in (list, tuple):
            return f"{kind.__name__}({', '.join(child(f'{name} {k}', item) for k, item in enumerate(value))})"
        if kind in (set, frozenset):
            # The order of a set differs between processes. What has a path of its own is sorted by name; all else by its text, below.
            items = sorted(value, key=lambda item: (type(item).__qualname__, _name(item)))
            return f"{kind.__name__}({', '.join(sorted(child(f'{name} item', item) for item in items))})"
        if kind is dict:
            items = sorted(value.items(), key=lambda pair: (str(type(pair[0])), str(pair[0])))
            pairs = [f"{child(name, key)}: {child(f'{name} {str(key)[:40]}', item)}" for key, item in items]
            return f"dict({', '.join(pairs)})"
        if kind in (range, slice):
            return repr(value)
        if isinstance(value, PurePath):
            return f"path {value!s}"
        return None


_SCALARS = tuple({np.dtype(code).type for code in np.typecodes["All"] if code not in "OV"})


def _short(text: str) -> str:
    return text if len(text) <= _SHOWN else f"{text[:20]}... {_digest(text.encode('utf-8', 'surrogatepass'))}"


def _name(item: object, name: str = "") -> str:
    if isinstance(item, (FunctionType, MethodType)):
        return f"{name or item.__name__}()"
    return name or getattr(item, "__name__", type(item).__name__)


def _names(code: CodeType) -> tuple[set[str], set[str], set[str]]:
    """The names of globals that the code and the functions inside it use, all names that may be attributes, and imported modules."""
    found: set[str] = set()
    attributes, imports = set(code.co_names), set[str]()
    for instruction in dis.get_instructions(code):
        if instruction.opname in _GLOBAL_OPERATIONS:
            found.add(instruction.argval)
        elif instruction.opname == "IMPORT_NAME" and instruction.argval:
            imports.add(instruction.argval)
    for item in code.co_consts:
        if isinstance(item, CodeType):
            for mine, more in zip((found, attributes, imports), _names(item), strict=True):
                mine |= more
    return found, attributes, imports


def _source(module: str, around: dict[str, object]) -> bytes | None:
    """The source of a module of the program that a function imports when it is called. None for installed modules."""
    package = around.get("__package__")
    names = [module, *([f"{package}.{module}"] if package else [])]
    loaded = next((sys.modules[name] for name in names if name in sys.modules), None)
    if loaded is not None:
        path = None if _is_installed(loaded.__name__) else getattr(loaded, "__file__", None)
    else:
        spec = None if module.partition(".")[0] in sys.stdlib_module_names else PathFinder.find_spec(module.partition(".")[0])
        path = None if spec is None else spec.origin
        if path is None or _INSTALLED.intersection(PurePath(path).parts):
            return None
    if not isinstance(path, str) or not path.endswith(".py"):
        return None
    with open(path, "rb") as file:
        return file.read()


def _code(code: CodeType) -> bytes:
    """The content of a code object. Lines and file names do not count."""
    head = (code.co_names, code.co_varnames, code.co_freevars, code.co_cellvars, code.co_argcount, code.co_kwonlyargcount,
            code.co_posonlyargcount, code.co_flags & _FLAGS, getattr(code, "co_exceptiontable", b""))  # fmt: skip
    return code.co_code + repr(head).encode() + b"".join(map(_constant, code.co_consts))


def _constant(value: object) -> bytes:
    if isinstance(value, CodeType):
        return _code(value)
    if isinstance(value, tuple):
        return b"(" + b",".join(map(_constant, value)) + b")"
    if isinstance(value, frozenset):
        return b"{" + b",".join(sorted(map(_constant, value))) + b"}"
    return f"{type(value).__name__} {value!r}".encode("utf-8", "surrogatepass")


def _library(value: object) -> str | None:
    """The name and version of a module, or of a function or class, of the standard library or an installed package."""
    if isinstance(value, ModuleType):
        name = getattr(value, "__name__", "")
        return f"module {name} {_version(name)}".rstrip() if _is_installed(name) else None
    module, name = getattr(value, "__module__", None), getattr(value, "__qualname__", None) or getattr(value, "__name__", None)
    if isinstance(value, (types.BuiltinFunctionType, types.BuiltinMethodType)) and isinstance(value.__self__, (ModuleType, type(None))):
        return f"{module}.{name}"
    if not isinstance(module, str) or not isinstance(name, str) or not _is_installed(module):
        return None
    found: Any = sys.modules.get(module)
    for part in name.split("."):
        found = getattr(found, part, None)
    return f"{module}.{name} {_version(module)}".rstrip() if found is value else None


@functools.lru_cache(1024)
def _is_installed(module: str) -> bool:
    """Whether a module belongs to the standard library or an installed package, and not to the program."""
    top = module.partition(".")[0]
    if top == "__main__":
        return False
    if top in _OUR_OWN or top in sys.stdlib_module_names:
        return True
    path = getattr(sys.modules.get(module) or sys.modules.get(top), "__file__", None)
    if not isinstance(path, str):
        return getattr(getattr(sys.modules.get(top), "__spec__", None), "origin", None) in ("built-in", "frozen")
    return not _INSTALLED.isdisjoint(PurePath(path).parts)


@functools.lru_cache(256)
def _version(module: str) -> str:
    top = module.partition(".")[0]
    if top in sys.stdlib_module_names or top in _OUR_OWN:
        return ""  # Python's and our own versions are compared anyway
    try:
        return metadata.version(top)
    except Exception:  # the distribution has another name
        return str(getattr(sys.modules.get(top), "__version__", ""))

"""Exceptions as plain data, for processes that cannot share objects: workers, engines, and engines on other machines.

:func:`described` makes JSON data of an exception: the name of its class, arguments, attributes, notes, cause, context, and members.
:func:`rebuilt` makes the exception again. It calls no constructor and unpickles nothing. A class is named, never imported: it must exist in
a module that this process has imported already.
"""

from __future__ import annotations

import base64
import builtins
import contextlib
import functools
import json
import os
import sys
import traceback
from collections.abc import Callable
from pathlib import PurePath
from types import GetSetDescriptorType, MemberDescriptorType, ModuleType
from typing import Any

PROGRAM = "_asyncdali_program_"
"""``asyncdali engine`` loads FILE.py as a module of this name and ``FILE``. The trainer has it as ``FILE``, or as its main module."""

_BaseGroup: Any = getattr(builtins, "BaseExceptionGroup", ())  # Python 3.10 has no groups
_Group: Any = getattr(builtins, "ExceptionGroup", None)

_BUDGET = 32_000
"""Most characters of JSON that the values of an exception and its relatives take together, for messages between machines. Longer values
are cut or left out. A traceback takes at most 3/4 of the number of characters, the text of an exception 1/4, and a note 1/8."""
_MOST = 32
"""Exceptions that are described together: causes, contexts, members of groups."""
_DEEPEST = 8
"""Nested containers of an argument."""
_HEAP_TYPE = 1 << 9
"""The flag of classes that are not built in (``Py_TPFLAGS_HEAPTYPE``)."""
_DIGITS = 4000
"""Digits of an integer. Python's decoder of JSON refuses numbers above 4300."""

# ------------------------------------------------------------------------------------------------------------- exception -> data


class Told:
    """A base of exceptions that show the text that they are given, in place of that of another base."""

    _asyncdali_text: str | None = None

    def __str__(self) -> str:
        found = self._asyncdali_text
        return super().__str__() if found is None else found


_FAILURES = (Exception, SystemExit, GeneratorExit)
"""Exceptions that the code of an exception may raise while it is shown. An exit would end a thread that others wait for."""


def described(
    error: BaseException, formatted: str | None = None, without: tuple[type[BaseException], ...] = (), most: int = _BUDGET
) -> dict[str, Any]:  # fmt: skip
    """An exception and its relatives as JSON data. Never raises because of methods of the exception.

    `formatted`: its traceback as text. `without`: classes of relatives that are left out. `most`: see `_BUDGET`.
    """
    order: list[BaseException] = []
    numbers: dict[int, int] = {}
    budget = _Budget(most)

    def number_of(relative: BaseException | None) -> int | None:
        if relative is None or isinstance(relative, without):
            return None
        if id(relative) not in numbers:
            if len(order) >= _MOST:
                return None
            numbers[id(relative)] = len(order)
            order.append(relative)
        return numbers[id(relative)]

    number_of(error)
    nodes = []
    for item in order:  # the list grows meanwhile
        node = _node(item, budget, number_of)
        node["cause"], node["context"] = number_of(item.__cause__), number_of(item.__context__)
        node["suppress"] = item.__suppress_context__
        nodes.append(node)
    return {"errors": nodes, "trace": _cut(trace_of(error) if formatted is None else formatted, 3 * most // 4)}


def trace_of(error: BaseException, found: Any = None) -> str:
    """The traceback as text, also if the exception cannot show itself. `found`: another traceback of the exception."""
    try:
        return "".join(traceback.format_exception(type(error), error, error.__traceback__ if found is None else found))
    except _FAILURES as failure:  # a notes object, a cause or a __str__ that fails
        lines = "".join(traceback.format_tb(error.__traceback__ if found is None else found))
        shown = f"{_named(type(error))}: {text_of(error)}\n(showing it: {_named(type(failure))})"
        return f"Traceback (most recent call last):\n{lines}{shown}\n"


def text_of(error: BaseException) -> str:
    """``str(error)``. If it fails, words that say so."""
    try:
        return str.__str__(str(error))
    except _FAILURES as failure:
        return f"(a {type(error).__name__} whose text cannot be shown: its __str__ raised {_named(type(failure))})"


def _named(kind: type) -> str:
    return kind.__qualname__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__qualname__}"


def _cut(text: str, most: int) -> str:
    return text if len(text) <= most else f"{text[: most // 4]}\n... ({len(text) - most} characters)\n{text[-3 * most // 4 :]}"


class _Unplain(Exception):
    """A value that is no plain data."""


class _Budget:
    def __init__(self, most: int):
        self.left, self.text, self.note = most, most // 4, most // 8

    def take(self, value: Any) -> Any:
        """`value`, which is JSON data, if there is room for it. Else _Unplain."""
        size = len(json.dumps(value))
        if size > self.left:
            raise _Unplain
        self.left -= size
        return value


def _node(error: BaseException, budget: _Budget, number_of: Callable[[BaseException | None], int | None]) -> dict[str, Any]:
    kind = type(error)
    text = text_of(error)
    bases = [item for item in kind.__mro__ if issubclass(item, BaseException)]
    node: dict[str, Any] = {"classes": [[item.__module__, item.__qualname__] for item in bases][:16], "program": program_name()}
    members = getattr(error, "exceptions", None) if isinstance(error, _BaseGroup) else None
    if members is not None:
        node["members"] = [number for number in map(number_of, members) if number is not None]
        node["message"] = _cut(str(getattr(error, "message", "")), budget.note)
    plain = functools.partial(_plain, number_of=number_of)
    node["text"] = _cut(text, budget.text)
    node["args"] = [] if members is not None else [_or_text(item, budget, plain) for item in _arguments(error)]
    node["state"] = {name: _or_none(value, budget, plain) for name, value in _state(error).items()}
    notes = getattr(error, "__notes__", ())
    node["notes"] = [_cut(item, budget.note) for item in notes if isinstance(item, str)][:16] if isinstance(notes, (list, tuple)) else []
    return node


def _arguments(error: BaseException) -> tuple[object, ...]:
    found = BaseException.args.__get__(error)  # type: ignore[attr-defined]
    return found[:64] if isinstance(found, tuple) else ()


def _state(error: BaseException) -> dict[str, Any]:
    """The attributes of an exception: those of its dictionary, of slots, and of built-in classes (``errno``, ``encoding``, ``value``)."""
    found: dict[str, Any] = {}
    for name, slot in _slots(_hashable(type(error))).items():
        try:
            value = slot.__get__(error)
        except _FAILURES:  # an empty slot
            continue
        if value is not None:
            found[name] = value
    found.update((name, value) for name, value in _dictionary(error).items() if isinstance(name, str) and name != "__notes__")
    return found


def _dictionary(error: BaseException) -> dict[str, Any]:
    try:
        return dict(object.__getattribute__(error, "__dict__"))
    except _FAILURES:
        return {}


def _hashable(kind: type) -> type:
    """The class. mypy takes exception classes for unhashable."""
    return kind


@functools.lru_cache(256)
def _slots(kind: Any) -> dict[str, Any]:
    """The members of the class and its bases that no dictionary holds, by name."""
    found: dict[str, Any] = {}
    for base in kind.__mro__:
        built_in = not base.__flags__ & _HEAP_TYPE
        if built_in and (base in (BaseException, object) or issubclass(base, _BaseGroup)):
            continue
        kinds = (MemberDescriptorType, GetSetDescriptorType) if built_in else (MemberDescriptorType,)
        for name, member in vars(base).items():
            if isinstance(member, kinds) and not (name.startswith("__") and name.endswith("__")):
                found.setdefault(name, member)
    return found


def _or_text(value: Any, budget: _Budget, plain: Callable[[Any], Any]) -> object:
    """A value as JSON data. A value that is no plain data becomes its text, so that the others keep their places."""
    try:
        return budget.take(plain(value))
    except _FAILURES:
        return ["str", _shown(value)]


def _or_none(value: Any, budget: _Budget, plain: Callable[[Any], Any]) -> object:
    """A value as JSON data, or None: an attribute that cannot be carried exists, but is empty."""
    try:
        return budget.take(plain(value))
    except _FAILURES:
        return None


def _shown(value: object) -> str:
    try:
        return _cut(repr(value), 400)
    except _FAILURES:
        return f"<{type(value).__name__}>"


def _plain(value: Any, deep: int = 0, *, number_of: Callable[[BaseException | None], int | None]) -> object:
    """A value as JSON data: scalars as they are, everything else as [kind, content]. _Unplain if it is something else."""
    kind = type(value)
    if value is None or kind is bool or kind is float:
        return value
    if isinstance(value, str):
        return str.__str__(value)
    if isinstance(value, int):
        number = int.__int__(value)
        if number.bit_length() > 3 * _DIGITS:
            raise _Unplain
        return number
    if isinstance(value, float):
        return float.__float__(value)
    if kind in (bytes, bytearray):
        return [kind.__name__, base64.b64encode(value).decode()]
    if deep >= _DEEPEST:
        raise _Unplain
    again = functools.partial(_plain, deep=deep + 1, number_of=number_of)
    if kind in (list, tuple, set, frozenset):
        return [kind.__name__, [again(item) for item in value]]
    if isinstance(value, dict):
        return ["dict", [[again(key), again(item)] for key, item in dict.items(value)]]
    if kind in (complex, range, slice):
        fields = (value.real, value.imag) if kind is complex else (value.start, value.stop, value.step)
        return [kind.__name__, [again(item) for item in fields]]
    if isinstance(value, PurePath):
        return ["path", os.fspath(value)]
    if isinstance(value, BaseException):
        place = number_of(value)
        if place is not None:
            return ["error", place]
    numpy = sys.modules.get("numpy")
    if numpy is not None and isinstance(value, numpy.dtype) and not value.hasobject:
        return ["dtype", value.str]
    if numpy is not None and isinstance(value, (numpy.generic, numpy.ndarray)) and not value.dtype.hasobject and value.dtype.names is None:
        return ["numpy", [value.dtype.str, list(value.shape), base64.b64encode(value.tobytes()).decode(), isinstance(value, numpy.generic)]]
    raise _Unplain


# ------------------------------------------------------------------------------------------------------------- data -> exception


def rebuilt(data: object, fallback: type[Exception], local: bool = True) -> Exception:
    """The exception that :func:`described` described. `fallback` is a subclass of :class:`Told`.

    `local`: the other process works for this one, so its main program is this one's.

    A class that this process cannot name is replaced by its nearest base that it can name, together with `fallback`. A class whose text
    would differ is combined with `fallback`, too. Only subclasses of Exception are made.

    ValueError for data that :func:`described` does not make.
    """
    nodes = _checked(data)
    if local:
        nodes = [{**node, "program": program_name()} for node in nodes]
    made = [_bare(node, fallback) for node in nodes]
    for number in reversed(range(len(nodes))):  # members are described behind their group
        if nodes[number].get("members") and _Group is not None:
            made[number] = _group(nodes[number], made, number, fallback)
    for error, node in zip(made, nodes, strict=True):
        _filled(error, node, made)
    for number, node in enumerate(nodes):
        made[number] = _telling(made[number], node, fallback)
    for error, node in zip(made, nodes, strict=True):
        if node["cause"] is not None:
            error.__cause__ = made[node["cause"]]
        if node["context"] is not None:
            error.__context__ = made[node["context"]]
        error.__suppress_context__ = node["suppress"]
    first: Exception = made[0]
    return first


def last_of(error: BaseException) -> BaseException:
    """The end of the chain of causes and contexts that a traceback shows."""
    seen = {id(error)}
    while True:
        following = error.__cause__
        if following is None and not error.__suppress_context__:
            following = error.__context__
        if following is None or id(following) in seen:
            return error
        seen.add(id(following))
        error = following


def _checked(data: Any) -> list[dict[str, Any]]:
    """The nodes of `data`, every field of which has the right type."""
    nodes = data.get("errors") if isinstance(data, dict) else None
    if not isinstance(nodes, list) or not 1 <= len(nodes) <= _MOST or not isinstance(data.get("trace"), str):
        raise ValueError("an exception is described by a list of errors and a trace")
    for node in nodes:
        good = (
            isinstance(node, dict)
            and _is_list(node.get("classes"), _is_name)
            and node["classes"]
            and isinstance(node.get("program", 0), (str, type(None)))
            and isinstance(node.get("text"), str)
            and isinstance(node.get("args"), list)
            and isinstance(node.get("state"), dict)
            and _is_list(node.get("notes"), _is_text)
            and _is_list([node.get("cause", -1), node.get("context", -1)], lambda item: item is None or _is_number(item, len(nodes)))
            and isinstance(node.get("suppress"), bool)
            and _is_list(node.get("members", []), lambda item: _is_number(item, len(nodes)))
            and isinstance(node.get("message", None if "members" in node else ""), str)
        )
        if not good:
            raise ValueError("the description of an exception has a field of a wrong type")
    return nodes


def _is_list(value: Any, good: Callable[[Any], bool]) -> bool:
    return isinstance(value, list) and all(map(good, value))


def _is_text(value: object) -> bool:
    return isinstance(value, str)


def _is_name(value: Any) -> bool:
    return _is_list(value, _is_text) and len(value) == 2


def _is_number(value: Any, end: int) -> bool:
    return type(value) is int and 0 <= value < end


def _class_of(node: dict[str, Any]) -> tuple[type[Exception], bool]:
    """The first class of a node that this process can name, and whether it is the exception's own."""
    for place, (module, name) in enumerate(node["classes"]):
        found = named(module, name, node["program"])
        if found is not None:
            return found, place == 0
    return Exception, False


def named(module: str, qualname: str, program: str | None = None) -> type[Exception] | None:
    """The exception class of this name, if a module that is already imported has it. Nothing is imported, and no user's code runs."""
    for name in _modules(module, program):
        found: Any = sys.modules.get(name)
        if not isinstance(found, ModuleType):
            continue
        for part in qualname.split("."):
            found = vars(found).get(part) if isinstance(found, (ModuleType, type)) else None
        if isinstance(found, type) and issubclass(found, Exception):
            return found
    return None


def _modules(module: str, program: str | None) -> list[str]:
    """The names that a module of the sender may have here. A program is the main module of one process and an import of another one."""
    stem = program if module == "__main__" else module.removeprefix(PROGRAM)
    main = program_name()
    found = [] if module == "__main__" and program != main else [module]
    if stem is not None:
        found += [stem, PROGRAM + stem]
        if stem == main:
            found.append("__main__")
    return found


def program_name() -> str | None:
    """The name of the main module's file without ``.py``, or of the package that ``python -m`` runs."""
    main = sys.modules.get("__main__")
    spec, path = getattr(main, "__spec__", None), getattr(main, "__file__", None)
    if isinstance(getattr(spec, "name", None), str):
        return str(spec.name).removesuffix(".__main__").rpartition(".")[2]  # type: ignore[union-attr]
    return os.path.splitext(os.path.basename(path))[0] if isinstance(path, str) else None


def _base(kind: type[BaseException]) -> type:
    """The built-in class whose constructor makes the memory of an instance: the largest one, and of those the nearest."""
    return max((base for base in kind.__mro__ if not base.__flags__ & _HEAP_TYPE), key=lambda base: base.__basicsize__)


def _bare(node: dict[str, Any], fallback: type[Exception]) -> Any:
    """The exception without attributes and relatives."""
    kind, own = _class_of(node)
    name = node["classes"][0][1]
    return _new(kind) if own else both(fallback, kind, f"{name}: {node['text']}" if node["text"] else name, name)


def _new(kind: type[BaseException], *args: Any) -> Any:
    """An exception of the class, by the constructor of its built-in base: the class's own one may want other arguments."""
    base = _base(kind)
    if issubclass(base, _BaseGroup):
        args = args or ("", [Exception()])
    return base.__new__(kind, *args)


def both(fallback: type[Exception], kind: type[Exception], text: str, name: str = "") -> Any:
    """A `fallback` that is also a `kind`, if Python can make such a class. Its text is `text`."""
    error: Any = None
    if kind not in (Exception, fallback):
        try:
            error = _new(kind if issubclass(kind, fallback) else _both(_hashable(fallback), _hashable(kind), name or kind.__qualname__))
        except _FAILURES:  # no common memory layout, a metaclass, or a class that refuses subclasses
            error = None
    if error is None:
        error = fallback(text)
    BaseException.args.__set__(error, (text,))  # type: ignore[attr-defined]
    error._asyncdali_text = text
    return error


def retold(error: Exception, text: str, fallback: type[Exception]) -> Any:
    """A copy of `error` with another text: a `fallback` of the same class, if Python can make such a class."""
    kind = type(error)
    told = both(fallback, kind, text)
    if isinstance(error, _BaseGroup) and isinstance(told, _BaseGroup):
        told = _new(type(told), error.message, error.exceptions)
        told._asyncdali_text = text
    elif isinstance(told, kind):
        BaseException.args.__set__(told, error.args)  # type: ignore[attr-defined]
        for slot in _slots(_hashable(kind)).values():
            with contextlib.suppress(Exception):  # empty, or read-only
                slot.__set__(told, slot.__get__(error))
    for name, value in _dictionary(error).items():
        told.__dict__.setdefault(name, value)
    return told


@functools.lru_cache(256)
def _both(fallback: Any, kind: Any, name: str) -> type[Exception]:
    last = name.rpartition(".")[2]
    return type(last, (fallback, kind), {"__module__": kind.__module__, "__qualname__": last})


def _group(node: dict[str, Any], made: list[Any], own: int, fallback: type[Exception]) -> Any:
    """A group with its members. A group of which no class can be named becomes an ExceptionGroup."""
    kind, named_here = _class_of(node)
    members = [made[number] for number in node["members"] if number != own]
    if not named_here or not issubclass(kind, _BaseGroup) or not members:
        kind = _Group
    return _new(kind, node["message"], members or [fallback(node["text"])])


def _filled(error: Any, node: dict[str, Any], made: list[Any]) -> None:
    """Set arguments, attributes and notes."""
    if not isinstance(error, _BaseGroup):
        args = tuple(_value(item, made) for item in node["args"])
        if args or not error.args:
            BaseException.args.__set__(error, args)  # type: ignore[attr-defined]
    slots = _slots(_hashable(type(error)))
    for name, item in node["state"].items():
        value = _value(item, made)
        try:
            if name in slots:
                slots[name].__set__(error, value)
            elif not (name.startswith("__") and name.endswith("__")) and not hasattr(BaseException, name):
                # An attribute in place of a method, such as `with_traceback`, would break its callers.
                error.__dict__.setdefault(name, value)
        except _FAILURES:  # a read-only member
            continue
    if node["notes"]:
        error.__notes__ = list(node["notes"])


def _telling(error: Any, node: dict[str, Any], fallback: type[Exception]) -> Any:
    """The exception, if it shows the text that it had. Else a copy with this text."""
    if isinstance(error, (fallback, _BaseGroup)):
        return error
    try:
        if node["text"] in (str(error), _cut(str(error), _BUDGET // 4)):
            return error
    except _FAILURES:  # an attribute that was left out
        pass
    return retold(error, node["text"], fallback)


def _value(data: Any, made: list[Any], deep: int = 0) -> object:
    """The value that :func:`_plain` encoded. ValueError for other data."""
    if deep > _DEEPEST:  # data from elsewhere must not reach the interpreter's limit of recursion
        raise ValueError("no value of an exception: it is nested too deeply")
    if not isinstance(data, (list, dict)):
        return data
    if isinstance(data, dict) or len(data) != 2 or not isinstance(data[0], str):
        raise ValueError("no value of an exception")
    kind, content = data
    if kind in ("bytes", "bytearray") and isinstance(content, str):
        found = base64.b64decode(content, validate=True)
        return found if kind == "bytes" else bytearray(found)
    if kind in ("str", "path") and isinstance(content, str):
        return content if kind == "str" else PurePath(content)
    if kind == "error" and _is_number(content, len(made)):
        return made[content]
    if kind == "dtype" and isinstance(content, str):
        return _dtype(content)
    if not isinstance(content, list):
        raise ValueError("no value of an exception")
    try:
        if kind == "numpy":
            return _array(*content)
        if kind == "dict":
            return {_value(key, made, deep + 1): _value(item, made, deep + 1) for key, item in content}
        make: Any = {"list": list, "tuple": tuple, "set": set, "frozenset": frozenset}.get(kind)
        if make is not None:
            return make(_value(item, made, deep + 1) for item in content)
        return {"complex": complex, "range": range, "slice": slice}[kind](*(_value(item, made, deep + 1) for item in content))
    except (TypeError, KeyError, OverflowError) as error:
        raise ValueError(f"no value of an exception: {error}") from None


def _dtype(text: str) -> Any:
    import numpy as np

    try:
        found = np.dtype(text)
    except TypeError as error:
        raise ValueError(str(error)) from None
    if found.hasobject or found.names is not None:
        raise ValueError("no plain element type")
    return found


def _array(dtype: str, shape: list[int], content: str, scalar: bool) -> Any:
    import numpy as np

    if not isinstance(dtype, str) or not isinstance(content, str) or not _is_list(shape, lambda item: _is_number(item, 1 << 31)):
        raise ValueError("no array")
    found = np.frombuffer(base64.b64decode(content, validate=True), _dtype(dtype)).reshape(shape).copy()
    return found[()] if scalar else found

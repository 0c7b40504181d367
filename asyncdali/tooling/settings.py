"""``--set NAME=VALUE``: arguments of the function that makes a pipeline, given on the command line.

A value has the type that the function declares: by the annotation, else by the default. A value for an argument that declares nothing is a
literal (3, 0.5, true, [1, 2], null), or else a text.
"""

from __future__ import annotations

import ast
import collections.abc
import contextlib
import enum
import inspect
import json
import os
import types
import typing
from collections.abc import Callable, Collection, Iterable
from dataclasses import MISSING, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..messages.notices import near
from ..options import PipelineOptions
from .program import ProgramError, innermost, name_of

if TYPE_CHECKING:
    import argparse

_UNKNOWN = object()
_BOOLEANS = {"true": True, "yes": True, "1": True, "on": True, "false": False, "no": False, "0": False, "off": False}
_SEQUENCES = (list, tuple, collections.abc.Sequence, collections.abc.Iterable)


def add_argument(parser: argparse.ArgumentParser) -> None:
    """Add ``--set`` to the parser of a command."""
    parser.add_argument(
        "--set", action="append", default=[], metavar="NAME=VALUE",
        help="an argument of the function that makes the pipeline, or an option of the pipeline; may be repeated",
    )  # fmt: skip


def settings_of(function: object, given: Iterable[str], others: Collection[str] = ()) -> dict[str, object]:
    """The values that `given` has (texts NAME=VALUE) for arguments of `function`. ProgramError names what is wrong.

    `others`: arguments that another option of the command has set.
    """
    texts: dict[str, str] = {}
    for item in given:
        name, equals, text = item.partition("=")
        if not equals or not name.isidentifier():
            raise ProgramError(f"--set {item!r} is not of the form NAME=VALUE")
        if name in texts:
            raise ProgramError(f"--set {name} is given twice: {texts[name]} and {text}")
        if name in others:
            raise ProgramError(f"--set {name}={text}: another option of the command sets {name}, too; give one of them")
        texts[name] = text
    if not texts:
        return {}
    if not callable(function):
        raise ProgramError(f"--set {next(iter(texts))}: a pipeline that exists already takes no arguments; name the function that makes it")
    declared, open_ended = _declared(function)
    found = {}
    for name, text in texts.items():
        if name not in declared and not open_ended:
            known = sorted(name for name in declared if name not in _options(function))
            has = f"It has {', '.join(known)}" if known else "It has none of its own"
            raise ProgramError(f"--set {name}: {name_of(function)}() has no argument {name!r}.{near(name, declared)} {has}")
        kind, default = declared.get(name, (Any, _UNKNOWN))
        value = _value(text, kind if kind is not Any else _kind_of(default))
        if value is _UNKNOWN:
            raise ProgramError(f"--set {name}={text}: {name} of {name_of(function)}() is {_described(kind, default)}")
        found[name] = value
    return found


def shown(values: dict[str, Any]) -> dict[str, Any]:
    """The values for reports: texts in place of objects that JSON does not have."""
    return {name: value if type(value) in (bool, int, float, str, list, type(None)) else str(value) for name, value in values.items()}


def _declared(function: Callable[..., object]) -> tuple[dict[str, tuple[object, object]], bool]:
    """Annotation and default of each argument, and whether the function takes others, too."""
    found = dict(_options(function))
    open_ended = False
    try:
        hints = typing.get_type_hints(innermost(function))
    except Exception:  # an annotation that is only known to a type checker
        hints = {}
    for name, item in inspect.signature(function).parameters.items():
        if item.kind is item.VAR_KEYWORD:
            open_ended = True
        elif item.kind in (item.POSITIONAL_OR_KEYWORD, item.KEYWORD_ONLY):
            found[name] = hints.get(name, Any), _UNKNOWN if item.default is item.empty else item.default
    return found, open_ended


def _options(function: object) -> dict[str, tuple[object, object]]:
    """The options of pipelines, for functions made by @pipeline_def."""
    if not getattr(innermost(function), "_is_pipeline_def", False):
        return {}
    hints = typing.get_type_hints(PipelineOptions)
    return {item.name: (hints[item.name], _UNKNOWN if item.default is MISSING else item.default) for item in fields(PipelineOptions)}


def _kind_of(default: object) -> object:
    """The type that a default declares. None and objects that no text describes declare nothing."""
    return type(default) if isinstance(default, (bool, int, float, str, list, tuple, dict, Path, enum.Enum)) else Any


def _value(text: str, kind: object) -> object:
    """The text as a value of a type. _UNKNOWN: it is none."""
    origin, inner = typing.get_origin(kind), typing.get_args(kind)
    if kind is Any or kind is object:
        literal = _literal(text)
        return text if literal is _UNKNOWN else literal
    if kind in (None, type(None)):
        return None if text.lower() in ("none", "null") else _UNKNOWN
    if origin in (typing.Union, types.UnionType):
        tried = sorted(inner, key=lambda item: item is str)  # every text is a str, so str comes last
        return next((value for value in (_value(text, item) for item in tried) if value is not _UNKNOWN), _UNKNOWN)
    if origin is typing.Literal:
        return next((item for item in inner if _value(text, type(item)) == item), _UNKNOWN)
    if origin is typing.Annotated:
        return _value(text, inner[0])
    if origin in _SEQUENCES or kind in _SEQUENCES:
        return _sequence(text, list if (origin or kind) is list else tuple if (origin or kind) is tuple else list, inner)
    return _plain(text, kind if isinstance(kind, type) else origin)


def _plain(text: str, kind: object) -> object:
    """The same for types without parameters."""
    if kind is bool:
        return _BOOLEANS.get(text.lower(), _UNKNOWN)
    if kind in (int, float):
        literal = _literal(text)
        if kind is float and text.lower() in ("inf", "-inf", "nan"):
            return float(text)
        if isinstance(literal, bool) or not isinstance(literal, (int, float)) or (kind is int and literal != int(literal)):
            return _UNKNOWN
        return kind(literal)
    if kind is str:
        literal = _literal(text)
        return literal if isinstance(literal, str) else text  # the text may be given with quotation marks
    if isinstance(kind, type) and issubclass(kind, enum.Enum):
        return kind.__members__.get(text.rpartition(".")[2], _UNKNOWN)
    if isinstance(kind, type) and issubclass(kind, os.PathLike):
        return Path(text)
    literal = _literal(text)
    if isinstance(kind, type) and kind.__module__ == "builtins":
        return literal if isinstance(literal, kind) else _UNKNOWN
    return text if literal is _UNKNOWN else literal  # a type of the user's, which checks the value itself


def _sequence(text: str, kind: type, inner: tuple[object, ...]) -> object:
    literal = _literal(text)
    if not isinstance(literal, (list, tuple)):
        return _UNKNOWN
    endless = kind is list or len(inner) < 2 or inner[-1] is ...
    if not endless and len(inner) != len(literal):
        return _UNKNOWN
    kinds = [inner[0] if inner else Any] * len(literal) if endless else inner
    values = [_value(item if isinstance(item, str) else json.dumps(item), wanted) for item, wanted in zip(literal, kinds)]
    return _UNKNOWN if any(value is _UNKNOWN for value in values) else kind(values)


def _literal(text: str) -> object:
    """The value of a literal of JSON or Python; _UNKNOWN: a text without quotes."""
    for read in (json.loads, ast.literal_eval):
        with contextlib.suppress(ValueError, SyntaxError, TypeError, MemoryError, RecursionError):  # of both: a text may be deep or long
            return read(text)
    return _UNKNOWN


def _described(kind: object, default: object) -> str:
    """A type for people, with its choices."""
    kind = kind if kind is not Any else _kind_of(default)
    if isinstance(kind, type) and issubclass(kind, enum.Enum):
        return f"one of {', '.join(kind.__members__)}"
    if kind is bool:
        return "true or false"
    if typing.get_origin(kind) is typing.Literal:
        return f"one of {', '.join(map(str, typing.get_args(kind)))}"
    return f"of type {kind.__name__ if isinstance(kind, type) and not typing.get_args(kind) else str(kind).replace('typing.', '')}"

"""Shifted clocks and fresh globals for runs of a program, which give the same data if the program resumes exactly."""

from __future__ import annotations

import collections
import contextlib
import copy
import datetime
import functools
import sys
import sysconfig
import time
import types
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

_SHIFT = datetime.timedelta(days=400, hours=7, minutes=13, seconds=17, milliseconds=300)
"""Changes year, month, day, hour, minute and second."""
_SECONDS = _SHIFT.total_seconds()
_OUR_OWN = {"asyncdali", "asyncdali_workers"}
_CONTAINERS = (dict, list, set, bytearray, collections.deque, collections.OrderedDict, collections.defaultdict, collections.Counter)


def _modules_of_the_program() -> Iterator[types.ModuleType]:
    """All modules that are neither installed nor Python's nor ours."""
    standard = Path(sysconfig.get_paths()["stdlib"])
    for name, module in list(sys.modules.items()):
        file = getattr(module, "__file__", None)
        if not isinstance(file, str) or name.partition(".")[0] in _OUR_OWN:
            continue
        path = Path(file)
        if standard not in path.parents and not {"site-packages", "dist-packages"}.intersection(path.parts):
            yield module


class FreshGlobals:
    """The containers that are globals of the program's modules, as they are now. A new process would begin with them."""

    def __init__(self) -> None:
        self._kept: list[tuple[Any, Any]] = []
        self._caches: list[Any] = []
        for module in _modules_of_the_program():
            for name, value in list(vars(module).items()):
                if type(value) in _CONTAINERS and not (name.startswith("__") and name.endswith("__")):
                    self._kept.append((value, copy.copy(value)))
                elif isinstance(value, functools._lru_cache_wrapper):
                    self._caches.append(value)

    def restore(self) -> None:
        """Give the containers their contents back, and empty the caches of functions."""
        for value, before in self._kept:
            value.clear()
            (value.update if hasattr(value, "update") else value.extend)(before)
        for cache in self._caches:
            cache.cache_clear()


@contextlib.contextmanager
def another_time() -> Iterator[None]:
    """The modules of the program see the clocks of ``time`` and ``datetime`` shifted by 400 days. Nothing else does: caches have ages."""
    changed: list[tuple[dict[str, Any], str, Any]] = []
    others = _shifted()
    try:
        for module in _modules_of_the_program():
            names = vars(module)
            for name, value in list(names.items()):
                found = others.get(id(value))
                if found is not None:
                    changed.append((names, name, value))
                    names[name] = found
        yield
    finally:
        for names, name, value in changed:
            names[name] = value


def _shifted() -> dict[int, object]:
    """The shifted clocks by the identity of those that they stand for."""

    class Kind(type):
        def __instancecheck__(cls, value: object) -> bool:
            return isinstance(value, cls.__bases__[0])

    class Date(datetime.date, metaclass=Kind):
        def __new__(cls, *args: int, **options: int) -> datetime.date:  # type: ignore[misc]  # pickle knows this class
            return datetime.date(*args, **options)

        @classmethod
        def today(cls) -> datetime.date:  # type: ignore[override]
            return (datetime.datetime.now() + _SHIFT).date()

    class DateTime(datetime.datetime, metaclass=Kind):
        def __new__(cls, *args: int, **options: int) -> datetime.datetime:  # type: ignore[misc]
            return datetime.datetime(*args, **options)  # type: ignore[arg-type]

        @classmethod
        def now(cls, tz: datetime.tzinfo | None = None) -> datetime.datetime:  # type: ignore[override]
            return datetime.datetime.now(tz) + _SHIFT

        @classmethod
        def utcnow(cls) -> datetime.datetime:  # type: ignore[override]
            return datetime.datetime.now(datetime.timezone.utc).replace(tzinfo=None) + _SHIFT

        today = now  # type: ignore[assignment]

    def of(name: str, moment: Callable[..., object]) -> Callable[..., object]:
        real = getattr(time, name)

        @functools.wraps(real)
        def shifted(*given: object) -> object:
            return moment(real, *given)

        return shifted

    def later(real: Callable[[float], object], seconds: float | None = None) -> object:
        return real(time.time() + _SECONDS if seconds is None else seconds)

    functions = {
        "time": of("time", lambda real: real() + _SECONDS),
        "time_ns": of("time_ns", lambda real: real() + int(_SECONDS * 1e9)),
        "localtime": of("localtime", later), "gmtime": of("gmtime", later), "ctime": of("ctime", later),
        "asctime": of("asctime", lambda real, moment=None: real(time.localtime(time.time() + _SECONDS) if moment is None else moment)),
        "strftime": of(
            "strftime",
            lambda real, form, moment=None: real(form, time.localtime(time.time() + _SECONDS) if moment is None else moment),
        ),
    }  # fmt: skip
    found: dict[int, object] = {id(getattr(time, name)): function for name, function in functions.items()}
    found[id(time)] = _module_with(time, functions)
    found[id(datetime)] = _module_with(datetime, {"date": Date, "datetime": DateTime})
    return {**found, id(datetime.date): Date, id(datetime.datetime): DateTime}


def _module_with(module: types.ModuleType, others: Mapping[str, object]) -> types.ModuleType:
    """A module with other contents, which is pickled as the module itself."""
    made = types.ModuleType(module.__name__)
    vars(made).update(vars(module))
    vars(made).update(others)
    return made

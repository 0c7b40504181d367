"""Errors of a pool, and the transport of a callable's exception from a worker to the receiver of its batch."""

from __future__ import annotations

import functools
import io
import pickle
import sys
import traceback
from typing import Any, cast


class WorkerError(RuntimeError):
    """Base class of the errors of a pool."""


class WorkerCallbackError(WorkerError):
    """A source failed, or returned something that is no sample.

    If its own exception is known, this error is also an instance of its class.
    """

    message = ""

    def __init__(self, *args: Any):
        super().__init__(*args)
        self.message = str(args[0]) if args else ""

    def __str__(self) -> str:
        return self.message

    def __reduce__(self) -> tuple[Any, ...]:
        return _plain, (self.message,)  # the combined class exists only in this process


class WorkerDied(WorkerError):
    """A worker process ended while it worked on the batch, and repeating the work did not help."""


class WorkerTimeout(WorkerError):
    """A callable took longer than ``worker_timeout``."""


class PoolClosed(WorkerError):
    """The pool is closed, or has not been started."""


def _plain(message: str) -> WorkerCallbackError:
    return WorkerCallbackError(message)


# ---------------------------------------------------------------------------------------------------------- in the worker


def encode_exception(error: BaseException, where: str) -> bytes:
    """An exception as bytes. Parts that cannot be pickled are left out."""
    kind = type(error)
    lines = traceback.format_exception(kind, error, _users_part(error))
    args = _pickled(_arguments(error))
    state = _pickled({name: value for name, value in vars(error).items() if not name.startswith("__")})
    return pickle.dumps((kind.__module__, kind.__qualname__, args, state, _text(error), "".join(lines), where))


def _arguments(error: BaseException) -> tuple[Any, ...]:
    """The arguments that make this exception again. Some classes have more than their `args`."""
    try:
        reduced = error.__reduce__()
        if isinstance(reduced, tuple) and reduced[0] is type(error) and isinstance(reduced[1], tuple):
            return reduced[1]
    except Exception:  # a class of the user cannot say it; `args` is what Python itself would use
        pass
    return tuple(error.args)


def _users_part(error: BaseException) -> Any:
    """The traceback without the pool's own outermost frames."""
    found = error.__traceback__
    while found is not None and found.tb_next is not None and found.tb_frame.f_globals.get("__name__", "").startswith(__package__ or "-"):
        found = found.tb_next
    return found


def _pickled(value: Any) -> bytes | None:
    try:
        return pickle.dumps(value)
    except Exception:  # methods of the user's classes run here; the parent makes another error with the same text
        return None


def _text(error: BaseException) -> str:
    try:
        return str(error)
    except Exception:  # the user's own __str__ fails
        return f"(a {type(error).__name__} that cannot be shown)"


# ---------------------------------------------------------------------------------------------------------- in the parent

_BUILTINS = {"complex", "set", "frozenset", "bytearray", "range", "slice", "int", "float", "bool", "str", "bytes", "list", "tuple", "dict"}


class _Restricted(pickle.Unpickler):
    """Unpickles only exception classes of modules that are already imported, builtin containers, and numpy's scalars."""

    def find_class(self, module: str, name: str) -> Any:
        if module == "builtins" and name in _BUILTINS:
            return super().find_class(module, name)
        if module in ("numpy", "numpy.core.multiarray", "numpy._core.multiarray") and name in ("dtype", "scalar"):
            return super().find_class(module, name)
        found = _exception_class(module, name)
        if found is None:
            raise pickle.UnpicklingError(f"{module}.{name} is not accepted from a worker")
        return found


def _restricted(data: bytes) -> Any:
    return _Restricted(io.BytesIO(data)).load()


def _exception_class(module: str, qualname: str) -> type[BaseException] | None:
    found: Any = sys.modules.get(module)
    for name in qualname.split("."):
        found = getattr(found, name, None)
    return found if isinstance(found, type) and issubclass(found, BaseException) else None


def decode_exception(data: bytes, what: str) -> WorkerCallbackError:
    """The exception for the bytes of `encode_exception`. Its message begins with `what`."""
    module, qualname, args, state, text, lines, where = _restricted(data)
    original = _rebuilt(module, qualname, args, state)
    # The kind and the text come first, because readers often miss the last line of a long traceback.
    name = qualname if module == "builtins" else f"{module}.{qualname}"
    message = f"{what}{where}: {name}: {text}\n\nTraceback in the worker:\n{lines}"
    arguments = _arguments(original) if original is not None else ()
    error = combined(type(original), arguments, message) if isinstance(original, Exception) else WorkerCallbackError(message)
    if original is not None:
        for key, value in vars(original).items():
            error.__dict__.setdefault(key, value)
    error.__cause__ = RuntimeError(text) if original is None else original
    return error


def _rebuilt(module: str, qualname: str, args: bytes | None, state: bytes | None) -> BaseException | None:
    kind = _exception_class(module, qualname)
    if kind is None or args is None:
        return None
    try:
        made = kind(*_restricted(args))
        if state is not None:
            made.__dict__.update(_restricted(state))
        return made
    except Exception:  # the user's constructor refuses, or a module is missing here; `combined` is what the caller raises then
        return None


def combined(kind: type[BaseException], args: tuple[Any, ...], message: str) -> WorkerCallbackError:
    """A WorkerCallbackError that is also a `kind`, if Python can make such a class."""
    try:
        cls = _combined_class(cast(Any, kind))
        error = _new(cls, kind, args)
        kind.__init__(error, *args)
    except Exception:  # no common class, or the user's constructor refuses the arguments: the message is what counts
        return WorkerCallbackError(message)
    error.message = message
    return error


def _new(cls: type[WorkerCallbackError], kind: type[BaseException], args: tuple[Any, ...]) -> WorkerCallbackError:
    try:
        return kind.__new__(cls, *args)
    except TypeError:  # built-in classes require the constructor of the first base
        return BaseException.__new__(cls, *args)


@functools.lru_cache(256)
def _combined_class(kind: Any) -> type[WorkerCallbackError]:
    return type(kind.__name__, (WorkerCallbackError, kind), {"__module__": kind.__module__, "__qualname__": kind.__qualname__})

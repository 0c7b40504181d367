"""Errors of a pool, and the transport of a callable's exception from a worker to the receiver of its batch."""

from __future__ import annotations

import json
from collections.abc import Callable

from .exceptions import Told, both, described, rebuilt, retold, trace_of

_MOST = 32 << 20
"""Most characters of a described exception. A worker is on the same machine, so long texts and arguments arrive whole."""


class WorkerError(RuntimeError):
    """Base class of the errors of a pool."""


class WorkerCallbackError(Told, WorkerError):
    """A source failed, or returned something that is no sample.

    If its own exception is known, this error is also an instance of its class.
    """

    def __reduce__(self) -> tuple[Callable[[str], WorkerCallbackError], tuple[str]]:
        return _plain, (str(self),)  # the combined class exists only in this process


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
    """An exception as bytes. Parts that are no plain data are left out."""
    data = described(error, trace_of(error, _users_part(error)), most=_MOST)
    return json.dumps({**data, "where": where}).encode()


def _users_part(error: BaseException) -> object:
    """The traceback without the pool's own outermost frames."""
    found = error.__traceback__
    while found is not None and found.tb_next is not None and found.tb_frame.f_globals.get("__name__", "").startswith(__package__ or "-"):
        found = found.tb_next
    return found


# ---------------------------------------------------------------------------------------------------------- in the parent


def decode_exception(encoded: bytes, what: str) -> WorkerCallbackError:
    """The exception for the bytes of `encode_exception`. Its message begins with `what`."""
    data = json.loads(encoded)
    # The kind and the text come first, because readers often miss the last line of a long traceback.
    first = data["errors"][0]
    module, qualname = first["classes"][0]
    name = qualname if module == "builtins" else f"{module}.{qualname}"
    message = f"{what}{data['where']}: {name}: {first['text']}\n\nTraceback in the worker:\n{data['trace']}"
    return retelling(data, message)


def retelling(data: dict[str, object], message: str) -> WorkerCallbackError:
    """A WorkerCallbackError with this message that is also of the class of a described exception, which is its cause."""
    original = rebuilt(data, WorkerCallbackError)
    error: WorkerCallbackError = retold(original, message, WorkerCallbackError)
    error.__cause__ = original
    return error


def combined(kind: type[Exception], message: str) -> WorkerCallbackError:
    """A WorkerCallbackError that is also a `kind`, if Python can make such a class."""
    made: WorkerCallbackError = both(WorkerCallbackError, kind, message)
    return made

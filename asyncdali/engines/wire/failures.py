"""Errors of an engine as data. The training process raises the error that the same iteration would have raised there."""

from __future__ import annotations

from typing import Any

from asyncdali_workers.exceptions import Told, described, last_of, rebuilt

from ...errors import RaisedBefore


class EngineError(Told, RuntimeError):
    """An engine's error whose class the training process cannot name. Its text begins with the name of the class.

    It is also an instance of the nearest base of this class that the training process can name.
    """

    def __reduce__(self) -> tuple[type[EngineError], tuple[str]]:
        return EngineError, (str(self),)  # a combined class exists only in this process


def packed(error: BaseException) -> dict[str, object]:
    """An error as JSON data: classes, arguments, attributes, notes, causes, members, and the traceback as text."""
    found: dict[str, Any] = described(error, without=(RaisedBefore,))
    return found


def unpacked(data: Any, local: bool = True) -> Exception:
    """The error that :func:`packed` encoded. ValueError for other data. `local`: an engine of this process encoded it."""
    error: Exception = rebuilt(data, EngineError, local)
    last = last_of(error)
    if last.__cause__ is None:  # else the chain is a circle
        last.__cause__ = RaisedBefore(data["trace"])
    return error

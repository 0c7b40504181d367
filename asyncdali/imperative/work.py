"""Calls that are computed later: when one of their results is read, or when their context is left."""

from __future__ import annotations

import copy
import functools
import logging
import sys
import threading
import weakref
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from ..batch import Batch as Samples
from ..errors import OperatorError, without_tracebacks

log = logging.getLogger("asyncdali")

Called = TypeVar("Called", bound=Callable[..., Any])


class KnownOutput:
    """The facts about an output before it is computed. None: it has to be computed."""

    __slots__ = ("count", "device", "dtype", "layout", "ndim", "shapes")

    def __init__(
        self, dtype: object = None, ndim: int | None = None, layout: str | None = None, device: str = "cpu", shapes: object = None,
        count: int | None = None,
    ):  # fmt: skip
        """`layout` "": it has none;  count: number of samples."""
        self.dtype, self.ndim, self.layout, self.device, self.shapes, self.count = dtype, ndim, layout, device, shapes, count


class Reads:
    """The outputs of a call whose memory the program has got, so that it may have been changed: a bit for each. It may outlive the call."""

    __slots__ = ("bits",)

    def __init__(self) -> None:
        self.bits = 0


class DelayedCall:
    """One call. Any thread may ask for its outputs; the first one computes them. An error is raised at each request."""

    __slots__ = ("__weakref__", "_compute", "_error", "_lock", "_made", "declared", "dependents", "reads", "told", "where")

    def __init__(self, compute: Callable[[], Sequence[Samples]], declared: Sequence[KnownOutput], where: str):
        """`where`: the user's line that made the call."""
        self._compute: Callable[[], Sequence[Samples]] | None = compute
        self._made: Sequence[Samples] = ()
        self._error: Exception | None = None
        self._lock = threading.Lock()
        self.declared = declared
        self.where = where
        self.dependents: dict[int, list[weakref.ReferenceType[DelayedCall]]] = {}
        """By output: calls that will be computed of it, before the program gets its memory, which it may change."""
        self.reads = Reads()
        self.told = False
        """Whether its error was raised."""

    @property
    def is_done(self) -> bool:
        """Whether it is computed, or its error was raised."""
        return self._compute is None and (self._error is None or self.told)

    def finish_dependents(self, number: int) -> None:
        """Compute the calls that need output `number` as it is."""
        waiting = self.dependents.get(number)
        while waiting:
            dependent = waiting.pop()()
            if dependent is not None:
                dependent.compute()

    def compute(self) -> None:
        """Compute the outputs. An error is raised when the outputs are asked for."""
        if self._compute is not None:
            with self._lock:
                if self._compute is not None:
                    try:
                        self._made = self._compute()
                    except Exception as error:
                        log.debug("a delayed call failed", exc_info=error)
                        self._error, self.where = without_tracebacks(error), getattr(error, "called_at", self.where)
                    self._compute = None

    def batches(self) -> Sequence[Samples]:
        """The outputs. Raises the error of the call, with the lines of the call and of the read."""
        self.compute()
        if self._error is not None:
            self.told = True
            raise _again(self._error, self.where)
        return self._made


def _again(error: Exception, called_at: str) -> Exception:
    """The error of a call for another read: it names the line of the call and the line of the read. Its cause is the operator's error."""
    try:
        made = copy.copy(error)
    except Exception:  # a class with its own arguments
        made = error
    made.called_at = called_at  # type: ignore[attr-defined]
    if isinstance(made, OperatorError):
        made.line = called_at
    made.__cause__ = error.__cause__ or error
    note = f"Called at {called_at}, read at {users_line()}."
    if hasattr(made, "add_note"):
        made.__notes__ = []
        made.add_note(note)
    elif made.args:
        made.args = f"{made.args[0]}\n{note}", *made.args[1:]
    return made.with_traceback(None)


def plainly(error: Exception) -> Exception:
    """The error of a call for the user, without the library's frames. The log has them, at the level DEBUG."""
    log.debug("a call failed", exc_info=error)
    return error.with_traceback(None)


def without_frames(function: Called) -> Called:
    """Decorator of functions that users call: their errors have one frame of the library."""

    @functools.wraps(function)
    def called(*args: object, **kwargs: object) -> Any:
        try:
            return function(*args, **kwargs)
        except Exception as error:
            raise plainly(error) from None

    return called  # type: ignore[return-value]


def users_line() -> str:
    """The user's line that is being executed: "file.py:12"."""
    frame: Any = sys._getframe(1)
    while frame is not None and frame.f_globals.get("__name__", "").startswith("asyncdali."):
        frame = frame.f_back
    return "an unknown line" if frame is None else f"{frame.f_code.co_filename}:{frame.f_lineno}"

"""The stack of current pipelines of each thread, and the trace of a user's operator call."""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass
from types import FrameType
from typing import TYPE_CHECKING, NamedTuple

from ..system.entered import Entered, Leave

if TYPE_CHECKING:
    from .node import Definition

_LIBRARY = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep


class CurrentPipeline(NamedTuple):
    """A pipeline that was made current on a thread."""

    pipeline: object
    definition: Definition | None
    depth: int
    """Frames of the user's program below the place where the pipeline was entered."""


_entered = Entered()


def current() -> object:
    """The pipeline being defined on this thread, or None."""
    found: CurrentPipeline | None = _entered.innermost() if _entered.entries else None
    return None if found is None else found.pipeline


def definition() -> Definition | None:
    """The target of operators that are called on this thread: the current pipeline's definition, or None."""
    found: CurrentPipeline | None = _entered.innermost() if _entered.entries else None
    return None if found is None else found.definition


def push(pipeline: object, definition: Definition | None) -> object:
    """Make `pipeline` current, and add operators to its `definition`; returns the pipeline before."""
    previous = current()
    enter(pipeline, pipeline, definition)
    return previous


def enter(manager: object, pipeline: object, definition: Definition | None) -> None:
    """:func:`push` for the ``__enter__`` of `manager`, whose ``__exit__`` is :data:`leave`."""
    _entered.enter(manager, CurrentPipeline(pipeline, definition, _depth(sys._getframe(1))))


leave = Leave(_entered)


class Defining:
    """A context in which `pipeline` is current, and operators are added to `definition`."""

    __slots__ = ("_definition", "_pipeline")

    def __init__(self, pipeline: object, definition: Definition | None):
        self._pipeline, self._definition = pipeline, definition

    def __enter__(self) -> None:
        enter(self, self._pipeline, self._definition)

    __exit__ = leave


def _depth(frame: FrameType | None) -> int:
    """Number of frames from `frame` to the bottom of the stack, without frames of the library."""
    count = 0
    while frame is not None:
        count += not frame.f_code.co_filename.startswith(_LIBRARY)
        frame = frame.f_back
    return count


def pop() -> None:
    """Leave the current pipeline; AttributeError if there is none."""
    if not _entered.leave_innermost():
        raise AttributeError("there is no current pipeline to pop on this thread")


@dataclass(frozen=True)
class UserFrame:
    """One line of user code that leads to an operator call."""

    filename: str
    line: int
    function: str

    def format(self) -> str:
        import linecache

        text = linecache.getline(self.filename, self.line).strip()
        where = f'  File "{self.filename}", line {self.line}, in {self.function}'
        return f"{where}\n    {text}" if text else where


def user_trace() -> tuple[UserFrame, ...]:
    """Frames from the user's graph function to the operator call, without frames of the library.

    The walk stops at the library frame that called the graph function, at the function with the ``with pipeline:`` block, or at module
    level.
    """
    frames: list[UserFrame] = []
    frame = sys._getframe(1)
    while frame is not None:
        name = frame.f_code.co_filename
        if name.startswith(_LIBRARY):
            if frames:
                break
        else:
            frames.append(UserFrame(name, frame.f_lineno, frame.f_code.co_name))
            if frame.f_code.co_name == "<module>":
                break
        frame = frame.f_back  # type: ignore[assignment]
    found: CurrentPipeline | None = _entered.innermost()
    if found is not None:
        frames = frames[: max(1, _depth(sys._getframe(1)) - found.depth + 1)]
    return tuple(reversed(frames))

"""The stack of current pipelines of each thread, and the trace of a user's operator call."""

from __future__ import annotations

import os
import sys
import threading
from dataclasses import dataclass
from types import FrameType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .node import Definition

_LIBRARY = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep


@dataclass(frozen=True)
class Entered:
    """A pipeline that was made current on a thread."""

    pipeline: object
    definition: Definition | None
    depth: int
    """Frames of the user's program below the place where the pipeline was entered."""


class _Stack(threading.local):
    def __init__(self) -> None:
        self.items: list[Entered] = []


_stack = _Stack()


def current() -> object:
    """The pipeline being defined on this thread, or None."""
    return _stack.items[-1].pipeline if _stack.items else None


def definition() -> Definition | None:
    """The target of operators that are called on this thread: the current pipeline's definition, or None."""
    return _stack.items[-1].definition if _stack.items else None


def push(pipeline: object, definition: Definition | None) -> object:
    """Make `pipeline` current, and add operators to its `definition`; returns the pipeline before."""
    previous = current()
    _stack.items.append(Entered(pipeline, definition, _depth(sys._getframe(1))))
    return previous


def _depth(frame: FrameType | None) -> int:
    """Number of frames from `frame` to the bottom of the stack, without frames of the library."""
    count = 0
    while frame is not None:
        count += not frame.f_code.co_filename.startswith(_LIBRARY)
        frame = frame.f_back
    return count


def pop() -> None:
    """Leave the current pipeline; AttributeError if there is none."""
    if not _stack.items:
        raise AttributeError("there is no current pipeline to pop on this thread")
    _stack.items.pop()


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
    if _stack.items:
        entered = _stack.items[-1].depth
        frames = frames[: max(1, _depth(sys._getframe(1)) - entered + 1)]
    return tuple(reversed(frames))

"""Ctrl-C at chosen places of the program, always the same ones, for tests whose outcome must not depend on chance.

CPython checks for signals after a call, after a backward jump, and where a function begins or resumes. Before the following instructions, a
trace function calls the handler of SIGINT, as a signal would. KeyboardInterrupt is raised there, or noted inside ``uninterrupted()``.
"""

from __future__ import annotations

import dis
import functools
import os
import signal
import sys
import zlib
from collections.abc import Callable
from pathlib import Path
from types import CodeType, FrameType
from typing import Any, NamedTuple

import asyncdali_workers

import asyncdali

_ROOMS = tuple(os.path.join(os.path.dirname(module.__file__), "") for module in (asyncdali, asyncdali_workers))
_LIBRARY = os.path.dirname(os.__file__)
_CONCURRENT = ["concurrent/futures/_base", "concurrent/futures/thread"]
_MODULES = ["contextlib", "socket", "subprocess", "threading", "queue", "selectors", *_CONCURRENT]
_FILES = frozenset(os.path.join(_LIBRARY, f"{name}.py") for name in _MODULES)
"""The rest of the standard library opens no resources for us, or works on other threads."""


class Place(NamedTuple):
    """The place before the instruction at `offset` of a function, at the `count`-th time."""

    code: CodeType
    offset: int
    count: int

    def __str__(self) -> str:
        line = next((line for start, stop, line in self.code.co_lines() if start <= self.offset < stop), None)
        return f"line {line}: {self.name}, time {self.count}"

    @property
    def name(self) -> str:
        """A key that does not change when other lines of the file change."""
        function = getattr(self.code, "co_qualname", self.code.co_name)
        return f"{Path(self.code.co_filename).name}, {function}, offset {self.offset}"


@functools.cache
def offsets(code: CodeType) -> frozenset[int]:
    """The places of a function where signals are handled.

    Excluded are places between a call and the return of its result. Since Python 3.11 no signal is handled there after a call of a Python
    function (``take_next`` relies on it). After other calls the place behind the caller's own call is equivalent.
    """
    found, after = set(), False
    for instruction in dis.get_instructions(code):
        name = instruction.opname
        if after and name != "CACHE":
            if name != "RETURN_VALUE":
                found.add(instruction.offset)
            after = False
        if name == "RESUME" or (name.startswith("CALL") and not name.startswith("CALL_INTRINSIC")):
            after = True
        elif name.startswith("JUMP_BACKWARD") or (name == "JUMP_ABSOLUTE" and instruction.argval <= instruction.offset):
            found.add(instruction.argval)
    return frozenset(found)


@functools.cache
def _ours(file: str) -> bool:
    return file.startswith(_ROOMS) or file in _FILES


def _finalizes(frame: FrameType | None) -> bool:
    while frame is not None:
        if frame.f_code.co_name == "__del__":
            return True
        frame = frame.f_back
    return False


class PlacedInterrupts:
    """Ctrl-C below calls of `function` on the main thread, where this object must be made, too.

    Finalizers are excluded: Python ignores their exceptions. Switch the garbage collector off, so that no finalizer runs by chance.

    Attributes:
        came: whether the program reached the place of the last :meth:`at`.
    """

    def __init__(self, function: Callable[..., Any]):
        self._code = function.__code__
        self._inside = 0
        self.came = False
        self._counts: dict[tuple[CodeType, int], int] = {}
        self._place: Place | None = None
        signal.signal(signal.SIGINT, signal.default_int_handler)
        os.register_at_fork(after_in_child=lambda: sys.settrace(None))

    def chosen(self, call: Callable[[], Any], parts: int, part: int = 0) -> list[Place]:
        """One in `parts` of the places that `call` passes, always the same ones. With ``parts == 1`` all places, and each also for the
        second and the last time.
        """
        found = self.places(call)
        if parts > 1:
            return [place for place in (Place(*key, 1) for key in found) if zlib.crc32(place.name.encode()) % parts == part]
        return [Place(*key, count) for key, most in found.items() for count in sorted({1, min(2, most), most})]

    def places(self, call: Callable[[], Any]) -> dict[tuple[CodeType, int], int]:
        """The places that `call` passes below `function`: the count of each (code, offset), in the order of first visits."""
        self._counts, self._place = {}, None
        self._trace(call)
        return self._counts

    def at(self, place: Place, call: Callable[[], Any]) -> None:
        """Run `call`, with an interrupt at `place` if the program reaches it."""
        self._counts, self._place, self.came = {}, place, False
        self._trace(call)

    def _trace(self, call: Callable[[], Any]) -> None:
        self._inside = 0
        sys.settrace(self._entered)
        try:
            call()
        finally:
            sys.settrace(None)

    def _entered(self, frame: FrameType, event: str, argument: Any) -> Any:
        code = frame.f_code
        if code is self._code:
            self._inside += 1
            frame.f_trace_opcodes = True
            return self._outermost
        wanted = code is self._place.code if self._place is not None else _ours(code.co_filename) and offsets(code)
        if not self._inside or not wanted or _finalizes(frame):
            return None
        frame.f_trace_lines = False
        frame.f_trace_opcodes = True
        return self._passed

    def _outermost(self, frame: FrameType, event: str, argument: Any) -> Any:
        if event == "return":
            self._inside -= 1
        else:
            self._passed(frame, event, argument)
        return self._outermost

    def _passed(self, frame: FrameType, event: str, argument: Any) -> Any:
        if event != "opcode" or frame.f_lasti not in offsets(frame.f_code):
            return self._passed
        key = frame.f_code, frame.f_lasti
        self._counts[key] = self._counts.get(key, 0) + 1
        if self._place is not None and self._place == (*key, self._counts[key]):
            sys.settrace(None)
            self.came = True
            handler = signal.getsignal(signal.SIGINT)
            assert callable(handler)
            handler(signal.SIGINT, frame)
        return self._passed

"""The captured loop that the calls of a thread belong to.

Calls are below the modules that make loops, so they find the loop here.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple, Protocol

from ..system import forks

if TYPE_CHECKING:
    from .bricks import Brick
    from .engine import CallEngine
    from .rng import RNG
    from .values import DynamicValue
    from .work import DelayedCall


class LoopCall(NamedTuple):
    """A call inside of a loop.

    data      positional inputs, then argument inputs
    position  of the random stream; None: it draws nothing
    rng       the generator it has drawn from
    """

    brick: Brick
    engine: CallEngine
    data: Sequence[DynamicValue]
    samples: int
    is_batch: bool
    position: object = None
    rng: RNG | None = None


class Loop(Protocol):
    """The part of a loop that calls use. `asked`: the program wants it to be captured; else only calls of mode `eager` belong to it."""

    ended: bool
    asked: bool

    def call(self, given: LoopCall) -> DelayedCall:
        """The outputs of a call: computed ahead, or now."""


class _Loops(threading.local):
    def __init__(self) -> None:
        self.stack: list[Loop] = []
        self.pid = forks.pid


_loops = _Loops()


def entered_loops() -> list[Loop]:
    """The loops of the calling thread, also those that have ended. It is one list for the life of the thread."""
    return _loops.stack


def current_loop() -> Loop | None:
    """The innermost captured loop of the calling thread that goes on. A forked child has no threads of its parent's loops."""
    if _loops.pid != forks.pid:
        _loops.stack.clear()
        _loops.pid = forks.pid
    stack = _loops.stack
    while stack:
        if not stack[-1].ended:
            return stack[-1]
        stack.pop()
    return None


def enter(loop: Loop) -> None:
    """The calling thread is in the body of `loop` from now on."""
    stack = _loops.stack
    if not stack or stack[-1] is not loop:
        if loop in stack:
            stack.remove(loop)
        stack.append(loop)

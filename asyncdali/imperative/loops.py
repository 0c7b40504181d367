"""The captured loop that the calls of a thread belong to.

Calls are below the modules that make loops, so they find the loop here.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from ..sampling.random_streams import drawn_position
from ..system import forks

if TYPE_CHECKING:
    from .bricks import Brick
    from .engine import CallEngine
    from .rng import RNG, Place
    from .values import DynamicValue
    from .work import DelayedCall


class LoopCall(NamedTuple):
    """A call inside of a loop.

    data      positional inputs, then argument inputs
    place     of the generator, from where the call has drawn; None: it draws nothing
    rng       the generator
    """

    brick: Brick
    engine: CallEngine
    data: Sequence[DynamicValue]
    samples: int
    is_batch: bool
    place: Place | None = None
    rng: RNG | None = None

    @property
    def position(self) -> object:
        """The position of the random stream."""
        return None if self.place is None else drawn_position(*self.place)


class Loop(Protocol):
    """The part of a loop that calls use. `asked`: the program wants it to be captured; else only calls of mode `eager` belong to it."""

    ended: bool
    asked: bool

    def expected(self, brick: Brick, data: Sequence[object], batch_size: object, rng: object) -> Any:
        """A call that was computed ahead and is the next one, if it has these arguments; see :meth:`take`."""

    def take(self, found: Any, place: Place | None) -> DelayedCall | None:
        """The outputs of an expected call that draws from `place`; None: it was computed for another place, or has an error."""

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

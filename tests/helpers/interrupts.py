"""Ctrl-C for programs that count batches. An interrupt may come at any instant of a call; between calls it waits for the next call.

Between the return of a call and the line that counts its result, no program could tell a lost batch from a batch not counted yet.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from types import FrameType
from typing import Any


class Interrupts:
    """Handles SIGINT: raises KeyboardInterrupt if `function` is on the main thread's stack, once per call; otherwise tries again soon.

    Attributes:
        raised: the number of raised interrupts.
    """

    def __init__(self, function: Callable[..., Any]):
        self.raised = 0
        self._code = function.__code__
        self._over = False
        self._last: FrameType | None = None
        signal.signal(signal.SIGINT, self._come)
        signal.signal(signal.SIGALRM, lambda *_: os.kill(os.getpid(), signal.SIGINT))

    def _come(self, number: int, frame: FrameType | None) -> None:
        while frame is not None:
            if frame.f_code is self._code and frame is not self._last:
                self._last = frame
                self.raised += 1
                raise KeyboardInterrupt
            frame = frame.f_back
        if not self._over and signal.getitimer(signal.ITIMER_REAL) == (0, 0):
            signal.setitimer(signal.ITIMER_REAL, 2e-5)

    def after(self, seconds: float) -> None:
        """Interrupt once, at the first chance after this number of seconds."""
        self._over = False
        signal.setitimer(signal.ITIMER_REAL, seconds)

    def rain(self, seconds: float) -> None:
        """Interrupt repeatedly, with this number of seconds in between. 0: stop."""
        self._over = seconds == 0
        signal.setitimer(signal.ITIMER_REAL, seconds, seconds)

"""Exceptions that the handler of a signal raises inside of chosen functions, again and again."""

from __future__ import annotations

import os
import random
import signal
from collections.abc import Callable
from types import FrameType
from typing import Any


class Late(Exception):
    pass


class Later(BaseException):
    pass


class Storm:
    """Raises inside of the functions `where`, 0.2 ms to `longest` seconds apart. Between them, no program could tell what was lost."""

    def __init__(self, number: int, raised: type[BaseException], *where: Callable[..., Any], longest: float = 2e-3):
        self.raised, self.count, self.on, self.longest = raised, 0, True, longest
        self.codes = {function.__code__ for function in where}
        self.timer = signal.SIGALRM
        self.number = number
        signal.signal(signal.SIGALRM, self.forward if number != signal.SIGALRM else self.come)
        signal.signal(number, self.come)

    def forward(self, number: int, frame: FrameType | None) -> None:
        os.kill(os.getpid(), self.number)

    def come(self, number: int, frame: FrameType | None) -> None:
        if not self.on:
            return
        inside = frame
        while inside is not None and inside.f_code not in self.codes:
            inside = inside.f_back
        if inside is None:
            signal.setitimer(signal.ITIMER_REAL, 2e-5)
            return
        self.count += 1
        signal.setitimer(signal.ITIMER_REAL, random.uniform(2e-4, self.longest))
        raise self.raised

    def begin(self) -> None:
        signal.setitimer(signal.ITIMER_REAL, 1e-3)

    def end(self) -> None:
        self.on = False
        signal.setitimer(signal.ITIMER_REAL, 0)

"""Steps that Ctrl-C must not interrupt."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any


@contextmanager
def uninterrupted() -> Iterator[None]:
    """Delays an interrupt until the end of the block. Only the main thread is ever interrupted."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    handler = signal.getsignal(signal.SIGINT)
    if not callable(handler) or isinstance(handler, _Later):
        yield
        return
    later = _Later()
    try:
        signal.signal(signal.SIGINT, later)
    except ValueError:  # not in the main interpreter
        yield
        return
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, handler)
        if later.came is not None:
            handler(*later.came)


class _Later:
    came: tuple[int, Any] | None = None

    def __call__(self, number: int, frame: Any) -> None:
        self.came = (number, frame)

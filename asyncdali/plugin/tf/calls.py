"""Ends calls of TensorFlow's threads into Python before the interpreter ends.

A data set that prefetches continues in TensorFlow's own threads while the program ends. A thread that needs the interpreter lock then never
gets it, and the destructor of the iterator waits for this thread forever. So at exit all calls fail immediately. The failed calls fill the
queues with errors, and the interpreter waits until no more calls come.
"""

from __future__ import annotations

import atexit
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

_QUIET = 0.1  # seconds without a call
_PATIENCE = 3.0

_changed = threading.Condition()
_active = 0
_count = 0
_ending = False


@contextmanager
def call() -> Iterator[None]:
    """Wraps functions that TensorFlow calls. RuntimeError while the interpreter ends."""
    global _active, _count
    with _changed:
        _count += 1
        _changed.notify_all()
        if _ending:
            raise RuntimeError("the program is ending")
        _active += 1
    try:
        yield
    finally:
        with _changed:
            _active -= 1
            _changed.notify_all()


@atexit.register
def _end() -> None:
    global _ending
    limit = time.monotonic() + _PATIENCE
    with _changed:
        _ending = True
        if _count == 0:
            return
        while time.monotonic() < limit:
            before = _count
            quiet = not _changed.wait(_QUIET)
            if quiet and _active == 0 and _count == before:
                return

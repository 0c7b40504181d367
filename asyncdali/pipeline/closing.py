"""Closes open pipelines before the interpreter exits, so that threads and worker processes end first."""

from __future__ import annotations

import atexit
import weakref
from typing import Protocol


class Closable(Protocol):
    """The core of a pipeline."""

    def close(self) -> None: ...


_open: weakref.WeakSet[Closable] = weakref.WeakSet()


def close_at_exit(core: Closable) -> None:
    """Close a pipeline at the interpreter's exit, if it still is open then."""
    if not _open:
        atexit.unregister(_close_all)
        atexit.register(_close_all)
    _open.add(core)


def _close_all() -> None:
    for core in list(_open):
        core.close()

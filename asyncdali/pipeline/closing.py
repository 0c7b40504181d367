"""Closes open pipelines before the interpreter exits, so that threads and worker processes end first."""

from __future__ import annotations

import atexit
import weakref
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .pipeline import Pipeline

_open: weakref.WeakSet[Pipeline] = weakref.WeakSet()


def close_at_exit(pipeline: Pipeline) -> None:
    """Close `pipeline` at the interpreter's exit, if it is still open then."""
    if not _open:
        atexit.unregister(_close_all)
        atexit.register(_close_all)
    _open.add(pipeline)


def _close_all() -> None:
    for pipeline in list(_open):
        pipeline._close()

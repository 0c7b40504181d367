"""Imports of other threads, while this process forks.

Each module that is being imported has a lock. A child that is forked meanwhile inherits the lock without the thread that would release it,
and its own import of the module would wait forever. So a fork waits for imports of other threads. Some import takes too long, or waits for
the thread that forks. Then the child forgets the import, and imports the module again.
"""

from __future__ import annotations

import _imp
import importlib._bootstrap
import logging
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

LIMIT = 10.0
"""Longest time in seconds that a fork waits for imports of other threads."""
_PAUSE = 0.005

log = logging.getLogger("asyncdali")

_locks: dict[str, Any] = getattr(importlib._bootstrap, "_module_locks", {})
"""The interpreter's locks: name of a module -> weak reference to its lock."""


def _importing() -> list[str]:
    """The modules that other threads are importing."""
    me = threading.get_ident()
    found = []
    for name, reference in list(_locks.items()):
        lock = reference()
        if lock is not None and getattr(lock, "owner", None) not in (None, me):
            found.append(name)
    return found


@contextmanager
def no_imports() -> Iterator[None]:
    """While the block runs, no other thread begins an import. Those that have begun are waited for, at most :data:`LIMIT` seconds."""
    limit = time.monotonic() + LIMIT
    while True:
        _imp.acquire_lock()
        names = _importing()
        if not names or time.monotonic() >= limit:
            break
        _imp.release_lock()
        time.sleep(_PAUSE)
    try:
        if names:
            log.warning(
                "a process is forked while another thread imports %s, which has taken longer than %.0f s. The new process imports again. "
                "Build the pipeline after these imports", ", ".join(names), LIMIT,
            )  # fmt: skip
        yield
    finally:
        _imp.release_lock()


def forget_imports() -> None:
    """Runs in a forked child: forget the imports of threads that do not exist here."""
    for name in _importing():
        _locks.pop(name, None)
        module = sys.modules.get(name)
        if getattr(getattr(module, "__spec__", None), "_initializing", False):
            del sys.modules[name]

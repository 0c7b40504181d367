"""Refuses interpreters that the packages do not work with.

Free-threaded builds of Python have no interpreter lock. Queues, pools of memory and reference counts here rely on the lock: an append to
a deque is seen whole, and a finaliser does not run beside the code that it changes. Nothing of this was tried without the lock. An
extension of such a build also has another layout of objects, so running it with PYTHON_GIL=1 is refused, too.
"""

from __future__ import annotations

import sys


def require() -> None:
    """Raise ImportError on a free-threaded build."""
    if "t" in getattr(sys, "abiflags", ""):
        raise ImportError(
            f"asyncdali does not run on free-threaded builds of Python, and {sys.executable or 'this interpreter'} is one "
            f"(version {sys.version.split()[0]}). It needs the interpreter lock. Use the standard build of the same version: "
            "its name has no t at the end (python3.13, not python3.13t)."
        )

"""The interpreter for fresh processes of this program, and what they get of it.

``sys.executable`` need not be an interpreter: in an embedding or frozen program (uWSGI, PyInstaller, Blender) it is the application, and
starting it again starts the application. ``multiprocessing.set_executable`` names the interpreter of such programs.
"""

from __future__ import annotations

import os
import subprocess
import sys
from typing import Any


def interpreter() -> str | None:
    """The program that starts a fresh interpreter. None if none is known."""
    own = sys.executable or None
    if getattr(sys, "frozen", False):
        own = None
    given = _given()
    if given is not None and given != sys.executable and (_is_python(given) or own is None or not _is_python(own)):
        return given  # `multiprocessing.set_executable` was called
    return own if own is not None and _is_python(own) else None


def required_interpreter(what: str) -> str:
    """:func:`interpreter`. RuntimeError, beginning with `what`, if none is known."""
    found = interpreter()
    if found is None:
        frozen = " and the program is frozen (sys.frozen)" if getattr(sys, "frozen", False) else ""
        raise RuntimeError(
            f"{what}: a fresh Python interpreter is needed, and sys.executable is {sys.executable!r}{frozen}, which is not known to be "
            "one. Call multiprocessing.set_executable() with the path of the interpreter, or use the start method 'fork'."
        )
    return found


def _given() -> str | None:
    """The interpreter that multiprocessing would start, if the program has loaded that module."""
    spawn = sys.modules.get("multiprocessing.spawn")
    found = None if spawn is None else spawn.get_executable()
    return os.fsdecode(found) if found else None


def _is_python(path: str) -> bool:
    """Whether a program's file name is that of an interpreter: python3.11, /usr/bin/python3 or a link to one."""
    return any("python" in os.path.basename(name).lower() for name in (path, os.path.realpath(path)))


def streams() -> dict[str, Any]:
    """Arguments of Popen for the standard streams. A stream that this program was started without is /dev/null.

    The number of such a stream may belong to a file of the program by now.
    """
    names = ("stdin", "stdout", "stderr")
    return {name: subprocess.DEVNULL for name in names if getattr(sys, f"__{name}__") is None}


def keep_standard_descriptors() -> None:
    """Open /dev/null as those of the descriptors 0, 1 and 2 that are closed.

    Otherwise a file or socket of ours gets the number. What is printed would be written into it, and libuv (uvloop) ends the process when a
    loop closes a descriptor below 3.
    """
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            opened = os.open(os.devnull, os.O_RDWR)
            if opened == number:
                os.set_inheritable(opened, True)
            else:
                os.close(opened)  # another thread has opened a file meanwhile


def manager_key() -> bytes | None:
    """The key with which proxies of multiprocessing's managers connect. None if the program does not use multiprocessing."""
    process = sys.modules.get("multiprocessing.process")
    return None if process is None else bytes(process.current_process().authkey)


def use_manager_key(key: bytes | None) -> None:
    """Let a fresh process connect to the managers of its parent."""
    if key is not None:
        from multiprocessing.process import current_process

        current_process().authkey = key

"""Kernels that another process compiles while work continues without them.

A pipeline need not wait for a kernel that only makes something faster. If such a kernel is not in the disk cache, another process compiles
it, and this process loads it from the cache afterwards.

A thread starts the other process and waits for it, so no zombie is left. The other process dies with this one: Linux sends SIGKILL when the
thread ends. ``ASYNCDALI_COMPILE_AHEAD=0`` turns this off: every kernel is compiled at its first use.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import signal
import subprocess
import sys
import threading
from typing import TYPE_CHECKING

from .._processes import python_command

if TYPE_CHECKING:
    from .step import Compiled

_PR_SET_PDEATHSIG = 1  # from <sys/prctl.h>
DIE_WITH_PARENT = f"""
import ctypes, os, sys
ctypes.CDLL(None).prctl({_PR_SET_PDEATHSIG}, {int(signal.SIGKILL)})
if os.getppid() != int(sys.argv[1]):
    os._exit(1)  # the parent died before the signal was asked for
"""
"""Start of a helper's program; its argument is this process's id. The death signal is set first, because importing Numba takes a second."""
_PROGRAM = f"""
{DIE_WITH_PARENT}
import importlib
os.nice(10)
getattr(importlib.import_module(sys.argv[2]), sys.argv[3]).compile()
"""
_lock = threading.Lock()
_watchers: dict[tuple[str, str], threading.Thread] = {}
_processes: dict[tuple[str, str], subprocess.Popen[bytes]] = {}
_starts: dict[tuple[str, str], int] = {}
_MOST_STARTS = 3


_left_out = threading.Event()


def leave_out() -> None:
    """From now on this process does not use such kernels. It is a helper of another process, which compiles them itself."""
    _left_out.set()


def address_or_later(kernel: Compiled) -> int:
    """Address of a kernel, loaded if it is in the cache; 0 while another process compiles it."""
    if kernel.ready:
        return kernel.address
    if _left_out.is_set():
        return 0
    with _lock:
        return 0 if _is_being_compiled(kernel) else kernel.address


def _is_being_compiled(kernel: Compiled) -> bool:
    watcher = _watchers.get(kernel.place)
    if watcher is not None and watcher.is_alive():
        return True
    if os.environ.get("ASYNCDALI_COMPILE_AHEAD", "1") == "0" or sys.platform != "linux" or getattr(sys, "frozen", False):
        return False
    from .cache import for_child, keeps

    starts = _starts.get(kernel.place, 0)
    if starts >= _MOST_STARTS or not keeps() or kernel.cached:
        return False
    _starts[kernel.place] = starts + 1
    watcher = threading.Thread(target=_compile, args=(kernel.place, for_child()), name="asyncdali-compiling", daemon=True)
    _watchers[kernel.place] = watcher
    watcher.start()
    return True


def _compile(place: tuple[str, str], environment: dict[str, str]) -> None:
    """Start a process that compiles the kernel, and wait for its end. Runs on its own thread."""
    with contextlib.suppress(OSError):  # no process can be started; the next caller tries again, or compiles
        process = _processes[place] = subprocess.Popen(
            python_command(_PROGRAM, str(os.getpid()), *place),
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=environment,
        )  # fmt: skip
        process.wait()


@atexit.register
def _end() -> None:
    for process in list(_processes.values()):
        process.kill()
        process.wait()


def _forget() -> None:
    """Runs in a forked child: the processes are the parent's."""
    global _lock
    _lock = threading.Lock()
    _watchers.clear()
    _processes.clear()


os.register_at_fork(after_in_child=_forget)

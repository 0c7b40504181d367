"""What this process has: children, descriptors, threads."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable


def children() -> list[int]:
    """Process ids of this process's children, those that nobody has reaped included.

    Not those that compile kernels: they end by themselves, and are waited for here. (They run only where the kernel cache is empty.)
    """
    for thread in threading.enumerate():
        if thread.name == "asyncdali-compiling":
            thread.join()
    found = []
    for thread in os.listdir("/proc/self/task"):
        try:
            with open(f"/proc/self/task/{thread}/children") as file:
                found += map(int, file.read().split())
        except OSError:  # that thread has ended
            pass
    return found


def descriptors() -> dict[int, str]:
    """Open descriptors, and what they are."""
    found = {}
    for name in os.listdir("/proc/self/fd"):
        try:
            found[int(name)] = os.readlink(f"/proc/self/fd/{name}")
        except OSError:  # the one that lists them
            pass
    return found


def wait_until(condition: Callable[[], bool], seconds: float = 30) -> None:
    """Look again and again; TimeoutError if it never comes true."""
    limit = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > limit:
            raise TimeoutError("waited in vain")
        time.sleep(0.005)

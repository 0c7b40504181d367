"""Resources of this process: children, descriptors, threads."""

from __future__ import annotations

import os
import threading
import time
import weakref
from collections.abc import Callable
from typing import Any

KEPT: set[int] = set()
"""Process ids of helpers that run until this process ends."""


def children() -> list[int]:
    """Process ids of this process's children, including those that were not reaped, without :data:`KEPT`.

    Processes that compile kernels are excluded and waited for. (They run only when the kernel cache is empty, and end without a signal.)
    """
    for thread in threading.enumerate():
        if thread.name == "asyncdali-compiling":
            thread.join()
    found = []
    for thread in os.listdir("/proc/self/task"):
        try:
            with open(f"/proc/self/task/{thread}/children") as file:
                found += map(int, file.read().split())
        except OSError:  # the thread has ended in the meantime
            pass
    return [pid for pid in found if pid not in KEPT]


def descriptors() -> dict[int, str]:
    """Open descriptors and their targets."""
    found = {}
    for name in os.listdir("/proc/self/fd"):
        try:
            found[int(name)] = os.readlink(f"/proc/self/fd/{name}")
        except OSError:  # the descriptor of this listing
            pass
    return found


def wait_until_gone(reference: weakref.ref[Any]) -> None:
    """Wait until an object is freed. TimeoutError if it stays alive.

    A thread that has delivered its result may refer to its work until it runs again. Objects in a cycle stay: switch the collector off.
    """
    wait_until(lambda: reference() is None)


def wait_until(condition: Callable[[], bool], seconds: float = 300) -> None:
    """Poll a condition. TimeoutError if it never becomes true."""
    limit = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > limit:
            raise TimeoutError("waited in vain")
        time.sleep(0.005)


def wait_for_zygote(pool: Any) -> None:
    """Wait until the pool's zygote, if there is one, has reported its start. A first zygote that ends earlier is not restarted."""
    launcher = pool._dispatcher._launcher

    def reported() -> bool:
        pool._dispatcher._look()
        return launcher.process is None or launcher._failures is not None

    wait_until(reported)

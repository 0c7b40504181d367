"""``asyncdali engine --restart``: this process forks an engine, and another one at the same address when the engine was killed.

The process has imported what engines need and has one thread, so a new engine is there in a tenth of a second. The program is loaded in the
engine, because it may start threads or use a GPU.
"""

from __future__ import annotations

import contextlib
import functools
import os
import signal
import sys
import time
from collections.abc import Callable
from typing import Any

from asyncdali_workers.processes.child import fork, leave, settle
from asyncdali_workers.shared.system import Descriptors

LASTING = 1.0
"""Seconds that an engine must have been ready for, or its end is counted as a failed start."""
SLOWEST = 5.0
"""Longest pause in seconds before the replacement of an engine that failed immediately after its start."""


def keep_running(start: Callable[[str], object], listen: str) -> int:
    """Run `start(address)`, which returns an actor, in a child, until this process receives a signal to end. Returns the exit status.

    If a child ends by itself, its exit status is returned: then another attempt would fail, too.
    """
    _prepare()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, _end)
    failures = 0
    while True:
        alive, held = os.pipe()
        reports, report = os.pipe()
        child = fork(Descriptors(), frozenset(), functools.partial(_serve, start, listen, (alive, report), (held, reports)))
        try:
            os.close(alive)
            os.close(report)
            with open(reports) as file:
                address = file.readline().strip()
            if address:
                print(f"listening on {address}" if address != listen else f"listening on {address} again", flush=True)
                listen = address
            ready = time.monotonic()
            _, status = os.waitpid(child, 0)
        except BaseException:
            os.close(held)  # the kernel kills the child
            with contextlib.suppress(ChildProcessError):
                os.waitpid(child, 0)
            raise
        os.close(held)
        if not os.WIFSIGNALED(status):
            return os.waitstatus_to_exitcode(status)
        print(f"asyncdali engine: the engine was ended by {signal.Signals(os.WTERMSIG(status)).name}", file=sys.stderr, flush=True)
        failures = 0 if address and time.monotonic() - ready >= LASTING else failures + 1
        if failures > 1:
            time.sleep(min(0.1 * 2 ** min(failures - 2, 8), SLOWEST))


def _prepare() -> None:
    """Import what every engine needs, once."""
    from .. import fn  # noqa: F401  all operators
    from ..compiled import driver  # noqa: F401  Numba
    from ..fleet import actor  # noqa: F401


def _end(*_: object) -> None:
    raise SystemExit(0)


def _serve(start: Callable[[str], Any], listen: str, own: tuple[int, int], others: tuple[int, int]) -> None:
    """Turn a forked child into an engine. It reports its address when it is ready."""
    for descriptor in others:
        os.close(descriptor)
    alive, report = own
    settle(alive)
    os.close(alive)
    descriptors = Descriptors()
    report = descriptors.add(report)  # processes that the engine forks close it: the command waits for its end, if the engine fails
    actor = start(listen)
    if actor is None:
        leave(1)
    os.write(report, f"{actor.address}\n".encode())
    descriptors.close(report)
    actor.wait()
    leave(0)

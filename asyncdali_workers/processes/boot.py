"""The first steps of a fresh interpreter that becomes a worker, or the zygote that forks workers."""

from __future__ import annotations

import os
import pickle
import socket
import sys
from typing import Any

from ..shared.system import Descriptors
from ..source import Source
from ..worker.worker import WorkerSetup
from . import signals
from .child import leave, report_failure, run_worker, settle
from .python import use_manager_key
from .spawning import WORKER
from .watching import hold
from .zygote import run_zygote


def boot(role: int, memory: int, offset: int, worker: int, incarnation: int, channel: int, held: int) -> None:
    """Runs the worker or the zygote. Does not return. For `channel` see the zygote, for `held` :class:`~.watching.Watch`."""
    code = 1
    try:
        data = _read(memory, offset)
        setup: WorkerSetup = data["setup"]
        descriptors = _take_descriptors(setup)
        hold(held, descriptors)
        settle(setup.alive)
        try:
            _prepare(data)
            # a zygote needs all sources, a worker only its own
            setup.sources = [
                _load(item, data) if role != WORKER or setup.runs(number, worker) else None for number, item in enumerate(data["sources"])
            ]
        except BaseException as error:
            report_failure(setup, worker, error, "the source could not be unpickled: ")
            raise SystemExit(1) from None
        signals.settle()  # modules of the program may have installed its handlers
        if role == WORKER:
            run_worker(setup, worker, incarnation, data["chosen"])
        else:
            os.set_inheritable(channel, False)
            run_zygote(setup, descriptors, socket.socket(fileno=channel), data["chosen"])
        code = 0
    except SystemExit:
        pass
    except BaseException:
        sys.excepthook(*sys.exc_info())
    finally:
        leave(code)


def _read(memory: int, offset: int) -> dict[str, Any]:
    from ..shared.control import BOOT_SIZE

    size = int.from_bytes(os.pread(memory, 8, 8 * BOOT_SIZE), sys.byteorder)
    skipped = 8 + int.from_bytes(os.pread(memory, 8, offset), "little")
    parts, at, end = [], offset + skipped, offset + size
    while at < end:
        parts.append(os.pread(memory, end - at, at))
        at += len(parts[-1])
    settings: dict[str, Any] = pickle.loads(b"".join(parts))
    return settings


def _take_descriptors(setup: WorkerSetup) -> Descriptors:
    descriptors = Descriptors()
    for descriptor in setup.descriptors():
        os.set_inheritable(descriptor, False)
        descriptors.open.add(descriptor)
    return descriptors


def _prepare(data: dict[str, Any]) -> None:
    """Set arguments and directory, and load the main module for picklers that refer to it by name (as `multiprocessing` does)."""
    sys.argv[:] = data["argv"]
    use_manager_key(data["managers"])
    if data["directory"] is not None:
        try:
            os.chdir(data["directory"])
        except OSError:
            pass
    if data["main"]:
        from multiprocessing import spawn

        spawn.prepare(data["main"])


def _load(item: tuple[bytes, bytes], data: dict[str, Any]) -> Source:
    callback, rest = item
    source: Source = pickle.loads(rest)
    source.callback = pickle.loads(data["pickler"]).loads(callback)
    return source

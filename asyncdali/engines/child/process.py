"""The life cycle of an engine process, and of the process that forks engines.

An engine ends with the training process, whatever it is doing: the kernel kills it when the other end of its pipe closes (``alive``).
"""

from __future__ import annotations

import contextlib
import functools
import os
import pickle
import signal
import socket
import sys
import threading
from collections.abc import Callable

from asyncdali_workers.processes import signals
from asyncdali_workers.processes.child import default_thread_variables, fork, leave, settle, show_lines_at_once
from asyncdali_workers.processes.python import use_manager_key
from asyncdali_workers.shared.system import Descriptors, Mapping

from ..wire import channel as channels
from ..wire.failures import packed
from ..wire.program import Program, loads

ENGINE, FORKER = 0, 1

_SWITCH_INTERVAL = 0.0005
"""Seconds after which a thread of an engine gives up the interpreter to a waiting thread.

An iteration changes threads about six times. With Python's 5 ms each change would take as long as a short source or function."""


def _own_pidfd() -> list[int]:
    """A descriptor of this process, which becomes readable when it ends. Empty where the system refuses."""
    try:
        return [os.pidfd_open(os.getpid())]
    except OSError:
        return []


def run_engine(load: Callable[[], Program | None], channel: socket.socket, status: int) -> None:
    """Serve until the training process closes the channel. Does not return."""
    born = _own_pidfd()
    with contextlib.suppress(OSError):  # the training process has ended
        channels.send(channel, channels.message({"born": os.getpid()}), born)
    for descriptor in born:
        os.close(descriptor)
    show_lines_at_once()
    default_thread_variables(os.environ)
    sys.setswitchinterval(_SWITCH_INTERVAL)
    page = Mapping(status, 0, os.fstat(status).st_size)
    os.close(status)
    gone = threading.Event()
    try:
        from ...compiled import driver  # noqa: F401  imports NumPy and kernels while the training process builds
        from .server import EngineServer

        program = load()
        signals.settle()  # modules of the program may have installed its handlers
        if program is None:
            raise RuntimeError("there is no program")
        if not channels.receive(channel)[0]:  # wait: the training process builds first
            leave(0)
        server = EngineServer(program, channel, page.bytes.data, gone.set)
        server.serve()
    except BaseException as error:
        with contextlib.suppress(OSError):
            channels.send(channel, channels.message({"failed": packed(error)}))
        leave(1)
    while not gone.wait(3600):
        pass
    leave(0)


def forked(program: Program, channel: socket.socket, alive: int, descriptors: Descriptors) -> None:
    """Turn a forked child into the process that forks engines."""
    settle(alive)
    os.close(alive)
    if program.entered is not None:
        program.entered()
    run_forker(lambda: program, channel, descriptors)


def run_forker(load: Callable[[], Program], channel: socket.socket, descriptors: Descriptors) -> None:
    """Fork an engine for each message until the channel closes. This process has one thread, so its forks are safe."""
    program: Program | None = None
    failure: BaseException | None = None
    try:
        program = load()
        _preload()
    except BaseException as error:
        failure = error
    signals.settle()  # modules of the program may have installed its handlers
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # no process waits for engines: their descriptors report the end
    while True:
        data, received = channels.receive(channel)
        if not data:
            leave(0)
        fork(descriptors, frozenset(), functools.partial(_become, program, failure, channel, received))
        for descriptor in received:
            os.close(descriptor)


def _become(program: Program | None, failure: BaseException | None, channel: socket.socket, received: list[int]) -> None:
    """Turn a forked child into an engine."""
    theirs, alive, status = received
    channel.close()
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)  # user functions wait for their own children
    settle(alive)
    os.close(alive)
    ours = channels.opened(theirs)
    if program is None:
        channels.send(ours, channels.message({"failed": packed(RuntimeError("there is no program") if failure is None else failure)}))
        leave(1)
    run_engine(lambda: program, ours, status)


def _preload() -> None:
    """Import the modules that every engine needs, once before the forks."""
    from ...compiled import driver  # noqa: F401
    from . import server  # noqa: F401


def boot(role: int, program: int, channel: int, alive: int, status: int) -> None:
    """Turn a fresh interpreter into an engine, or into the process that forks engines. Does not return."""
    code = 1
    try:
        for descriptor in (program, channel, alive, status):
            if descriptor >= 0:
                os.set_inheritable(descriptor, False)
        settle(alive)
        os.close(alive)
        end = channels.opened(channel)

        def load() -> Program:
            size = os.fstat(program).st_size
            data = memoryview(bytearray(size))
            at = 0
            while at < size:
                at += os.preadv(program, [data[at:]], at)
            sys.argv[:], key, content = pickle.loads(data[8 + int.from_bytes(data[:8], "little") :])
            use_manager_key(key)
            return loads(content)

        if role == ENGINE:
            run_engine(load, end, status)
        else:
            run_forker(load, end, Descriptors())
        code = 0
    except SystemExit:
        pass
    except BaseException:
        sys.excepthook(*sys.exc_info())
    finally:
        leave(code)



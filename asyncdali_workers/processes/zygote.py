"""A small process that forks workers. It holds the sources in their initial state, without threads and without CUDA.

It answers through a socket: `birth` carries the new worker's pidfd, `end` the exit status of a worker, which only its parent can read.
"""

from __future__ import annotations

import os
import select
import socket
import struct

from ..shared.system import Descriptors
from ..worker.worker import WorkerSetup
from .child import fork, run_worker, settle
from .watching import Watch, hold

REQUEST = struct.Struct("<ii")  # worker, incarnation
NEWS = struct.Struct("<iiii")  # kind, worker, process id, exit status (in the form of os.waitpid)
BIRTH, END, UP = 1, 2, 3


def run_zygote(setup: WorkerSetup, descriptors: Descriptors, channel: socket.socket, chosen: frozenset[str] | None = None) -> None:
    settle(setup.alive)
    Zygote(setup, descriptors, channel, chosen).serve()


class Zygote:
    def __init__(self, setup: WorkerSetup, descriptors: Descriptors, channel: socket.socket, chosen: frozenset[str] | None):
        self._chosen = chosen
        self._setup, self._descriptors, self._channel = setup, descriptors, channel
        self._children: dict[int, tuple[int, int]] = {}  # pidfd -> worker, process id
        self._poll = select.poll()
        self._poll.register(channel, select.POLLIN)
        channel.settimeout(None)  # whatever socket.setdefaulttimeout says

    def serve(self) -> None:
        self._channel.send(NEWS.pack(UP, -1, os.getpid(), 0))
        while True:
            for descriptor, _ in self._poll.poll():
                if descriptor != self._channel.fileno():
                    self._reap(descriptor)
                elif not self._obey():
                    return

    def _obey(self) -> bool:
        try:
            request = self._channel.recv(REQUEST.size)
        except ConnectionError:
            return False
        if len(request) < REQUEST.size:
            return False
        worker, incarnation = REQUEST.unpack(request)
        told, telling = os.pipe2(os.O_CLOEXEC)
        with Watch() as watch:
            keep, held = self._setup.descriptors(), watch.held
            pid = fork(self._descriptors, keep, lambda: self._become(worker, incarnation, told, telling, held))
            os.close(told)
            pidfd = watch.of(pid)
        self._children[pidfd] = worker, pid
        self._poll.register(pidfd, select.POLLIN)
        socket.send_fds(self._channel, [NEWS.pack(BIRTH, worker, pid, 0)], [pidfd])
        try:
            os.write(telling, b"1")
        except BrokenPipeError:
            pass  # it is already dead, which its pidfd reports
        os.close(telling)
        return True

    def _become(self, worker: int, incarnation: int, told: int, telling: int, held: int) -> None:
        """Runs after the parent has received the process id.

        Otherwise the parent, finding the zygote dead, would ask the next zygote for this worker again, and two processes would write to one
        claim block."""
        self._channel.close()
        os.close(telling)
        hold(held, self._descriptors)
        for pidfd in self._children:
            os.close(pidfd)
        settle(self._setup.alive)
        if os.read(told, 1):
            os.close(told)
            run_worker(self._setup, worker, incarnation, self._chosen)

    def _reap(self, pidfd: int) -> None:
        worker, pid = self._children.pop(pidfd)
        self._poll.unregister(pidfd)
        os.close(pidfd)
        try:
            status = os.waitpid(pid, 0)[1]
        except ChildProcessError:
            status = -1
        self._channel.send(NEWS.pack(END, worker, pid, status))

"""Starts and replaces worker processes, for each start method, and reports their ends."""

from __future__ import annotations

import os
import signal
import socket
from typing import NamedTuple

from ..cuda import check_fork_allowed
from ..shared.control import Control
from ..shared.system import Descriptors
from ..worker.worker import WorkerSetup
from .child import fork, run_worker, settle
from .watching import UNKNOWN, Watch, hold, wait_status
from .zygote import BIRTH, END, NEWS, REQUEST, UP, run_zygote

FAILED_STARTS = 3
"""If this many processes in a row end before they are ready, no other is started."""


class Born(NamedTuple):
    worker: int
    pid: int
    pidfd: int


class Ended(NamedTuple):
    pid: int
    status: int


class Unavailable(NamedTuple):
    """No worker can be replaced any more."""

    reason: str


News = Born | Ended | Unavailable


class Launcher:
    """Starts workers. When `descriptor` is readable, `collect` returns the events."""

    def __init__(self, setup: WorkerSetup, descriptors: Descriptors):
        self.setup, self.descriptors = setup, descriptors

    @property
    def descriptor(self) -> int | None:
        return None

    @property
    def process(self) -> int | None:
        """The helper process, if there is one."""
        return None

    def prepare(self) -> None:
        """Called before the first worker."""

    def start(self, worker: int) -> Born | None:
        """A worker of the first generation. None: `collect` announces it."""
        raise NotImplementedError

    def replace(self, worker: int, incarnation: int) -> None:
        raise NotImplementedError

    def collect(self) -> list[News]:
        return []

    def status(self, pid: int) -> int | None:
        """Exit status of an ended worker. None: `collect` announces it."""
        return wait_status(pid)

    def close(self) -> None:
        pass


class ZygoteLauncher(Launcher):
    """Replacements come from a zygote, through a socket."""

    def __init__(self, setup: WorkerSetup, descriptors: Descriptors):
        super().__init__(setup, descriptors)
        self._channel: socket.socket | None = None
        self._zygote: int | None = None
        self._wanted: dict[int, int] = {}  # worker -> incarnation
        self._children: set[int] = set()  # process ids of the zygote's children
        self._unavailable: str | None = None
        self._failures: int | None = None  # consecutive zygotes that ended before they reported their start; None: none has reported yet
        self.restarts = 0

    @property
    def descriptor(self) -> int | None:
        return None if self._channel is None else self._channel.fileno()

    @property
    def process(self) -> int | None:
        return self._zygote

    def prepare(self) -> None:
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._channel = socket.socket(fileno=self.descriptors.add(ours.detach()))
        self._channel.setblocking(False)
        theirs.settimeout(None)  # whatever socket.setdefaulttimeout says
        try:
            self._zygote = self._make(theirs)
        except BaseException:
            self._drop_channel()
            raise
        finally:
            theirs.close()

    def _make(self, theirs: socket.socket) -> int:
        raise NotImplementedError

    def replace(self, worker: int, incarnation: int) -> None:
        if self._unavailable is not None:
            raise RuntimeError(self._unavailable)
        self._wanted[worker] = incarnation
        self._send(worker, incarnation)

    def _send(self, worker: int, incarnation: int) -> None:
        try:
            if self._channel is not None:
                self._channel.send(REQUEST.pack(worker, incarnation))
        except (BrokenPipeError, ConnectionError):
            pass  # the zygote is gone; `collect` notices it

    def collect(self) -> list[News]:
        news: list[News] = []
        while self._channel is not None:
            try:
                data, received, _, _ = socket.recv_fds(self._channel, NEWS.size, 1)
            except BlockingIOError:
                break
            except ConnectionResetError:
                continue  # the zygote died with unread requests; earlier messages can still be read
            if not data:
                news += self._revive()
                break
            what, worker, pid, status = NEWS.unpack(data)
            if what == BIRTH:
                self._wanted.pop(worker, None)
                self._children.add(pid)
                news.append(Born(worker, pid, self.descriptors.add(received[0])))
            elif what == UP:
                self._failures = 0
            elif what == END:
                self._children.discard(pid)
                news.append(Ended(pid, status))
        return news

    def _revive(self) -> list[News]:
        """The zygote is gone: make another, if a fork is still allowed."""
        self._drop_channel()
        news: list[News] = [Ended(pid, UNKNOWN) for pid in self._children]  # their exit status cannot be reported any more
        self._children.clear()
        if self._zygote is not None:
            self._reap_zygote()
            self._zygote = None
        if self._failures is None or self._failures >= FAILED_STARTS:
            return [*news, self._give_up("the process that forks workers ended before it was ready")]
        self._failures += 1
        try:
            self._check_revival()
            self.prepare()
        except Exception as error:
            return [*news, self._give_up(f"the process that forks replacements died and cannot be started again: {error}")]
        self.restarts += 1
        for worker, incarnation in self._wanted.items():
            self._send(worker, incarnation)
        return news

    def _give_up(self, reason: str) -> Unavailable:
        self._unavailable = reason
        return Unavailable(reason)

    def _reap_zygote(self) -> None:
        if self._zygote is not None:
            wait_status(self._zygote)

    def _check_revival(self) -> None:
        pass

    def _drop_channel(self) -> None:
        if self._channel is not None:
            self.descriptors.close(self._channel.detach())
            self._channel = None

    def status(self, pid: int) -> int | None:
        return None if pid in self._children else wait_status(pid)

    def close(self) -> None:
        self._drop_channel()
        if self._zygote is not None:
            try:
                os.kill(self._zygote, signal.SIGKILL)  # not reaped yet, so the process id is still its own
            except ProcessLookupError:
                pass
            self._reap_zygote()
            self._zygote = None


class ForkLauncher(ZygoteLauncher):
    """The first workers are children of this process."""

    def _make(self, theirs: socket.socket) -> int:
        keep = self.setup.descriptors()
        return fork(self.descriptors, keep, lambda: run_zygote(self.setup, self.descriptors, theirs))

    def start(self, worker: int) -> Born | None:
        with Watch() as watch:
            pid = fork(self.descriptors, self.setup.descriptors(), lambda: self._become(worker, watch.held))
            return Born(worker, pid, self.descriptors.add(watch.of(pid)))

    def _become(self, worker: int, held: int) -> None:
        hold(held, self.descriptors)
        settle(self.setup.alive)
        run_worker(self.setup, worker, 0)

    def _check_revival(self) -> None:
        check_fork_allowed()


def launcher_for(method: str, setup: WorkerSetup, descriptors: Descriptors, control: Control, pickler: object) -> Launcher:
    """The launcher of a start method. Only "fork" is imported eagerly."""
    if method == "fork":
        return ForkLauncher(setup, descriptors)
    from .spawning import make_launcher

    return make_launcher(method, setup, descriptors, control, pickler)

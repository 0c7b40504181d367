"""System calls that a kernel or a container may refuse.

Old seccomp profiles and sandboxes (gVisor) refuse newer calls with EPERM or ENOSYS. A call without a fallback is made through
:func:`needed`, whose error names the call and its purpose. ``asyncdali doctor`` tries all calls of :data:`CALLS`.
"""

from __future__ import annotations

import errno
import functools
import os
import select
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import NamedTuple

REFUSED = (errno.EPERM, errno.ENOSYS, errno.EACCES, errno.EOPNOTSUPP, errno.EINVAL)
"""Errors of calls that are not allowed, or that the kernel does not have."""


class SystemCall(NamedTuple):
    """A call, what needs it, what happens without it, and a function that tries it."""

    name: str
    purpose: str
    without: str
    attempt: Callable[[], object]


class CallRefused(OSError):
    """A system call that is needed was refused."""


@contextmanager
def needed(name: str, purpose: str) -> Iterator[None]:
    """Turn the refusal of a system call into a :class:`CallRefused` that names the call and what needs it."""
    try:
        yield
    except CallRefused:
        raise
    except OSError as error:
        if error.errno not in REFUSED:
            raise
        raise CallRefused(error.errno, refusal(name, purpose, error)) from error


def refusal(name: str, purpose: str, error: OSError) -> str:
    """The text of the error."""
    return (
        f"the system call {name} was refused ({error.strerror}). {purpose} need it. Allow the call in the container's seccomp profile, or "
        "use a newer kernel or container runtime; `asyncdali doctor` tries all calls"
    )


WORKERS = "Worker processes (py_num_workers)"
ENGINES = "Engines (engines=N)"
PROCESSES = "Worker processes (py_num_workers) and engines (engines=N)"
PIPELINES = "All pipelines"
REMOTE = "Readers of remote files"


def processors() -> list[int]:
    """The processors that this process may run on. All processors, if the system does not tell."""
    try:
        return sorted(os.sched_getaffinity(0))
    except (OSError, AttributeError):
        return list(range(os.cpu_count() or 1))


@functools.cache
def has_pidfds() -> bool:
    """Whether a process can be watched and signalled by a descriptor of it."""
    try:
        _pidfd()
    except (OSError, AttributeError):
        return False
    return True


def check_processes(purpose: str) -> None:
    """CallRefused if a call is refused that child processes need, and that they could not report."""
    with needed("fcntl(F_SETLK)", purpose):
        _lock(purpose)
    try:
        _death_signal()
    except FileNotFoundError as error:
        text = f"/proc/self/fd cannot be opened ({error.strerror}). {purpose} need it, to end with this process. Mount /proc"
        raise CallRefused(error.errno, text) from error
    except OSError as error:
        if error.errno not in REFUSED:
            raise
        raise CallRefused(error.errno, refusal("fcntl(F_SETOWN, F_SETSIG)", purpose, error)) from error


def memory(name: str, flags: int, purpose: str) -> int:
    """os.memfd_create. CallRefused if the call is refused."""
    with needed("memfd_create", purpose):
        return os.memfd_create(name, flags)


def _close(descriptor: int) -> None:
    os.close(descriptor)


def _pidfd() -> None:
    pidfd = os.pidfd_open(os.getpid())
    try:
        signal.pidfd_send_signal(pidfd, 0)
    finally:
        os.close(pidfd)


def _lock(purpose: str = "") -> None:
    import fcntl

    descriptor = memory("asyncdali-check", os.MFD_CLOEXEC, purpose)
    try:
        fcntl.lockf(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, 0)
        fcntl.lockf(descriptor, fcntl.LOCK_UN, 1, 0)
    finally:
        os.close(descriptor)


def _allocate() -> None:
    descriptor = os.memfd_create("asyncdali-check", os.MFD_CLOEXEC)
    try:
        os.posix_fallocate(descriptor, 0, 4096)
    finally:
        os.close(descriptor)


def _death_signal() -> None:
    import fcntl

    receiving, sending = os.pipe2(os.O_CLOEXEC)
    try:
        own = os.open(f"/proc/self/fd/{receiving}", os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        try:
            fcntl.fcntl(own, fcntl.F_SETOWN, os.getpid())
            fcntl.fcntl(own, F_SETSIG, signal.SIGURG)  # ignored by default
        finally:
            os.close(own)
    finally:
        os.close(receiving)
        os.close(sending)


F_SETSIG = 10

CALLS: tuple[SystemCall, ...] = (
    SystemCall("memfd_create", PROCESSES, "they cannot start", lambda: _close(os.memfd_create("asyncdali-check", os.MFD_CLOEXEC))),
    SystemCall("pidfd_open, pidfd_send_signal", WORKERS, "the death of a worker is noticed through a pipe", _pidfd),
    SystemCall("fcntl(F_SETLK)", WORKERS, "they cannot start", _lock),
    SystemCall("fallocate", PROCESSES, "a lack of shared memory ends a process with SIGBUS in place of an error", _allocate),
    SystemCall("fcntl(F_SETSIG) and /proc/self/fd", PROCESSES, "they cannot start", _death_signal),
    SystemCall("eventfd2", PIPELINES, "worker processes and engines cannot start", lambda: _close(os.eventfd(0, os.EFD_CLOEXEC))),
    SystemCall("epoll_create1", PIPELINES, "pipelines cannot be built", lambda: select.epoll().close()),
    SystemCall("sched_getaffinity", PIPELINES, "the number of all processors is used", lambda: os.sched_getaffinity(0)),
)


def refused() -> Iterator[tuple[SystemCall, OSError]]:
    """The calls that are refused here."""
    for call in CALLS:
        try:
            call.attempt()
        except OSError as error:
            if error.errno not in (errno.EMFILE, errno.ENFILE):
                yield call, error

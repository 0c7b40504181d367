"""Refuses system calls in this process and its children, as the seccomp profile of a container does.

Run as a program: ``python refused_calls.py EPERM pidfd_open,memfd_create program.py arguments...``.
"""

from __future__ import annotations

import ctypes
import errno
import platform
import runpy
import struct
import sys

NUMBERS = {
    "madvise": (28, 233), "eventfd2": (290, 19), "epoll_create1": (291, 20), "fallocate": (285, 47), "memfd_create": (319, 279),
    "pidfd_open": (434, 434), "pidfd_send_signal": (424, 424), "preadv2": (327, 286), "prctl": (157, 167), "setpriority": (141, 140),
    "sched_getaffinity": (204, 123), "sched_setaffinity": (203, 122), "fadvise64": (221, 223), "mlock": (149, 228), "getrandom": (318, 278),
    "userfaultfd": (323, 282), "process_vm_readv": (310, 270), "io_uring_setup": (425, 425), "statx": (332, 291), "fcntl": (72, 25),
    "getcpu": (309, 168), "mbind": (237, 235), "rseq": (334, 293), "clone3": (435, 435), "membarrier": (324, 283), "ppoll": (271, 73),
    "pipe2": (293, 59), "sendfile": (40, 71), "copy_file_range": (326, 285), "close_range": (436, 436), "openat2": (437, 437),
    "faccessat2": (439, 439), "sysinfo": (99, 179), "getrusage": (98, 165), "prlimit64": (302, 261), "inotify_init1": (294, 26),
    "timerfd_create": (283, 85), "signalfd4": (289, 74), "kcmp": (312, 272), "unshare": (272, 97), "futex_waitv": (449, 449),
}  # fmt: skip
"""Numbers on x86_64 and aarch64."""
_ALLOW, _ERRNO = 0x7FFF0000, 0x00050000
_LOAD, _EQUAL, _RETURN = 0x20, 0x15, 0x06


def refuse(names: list[str], error: int) -> None:
    """Let the calls fail with `error` from now on. OSError if filters cannot be installed here."""
    libc = ctypes.CDLL(None, use_errno=True)
    column = 0 if platform.machine() == "x86_64" else 1
    numbers = [NUMBERS[name][column] for name in names]
    lines = [struct.pack("HBBI", _LOAD, 0, 0, 0)]
    for place, number in enumerate(numbers):
        lines.append(struct.pack("HBBI", _EQUAL, len(numbers) - place, 0, number))
    lines += [struct.pack("HBBI", _RETURN, 0, 0, _ALLOW), struct.pack("HBBI", _RETURN, 0, 0, _ERRNO | error)]
    code = ctypes.create_string_buffer(b"".join(lines))
    program = struct.pack("HxxxxxxP", len(lines), ctypes.addressof(code))
    for arguments in ((38, 1, 0, 0, 0), (22, 2, program, 0, 0)):  # PR_SET_NO_NEW_PRIVS, PR_SET_SECCOMP with a filter
        if libc.prctl(*arguments) != 0:
            raise OSError(ctypes.get_errno(), "prctl")


if __name__ == "__main__":
    which, names, program, *rest = sys.argv[1:]
    refuse([name for name in names.split(",") if name], getattr(errno, which))
    sys.argv = [program, *rest]
    runpy.run_path(program, run_name="__main__")

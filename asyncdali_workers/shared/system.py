"""Linux features of shared memory: mappings, huge pages, locks that the kernel releases when their holder dies, and eventfds."""

from __future__ import annotations

import ctypes
import errno
import fcntl
import functools
import os
import resource
import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from .calls import REFUSED, WORKERS, needed

PAGE = 4096

_libc = ctypes.CDLL(None, use_errno=True)
_libc.mmap.restype = ctypes.c_void_p
_libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long]
_libc.munmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t]
_libc.madvise.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
_libc.fallocate.argtypes = [ctypes.c_int, ctypes.c_int, ctypes.c_long, ctypes.c_long]

_READ_WRITE = 0x1 | 0x2
_SHARED = 0x1
_RESERVED = 0x2 | 0x20 | 0x4000
"""MAP_PRIVATE, MAP_ANONYMOUS, MAP_NORESERVE."""
_HUGE = 2 << 20
"""Bytes of a huge page."""
_COLLAPSE = 25
"""MADV_COLLAPSE (Linux 6.1): replace small pages by huge pages now. Memory of a memfd gets none otherwise: by default the kernel gives
huge pages to private memory only."""
_FAILED = ctypes.c_void_p(-1).value
_KEEP_SIZE_PUNCH_HOLE = 0x1 | 0x2


class Memory:
    """Bytes at `address`, without an owner. numpy reads it through the array interface."""

    __slots__ = ("__array_interface__", "owner")

    def __init__(self, address: int, size: int, owner: object = None):
        self.owner = owner
        self.__array_interface__ = {"data": (address, False), "shape": (size,), "typestr": "|u1", "version": 3}


class Mapping:
    """A mapped piece of a file, unmapped when dropped. Python's own `mmap` would keep a second descriptor."""

    __slots__ = ("__weakref__", "_pid", "address", "bytes", "offset", "size")

    def __init__(self, descriptor: int, offset: int, size: int, hint: int | None = None):
        """`hint`: an address that is free (see :func:`huge_place`)."""
        self.offset = offset
        self.size = size
        self._pid = os.getpid()
        address = _libc.mmap(hint, size, _READ_WRITE, _SHARED, descriptor, offset)
        if address == _FAILED:
            code = ctypes.get_errno()
            limit = resource.getrlimit(resource.RLIMIT_AS)[0]
            reason = "" if limit == resource.RLIM_INFINITY else f" (this process may use {limit} bytes of address space: ulimit -v)"
            raise MemoryError(f"cannot map {size} bytes of shared memory: {os.strerror(code)}{reason}")
        self.address: int = address
        self.bytes = np.asarray(Memory(address, size))

    def __del__(self, _munmap: Any = _libc.munmap, _getpid: Any = os.getpid) -> None:
        address = getattr(self, "address", None)
        if address is not None and _getpid() == self._pid:
            _munmap(address, self.size)


def huge_place(size: int) -> int | None:
    """An address where `size` bytes can have huge pages. None for less than two of them, or if the address space has no room.

    Another thread may take the address before it is used. The system then chooses another one, whose pages are small.
    """
    if size < 2 * _HUGE:
        return None
    start = _libc.mmap(None, size + _HUGE, 0, _RESERVED, -1, 0)
    if start == _FAILED:
        return None
    _libc.munmap(start, size + _HUGE)
    return up(start, _HUGE)


def use_huge_pages(mapping: Mapping) -> bool:
    """Give a mapping at :func:`huge_place` huge pages, in all processes. Its pages must be allocated. Returns whether it has them.

    Pages stay small if the kernel cannot do it, has no free huge pages, or is configured not to use them.
    """
    size = mapping.size & -_HUGE
    if size == 0 or mapping.address % _HUGE or not _allows_huge_pages():
        return False
    return bool(_libc.madvise(mapping.address, size, _COLLAPSE) == 0)


@functools.cache
def _allows_huge_pages() -> bool:
    """Whether the administrator allows huge pages. MADV_COLLAPSE does not ask."""
    try:
        with open("/sys/kernel/mm/transparent_hugepage/enabled") as file:
            return "[never]" not in file.read()
    except OSError:
        return False


def punch(descriptor: int, offset: int, size: int) -> None:
    """Give the pages of a piece of a memfd back to the system. The piece then reads as zeros."""
    _libc.fallocate(descriptor, _KEEP_SIZE_PUNCH_HOLE, offset, size)


def commit(descriptor: int, offset: int, size: int) -> None:
    """Allocate the pages of a piece of a memfd now, so that a lack of memory is an error here and not SIGBUS later."""
    try:
        os.posix_fallocate(descriptor, offset, size)
    except OSError as error:
        limits = {errno.EFBIG: "the limit of file sizes (ulimit -f)", errno.ENOSPC: "free memory", errno.ENOMEM: "free memory"}
        known = limits.get(error.errno or 0)
        if known is None and error.errno in REFUSED:
            _write_pages(descriptor, offset, size)
            return
        if known is None:
            raise
        raise MemoryError(f"shared memory of {size} bytes is more than {known} allows: {error.strerror}") from error


def _write_pages(descriptor: int, offset: int, size: int) -> None:
    """Allocate pages by writing to them, where fallocate is refused."""
    try:
        for at in range(offset, offset + size, PAGE):
            os.pwrite(descriptor, os.pread(descriptor, 1, at) or b"\0", at)
        if os.fstat(descriptor).st_size < offset + size:
            os.ftruncate(descriptor, offset + size)
    except OSError as error:
        if error.errno not in (errno.ENOSPC, errno.ENOMEM, errno.EFBIG):
            raise
        raise MemoryError(f"shared memory of {size} bytes is not free: {error.strerror}") from error


def up(size: int, step: int) -> int:
    return -(-size // step) * step


@contextmanager
def locked(descriptor: int, byte: int) -> Iterator[None]:
    """A lock between processes on one byte of a file. The kernel releases it when its holder dies."""
    fcntl.lockf(descriptor, fcntl.LOCK_EX, 1, byte)
    try:
        yield
    finally:
        fcntl.lockf(descriptor, fcntl.LOCK_UN, 1, byte)


def make_tokens() -> int:
    """An event descriptor that counts: each read takes one token, or fails immediately if there is none."""
    with needed("eventfd2", WORKERS):
        return os.eventfd(0, os.EFD_SEMAPHORE | os.EFD_NONBLOCK | os.EFD_CLOEXEC)


def take_token(descriptor: int) -> bool:
    try:
        os.eventfd_read(descriptor)
    except BlockingIOError:
        return False
    return True


# ------------------------------------------------------------------------------------------------------------- descriptors of a pool

_ours: weakref.WeakSet[Descriptors] = weakref.WeakSet()


class Descriptors:
    """The descriptors of one pool in this process. A forked child closes the descriptors that it does not keep."""

    def __init__(self) -> None:
        self.open: set[int] = set()
        self.kept: frozenset[int] = frozenset()  # descriptors that the child, which this pool is forking, must keep
        self.forked = False  # whether this is a child that another party forked
        _ours.add(self)

    def add(self, descriptor: int) -> int:
        """Take over a descriptor. It gets a high number, which a callable that closes and opens files does not get by accident."""
        moved = move_up(descriptor)
        self.open.add(moved)
        return moved

    def close(self, descriptor: int) -> None:
        self.open.discard(descriptor)
        try:
            os.close(descriptor)
        except OSError:
            pass  # another party closed it

    def close_all(self) -> None:
        while self.open:
            self.close(next(iter(self.open)))


def move_up(descriptor: int) -> int:
    """The same file under a number near the end of the table (CLOEXEC). The old number is closed."""
    if descriptor < 0:
        return descriptor
    try:
        soft = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    except OSError:
        soft = 1024  # a sandbox refuses the question
    start = min(soft if soft != resource.RLIM_INFINITY else 1024, 1024) // 2
    try:
        moved = fcntl.fcntl(descriptor, fcntl.F_DUPFD_CLOEXEC, start)
    except OSError:
        return descriptor  # no higher number is free
    os.close(descriptor)
    return moved


def _close_in_child() -> None:
    for group in list(_ours):
        keep = group.kept
        group.forked = True
        for descriptor in list(group.open):
            if descriptor not in keep:
                group.close(descriptor)


os.register_at_fork(after_in_child=_close_in_child)

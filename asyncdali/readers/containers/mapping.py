"""Maps files into memory, so that records are read in the system's page cache."""

from __future__ import annotations

import ctypes
import mmap
import os

import numpy as np

from ...batch import ReadOnlyMemory

_libc = ctypes.CDLL(None, use_errno=True)
_map = _libc.mmap
_map.restype = ctypes.c_void_p
_map.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_int64]
_unmap = _libc.munmap
_unmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t]
_FAILED = ctypes.c_void_p(-1).value
_NOTHING = np.zeros(64, np.uint8)


class MappedFile(ReadOnlyMemory):
    """The first `size` bytes of an open file, at `address`, read-only, until the last view is dropped.

    The descriptor may be closed and the file removed in the meantime; Python's own maps would each keep a descriptor. Raises OSError if the
    file system cannot map.

    If the file was truncated later, touching the lost bytes ends the process (SIGBUS). So a system call first reads each record's last
    byte, and fails if the byte is lost; see ``ContainerReader.mapped``.
    """

    __slots__ = ("_unmap", "address", "size")

    def __init__(self, descriptor: int, size: int):
        super().__init__()
        self.size = 0
        self._unmap = _unmap  # the finaliser may run when the interpreter has already cleared the module
        if size == 0:
            self.address = _NOTHING.ctypes.data
            return
        found = _map(None, size, mmap.PROT_READ, mmap.MAP_SHARED, descriptor, 0)
        if found == _FAILED:
            code = ctypes.get_errno()
            raise OSError(code, os.strerror(code))
        self.address, self.size = int(found), size

    def __del__(self) -> None:
        if self.size:
            self._unmap(self.address, self.size)

"""Files mapped into memory, to be read where the system's page cache holds them."""

from __future__ import annotations

import ctypes
import mmap
import os

import numpy as np

from ..batch import ReadOnlyMemory

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

    The descriptor may be closed and the file removed meanwhile. Python's own maps would each keep a descriptor. Raises OSError where
    the file system cannot map.

    Bytes that the file has lost since cannot be read: touching them ends the process (SIGBUS). So each record's last byte is read with a
    system call first, which tells; see ``ContainerReader.mapped``.
    """

    __slots__ = ("_unmap", "address", "size")

    def __init__(self, descriptor: int, size: int):
        super().__init__()
        self.size = 0
        self._unmap = _unmap  # it must still be there when the interpreter has forgotten the module
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

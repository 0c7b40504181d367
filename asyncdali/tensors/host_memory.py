"""Access of tensors to plain memory, and checks of users' addresses."""

from __future__ import annotations

import ctypes
import operator
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..batch import AddressView, Batch


class HostMemory:
    """Access of tensors to plain memory.

    A CUDA device provides the same methods over its own arrays, which have numpy's shape, dtype, nbytes, reshape and view. `allocate` gives
    memory for copies (a uint8 array of a size); a pool's memory is much cheaper than fresh pages.
    """

    def __init__(self, allocate: Callable[[int], np.ndarray] | None = None):
        self._allocate = allocate

    @staticmethod
    def owns(memory: object) -> bool:
        """Whether this is the memory of a tensor list."""
        return isinstance(memory, HostMemory)

    @staticmethod
    def wrap(address: int, shape: Sequence[int], dtype: np.dtype, owner: object) -> np.ndarray:
        """A writable array over memory at `address`; keeps `owner` alive."""
        return np.asarray(AddressView(address, shape, dtype, owner))

    @staticmethod
    def sample(batch: Batch, index: int) -> np.ndarray:
        """An array over one sample."""
        return batch.sample(index)

    @staticmethod
    def empty(size: int) -> np.ndarray:
        """`size` bytes (uint8)."""
        return np.empty(size, np.uint8)

    @staticmethod
    def address(array: Any) -> int:
        """Address of the first element."""
        return int(array.ctypes.data)

    def to_host(self, array: Any) -> np.ndarray:
        """A copy in host memory, complete on return."""
        if self._allocate is None:
            return np.array(array)
        copy: np.ndarray = self._allocate(array.nbytes)[: array.nbytes].view(array.dtype).reshape(array.shape)
        np.copyto(copy, array)
        return copy

    @staticmethod
    def copy(target: int, source: int, size: int, stream: int | None = None, blocking: bool = True) -> None:
        """Copy bytes between addresses of this memory, in the order of `stream` if there are streams."""
        ctypes.memmove(target, source, size)

    @staticmethod
    def copy_samples(target: int, batch: Batch, stream: int | None = None, blocking: bool = True) -> None:
        """Copy all samples of `batch`, one after another, to `target`, in the order of `stream` if there are streams."""
        sizes = batch.sizes()
        if batch.contiguous:
            sizes = sizes.sum(keepdims=True)
        for source, size in zip(batch.addresses.tolist(), sizes.tolist(), strict=False):
            ctypes.memmove(target, source, size)
            target += size


HOST = HostMemory()


_FIRST_ADDRESS = 4096  # operating systems do not map the first page, so lower addresses are mistakes


def pointer(ptr: Any, size: int) -> int:
    """The address of a user's pointer. Raises an error for invalid addresses."""
    if isinstance(ptr, ctypes.c_void_p):
        address = ptr.value or 0
    elif isinstance(ptr, (ctypes.Array, ctypes._Pointer)):
        address = ctypes.cast(ptr, ctypes.c_void_p).value or 0
    elif ptr is None:
        address = 0
    else:
        try:
            address = operator.index(ptr)
        except TypeError:
            raise TypeError(f"expected an address as ctypes.c_void_p or int, got {type(ptr).__name__}") from None
    if address < _FIRST_ADDRESS and size:
        raise ValueError(f"cannot copy {size} bytes to address {address}: a null or invalid pointer")
    return address

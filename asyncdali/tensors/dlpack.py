"""DLPack in host memory: import and export."""

from __future__ import annotations

from typing import Any

import numpy as np

from .host_memory import HOST

CPU_DEVICE = (1, 0)  # kDLCPU


class _Capsule:
    """Wraps a bare DLPack capsule in an object with the protocol of `np.from_dlpack`."""

    def __init__(self, capsule: object):
        self._capsule = capsule

    def __dlpack__(self, **_: object) -> Any:
        return self._capsule

    def __dlpack_device__(self) -> tuple[int, int]:
        return CPU_DEVICE


def is_capsule(value: object) -> bool:
    return type(value).__name__ == "PyCapsule"


def from_dlpack(source: Any) -> np.ndarray:
    """A host array of a DLPack object or bare capsule, without a copy.

    An unversioned capsule has no read-only flag. numpy treats such a capsule as read-only, but its memory is writable.
    """
    array = np.from_dlpack(_Capsule(source) if is_capsule(source) else source)
    if array.flags.writeable or not array.flags.c_contiguous:
        return array
    return HOST.wrap(array.ctypes.data, array.shape, array.dtype, array)


def export(array: np.ndarray, max_version: tuple[int, int] | None, dl_device: Any, copy: bool | None) -> Any:
    """A capsule over a host array; over a copy with `copy`. If `copy` is None, see :func:`to_share`.

    BufferError for a `dl_device` other than the CPU.
    """
    if dl_device is not None and (int(dl_device[0]), int(dl_device[1])) != CPU_DEVICE:
        raise BufferError(
            f"a tensor in CPU memory cannot be exported to DLPack device {tuple(dl_device)}; only the CPU, (1, 0), is possible"
        )
    shared = to_share(array) if copy is None else array.copy() if copy else array
    return shared.__dlpack__(max_version=max_version)


def to_share(array: np.ndarray) -> np.ndarray:
    """The array for other libraries: `array` itself, or a copy if its memory is read-only (records of mapped files).

    Libraries do not know or ignore DLPack's read-only flag, and writing would end the process.
    """
    return array if array.flags.writeable else array.copy()

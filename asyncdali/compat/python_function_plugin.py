"""Functions for callbacks of ``fn.python_function``: their stream, and DLPack capsules."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np

__all__ = ["ArrayToDLTensor", "DLTensorObj", "DLTensorToArray", "current_dali_stream"]


def current_dali_stream() -> int:
    """The handle of the CUDA stream on which a callback of a GPU operator runs; 0 on the CPU."""
    cupy = sys.modules.get("cupy")  # callbacks of GPU operators run on CuPy's current stream
    return 0 if cupy is None else int(cupy.cuda.get_current_stream().ptr)


class DLTensorObj:
    """An array whose memory other libraries may view: ``numpy.from_dlpack(DLTensorObj(array))``."""

    def __init__(self, array: object):
        self._array = np.asarray(array)

    def __dlpack__(self, **options: Any) -> Any:
        return self._array.__dlpack__(**options)

    def __dlpack_device__(self) -> tuple[int, int]:
        return self._array.__dlpack_device__()


class _CapsuleObject:
    def __init__(self, capsule: object):
        self._capsule = capsule

    def __dlpack__(self, **_: object) -> Any:
        return self._capsule

    def __dlpack_device__(self) -> tuple[int, int]:
        return (1, 0)


def ArrayToDLTensor(array: object) -> Any:
    """A DLPack capsule over the memory of a numpy array."""
    return np.asarray(array).__dlpack__()


def DLTensorToArray(capsule: object) -> np.ndarray:
    """A numpy array over the memory of a DLPack capsule. A capsule can be used once."""
    return np.from_dlpack(_CapsuleObject(capsule))

"""nvJPEG through ctypes. One binding serves libraries 12 and 13, because the functions used here are equal."""

from __future__ import annotations

import ctypes
import importlib.util
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from .nvjpeg_tables import NVJPEG_IMAGE

BACKEND_GPU_HYBRID, BACKEND_HARDWARE = 2, 3
OUTPUT_RGBI, OUTPUT_BGRI, OUTPUT_Y = 5, 6, 2
FLAG_FANCY_UPSAMPLING = 32
STATUS = (
    "success", "not initialized", "invalid parameter", "bad JPEG", "JPEG not supported", "allocator failure", "execution failed",
    "architecture mismatch", "internal error", "implementation not supported", "incomplete bitstream",
)  # fmt: skip
ALLOCATOR_FAILURE, ARCH_MISMATCH = 5, 7
OF_FILES = (3, 4, 9, 10)
"""Statuses that concern a file: bad, not supported, incomplete."""

IMAGE = np.dtype([(field.name, "<u8", len(field.words)) for field in NVJPEG_IMAGE.fields])
"""nvjpegImage_t."""

_POINTER, _SIZE, _INT, _UINT = ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_uint
_SIGNATURES: dict[str, tuple[Any, ...]] = {
    "GetProperty": (_INT, _POINTER),
    "CreateEx": (_INT, _POINTER, _POINTER, _UINT, _POINTER),
    "Destroy": (_POINTER,),
    "GetHardwareDecoderInfo": (_POINTER, _POINTER, _POINTER),
    "SetDeviceMemoryPadding": (_SIZE, _POINTER),
    "SetPinnedMemoryPadding": (_SIZE, _POINTER),
    "JpegStateCreate": (_POINTER, _POINTER),
    "JpegStateDestroy": (_POINTER,),
    "JpegStreamCreate": (_POINTER, _POINTER),
    "JpegStreamDestroy": (_POINTER,),
    "JpegStreamParseHeader": (_POINTER, _POINTER, _SIZE, _POINTER),
    "DecodeBatchedInitialize": (_POINTER, _POINTER, _INT, _INT, _INT),
    "DecodeBatchedPreAllocate": (_POINTER, _POINTER, _INT, _INT, _INT, _INT, _INT),
    "DecodeBatchedSupported": (_POINTER, _POINTER, _POINTER),
    "DecodeBatched": (_POINTER, _POINTER, _POINTER, _POINTER, _POINTER, _POINTER),
}


class NvjpegError(Exception):
    """A call of nvJPEG failed; `status` is its status."""

    def __init__(self, name: str, status: int):
        text = STATUS[status] if 0 <= status < len(STATUS) else "unknown status"
        super().__init__(f"nvjpeg{name}: {text} ({status})")
        self.status = status


class PicturesMissing(NvjpegError):
    """A batch was decoded with success, but some pictures were not written."""

    def __init__(self, pictures: int, batch: int):
        super().__init__("DecodeBatched", OF_FILES[0])
        self.args = (f"nvjpegDecodeBatched reported success, but {pictures} of {batch} pictures were not written",)


class Library:
    """The functions of a loaded library; ``library.call("DecodeBatched", ...)`` raises NvjpegError unless it succeeds."""

    def __init__(self, path: str):
        self.path = path
        library = ctypes.CDLL(path)
        self._functions = {}
        self._addresses = {}
        for name, types in _SIGNATURES.items():
            function = getattr(library, f"nvjpeg{name}")
            function.argtypes, function.restype = types, _INT
            self._functions[name] = function
            self._addresses[name] = ctypes.cast(function, ctypes.c_void_p).value or 0
        self.version = tuple(self._property(kind) for kind in range(3))

    def _property(self, kind: int) -> int:
        value = ctypes.c_int()
        self.call("GetProperty", kind, ctypes.byref(value))
        return value.value

    def call(self, name: str, *arguments: object) -> None:
        status = self._functions[name](*arguments)
        if status:
            raise NvjpegError(name, status)

    def address(self, name: str) -> int:
        """The address of the function."""
        return self._addresses[name]

    def handle(self, name: str, *arguments: object) -> ctypes.c_void_p:
        """Call a function whose last argument receives a new handle."""
        value = ctypes.c_void_p()
        self.call(name, *arguments, ctypes.byref(value))
        return value


def number(handle: Any) -> int:
    """An integer handle from :meth:`Library.handle`."""
    return int((handle.value or 0) if isinstance(handle, ctypes.c_void_p) else handle)


def _candidates() -> list[str]:
    """Possible places of the library: the folders of the wheels, then the loader's search path; newer versions first."""
    found = []
    spec = importlib.util.find_spec("nvidia")
    for root in spec.submodule_search_locations if spec is not None and spec.submodule_search_locations else ():
        for folder, name in (("cu13/lib", "libnvjpeg.so.13"), ("nvjpeg/lib", "libnvjpeg.so.13"), ("nvjpeg/lib", "libnvjpeg.so.12")):
            path = Path(root) / folder / name
            if path.exists():
                found.append(str(path))
    return [*found, "libnvjpeg.so.13", "libnvjpeg.so.12"]


@cache
def load() -> Library | None:
    """The library, or None if it is not installed."""
    for path in _candidates():
        try:
            return Library(path)
        except (OSError, AttributeError):
            continue
    return None

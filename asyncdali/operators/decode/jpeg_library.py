"""Which JPEG decoders there are. Where libjpeg-turbo comes from: the shared library that Pillow's wheels carry, or the system's.

The kernels call its classic API directly (scan-line reading with cropping and skipping), which no Python package exposes. The library must
speak ABI 6.2 on a 64-bit machine: the first call checks version and structure size, and a test picture is decoded before it is trusted.
"""

from __future__ import annotations

import base64
import ctypes
import ctypes.util
import glob
import os
import sys
import warnings
from functools import cache

import numpy as np

from ...compiled.memory import address_of

FUNCTIONS = (
    "jpeg_std_error", "jpeg_CreateDecompress", "jpeg_mem_src", "jpeg_read_header", "jpeg_start_decompress",
    "jpeg_crop_scanline", "jpeg_skip_scanlines", "jpeg_read_scanlines", "jpeg_destroy_decompress",
)  # fmt: skip
"""In the order of the kernels' function table; the two callbacks of our own follow."""

# An 8x8 grey JPEG of value 77, made by libjpeg-turbo itself.
_PROBE = base64.b64decode(
    "/9j/4AAQSkZJRgABAQAAAQABAAD/2wBDAAEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEB"
    "AQEBAQH/wAALCAAIAAgBAREA/8QAHwAAAQUBAQEBAQEAAAAAAAAAAAECAwQFBgcICQoL/8QAtRAAAgEDAwIEAwUFBAQAAAF9AQIDAAQRBRIhMUEG"
    "E1FhByJxFDKBkaEII0KxwRVS0fAkM2JyggkKFhcYGRolJicoKSo0NTY3ODk6Q0RFRkdISUpTVFVWV1hZWmNkZWZnaGlqc3R1dnd4eXqDhIWGh4iJ"
    "ipKTlJWWl5iZmqKjpKWmp6ipqrKztLW2t7i5usLDxMXGx8jJytLT1NXW19jZ2uHi4+Tl5ufo6erx8vP09fb3+Pn6/9oACAEBAAA/APxnr//Z"
)


def _candidates() -> list[str]:
    import PIL

    home = os.path.dirname(os.path.dirname(os.path.abspath(PIL.__file__)))
    found = sorted(glob.glob(os.path.join(home, "pillow.libs", "libjpeg*.so*")))
    found += sorted(glob.glob(os.path.join(home, "PIL", ".dylibs", "libjpeg*.dylib")))
    found += ["libjpeg.so.62"] if sys.platform == "linux" else []
    return found


@cache
def function_table() -> np.ndarray | None:
    """Addresses (int64) of :data:`FUNCTIONS` and our callbacks, or None (with one warning) if no usable library was found."""
    if sys.maxsize < 2**32 or sys.platform not in ("linux", "darwin"):
        _warn_missing("only 64-bit Linux and macOS are supported")
        return None
    reasons = []
    for path in _candidates():
        try:
            library = ctypes.CDLL(path)
            table = _table(library)
        except (OSError, AttributeError) as error:
            reasons.append(f"{path}: {error}")
            continue
        if _trusted(table):
            return table
        reasons.append(f"{path}: another ABI")
    _warn_missing("; ".join(reasons) or "no library found")
    return None


def _warn_missing(reason: str) -> None:
    warnings.warn(
        f"libjpeg-turbo is not available to compiled code ({reason}); JPEGs are decoded by OpenCV from Python, which is slower. "
        "Install Pillow from its wheel.",
        RuntimeWarning,
        stacklevel=3,
    )


def _table(library: ctypes.CDLL) -> np.ndarray:
    from . import jpeg_kernels

    addresses = [ctypes.cast(getattr(library, name), ctypes.c_void_p).value for name in FUNCTIONS]
    table = np.array([*addresses, *(function.address for function in jpeg_kernels.callbacks())], np.int64)
    _keep.append(library)
    return table


_keep: list[ctypes.CDLL] = []


def _trusted(table: np.ndarray) -> bool:
    """Whether the library decodes the test picture through our view of its structures."""
    from . import jpeg_kernels

    data = np.frombuffer(_PROBE, np.uint8)
    image, code, _ = jpeg_kernels.decode_whole(table, data, 8, 8, 1, 1)
    return code == 0 and bool((image == 77).all())


def switched_off() -> bool:
    """Whether the environment turns our own decoder off: ``ASYNCDALI_JPEG=turbo``. ValueError for other values than that and "own"."""
    asked = os.environ.get("ASYNCDALI_JPEG", "")
    if asked not in ("", "own", "turbo"):
        raise ValueError(f"the environment variable ASYNCDALI_JPEG is {asked!r}; allowed are 'own' (the default) and 'turbo'")
    return asked == "turbo"


def described() -> str:
    """Who decodes JPEGs, for people: what the environment says, nothing is loaded."""
    try:
        if switched_off():
            return "libjpeg-turbo decodes all files (ASYNCDALI_JPEG=turbo)"
    except ValueError as error:
        return str(error)
    return "asyncdali's own decoder, libjpeg-turbo for the files that it hands over (`statistics()` counts both)"


def own_decoder(table: np.ndarray | None) -> int:
    """Address of our own decoder; 0 where it is turned off or fails, or where there is no libjpeg-turbo (its function table `table`)."""
    if switched_off() or table is None or not _equal_to_turbo(address_of(table)):
        return 0
    from .jpeg import window

    return window.decode_window.address


@cache
def _equal_to_turbo(table: int) -> bool:
    """Whether our own decoder works on this machine: it decodes the test picture."""
    from . import jpeg_kernels
    from .jpeg import window

    data, counts = np.frombuffer(_PROBE, np.uint8), np.zeros(2, np.int64)
    functions = np.ctypeslib.as_array(ctypes.cast(table, ctypes.POINTER(ctypes.c_int64)), (len(FUNCTIONS) + 2,))
    own = window.decode_window.address
    image, _, _ = jpeg_kernels.decode_whole(functions, data, 8, 8, 1, 1, own=own, counts=address_of(counts))
    if counts[0] == 1 and (image == 77).all():
        return True
    warnings.warn(
        "asyncdali's own JPEG decoder does not decode a test picture on this machine; libjpeg-turbo decodes all JPEGs, which is slower. "
        "Please report the processor and the versions of Numba and llvmlite.",
        RuntimeWarning,
        stacklevel=3,
    )
    return False

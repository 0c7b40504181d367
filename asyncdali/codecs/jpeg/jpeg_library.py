"""Selection of the JPEG decoder. libjpeg-turbo comes from the shared library in Pillow's wheels, or from the system.

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

from ...compiled.addresses import address_of
from .jpeg_tables import DECODE_COUNTS, LIBJPEG

_OURS = ("on_error", "on_message")
FUNCTIONS = {field.name: field.meaning for field in LIBJPEG.fields if field.name not in _OURS}
"""The library's functions: (name in the table, name in the library)."""

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

    addresses = {name: ctypes.cast(getattr(library, symbol), ctypes.c_void_p).value for name, symbol in FUNCTIONS.items()}
    ours = {name: function.address for name, function in zip(_OURS, jpeg_kernels.callbacks(), strict=True)}
    table, _ = LIBJPEG.make(**addresses, **ours)
    _keep.append(library)
    return table


_keep: list[ctypes.CDLL] = []


def _trusted(table: np.ndarray) -> bool:
    """Whether the library decodes the test picture through our view of its structures."""
    from . import jpeg_kernels

    data = np.frombuffer(_PROBE, np.uint8)
    image, code, _ = jpeg_kernels.decode_whole(table, data, (8, 8, 1), 1)
    return code == 0 and bool((image == 77).all())


def switched_off() -> bool:
    """Whether ``ASYNCDALI_JPEG=turbo`` turns our own decoder off. ValueError for values other than "turbo" and "own"."""
    asked = os.environ.get("ASYNCDALI_JPEG", "")
    if asked not in ("", "own", "turbo"):
        raise ValueError(f"the environment variable ASYNCDALI_JPEG is {asked!r}; allowed are 'own' (the default) and 'turbo'")
    return asked == "turbo"


MOST_POSITIONS_MB = 256
"""Default limit of block positions per process, in megabytes: room for 250,000 photographs of 500x375 pixels."""


def positions_mb() -> int:
    """Megabytes of block positions to keep, from ``ASYNCDALI_JPEG_INDEX``; 0 keeps none. ValueError if the value is not a number."""
    asked = os.environ.get("ASYNCDALI_JPEG_INDEX", str(MOST_POSITIONS_MB))
    if not asked.isdecimal() or int(asked) > 1_000_000:
        raise ValueError(
            f"the environment variable ASYNCDALI_JPEG_INDEX is {asked!r}; allowed are megabytes of block positions to keep: 0 (none) to "
            f"1000000. Default: {MOST_POSITIONS_MB}"
        )
    return int(asked)


def described() -> str:
    """The name of the JPEG decoder, for people, according to the environment. Loads nothing."""
    try:
        if switched_off():
            return "libjpeg-turbo decodes all files (ASYNCDALI_JPEG=turbo)"
        kept = positions_mb()
    except ValueError as error:
        return str(error)
    index = f"up to {kept} MB of block positions are kept for later epochs" if kept else "no block positions are kept for later epochs"
    return f"asyncdali's own decoder, libjpeg-turbo for the files that it hands over (`statistics()` counts both); {index}"


def compile_own_decoder() -> None:
    """Compile our own decoder, unless the environment turns it off."""
    if not switched_off():
        from . import window_decoding

        window_decoding.decode_window.compile()


def own_decoder(table: np.ndarray | None) -> int:
    """Address of our own decoder. 0 if the decoder is turned off or fails, or without libjpeg-turbo (function table `table`)."""
    if switched_off() or table is None:
        return 0
    from . import window_decoding

    return window_decoding.decode_window.address if _equal_to_turbo(address_of(table)) else 0


def positions() -> int:
    """Address of the index of block positions that all pipelines of the process share; 0 if the environment turns the index off."""
    from .block_positions import index

    kept = positions_mb()
    return address_of(index(kept * 1_000_000)) if kept else 0


# 21x18 pixels of waves and noise in 4:2:0 and 4:4:0: they test the whole transform, the filter in both directions and all colours.
_PICTURES = [
    base64.b64decode(text)
    for text in (
        "/9j/4AAQSkZJRgABAQAAAQABAAD/2wBDAAoHBwgHBgoICAgLCgoLDhgQDg0NDh0VFhEYIx8lJCIfIiEmKzcvJik0KSEiMEExNDk7Pj4+JS5ESUM8SDc9Pjv/2wBDAQoLCw"
        "4NDhwQEBw7KCIoOzs7Ozs7Ozs7Ozs7Ozs7Ozs7Ozs7Ozs7Ozs7Ozs7Ozs7Ozs7Ozs7Ozs7Ozs7Ozs7Ozv/wAARCAASABUDASIAAhEBAxEB/8QAGAABAAMBAAAAAAAAAAAA"
        "AAAAAAECAwX/xAAqEAACAQMCBAQHAAAAAAAAAAABAgMABBIFIQYRMWETFCJRFRYyNUHB8P/EABgBAAIDAAAAAAAAAAAAAAAAAAEEAAIF/8QAKREAAQICBwkBAAAAAAAAAA"
        "AAAQACQXEDERIhMWGxBCIyMzRRcoGRwf/aAAwDAQACEQMRAD8AnxY9QvfjZQpYWqhcT0Y1WKeOGWXiC7UeXk2ijPQe392pPAr3sei2z42CgGZuW2VESHUdQa0f7Zag4Mx5"
        "AkdP3QuqvvFX1sDNqDchIZRbMQS3tvKhrrUGXK79aK5+kdtx70qsS3OryyvNI8UUTYQ8tgVFKDrNe/RknuMDmmGNp7IsMDhAnFYaQ7fJ16+Ryybfnv8AmpnZl4FtWBIZiA"
        "SDudxSlXZxNm/9UdzD5jRde7VRp9jyUD0HoOwpSlaWx9OySXZh7Oq//9k=",
        "/9j/4AAQSkZJRgABAQAAAQABAAD/2wBDAAoHBwgHBgoICAgLCgoLDhgQDg0NDh0VFhEYIx8lJCIfIiEmKzcvJik0KSEiMEExNDk7Pj4+JS5ESUM8SDc9Pjv/2wBDAQoLCw"
        "4NDhwQEBw7KCIoOzs7Ozs7Ozs7Ozs7Ozs7Ozs7Ozs7Ozs7Ozs7Ozs7Ozs7Ozs7Ozs7Ozs7Ozs7Ozs7Ozv/wAARCAASABUDARIAAhEBAxEB/8QAGAABAAMBAAAAAAAAAAAA"
        "AAAAAAECAwX/xAAqEAACAQMCBAQHAAAAAAAAAAABAgMABBIFIQYRMWETFCJRFRYyNUHB8P/EABgBAAMBAQAAAAAAAAAAAAAAAAECAwQA/8QALBEAAQIDBQUJAAAAAAAAAA"
        "AAAQACAxFxBBIxM0EFEzRRYSIjQ0VSgaHB8P/aAAwDAQACEQMRAD8AnxY9QvfjZQpYWqhcT0Y1WeBXvY9FtnxsFAMzctsq4EXPWz5alYSCd2KsP0kU8cMsvEF2o8vJtFGe"
        "g9v7tREh1HUGtH+2WoODMeQJHT90DKQ3hm3RwxFUzZXTc7TNWnEUS3tvKhrrUGXK79aK5+kdtx71WJbnV5ZXmkeKKJsIeWwKii+fiMv8iNQqQhFLe6Ae3riOiw0h2+Tr18"
        "jlk2/Pf80qln4qLRNa+Kh0Uzsy8C2rAkMxAJB3O4pUrFlxapvMCuvdqo0+x5KB6D0HYUrVsvI91jbnP/c1/9k=",
    )
]


@cache
def _equal_to_turbo(table: int) -> bool:
    """Whether our own decoder works on this machine: it must decode two test pictures like the libjpeg-turbo of function table `table`."""
    from . import jpeg_kernels, window_decoding

    functions = np.ctypeslib.as_array(ctypes.cast(table, ctypes.POINTER(ctypes.c_int64)), (LIBJPEG.words,))
    counts = DECODE_COUNTS.zeros(1)[0]
    for picture in _PICTURES:
        data = np.frombuffer(picture, np.uint8)
        expected, _, _ = jpeg_kernels.decode_whole(functions, data, (18, 21, 3), 3)
        own = jpeg_kernels.OwnDecoder(window_decoding.decode_window.address, counts=address_of(counts))
        image, _, _ = jpeg_kernels.decode_whole(functions, data, (18, 21, 3), 3, own=own)
        if counts[DECODE_COUNTS.word.turbo] or not np.array_equal(image, expected):
            warnings.warn(
                "asyncdali's own JPEG decoder and this libjpeg-turbo differ in a test picture (is the library older than 2.1?); "
                "libjpeg-turbo decodes all JPEGs, which is slower. Install Pillow from its wheel; if that does not help, please report "
                "the processor and the versions of Numba and llvmlite.",
                RuntimeWarning,
                stacklevel=3,
            )
            return False
    return True

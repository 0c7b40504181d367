"""Headers of NumPy files: element types, sizes, strides. ``npy_header_kernels`` fills the rows."""

from __future__ import annotations

import numpy as np

_KINDS = ("b1", "u1", "u2", "u4", "u8", "i1", "i2", "i4", "i8", "f2", "f4", "f8")


def reasons() -> dict[int, str]:
    """Error texts of the statuses."""
    from . import npy_header_kernels as kernels

    return {
        kernels.NOT_NUMPY: "not a NumPy file of a known version",
        kernels.BAD_HEADER: "Error extracting header: the header is not the dictionary that NumPy writes",
        kernels.STRUCTURED: "arrays of structures are not supported",
        kernels.TOO_LONG: "the header is too long",
    }


def element_dtype(code: int) -> np.dtype:
    """The element type of a code in a header; ValueError for an unsupported one."""
    order, letter, size = chr(code >> 16), chr(code >> 8 & 0xFF), code & 0xFF
    if f"{letter}{size}" not in _KINDS:
        raise ValueError(f"Unknown Numpy type string: {letter}{size}")
    if order == ">" and size > 1:
        raise ValueError("Big Endian files are not supported")
    return np.dtype(f"{letter}{size}")


def data_bytes(shapes: np.ndarray, width: int | np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Bytes of arrays with elements of `width` bytes, float64[samples], and whether their extents are impossibly large.

    Computed in floats, because a hostile shape overflows integers. An empty array may still have extents whose strides overflow.
    """
    volumes = shapes.astype(np.float64).prod(1) * width
    return volumes, np.maximum(shapes, 1).astype(np.float64).prod(1) * width > 2.0**60


def fortran_strides(shapes: np.ndarray, width: int) -> np.ndarray:
    """Byte strides along each axis, if the first axis is contiguous."""
    strides = np.full(shapes.shape, width, np.int64)
    if shapes.shape[1] > 1:
        strides[:, 1:] = np.cumprod(shapes[:, :-1], 1) * width
    return strides

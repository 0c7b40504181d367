"""Users' kernels for `numba.cuda`: their compilation for a GPU, and the arguments of their launches."""

from __future__ import annotations

import re
from types import FunctionType
from typing import Any

import numpy as np
from numba import from_dtype, void

from ...batch import Batch, storage_dtype
from ...device.launch import Code

_PASSED_ON = ("fastmath", "debug", "lineinfo", "opt")
_ENTRY = re.compile(r"\.entry\s+([^\s(]+)\s*\(")


def kernel_of(function: Any, name: str) -> tuple[FunctionType, dict[str, Any]]:
    """Unpack a plain function or a ``cuda.jit`` object: the function, and the options to compile it with.

    TypeError for anything else; ValueError for options that are not supported (code that is linked to the kernel, extensions).
    """
    options: dict[str, Any] = {}
    if not isinstance(function, FunctionType) and isinstance(getattr(function, "py_func", None), FunctionType):
        given = getattr(function, "targetoptions", {})
        for refused in ("link", "extensions", "max_registers"):
            if given.get(refused):
                raise ValueError(
                    f"`{name}` is compiled by cuda.jit with the option `{refused}`, which numba_function does not support; "
                    "compile it without the option"
                )
        options = {key: given[key] for key in _PASSED_ON if given.get(key) is not None}
        function = function.py_func
    if not isinstance(function, FunctionType):
        raise TypeError(f"`{name}` must be a function (with device='gpu' a kernel for numba.cuda), got {type(function).__name__}")
    return function, options


class NoCompiler(RuntimeError):
    """Numba cannot compile for GPUs here. The message says what to install."""

    def __init__(self, reason: BaseException):
        super().__init__(
            "numba_function(device='gpu') needs Numba's compiler for CUDA (numba.cuda with libNVVM), which cannot be used here: "
            f"{type(reason).__name__}: {reason}. Install it with pip install asyncdali[numba-cuda12] or asyncdali[numba-cuda13]"
            + (" numpy<2.5 (numba-cuda 0.30 does not go with newer NumPy)" if isinstance(reason, AttributeError) else "")
        )


def array_types(dtypes: list[np.dtype], ndims: list[int]) -> list[Any]:
    """Numba's types of dense arrays, for ``numba.cuda``; NoCompiler if ``numba.cuda`` is missing."""
    try:
        from numba import cuda  # noqa: F401  the separate package numba-cuda, if installed, replaces Numba's own module
    except ImportError as error:
        raise NoCompiler(error) from error
    try:
        from numba.cuda.types import Array
    except ImportError:
        from numba.types import Array
    return [Array(from_dtype(dtype), ndim, "C") for dtype, ndim in zip(dtypes, ndims)]


def compiled(
    function: FunctionType, options: dict[str, Any], dtypes: list[np.dtype], ndims: list[int], capability: tuple[int, int]
) -> Code:
    """Compile the kernel to PTX for GPUs of `capability`. It takes dense arrays. No GPU is needed.

    NoCompiler without ``numba.cuda`` or its libraries; RuntimeError with the reason if the function does not compile.
    """
    kinds = array_types(dtypes, ndims)
    from numba import cuda

    try:
        ptx, _ = cuda.compile_ptx(function, void(*kinds), cc=capability, **options)
    except Exception as error:
        # NvvmSupportError and similar. An AttributeError is Numba's own (numba-cuda 0.30 needs a name that NumPy 2.5 does not have):
        # Numba reports an unknown attribute in the user's function as a TypingError.
        if isinstance(error, (ImportError, OSError, AttributeError)) or type(error).__name__.endswith("SupportError"):
            raise NoCompiler(error) from error
        raise RuntimeError(f"`run_fn` cannot be compiled for the GPU: {type(error).__name__}: {error}") from error
    text = ptx.decode() if isinstance(ptx, bytes) else ptx
    found = _ENTRY.search(text)
    if found is None:
        raise RuntimeError("`run_fn` cannot be compiled for the GPU: Numba gave no kernel")
    return Code(text, found[1])


def launch_arguments(batches: list[Batch]) -> np.ndarray:
    """The kernel arguments for the samples of the batches, int64[samples, words].

    Numba passes an array by value: two pointers to its owner (null), number of elements, bytes of an element, address, extents, strides.
    """
    count = len(batches[0])
    columns: list[np.ndarray] = []
    for batch in batches:
        size = storage_dtype(batch.dtype).itemsize
        shapes = np.asarray(batch.shapes, np.int64).reshape(count, batch.ndim)
        after = np.ones((count, batch.ndim + 1), np.int64)  # number of elements of all dimensions behind a dimension
        for axis in reversed(range(batch.ndim)):
            after[:, axis] = after[:, axis + 1] * shapes[:, axis]
        zeros = np.zeros(count, np.int64)
        columns += [zeros, zeros, after[:, 0], zeros + size, np.asarray(batch.addresses, np.int64)]
        columns += [*shapes.T, *(after[:, 1:] * size).T]
    return np.ascontiguousarray(np.stack(columns, 1))

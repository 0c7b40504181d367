"""CUDA sources to machine code, by NVRTC."""

from __future__ import annotations

from typing import Any

from ..launch import COMPILE_OPTIONS
from . import code_cache


def machine_code(cupy: Any, source: str) -> bytes:
    """Compiled code, cached on disk. CuPy's RawModule is not used, because it always flushes small floats to zero."""
    nvrtc, capability = cupy.cuda.nvrtc, cupy.cuda.Device().compute_capability
    key = "\0".join([source, *COMPILE_OPTIONS, str(nvrtc.getVersion()), capability])
    code = code_cache.read(key)
    if code is None:
        code, _ = cupy.cuda.compiler.compile_using_nvrtc(source, COMPILE_OPTIONS)
        code_cache.write(key, code)
    return code

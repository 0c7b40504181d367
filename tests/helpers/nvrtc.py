"""NVRTC from its wheel: compiles kernels for GPUs that this machine does not have."""

from __future__ import annotations

import ctypes
import importlib.util
import os
from pathlib import Path

import pytest

from asyncdali.device.launch import COMPILE_OPTIONS

ARCHITECTURES = {12: (70, 75, 80, 86, 89, 90), 13: (75, 80, 86, 89, 90, 100, 103, 110, 120)}
"""Compute capabilities that each version of CUDA can compile for."""
REQUIRED = os.environ.get("ASYNCDALI_NVRTC", "") == "required"
"""In CI a missing library is a failure and not a skip."""


def libraries():
    """The NVRTC library of each version whose wheel is installed."""
    spec = importlib.util.find_spec("nvidia")
    found = {}
    for root in spec.submodule_search_locations if spec is not None and spec.submodule_search_locations else ():
        for version, folder in ((12, "cuda_nvrtc/lib"), (13, "cu13/lib")):
            path = Path(root) / folder / f"libnvrtc.so.{version}"
            if path.exists():
                found[version] = path
    return found


LIBRARIES = libraries()


def compile_for(library, text, architecture, options=COMPILE_OPTIONS, ptx=False):
    """The size of the machine code, or of the `ptx`, which a driver makes machine code of. AssertionError with the compiler's log."""
    program = ctypes.c_void_p()
    assert library.nvrtcCreateProgram(ctypes.byref(program), text.encode(), b"kernel.cu", 0, None, None) == 0
    flags = [option.encode() for option in (*options, f"--gpu-architecture={'compute' if ptx else 'sm'}_{architecture}")]
    status = library.nvrtcCompileProgram(program, len(flags), (ctypes.c_char_p * len(flags))(*flags))
    size = ctypes.c_size_t()
    library.nvrtcGetProgramLogSize(program, ctypes.byref(size))
    log = ctypes.create_string_buffer(size.value)
    library.nvrtcGetProgramLog(program, log)
    (library.nvrtcGetPTXSize if ptx else library.nvrtcGetCUBINSize)(program, ctypes.byref(size))
    library.nvrtcDestroyProgram(ctypes.byref(program))
    assert status == 0, log.value.decode()
    return size.value


def library_of(version):
    if version not in LIBRARIES:
        (pytest.fail if REQUIRED else pytest.skip)(f"NVRTC {version} is not installed (pip install asyncdali[test])")
    return ctypes.CDLL(str(LIBRARIES[version]))

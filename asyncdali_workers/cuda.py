"""Asks the CUDA driver whether it is initialised, and for the current context, without initialising it."""

from __future__ import annotations

import ctypes
import os

NOT_INITIALISED = 3


def _loaded_driver() -> ctypes.CDLL | None:
    """The CUDA driver, if this process has loaded it. Every release has this name inside, wherever its file is."""
    try:
        return ctypes.CDLL("libcuda.so.1", os.RTLD_NOLOAD | os.RTLD_NOW)
    except OSError:
        return None


def cuda_initialised() -> bool:
    """Whether the CUDA driver is initialised in this process. A process that has not loaded it cannot have initialised it."""
    driver = _loaded_driver()
    return driver is not None and driver.cuDeviceGetCount(ctypes.byref(ctypes.c_int())) != NOT_INITIALISED


def current_context() -> int:
    """The calling thread's CUDA context, for ``cuCtxSetCurrent``; 0 if it has none, or if this process has not loaded the driver."""
    driver = _loaded_driver()
    if driver is None:
        return 0
    context = ctypes.c_void_p()
    driver.cuCtxGetCurrent(ctypes.byref(context))  # an error before CUDA is initialised: then there is no context
    return context.value or 0


def check_fork_allowed() -> None:
    """Raise RuntimeError if CUDA is initialised here, because the driver does not work in a forked child."""
    if cuda_initialised():
        raise RuntimeError(
            "a process cannot be forked once CUDA is initialised in it. Either call start_py_workers() on every pipeline before any of "
            "them is built or run (and before anything else uses CUDA), or have workers started in another way: py_start_method='spawn'"
        )

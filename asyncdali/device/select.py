"""Finds the device for a pipeline's `device_id` on this machine."""

from __future__ import annotations

import ctypes
import importlib.util
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from asyncdali_workers.cuda import current_context

from ..messages.notices import warn

if TYPE_CHECKING:
    from .base import Device
    from .cuda.device import CudaDevice
    from .cuda.driver import Driver

_warned: set[str] = set()


def cuda_driver_present() -> bool:
    """Whether a CUDA driver library can be loaded. It is not initialised."""
    try:
        ctypes.CDLL("libcuda.so.1")
    except OSError:
        return False
    return True


def cuda_may_be_used() -> bool:
    """Whether this process has used CUDA, or can try to: a driver library is there."""
    return _driver is not None or cuda_driver_present()


class NoCuda(Exception):
    """The reason why no GPU can be used."""


def _cupy_driver() -> Driver:
    """The driver of this process. NoCuda gives the reason if there is none. This initialises CUDA."""
    if not cuda_driver_present():
        raise NoCuda("no CUDA driver was found (libcuda.so.1)")
    if importlib.util.find_spec("cupy") is None:
        raise NoCuda("CuPy is not installed (pip install asyncdali[cuda12] or asyncdali[cuda13])")
    from .cuda.driver import CupyDriver, OutdatedDriver

    try:
        driver = CupyDriver()
        if driver.device_count() < 1:
            raise NoCuda("there is no CUDA device")
    except NoCuda:
        raise
    except ImportError as error:
        raise NoCuda(f"CuPy cannot be imported: {error}") from error
    except OutdatedDriver as error:
        raise NoCuda(str(error)) from error
    except Exception as error:  # a broken installation, or a device that is in use by another process
        raise NoCuda(f"CUDA cannot be used: {error}") from error
    return driver


_driver: Driver | None = None
make_driver: Callable[[], Driver] = _cupy_driver
"""Tests put a stand-in here."""


def _users_context() -> int:
    """The calling thread's CUDA context; 0 if it has none. ``torch.cuda.set_device`` may have made it before our driver is made."""
    return current_context() if _driver is None else _driver.current()


@contextmanager
def users_device() -> Iterator[None]:
    """Restore the calling thread's device after the block, because the thread is the user's."""
    before = _users_context()
    try:
        yield
    finally:
        if _driver is not None:
            _driver.restore(before)


def _wish() -> str:
    wish = os.environ.get("ASYNCDALI_DEVICE", "")
    if wish not in ("", "host", "cuda"):
        raise ValueError(f"ASYNCDALI_DEVICE={wish!r}: expected 'host' or 'cuda'")
    return wish


def choose_gpu(device_id: int | None, needs_gpu: bool) -> CudaDevice | None:
    """The GPU of a pipeline with `device_id`. None for the host device, with one warning per reason if the user wants a GPU.

    ``ASYNCDALI_DEVICE=cuda`` turns the warning into an error (RuntimeError), ``=host`` selects the host device silently. A pipeline without
    GPU operators uses no GPU.
    """
    global _driver
    wish = _wish()
    if wish == "host" or (device_id is None and not needs_gpu):
        return None
    which = "a GPU operator" if device_id is None else f"device_id={device_id}"
    try:
        if not needs_gpu:
            if _driver is None and not cuda_driver_present():
                raise NoCuda("no CUDA driver was found (libcuda.so.1)")
            return None
        if _driver is None:
            _driver = make_driver()
    except NoCuda as error:
        _on_host(which, str(error), wish)
        return None
    from .cuda.device import CudaDevice

    return CudaDevice(_driver, 0 if device_id is None else int(device_id))


def device_of(gpu: CudaDevice | None) -> Device:
    """The device that runs mixed and gpu operators: the chosen GPU, or a new host device."""
    if gpu is not None:
        return gpu
    from .host import HostDevice

    return HostDevice()


def device_count() -> int:
    """Number of CUDA devices; 0 if CUDA cannot be used. This initialises CUDA."""
    global _driver
    try:
        _driver = _driver or make_driver()
    except NoCuda:
        return 0
    return _driver.device_count()


def _on_host(which: str, reason: str, wish: str) -> None:
    if wish == "cuda":
        raise RuntimeError(f"{which}: {reason}, and ASYNCDALI_DEVICE=cuda forbids the host device")
    if reason not in _warned:
        _warned.add(reason)
        warn(
            f"{which}: {reason}; running on the host device instead (same results, on the CPU). "
            "Set ASYNCDALI_DEVICE=host to silence this warning, ASYNCDALI_DEVICE=cuda to make this an error.",
            RuntimeWarning,
        )

"""Which device a pipeline's `device_id` means on this machine."""

from __future__ import annotations

import ctypes
import os

from .._notices import warn

_warned: set[str] = set()


def cuda_driver_present() -> bool:
    """Whether a CUDA driver library can be loaded (it is not initialised)."""
    try:
        ctypes.CDLL("libcuda.so.1")
    except OSError:
        return False
    return True


def use_host_device(device_id: int | None, needs_gpu: bool) -> None:
    """Settle on the host device for a pipeline with `device_id`, with one warning per reason when the user asked for a GPU.

    ``ASYNCDALI_DEVICE=cuda`` makes that an error (RuntimeError), ``=host`` asks for it silently.
    """
    wish = os.environ.get("ASYNCDALI_DEVICE", "")
    if wish not in ("", "host", "cuda"):
        raise ValueError(f"ASYNCDALI_DEVICE={wish!r}: expected 'host' or 'cuda'")
    if wish == "host" or (device_id is None and not needs_gpu):
        return
    reason = (
        "this version has no CUDA device implementation yet" if cuda_driver_present() else "no CUDA driver was found (libcuda.so.1)"
    )
    which = "a GPU operator" if device_id is None else f"device_id={device_id}"
    if wish == "cuda":
        raise RuntimeError(f"{which}: {reason}, and ASYNCDALI_DEVICE=cuda forbids the host device")
    if reason not in _warned:
        _warned.add(reason)
        warn(
            f"{which}: {reason}; running on the host device instead (same results, on the CPU). "
            "Set ASYNCDALI_DEVICE=host to say so, ASYNCDALI_DEVICE=cuda to make this an error.",
            RuntimeWarning,
        )

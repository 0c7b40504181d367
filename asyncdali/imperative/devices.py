"""Devices of dynamic mode: the CPU, and GPUs by number."""

from __future__ import annotations

import functools
import os
import re
from collections.abc import Callable
from typing import Any, TypeAlias

from ..device.select import cuda_may_be_used, device_count
from ..system.entered import Entered, Leave

_NAME = re.compile(r"(cpu|gpu|cuda)(?::(\d+))?")
_DLPACK_CPU, _DLPACK_GPU, _DLPACK_PINNED, _DLPACK_MANAGED = 1, 2, 3, 13


@functools.cache
def initial_number() -> int | None:
    """The GPU of a thread that has entered no device; None: the CPU."""
    return 0 if cuda_may_be_used() and gpu_count() else None


def forget() -> None:
    """Look for GPUs again at the next call; for tests."""
    initial_number.cache_clear()


def current_number() -> int | None:
    """The GPU of the current device; None: the CPU."""
    entered = _devices.innermost() if _devices.entries else None
    return initial_number() if entered is None else entered.device_id


_devices = Entered()


def entered_devices() -> list[Any]:
    """The entries of the calling thread, also those that are over. It is one list for the life of the thread."""
    return _devices.entries


def has_gpu() -> bool:
    """Whether GPUs can be named: there is a driver, or ASYNCDALI_DEVICE=host makes the host device stand in for GPU 0."""
    return os.environ.get("ASYNCDALI_DEVICE") == "host" or cuda_may_be_used()


def gpu_count() -> int:
    """Number of GPUs. The host device counts as one."""
    if os.environ.get("ASYNCDALI_DEVICE") == "host" or not cuda_may_be_used():
        return int(has_gpu())
    return device_count()


class Device:
    """A device: "cpu", "gpu" (the current GPU, or number 0) or "gpu:<n>"; "cuda" is "gpu". As a context manager it is the current one.

    Args:
        name: the name.
        device_id: the GPU's number, if the name has none.

    Raises:
        ValueError: an unknown name, a number for the CPU, or a GPU that does not exist.
        TypeError: `name` is no string, or `device_id` no integer.
        RuntimeError: a GPU without a CUDA driver (ASYNCDALI_DEVICE=host runs programs for GPUs on the CPU).
    """

    __slots__ = ("device_id", "device_type")
    CPU: Device

    def __init__(self, name: str, device_id: int | None = None):
        if not isinstance(name, str):
            raise TypeError(f"the name of a device is a string, got {type(name).__name__}")
        match = _NAME.fullmatch(name)
        if match is None:
            hint = "; dynamic mode has no 'mixed' device: give 'gpu'" if name == "mixed" else ""
            raise ValueError(f"{name!r} is not a device; expected 'cpu', 'gpu' or 'gpu:<number>'{hint}")
        if device_id is not None and (isinstance(device_id, bool) or not hasattr(device_id, "__index__")):
            raise TypeError(f"the number of a GPU is an integer, got {device_id!r}")
        if match[2] is not None:
            if device_id is not None and int(device_id) != int(match[2]):
                raise ValueError(f"{name!r} and device_id={device_id} name two GPUs")
            device_id = int(match[2])
        self.device_type = "cpu" if match[1] == "cpu" else "gpu"
        self.device_id: int | None = None
        if self.device_type == "cpu":
            if device_id is not None:
                raise ValueError(f"the CPU has no number, got {device_id}")
            return
        missing = "" if has_gpu() else (
            "no CUDA driver was found (libcuda.so.1). ASYNCDALI_DEVICE=host runs programs for GPUs on the CPU, with the same results"
        )  # fmt: skip
        if missing and device_id is None:
            raise RuntimeError(f"device {name!r}: {missing}")
        self.device_id = _current_gpu() if device_id is None else int(device_id)
        count = 0 if missing else gpu_count()
        if not 0 <= self.device_id < count:
            raise ValueError(f"there is no GPU number {self.device_id}; this machine has {count}{missing and ': ' + missing}")

    @staticmethod
    def current() -> Device:
        """The calling thread's device: the innermost ``with Device(...)``, else GPU 0 if there is one, else the CPU."""
        entered: Device | None = _devices.innermost()
        if entered is not None:
            return entered
        return Device.CPU if initial_number() is None else Device("gpu", initial_number())

    @staticmethod
    def default_device_id(device_type: str) -> int | None:
        """The number that a device of this type gets if none is given; None for "cpu"."""
        return None if device_type == "cpu" else _current_gpu()

    @staticmethod
    def type_from_dlpack(number: int) -> str:
        """"cpu" or "gpu" for a DLPack device type. ValueError for others."""
        if number in (_DLPACK_CPU, _DLPACK_PINNED):
            return "cpu"
        if number in (_DLPACK_GPU, _DLPACK_MANAGED):
            return "gpu"
        raise ValueError(f"data on DLPack device type {number} cannot be used; possible are the CPU (1) and CUDA (2)")

    @staticmethod
    def from_dlpack(source: Any) -> Device:
        """The device of a DLPack object, or of a pair (type, number)."""
        kind, number = source.__dlpack_device__() if hasattr(source, "__dlpack_device__") else source
        return Device.CPU if Device.type_from_dlpack(int(kind)) == "cpu" else Device("gpu", int(number))

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Device):
            return NotImplemented
        return (self.device_type, self.device_id) == (other.device_type, other.device_id)

    def __hash__(self) -> int:
        return hash((self.device_type, self.device_id))

    def __str__(self) -> str:
        return "cpu" if self.device_type == "cpu" else f"gpu:{self.device_id}"

    def __repr__(self) -> str:
        number = "" if self.device_id is None else f", device_id={self.device_id}"
        return f"Device(device_type={self.device_type!r}{number})"

    def __reduce__(self) -> tuple[Callable[..., Device], tuple[object, ...]]:
        return (_cpu, ()) if self.device_type == "cpu" else (Device, ("gpu", self.device_id))

    def __enter__(self) -> Device:
        _devices.enter(self)
        return self

    __exit__ = Leave(_devices)


def _cpu() -> Device:
    return Device.CPU


def _current_gpu() -> int:
    for device in reversed(_devices.contexts()):
        if device.device_id is not None:
            return int(device.device_id)
    return 0


Device.CPU = Device("cpu")
DeviceLike: TypeAlias = "str | Device | Any"
"""The arguments of :func:`device`."""


def device(obj: Any, id: int | None = None) -> Device | None:
    """The Device of a name, a Device or a ``torch.device``. None stays None. TypeError for other objects; errors of :class:`Device`."""
    if obj is None:
        return None
    if isinstance(obj, Device):
        if id is not None and id != obj.device_id:
            raise ValueError(f"{obj!r} and id={id} name two devices")
        return obj
    if isinstance(obj, str):
        return Device.CPU if obj == "cpu" and id is None else Device(obj, id)
    if type(obj).__module__ == "torch" and type(obj).__name__ == "device":
        return Device(obj.type, obj.index if id is None else id)
    raise TypeError(f"a device is a name, a Device or a torch.device, got {type(obj).__name__}")


def gpu_number(place: str) -> int:
    """The GPU of a stored batch, whose device is "gpu" or "gpu:<n>"."""
    return int(place.partition(":")[2] or 0)

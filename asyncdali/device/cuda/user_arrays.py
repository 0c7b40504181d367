"""Device memory as the arrays that users' functions take and return: CuPy, DLPack, and `__cuda_array_interface__`."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from .arrays import DeviceArray
from .memory import LEGACY_STREAM

if TYPE_CHECKING:
    from ...batch import Batch
    from .device import CudaDevice, CudaStream


class ReturnedArray:
    """The place of an array that a function returned: address, shape, element type. `keep` keeps it alive."""

    __slots__ = ("address", "dtype", "keep", "shape")

    def __init__(self, address: int, shape: tuple[int, ...], dtype: np.dtype, keep: object):
        self.address, self.shape, self.dtype, self.keep = address, shape, dtype, keep

    @property
    def nbytes(self) -> int:
        return math.prod(self.shape) * self.dtype.itemsize

    def samples(self) -> list[ReturnedArray]:
        """The arrays along the first axis."""
        step = math.prod(self.shape[1:]) * self.dtype.itemsize
        return [ReturnedArray(self.address + k * step, self.shape[1:], self.dtype, self.keep) for k in range(self.shape[0])]


class UserArrays:
    """Converts the arguments and results of functions that are called on `stream`."""

    def __init__(self, device: CudaDevice, stream: CudaStream):
        self._device = device
        self._driver = device.driver
        self._stream = stream

    def _array(self, batch: Batch, sample: int) -> DeviceArray:
        array = self._device.memory.sample(batch, sample)
        self._device.memory.seen(array, LEGACY_STREAM)  # the function may keep the array and use it on the default stream
        return array

    def array(self, batch: Batch, sample: int) -> Any:
        """A sample as a CuPy array."""
        return self._driver.view(self._array(batch, sample))

    def capsule(self, batch: Batch, sample: int) -> object:
        """A sample as a DLPack capsule."""
        return self._driver.export(self._array(batch, sample), {})

    @contextlib.contextmanager
    def current(self, function: Callable[..., object]) -> Iterator[None]:
        """Make the stream current within the block: CuPy's, and that of the framework of `function` (its method ``on_stream``)."""
        handle, index = self._stream.handle, self._device.index
        on_stream = getattr(function, "on_stream", None)
        with self._driver.on_stream(index, handle), on_stream(handle, index) if on_stream is not None else contextlib.nullcontext():
            yield

    def wait(self) -> None:
        """Block (with the interpreter lock released) until all earlier work is done."""
        self._driver.stream_synchronize(self._stream.handle)

    def result(self, value: Any) -> ReturnedArray:
        """An array that a function returned. TypeError if it is not in device memory.

        If the array names another stream, the pipeline's stream waits for that stream.
        """
        interface = array_interface(value)
        if interface is None or not is_dense(interface):
            if isinstance(value, np.ndarray) or (interface is None and not _is_dlpack(value)):
                raise TypeError(
                    "a Python function on the GPU returns arrays in its memory (CuPy's, DLPack, __cuda_array_interface__), "
                    f"got {type(value).__name__}"
                )
            value = self._driver.dense(value, self._device.index)
            interface = value.__cuda_array_interface__
        other = interface.get("stream")
        if other is not None and other != self._stream.handle:
            self._stream.wait(self._device.events.record(int(other)))
        return ReturnedArray(int(interface["data"][0] or 0), tuple(interface["shape"]), np.dtype(interface["typestr"]), value)


def array_interface(value: object) -> dict[str, Any] | None:
    """The contents of `__cuda_array_interface__`; None if the array has none."""
    return None if isinstance(value, np.ndarray) else getattr(value, "__cuda_array_interface__", None)


def _is_dlpack(value: object) -> bool:
    return hasattr(value, "__dlpack__") or type(value).__name__ == "PyCapsule"


def is_dense(interface: dict[str, Any]) -> bool:
    """Whether an array is C-contiguous."""
    strides = interface.get("strides")
    if strides is None:
        return True
    expected = np.dtype(interface["typestr"]).itemsize
    for extent, stride in zip(reversed(interface["shape"]), reversed(strides)):
        if extent > 1 and stride != expected:
            return False
        expected *= extent
    return True

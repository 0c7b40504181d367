"""CUDA streams of dynamic mode: wrappers, and the streams of devices and threads."""

from __future__ import annotations

import threading

from ..device.select import cuda_may_be_used
from .devices import Device

_MAKE = object()


class Stream:
    """A CUDA stream.

    Args:
        stream: the stream of another library (``torch.cuda.Stream``, CuPy's, an object with ``__cuda_stream__``), or its handle; by default
            a new one is made.
        device_id: the GPU; by default the current one.

    Raises:
        RuntimeError: there is no GPU.
        TypeError: an object that is no stream.
    """

    def __init__(self, *, stream: object = _MAKE, device_id: int | None = None):
        if not cuda_may_be_used():
            raise RuntimeError("there is no CUDA stream: no CUDA driver was found (libcuda.so.1)")
        self._device_id = Device("gpu", device_id).device_id
        self._kept = _new_stream(self._device_id) if stream is _MAKE else stream
        self._handle = _handle_of(self._kept)

    @property
    def handle(self) -> int:
        """The native stream."""
        return self._handle

    @property
    def device_id(self) -> int | None:
        """The GPU's number."""
        return self._device_id

    def synchronize(self) -> None:
        """Wait until the work on the stream is done."""
        import cupy

        with cupy.cuda.Device(self._device_id):
            cupy.cuda.ExternalStream(self._handle).synchronize()

    def __cuda_stream__(self) -> tuple[int, int]:
        return 0, self._handle

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Stream):
            return NotImplemented
        return (self._handle, self._device_id) == (other._handle, other._device_id)

    def __hash__(self) -> int:
        return hash((self._handle, self._device_id))

    def __repr__(self) -> str:
        return f"Stream(handle={self._handle:#x}, device_id={self._device_id})"


def _new_stream(device_id: int | None) -> object:
    import cupy

    with cupy.cuda.Device(device_id):
        return cupy.cuda.Stream(non_blocking=True)


def _handle_of(stream: object) -> int:
    if isinstance(stream, int) and not isinstance(stream, bool):
        return stream
    protocol = getattr(stream, "__cuda_stream__", None)
    if protocol is not None:
        given = protocol() if callable(protocol) else protocol
        return int(given[1])
    for name in ("cuda_stream", "handle", "ptr"):
        handle = getattr(stream, name, None)
        if isinstance(handle, int):
            return handle
    raise TypeError(f"{type(stream).__name__} is no CUDA stream: it has neither __cuda_stream__ nor a handle")


def stream(stream: object = _MAKE, device_id: int | None = None) -> Stream | None:
    """A :class:`Stream` of what that class takes; None for None."""
    return None if stream is None else as_stream(stream, device_id) if stream is not _MAKE else Stream(device_id=device_id)


def as_stream(given: object, device_id: int | None) -> Stream:
    """The stream itself, or a wrapper."""
    return given if isinstance(given, Stream) else Stream(stream=given, device_id=device_id)


class _Current(threading.local):
    def __init__(self) -> None:
        self.streams: dict[int | None, Stream] = {}
        self.made: dict[int | None, Stream] = {}


_current = _Current()
_default: dict[int | None, Stream] = {}


def get_default_stream(device_id: int | None = None) -> Stream | None:
    """The stream that the process uses by default on a GPU (default: the current one). None: threads have streams of their own."""
    return _default.get(Device.current().device_id if device_id is None else device_id)


def set_default_stream(cuda_stream: object, /, device_id: int | None = None) -> None:
    """Set the process's stream of a GPU; None: threads have streams of their own. It waits for nothing."""
    number = Device.current().device_id if device_id is None else device_id
    if cuda_stream is None:
        _default.pop(number, None)
    else:
        made = as_stream(cuda_stream, number)
        _default[made.device_id] = made


def get_current_stream() -> Stream | None:
    """The stream of the calling thread's default context; None without a GPU."""
    number = Device.current().device_id
    return None if number is None else stream_of(number)


def set_current_stream(cuda_stream: object, /) -> None:
    """Set the stream of the calling thread's default context; None: the default one. It waits for nothing."""
    number = Device.current().device_id
    if cuda_stream is None:
        _current.streams.pop(number, None)
    else:
        made = as_stream(cuda_stream, number)
        _current.streams[made.device_id] = made


def stream_of(device_id: int) -> Stream | None:
    """The stream of the calling thread's work: its current one, else the GPU's default one, else one made for the thread."""
    found = _current.streams.get(device_id) or _default.get(device_id) or _current.made.get(device_id)
    if found is None and cuda_may_be_used():
        found = _current.made[device_id] = Stream(device_id=device_id)
    return found

"""JPEG decoders of a GPU through nvJPEG's batched interface: its JPEG engines and its multiprocessors.

nvJPEG writes pictures when it is called, before earlier work of the stream has run that may still read this memory (a fifth of the pictures
on an H100, driver 580). So the thread that calls nvJPEG waits until the targets are free (docs/gpu.md). Targets are idle
memory where the pool has some or may grow; otherwise the thread waits for the events of this memory, not for whole streams.

nvJPEG's call for a batch on the engines spins until they have almost finished. So a separate thread makes the call, and only the iteration
whose pictures it decodes waits for that thread. The thread never enters the interpreter: the engines start the next batch while another
thread reports the last one. A second state would occupy a second processor without decoding more.

On the multiprocessors one GPU thread decodes a picture's entropy code. So a batch takes as long as its largest file (about 0.15 ms per KB),
however many files it has, and almost no processor time. Several states take turns, so several batches are in progress.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from ...compiled.addresses import address_of
from ...compiled.tables import WORD
from ...messages.notices import warn
from ..launch import BLOCK, Kernel, grid_of
from ..threads import WorkerState, WorkerThreads
from . import command_kernels
from . import nvjpeg_library as nvjpeg
from .commands import Commands
from .idle import leave_stream, take_stream
from .memory import CudaEvent, DeviceBuffer
from .nvjpeg_library import PicturesMissing
from .nvjpeg_tables import MARKS

if TYPE_CHECKING:
    from ..joint import Joint
    from .device import CudaDevice

log = logging.getLogger("asyncdali")

_ENGINE_STATES, _HYBRID_STATES = 1, 4
HYBRID_MINIMUM = 52
"""For smaller batches nvJPEG decodes the entropy code on the CPU, on the calling thread."""
_HYBRID_CONNECTIONS = 32
_444 = 0
_MARK, _FIND = (Kernel(Path(__file__).with_name("nvjpeg_marks.cu"), entry) for entry in ("mark", "find_marks"))
_warned: set[str] = set()


class Files(NamedTuple):
    """JPEGs for one call of a decoder.

    data      their addresses, and `lengths` their sizes in bytes, int64[files] each
    rows      places of the last rows of the targets, int64[files]
    images    their targets, IMAGE[files]: addresses; with `space` bytes of own memory, offsets in it
    """

    data: np.ndarray
    lengths: np.ndarray
    rows: np.ndarray
    images: np.ndarray
    space: int


class DecodedImages:
    """The future result of :meth:`BatchDecoder.start`.

    images    IMAGE[files], of whole images;  buffer  owns their memory;  ready  the event after the work
    error     the reason if there are no images
    """

    def __init__(self) -> None:
        self._over = False
        self._calls: list[Callable[[], None]] = []
        self.images = np.empty(0, nvjpeg.IMAGE)
        self.buffer: DeviceBuffer | None = None
        self.ready: CudaEvent | None = None
        self.error: Exception | None = None
        self.then: Callable[[], None] | None = None
        """Called when the work is queued or has failed."""

    def done(self) -> bool:
        """Whether the work is queued on the device (or has failed)."""
        return self._over

    def when_done(self, call: Callable[[], None]) -> None:
        self._calls.append(call)
        if self._over:
            self._make_calls()

    def over(self) -> None:
        if self.then is not None:
            self.then()
        self._over = True
        self._make_calls()

    def _make_calls(self) -> None:
        while True:
            try:
                call = self._calls.pop()  # each call is popped, and made, exactly once
            except IndexError:
                return
            call()


class AllDecoded:
    """Several lanes, as an event: the work of all is queued on the device (or has failed)."""

    def __init__(self, images: Sequence[DecodedImages]):
        self._images = images

    def wait(self) -> None:
        if not self.is_over():
            over = threading.Event()
            self.when_done(over.set)
            over.wait()

    def is_over(self) -> bool:
        return all(images.done() for images in self._images)

    def when_done(self, call: Callable[[], None]) -> None:
        left = iter(range(len(self._images) - 1))

        def over() -> None:
            if next(left, None) is None:
                call()

        for images in self._images:
            images.when_done(over)


class _State:
    """A decoder state with its thread and its stream. It decodes one batch at a time."""

    def __init__(self, device: CudaDevice, library: nvjpeg.Library, handle: object, number: int):
        self.state = library.handle("JpegStateCreate", handle)
        self.number = nvjpeg.number(self.state)
        self.stream: int = take_stream(device.driver, device.index)
        self.thread = WorkerThreads(
            1, f"asyncdali-nvjpeg-{number}", run=command_kernels.perform_job.address, reports_to=device.reporter()
        )  # fmt: skip
        self.thread.submit(_Entering(device), 1)


class _Entering:
    """The first work of a thread: it chooses the device."""

    def __init__(self, device: CudaDevice):
        self._device = device

    def work(self, thread: WorkerState) -> None:
        self._device.enter()


class _Marks:
    """Marks in the targets of a batch. A picture whose mark is there after the batch was not decoded.

    The kernels' table, the places and the results are in pinned memory, which has the same address on the device: a kernel reads them in
    microseconds, and an upload would take as long on the host.
    """

    def __init__(self, device: CudaDevice, rows: np.ndarray, commands: Commands):
        """Write the marks, before the batch."""
        self._device, self._count = device, len(rows)
        words = MARKS.words + self._count
        memory = device.staging.allocate(WORD * words + self._count)
        self._table, self._found = address_of(memory), memory[WORD * words :]
        table = memory[: WORD * words].view(np.int64)
        at = self._table
        table[: MARKS.words] = MARKS.entries(places=at + MARKS.size, found=at + WORD * words, samples=self._count)
        table[MARKS.words :] = rows
        self._found[:] = 0
        self._grid = grid_of(16 * self._count, 1)
        self._add(_MARK, commands)

    def _add(self, kernel: Kernel, commands: Commands) -> None:
        commands.launch(self._device.function(kernel), self._grid, BLOCK, 0, self._table)

    def find(self, commands: Commands) -> None:
        """Look for the marks, behind the batch."""
        self._add(_FIND, commands)

    def error(self) -> PicturesMissing | None:
        """The error of a batch that has ended; None if all pictures were decoded."""
        pictures = int(np.count_nonzero(self._found))
        return PicturesMissing(pictures, self._count) if pictures else None


class DecoderOptions(NamedTuple):
    """Options of decoders.

    fancy      smooth chroma upsampling;  batch  largest number of pictures
    sizes      width and height for which memory is reserved immediately (0: none);  paddings  of device and of pinned memory, in bytes
    """

    fancy: bool
    batch: int
    sizes: tuple[int, int]
    paddings: tuple[int, int]


class BatchDecoder:
    """One pipeline's use of the GPU's JPEG engines; with `hybrid`, of its multiprocessors. `engines` is the number of JPEG engines.

    `demanded`: the user accepts no other decoder.
    """

    def __init__(self, device: CudaDevice, library: nvjpeg.Library, options: DecoderOptions, demanded: bool, hybrid: bool = False):
        self._device = device
        self._library = library
        self.what, self.demanded = ("hybrid decoder" if hybrid else "JPEG engines"), demanded
        self._said: set[str] = set()
        flags = nvjpeg.FLAG_FANCY_UPSAMPLING if options.fancy else 0
        backend = nvjpeg.BACKEND_GPU_HYBRID if hybrid else nvjpeg.BACKEND_HARDWARE
        self._states: list[_State] = []
        self._handle = library.handle("CreateEx", backend, None, None, flags)
        self._number = nvjpeg.number(self._handle)
        try:
            self._set_up(options, hybrid)
        except BaseException:
            self._give_back()
            raise
        self._turn = 0

    def _set_up(self, options: DecoderOptions, hybrid: bool) -> None:
        device, library = self._device, self._library
        counts = np.zeros(2, np.uint32)
        if not hybrid:
            library.call("GetHardwareDecoderInfo", self._handle, counts.ctypes.data, counts.ctypes.data + 4)
        self.engines, self.cores = (int(count) for count in counts)
        library.call("SetDeviceMemoryPadding", options.paddings[0], self._handle)
        library.call("SetPinnedMemoryPadding", options.paddings[1], self._handle)
        for number in range(_HYBRID_STATES if hybrid else _ENGINE_STATES):
            self._states.append(_State(device, library, self._handle, number))
        if all(options.sizes) and not hybrid:
            batch, sizes = options.batch, options.sizes
            for state in self._states:
                library.call("DecodeBatchedPreAllocate", self._handle, state.state, batch, *sizes, _444, nvjpeg.OUTPUT_RGBI)

    def start(
        self, files: Files, bgr: bool, targets: DeviceBuffer | None = None, then: Callable[[], None] | None = None,
        joint: Joint | None = None,
    ) -> DecodedImages:  # fmt: skip
        """Decode JPEGs.

        targets    the target buffer, allocated with `at_once`; default: own memory
        then       see :class:`DecodedImages`
        joint      jobs that are reported together with this one

        The data must stay alive until the work is done on the device.
        """
        result = DecodedImages()
        result.then = then
        state = self._states[self._turn]
        self._turn = (self._turn + 1) % len(self._states)
        output = nvjpeg.OUTPUT_BGRI if bgr else nvjpeg.OUTPUT_RGBI
        try:
            self._queue(state, result, files, output, targets, joint)
        except Exception as error:
            self._fail(result, error)
            result.over()
        return result

    def _fail(self, result: DecodedImages, error: Exception) -> None:
        result.error = error.with_traceback(None)  # its traceback would keep the batch's memory alive
        log.debug("the GPU's JPEG engines did not decode a batch: %s", error)

    def gave_up(self, error: nvjpeg.NvjpegError) -> None:
        """A batch failed although the CPU can decode its files: warn once. RuntimeError if only this decoder was to decode it and the error
        does not concern a file."""
        reason = f"the GPU's {self.what} did not decode a batch of JPEGs: {error}"
        if self.demanded and error.status not in nvjpeg.OF_FILES:
            raise RuntimeError(
                f"{reason}. The error does not concern a file: the CPU can decode them. Use another `decoder`, or report the error"
            )
        if self.what not in self._said:
            self._said.add(self.what)
            warn(f"{reason}; the CPU decoded it", RuntimeWarning)

    def _queue(
        self, state: _State, result: DecodedImages, files: Files, output: int, targets: DeviceBuffer | None, joint: Joint | None
    ) -> None:
        commands = Commands(self._device.driver, state.stream)
        if targets is None:
            buffer = self._device.pool.allocate(files.space, commands, at_once=True)
            files.images["channel"][:, 0] += np.uint64(buffer.address)
            files.rows[:] += buffer.address
        else:
            buffer = targets
            buffer.readers.add(state.stream)
        for event in buffer.before:  # of all streams: not even work of this stream is over when nvJPEG is called
            commands.wait(event)
        library, handle, decoder = self._library, self._number, state.number
        marks = _Marks(self._device, files.rows, commands)
        commands.settle(self._device.events.new())  # nvJPEG's writes do not wait for earlier work of the stream
        commands.call(library, "DecodeBatchedInitialize", handle, decoder, len(files.data), 1, output)
        commands.call(
            library, "DecodeBatched", handle, decoder, address_of(files.data), address_of(files.lengths), address_of(files.images),
            state.stream,
        )  # fmt: skip
        marks.find(commands)
        ready = self._device.events.new()
        commands.settle(ready)  # the marks are looked at when the work is reported

        def done(error: Exception | None) -> None:
            error = error or marks.error()
            if error is None:
                result.ready, result.images, result.buffer = ready, files.images, buffer
            else:
                self._device.settle()  # nvJPEG may still write to the targets, which the CPU fills now or which are reused
                self._fail(result, error)
            result.over()

        commands.perform_on(state.thread, ready, done, joint)

    def close(self) -> None:
        """End the threads when the queued calls are submitted."""
        for state in self._states:
            state.thread.close()

    def join(self, timeout: float) -> bool:
        """After :meth:`close`, wait for the end and free the library's objects. Returns False on a time-out."""
        ended = all(state.thread.join(timeout) for state in self._states)
        if ended and self._states:
            self._device.enter()
            self._give_back()
        return ended

    def _give_back(self) -> None:
        for state in self._states:
            state.thread.close()
            self._device.driver.stream_synchronize(state.stream)
            self._library.call("JpegStateDestroy", state.state)
            leave_stream(self._device.driver, self._device.index, state.stream)
        self._states = []
        self._library.call("Destroy", self._handle)


def batch_decoder(device: CudaDevice, options: DecoderOptions, demanded: bool, hybrid: bool = False) -> BatchDecoder | None:
    """The engines of `device` (with `hybrid`: its multiprocessors). Without the library: None with one warning, or RuntimeError if they are
    `demanded`.

    For a GPU without engines there is no warning, because other lanes decode. Nor is there one for a process that used CUDA before with too
    few connections for a hybrid decoder beside other work (see ``Driver.connections``).
    """
    name, what = ("hybrid", "hybrid decoder") if hybrid else ("hardware", "JPEG engines")
    library = nvjpeg.load()
    if library is None:
        reason = "nvJPEG was not found (it comes with asyncdali[cuda12] and asyncdali[cuda13])"
    elif hybrid and not demanded and device.driver.connections < _HYBRID_CONNECTIONS:
        return None
    else:
        try:
            device.enter()
            decoder = BatchDecoder(device, library, options, demanded, hybrid)
            device.parts.append(decoder)
            return decoder
        except nvjpeg.NvjpegError as error:
            if error.status == nvjpeg.ARCH_MISMATCH and not demanded:
                return None
            reason = f"this GPU's {what} cannot be used: {error}"
    if demanded:
        raise RuntimeError(f"decoder={name!r}: {reason}")
    if reason not in _warned:
        _warned.add(reason)
        warn(f"{reason}; JPEGs are decoded on the CPU", RuntimeWarning)
    return None

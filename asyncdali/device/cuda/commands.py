"""Commands for streams: collected first, then executed in one call.

Every call of CUDA takes a microsecond or more, and an iteration needs dozens. So an iteration's waits, copies, launches and events become a
list of integers (:mod:`.command_tables`) that compiled code executes. A long list, and one that may wait, is executed without the
interpreter lock. Nothing happens before :meth:`Commands.perform`. Until then the list
keeps its objects alive.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from ...compiled.addresses import address_of
from ...compiled.job_tables import FLAGS, JOB
from ...compiled.tables import table_of
from . import command_tables as tables
from .driver import DriverError
from .nvjpeg_library import NvjpegError

if TYPE_CHECKING:
    from ..joint import Joint
    from ..threads import WorkerState, WorkerThreads
    from .driver import Driver
    from .memory import CudaEvent, DeviceBuffer
    from .nvjpeg_library import Library


_NONE = (0,) * 6
_STAGED = 64 << 10
"""Bytes of pageable memory that the driver copies without waiting (CUDA runtime API, "API synchronization behavior")."""
_FEW_COMMANDS = 64
"""Most commands that are executed with the interpreter lock held. A command takes some microseconds, a busy thread keeps the lock for
5 ms."""


class RecordedCommands(NamedTuple):
    """Commands that were recorded once and are added to several lists: words, the owners by position, and the number of commands."""

    words: list[int]
    owners: list[tuple[int, object]]
    commands: int


class Commands:
    """Commands for one stream (its handle), in order. Not thread-safe.

    At :meth:`perform` the calling thread's device must be the stream's device.
    """

    __slots__ = ("_brief", "_buffers", "_calls", "_count", "_driver", "_kept", "_owners", "_words", "stream")

    def __init__(self, driver: Driver, stream: int):
        self._driver = driver
        self.stream = stream
        self._words: list[int] = []
        self._kept: list[object] = []
        self._buffers: list[DeviceBuffer] = []
        self._owners: list[tuple[int, object]] = []
        self._calls: list[tuple[int, str]] = []
        self._brief = True  # no recorded command waits for the GPU
        self._count = 0

    def another(self) -> Commands:
        """An empty list for the same stream."""
        return Commands(self._driver, self.stream)

    def recorded(self) -> RecordedCommands:
        """The recorded launches, for :meth:`add`. The kernels stay alive elsewhere."""
        return RecordedCommands(self._words, self._owners, self._count)

    def add(self, recorded: RecordedCommands) -> None:
        """Add recorded commands."""
        self._owners.append((len(self._words), recorded))
        self._words += recorded.words
        self._count += recorded.commands

    def record_for(self, owner: object) -> None:
        """Commands recorded from here on belong to `owner`: an error has it as its attribute `owner`."""
        self._owners.append((len(self._words), owner))

    def keep(self, thing: object) -> None:
        """Keep an object alive until the commands have been executed."""
        self._kept.append(thing)

    def wait(self, event: CudaEvent) -> None:
        """The stream waits for `event`, which must have been recorded."""
        self._count += 1
        self._words += tables.WAIT_COMMAND.entries(kind=tables.WAIT, stream=self.stream, event=event.handle)
        self._kept.append(event)  # otherwise its handle would be reused

    def behind(self, buffer: DeviceBuffer, events: list[CudaEvent]) -> None:
        """The stream waits for the `events` of the memory of a `buffer`. Until this is executed, the buffer itself keeps the events."""
        for event in events:
            self.wait(event)
        self._buffers.append(buffer)

    def settle(self, event: CudaEvent) -> None:
        """Record `event`; the host waits for it, and so for all previous commands of the stream, before the next command."""
        self.record(event.handle)
        self._brief = False
        self._words += tables.SYNCHRONIZE_COMMAND.entries(kind=tables.SYNCHRONIZE, event=event.handle)
        self._kept.append(event)

    def record(self, event: int) -> None:
        """Record the event of this handle after all previous commands of the stream."""
        self._count += 1
        self._words += tables.RECORD_COMMAND.entries(kind=tables.RECORD, stream=self.stream, event=event)

    def copy(self, target: int, source: int, size: int, pinned: bool = False) -> None:
        """Copy bytes between any kinds of memory. Host memory that is read must stay alive until the stream has copied it.

        `pinned`: no side is pageable host memory. The driver copies pageable memory before it returns. Of more than 64 KB, it may wait for
        the stream.
        """
        self._count += 1
        self._brief = self._brief and (pinned or size <= _STAGED)
        self._words += tables.COPY_COMMAND.entries(kind=tables.COPY, stream=self.stream, target=target, source=source, bytes=size)

    def launch(self, function: Any, grid: tuple[int, int], block: int, shared: int, context: int) -> None:
        """Launch a kernel (from ``Driver.load``) with the address `context` as its only argument."""
        self._count += 1
        self._words += tables.LAUNCH_COMMAND.entries(
            kind=tables.LAUNCH, stream=self.stream, function=function.ptr, blocks_x=grid[0], blocks_y=grid[1], threads=block, shared=shared,
            context=context, arguments=0,
        )  # fmt: skip

    def launch_each(self, function: Any, blocks: tuple[int, int, int], threads: tuple[int, int, int], arguments: np.ndarray) -> None:
        """One launch per row of `arguments`, int64[launches, words]: the kernel's arguments, 8 bytes each."""
        arguments = np.ascontiguousarray(arguments)
        places = address_of(arguments) + 8 * np.arange(arguments.size, dtype=np.int64)
        launches, count = arguments.shape
        self._brief = False
        self._words += tables.LAUNCH_EACH_COMMAND.entries(
            kind=tables.LAUNCH_EACH, stream=self.stream, function=function.ptr,
            blocks_x=blocks[0], blocks_y=blocks[1], blocks_z=blocks[2], threads_x=threads[0], threads_y=threads[1], threads_z=threads[2],
            launches=launches, count=count, arguments=address_of(places),
        )  # fmt: skip
        self._kept += (arguments, places)

    def call(self, library: Library, name: str, *arguments: int) -> None:
        """Call a function of nvJPEG with at most six integers and addresses. Its errors are the library's."""
        self._brief = False
        self._calls.append((len(self._words), name))
        a, b, c, d, e, f = (*arguments, *_NONE[len(arguments) :])
        self._words += tables.CALL_COMMAND.entries(
            kind=tables.CALL, function=library.address(name), argument_a=a, argument_b=b, argument_c=c, argument_d=d, argument_e=e,
            argument_f=f,
        )  # fmt: skip

    def perform(self) -> None:
        """Queue all commands on the stream, and start an empty list.

        DriverError (NvjpegError) of the first command that fails. The commands before it have been executed, those after it have not.
        """
        if not self._words:
            return
        words, kept, buffers, owners, calls = self._words, self._kept, self._buffers, self._owners, self._calls
        self._words, self._kept, self._buffers, self._owners, self._calls = [], [], [], [], []
        brief = self._brief and self._count <= _FEW_COMMANDS
        self._brief, self._count = True, 0
        try:
            self._driver.perform(table_of(words), brief)
        except DriverError as error:
            raise _explained(error, owners, calls) from None
        for buffer in buffers:
            buffer.stream_is_behind()
        del kept

    def perform_on(
        self, threads: WorkerThreads, settled: CudaEvent, done: Callable[[Exception | None], None], joint: Joint | None = None
    ) -> None:
        """Let a thread of `threads` queue all commands, and start an empty list. The thread does not enter the interpreter.

        `done` is called on a thread that reports, with the error that :meth:`perform` would raise. After an error the thread has waited for
        the commands that were queued, with the event `settled`. The end is reported together with the other jobs of `joint`.
        """
        words, kept, buffers, owners, calls = self._words, self._kept, self._buffers, self._owners, self._calls
        self._words, self._kept, self._buffers, self._owners, self._calls = [], [], [], [], []
        self._brief, self._count = True, 0
        end = len(words)
        words += tables.RECORD_COMMAND.entries(kind=tables.RECORD, stream=self.stream, event=settled.handle)
        words += tables.SYNCHRONIZE_COMMAND.entries(kind=tables.SYNCHRONIZE, event=settled.handle)

        def over(error: DriverError | None) -> None:
            kept.clear()
            if error is None:
                for buffer in buffers:
                    buffer.stream_is_behind()
            done(None if error is None else _explained(error, owners, calls))

        job = _Performed(self._driver, np.array(words, np.int64), end, settled, threads, over)
        if joint is not None:
            joint.add(job)
        threads.submit(job, 1)


def _explained(error: DriverError, owners: list[tuple[int, object]], calls: list[tuple[int, str]]) -> Exception:
    """The error of a command, with its owner; or the error of nvJPEG's function."""
    for place, name in calls:
        if place == error.place:
            return NvjpegError(name, error.status)
    place, found = next(((place, owner) for place, owner in reversed(owners) if place <= error.place), (0, None))
    if isinstance(found, RecordedCommands):
        found = next((owner for inner, owner in reversed(found.owners) if place + inner <= error.place), None)
    error.owner = found
    return error


class _Performed:
    """Commands as a job of a crew."""

    def __init__(
        self, driver: Driver, words: np.ndarray, end: int, settled: CudaEvent, threads: WorkerThreads,
        over: Callable[[DriverError | None], None],
    ):  # fmt: skip
        self._driver, self._words, self._settled, self._over = driver, words, settled, over
        function, calls = driver.performer()
        at = address_of(words)
        self._table, _ = tables.PERFORM.make(
            function=function, driver=calls, begin=at, end=at + 8 * end, settled=at + words.nbytes, result=0
        )  # fmt: skip
        self._block = np.zeros(JOB.words + FLAGS.words, np.int64)
        self.address = address_of(self._block)
        self._block[JOB.word.flags] = self.address + JOB.size
        self._block[JOB.word.contexts] = address_of(self._table)
        self.crew: WorkerThreads | None = None
        self.joint: Joint | None = None

    def join(self, joint: Joint) -> None:
        """Report this job together with other jobs. Called before the job is submitted."""
        self.joint, self._block[JOB.word.crew_joint] = joint, joint.address

    def report_to(self, crew: int) -> None:
        """Called before the job is submitted: another crew reports its end."""
        self._block[JOB.word.crew_report] = crew

    def finished(self) -> None:
        result = int(self._table[tables.PERFORM.word.result])
        self._over(self._driver.failure(self._words, result) if result else None)

    def work(self, thread: WorkerState) -> None:
        raise TypeError("commands are performed in compiled code")

    def grow(self, thread: WorkerState) -> None:
        raise TypeError("commands need no memory of a thread")


def listed(commands: np.ndarray) -> Iterator[tuple[int, list[int]]]:
    """Split the words of ``Driver.perform`` into commands: the start and the words of each."""
    words, at = commands.tolist(), 0
    while at < len(words):
        end = at + tables.COMMANDS[words[at]].words
        yield at, words[at:end]
        at = end

"""Where the work on iterations happens: one object per executor, chosen when the pipeline is built.

| placement | chosen for | admits | decides | plans |
|---|---|---|---|---|
| :class:`OnThreads` | most pipelines | the stage or loop thread | any thread that reports a result | stage threads |
| :class:`OnLanes` | iterations that are planned beside each other | the same | the same | stage threads, which only plan |
| :class:`OnCaller` | nothing can overlap | also the caller that waits | the same | also the caller that waits |
| :class:`OnLoop` | engines, and pipelines with engines on the CPU | the loop's thread | the loop's thread | stage threads |
| :class:`BesideEngines` | pipelines with engines and a GPU | the caller | any thread, and the receiver's | any thread |

A decision is a short step that changes which iterations and segments are in progress. Decisions are made one at a time.

The problem. Several iterations are in flight. Stage threads, worker threads, streams and engines report results at any time, and each
result may allow another segment to start. Beside a thread that runs pure Python, every return to the interpreter may wait 5 ms, so a
decision must not cost a wake-up of another thread.

What does not work:

- One thread that decides, such as the event loop: every report wakes it. With uvloop an iteration of a GPU pipeline entered the interpreter
  12 times, because the loop returns for the descriptor, for its queue of calls, and from each call of a socket.
- A lock around all state: a thread that waits for the lock is a thread that waits, and user code may run while the lock is held.
- Unprotected decisions on the thread that calls ``run()``: a signal handler may raise an exception between any two of its steps, and then
  part of a decision is missing (docs/decisions/35-one-owner-of-iterations.md).

The solution (:class:`OnThreads`). A report is put on a list. The thread that finds no other thread deciding works on the list until it is
empty; any other thread leaves its report there and continues. So no thread is woken, and the deciding thread is one that is awake anyway.
The same thread plans the GPU segments that may start. User code and readers stay on the threads of their streams. Where a caller decides,
the handlers of signals are delayed.
"""

from __future__ import annotations

import asyncio
import contextvars
import threading
from collections import deque
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeAlias

import numpy as np
from asyncdali_workers.interrupts import uninterrupted

from ...batch import Batch
from ...device.buffers import BufferPool
from ...device.threads import WorkerState
from ...operators.base import Trait
from ...tensors.gpu import stream_handle
from ...tensors.host_memory import HostMemory
from ..work.jobs import Jobs
from ..work.making import MakeSegment, on_stream
from ..work.segments import BuiltSegment, SegmentRun
from .admission import Admission
from .lanes import IterationLanes
from .loop import LoopThread, shared_loop
from .record import Record, wait_for_any
from .scheduler import Scheduler
from .stages import Stages

if TYPE_CHECKING:
    from ...device.cuda.arrays import CudaMemory
    from ...device.cuda.device import CudaDevice
    from ...device.cuda.gates import CompletionWatch


class Runs(Protocol):
    """The part of an executor that a placement uses."""

    gpu: CudaDevice | None
    pool: BufferPool
    allocate: Callable[[int], np.ndarray]
    stages: Stages
    admission: Admission
    one_at_a_time: bool

    def guarded(self, function: Callable[..., None], *args: object) -> None:
        """Call a function that decides, and treat its errors."""

    def admit(self, record: Record) -> None:
        """The decision to begin an iteration."""

    def admit_all(self) -> None:
        """The decision to begin all queued iterations."""

    def advance(self, run: SegmentRun, phases: Jobs, state: WorkerState | None, error: BaseException | None) -> None:
        """Resume a run until other threads have its next job, or until it ends."""

    def run_now(self, run: SegmentRun) -> None:
        """Plan a segment of instant operators in a decision."""

    def failed(self, run: SegmentRun, error: BaseException) -> None:
        """A run has ended with an error."""


class Order(Protocol):
    """Decides which iterations and segments start."""

    def admit(self, record: Record) -> None:
        """Begin an iteration. Iterations come in order."""

    def leave(self, record: Record) -> None:
        """The iteration is done."""


class OutputMemory(NamedTuple):
    """Memory of what users get: the pool of copies on the host (None: of the C library), and access to the device's memory."""

    copies: BufferPool | None
    on_device: HostMemory | CudaMemory


MakeScheduler: TypeAlias = Callable[[Sequence[BuiltSegment]], Scheduler]


class Placement:
    """The common part of all placements."""

    def __init__(self, executor: Runs):
        self._executor = executor
        self._loop = shared_loop()
        self._device = executor.stages.device
        self._gpu = executor.gpu

    def order(self, segments: Sequence[BuiltSegment], make: MakeScheduler) -> Order:
        """Make the object that starts iterations. By default each is planned after the one before."""
        return make(segments)

    def admit(self, record: Record, awaited: bool) -> None:
        """Queue an iteration. Called on the user's thread; `awaited`: the caller is about to wait for it."""
        raise NotImplementedError

    def decide(self, function: Callable[..., None], *args: object) -> None:
        """Request a decision. Called on threads of the executor."""
        raise NotImplementedError

    def request(self, function: Callable[..., None], *args: object) -> None:
        """Request a decision. Called on any thread; the decision is made on another one."""
        self._loop.call(self.decide, function, *args)

    def decides_here(self) -> bool:
        """Whether the calling thread is in a decision."""
        raise NotImplementedError

    def begin(self, run: SegmentRun) -> None:
        """In a decision: a segment may start."""
        raise NotImplementedError

    def wait(self, record: Record, complete: bool) -> None:
        """Wait for an iteration on the user's thread. `complete`: with a GPU, also until it has made the outputs, if that costs less than
        a second wait."""
        if record.finished:
            return
        if self._gpu is None:
            record.wait()
            return
        with self._gpu.entered():
            record.wait(self._gpu.completion_gate() if complete else None)

    def wait_for_any(self, records: Sequence[Record]) -> None:
        """Wait on the user's thread until one of the iterations is finished."""
        with self._device.entered():
            wait_for_any(records)

    async def made(self, outputs: Sequence[Batch]) -> None:
        """Wait, without blocking the event loop, until the GPU has made the outputs of a finished iteration."""
        gpu = self._gpu
        if gpu is not None:
            await asyncio.get_running_loop().run_in_executor(None, gpu.complete, outputs)

    def complete(self, outputs: Sequence[Batch], stream: object) -> None:
        """Wait until the GPU has made the outputs of a finished iteration. With a `stream` of the user, its later work waits instead."""
        if self._gpu is None:
            return
        if stream is None:
            self._gpu.complete(outputs)
        else:
            self._gpu.order(outputs, stream_handle(stream))

    def output_memory(self) -> OutputMemory:
        """The memory of outputs. Without a GPU, copies use the pool: the system zeroes the pages of new memory one by one, which takes
        longer than the copy. Page-locked memory is too dear for them."""
        gpu, executor = self._gpu, self._executor
        return OutputMemory(executor.pool, HostMemory(executor.allocate)) if gpu is None else OutputMemory(None, gpu.memory)

    def _on_stage(self, run: SegmentRun) -> None:
        phases = run.phases()
        self._submit(run, lambda state: self._executor.advance(run, phases, state, None))

    def _submit(self, run: SegmentRun, plan: Callable[[WorkerState], None]) -> None:
        try:
            run.segment.stream.submit(plan)
        except BaseException as error:  # no thread could be started
            self._executor.failed(run, error)


class OnLoop(Placement):
    """Only the loop's thread decides, because it talks to engines, or receives requests as an engine."""

    @property
    def thread(self) -> LoopThread:
        """The thread that talks to engines."""
        return self._loop

    def admit(self, record: Record, awaited: bool) -> None:
        self._loop.call(self._executor.guarded, self._executor.admit, record)

    def admit_here(self, record: Record) -> None:
        """Begin an iteration. Called on the loop's thread."""
        self._executor.guarded(self._executor.admit, record)

    def decide(self, function: Callable[..., None], *args: object) -> None:
        self._loop.call(self._executor.guarded, function, *args)

    def request(self, function: Callable[..., None], *args: object) -> None:
        self.decide(function, *args)

    def receive(self, function: Callable[..., None], *args: object) -> None:
        """Make the decision that a message of an engine asks for. Called on :attr:`thread`."""
        self._executor.guarded(function, *args)

    def decide_next(self, function: Callable[..., None]) -> None:
        """Request a decision after the present one. Called in a decision."""
        self.decide(function)

    def decides_here(self) -> bool:
        return self._loop.is_current()

    def begin(self, run: SegmentRun) -> None:
        segment = run.segment
        if segment.remote is not None:
            segment.remote.begin(run)
        elif segment.instant:
            self._executor.run_now(run)
        else:
            self._on_stage(run)


class OnThreads(Placement):
    """A thread that reports a result decides, unless another thread is deciding: that one then decides for both.

    Waking a dedicated thread would take the interpreter lock two or three times per stage of an iteration. Beside a busy thread, each time
    takes up to a switch interval. The user's threads do not decide, because an interrupt could come between any two steps.
    """

    def __init__(self, executor: Runs, segments: list[BuiltSegment]):
        super().__init__(executor)
        self._decisions: deque[tuple[Callable[..., None], tuple[Any, ...]]] = deque()
        self._deciding = threading.Lock()
        self._decider = 0
        """The thread that is deciding."""
        self._plannable: deque[tuple[SegmentRun, Jobs]] = deque()
        self._planning = threading.Lock()
        self._state: WorkerState | None = WorkerState()
        first = [segment for segment in segments if not segment.producers]
        on_stage = all(segment.backend == "cpu" and not segment.instant and not segment.in_engines for segment in first)
        self._stage = executor.stages.cpu if on_stage else None
        """The stage thread if every iteration begins there: it is woken in any case, so it admits iterations. Otherwise the loop does."""
        if self._stage is not None:
            self._stage.start()

    def admit(self, record: Record, awaited: bool) -> None:
        self._executor.admission.queue(record)
        self._request_admission()

    def _request_admission(self) -> None:
        # The stage thread instead of the loop's thread: two switches of the interpreter lock less.
        if self._stage is None or not self._stage.submit(self._admit_queued):
            self._loop.call(self._admit_queued)

    def _admit_queued(self, state: WorkerState | None = None) -> None:
        self.decide(self._executor.admit_all)

    def decide(self, function: Callable[..., None], *args: object) -> None:
        self._decisions.append((function, args))
        self._make_decisions()
        if self._plannable:
            self._plan_waiting()

    def decides_here(self) -> bool:
        return self._decider == threading.get_ident()

    def begin(self, run: SegmentRun) -> None:
        segment = run.segment
        if segment.instant:
            self._executor.run_now(run)
        elif self._makes_here(segment):
            self._executor.advance(run, run.phases(), self._state, None)
        elif segment.anywhere and not self._loop.is_current():  # the loop's thread must not wait for a GPU
            self._plannable.append((run, run.phases()))
        else:
            self._on_stage(run)

    def _makes_here(self, segment: BuiltSegment) -> bool:
        """Whether the deciding thread makes the segment: waking another one would take longer."""
        return self._gpu is None and segment.pace.quick

    def _make_decisions(self) -> None:
        """Make the decisions that were requested, unless another thread does."""
        decisions, deciding, guarded = self._decisions, self._deciding, self._executor.guarded
        while decisions and deciding.acquire(False):
            self._decider = threading.get_ident()
            try:
                while decisions:
                    function, args = decisions.popleft()
                    guarded(function, *args)
            finally:
                self._decider = 0
                deciding.release()

    def _plan_waiting(self) -> None:
        """Plan the segments of a GPU that may start, unless another thread plans. A thread of its own would have to be woken for each."""
        plannable, planning, advance = self._plannable, self._planning, self._executor.advance
        while plannable and planning.acquire(False):
            try:
                while plannable:
                    run, phases = plannable.popleft()
                    advance(run, phases, None, None)
            finally:
                planning.release()

    def _decide_here(self, function: Callable[[], None]) -> bool:
        """Request a decision on the user's thread. If another thread is deciding, that thread makes it.

        False: no decision is made here, because the handler of a signal other than Ctrl-C may be a time limit, and would have to wait."""
        with uninterrupted() as delay:
            if delay.others:
                return False
            with self._device.entered():
                contextvars.Context().run(function)  # numpy's treatment of errors belongs to the context; the user's must not apply here
        return True


class OnLanes(OnThreads):
    """Iterations are planned beside each other (``lanes``). The threads that plan take no part in jobs, because other iterations need
    these threads."""

    def __init__(self, executor: Runs, segments: list[BuiltSegment]):
        super().__init__(executor, segments)
        self._state = None

    def order(self, segments: Sequence[BuiltSegment], make: MakeScheduler) -> Order:
        return IterationLanes(segments, make)

    def _on_stage(self, run: SegmentRun) -> None:
        phases = run.phases()
        self._submit(run, lambda state: self._executor.advance(run, phases, None, None))


class OnCaller(OnThreads):
    """A caller that waits for its iteration makes short segments itself. With a GPU, each caller admits its iteration and plans what can be
    planned.

    Nothing would happen at the same time, and waking another thread and waiting for it would take 20 to 60 us of processor time. Beside a
    GPU and a thread that runs pure Python, the other thread would wait for the interpreter, which the caller has.
    """

    def __init__(self, executor: Runs, segments: list[BuiltSegment]):
        super().__init__(executor, segments)
        self._caller = 0
        """The thread of the user that decides while it waits."""

    def admit(self, record: Record, awaited: bool) -> None:
        self._executor.admission.queue(record)
        if not ((awaited or self._gpu is not None) and self._decide_here(self._admit_here)):
            self._request_admission()

    def _admit_here(self) -> None:
        self._caller = threading.get_ident()
        try:
            self.decide(self._executor.admit_all)
        finally:
            self._caller = 0

    def _makes_here(self, segment: BuiltSegment) -> bool:
        return self._gpu is None and (segment.pace.quick or (segment.pace.awaited and self._decider == self._caller))


class Receiving(Protocol):
    """The thread that talks to the engines of a pipeline for a GPU (``engines.parent.receiver``)."""

    def is_current(self) -> bool: ...
    def call(self, function: Callable[..., object], *args: object) -> None: ...
    def call_later(self, seconds: float, function: Callable[..., object], *args: object) -> None: ...
    def add_reader(self, descriptor: int, function: Callable[..., object], *args: object) -> None: ...
    def remove_reader(self, descriptor: int) -> None: ...
    def help(self, record: Record, watch: CompletionWatch | None) -> None: ...


class BesideEngines(OnThreads):
    """With engines and a GPU. A caller admits its iteration, which sends a request, and does the receiver's work while it waits.

    Another thread would have to be woken, and beside a thread that runs pure Python it would get the interpreter after a switch interval.
    """

    def __init__(self, executor: Runs, segments: list[BuiltSegment], receiver: Receiving):
        super().__init__(executor, segments)
        self.thread = receiver
        reports = executor.stages.reports
        if reports is not None:
            receiver.call(receiver.add_reader, reports.descriptor, reports.report)

    def begin(self, run: SegmentRun) -> None:
        remote = run.segment.remote
        if remote is None:
            super().begin(run)
        else:
            remote.begin(run)

    def _request_admission(self) -> None:
        if not self._decide_here(self._admit_queued):
            self.thread.call(self._admit_queued)

    def receive(self, function: Callable[..., None], *args: object) -> None:
        """Make the decision that a message of an engine asks for, after waiting for a thread that is deciding."""
        with self._deciding:
            self._decider = threading.get_ident()
            try:
                self._executor.guarded(function, *args)
            finally:
                self._decider = 0
        self._make_decisions()
        self._plan_waiting()

    def decide_next(self, function: Callable[..., None]) -> None:
        """Request a decision after the present one. Called in a decision."""
        self._decisions.append((function, ()))

    def wait(self, record: Record, complete: bool) -> None:
        gpu = self._gpu
        assert gpu is not None
        if record.finished and not complete:
            return
        with gpu.entered():
            watch = gpu.completion_watch() if complete else None
            if watch is not None and record.finished and watch.over(record.outputs):
                return  # a consumer that is slower than the pipeline does not do the pipeline's work
            self.thread.help(record, watch)
            if not record.finished:
                record.wait(gpu.completion_gate() if complete else None)


def usual(executor: Runs, segments: list[BuiltSegment]) -> Placement:
    """The placement of a pipeline without engines, whose iterations are planned one after another."""
    if executor.gpu is None:
        overlaps = not executor.one_at_a_time or executor.stages.pinned
    else:
        overlaps = not all(segment.anywhere for segment in segments)
    return (OnThreads if overlaps else OnCaller)(executor, segments)


def decodes_ahead(gpu: CudaDevice | None, segments: Sequence[BuiltSegment]) -> bool:
    """Whether a pipeline decodes pictures of one more iteration (``scheduler``). User code is not called ahead."""
    decoders = (
        Trait.RUNS_AHEAD in built.operator.traits for segment in segments if segment.backend == "mixed" for built in segment.operators
    )
    return gpu is not None and all(segment.anywhere for segment in segments) and any(decoders)


def segment_kind(gpu: CudaDevice | None) -> MakeSegment:
    """The function that makes the segments of a built pipeline, whose mixed and gpu operators run on this device."""
    if gpu is None:
        return BuiltSegment
    from ..gpu.device_segments import segment_beside_gpu

    return segment_beside_gpu


def repairing_segment_kind(gpu: CudaDevice | None, name: str) -> MakeSegment:
    """:func:`segment_kind` for iterations that are made again on the calling thread, and on a stream with this `name`."""
    return BuiltSegment if gpu is None else on_stream(gpu.stream(name))

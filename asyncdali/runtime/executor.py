"""The executor runs the segments of iterations on its threads and streams.

The problem. Several iterations are in flight. Stage threads, worker threads, streams and engines report results at any time. Each result
may allow another segment to start. The decisions must be consistent. Beside a thread that runs pure Python, every return to the interpreter
may wait 5 ms, so a decision must not cost a wake-up of another thread.

What does not work:

- One thread that decides, such as the event loop: every report wakes it. With uvloop an iteration of a GPU pipeline entered the interpreter
  12 times, because the loop returns for the descriptor, for its queue of calls, and from each call of a socket.
- A lock around all state: a thread that waits for the lock is a thread that waits, and user code may run while the lock is held.
- Unprotected decisions on the thread that calls ``run()``: a signal handler may raise an exception between any two of its steps, and then
  part of a decision is missing (docs/decisions/35-one-owner-of-iterations.md).

The solution. A report is put on the list ``_decisions``. The thread that finds ``_deciding`` free takes it, and works on the list until the
list is empty; any other thread leaves its report there and continues. So one thread decides at a time, no thread is woken, and the deciding
thread is one that is awake anyway. Only the thread that receives answers of engines waits for its turn (:meth:`Executor.decide_now`). The
same thread plans the GPU segments that may start (``_plannable``, ``_planning``). User code and readers stay on the threads of their
streams. With engines and no GPU only the loop's thread decides (``on_loop``), because that thread talks to the engines. The caller of
``run()`` decides only where no other thread could work at the same time (:meth:`Executor.submit`), with the handlers of signals delayed.

The :class:`~.scheduler.Scheduler` knows which segment may start. Worker threads take the compiled work of one backend in the order in which
it was planned, so pixels are computed in the order of iterations. Closing waits :data:`CLOSING` seconds for threads that are in a callback
of the user.
"""

from __future__ import annotations

import contextlib
import contextvars
import functools
import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from time import perf_counter_ns as now
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from asyncdali_workers.interrupts import only_ctrl_c, uninterrupted

from .. import _forks
from ..access import Access
from ..device.base import Device, Stream
from ..device.buffers import BufferPool
from ..device.host import HostDevice, HostStream
from ..device.threads import OrderedThread, Reports, WorkerState, WorkerThreads
from ..errors import PipelineClosed
from ..operators.base import Environment, Operator
from ..types import OperatorConcurrency, StreamPolicy
from .counters import PipelineCounters
from .jobs import CompiledSamples, Job, Jobs, Waiting
from .loop import LoopThread, shared_loop
from .memory_statistics import MemoryStatistics
from .record import Record
from .scheduler import Scheduler, assign_streams
from .segments import BuiltSegment, Progress, SegmentRun

if TYPE_CHECKING:
    from ..device.cuda.device import CudaDevice
    from ..device.cuda.gates import CompletionWatch
    from .device_repeats import DeviceRepeats
    from .device_segments import DeviceSegmentRun

log = logging.getLogger("asyncdali")

_TOGETHER, _LEAST_IN_FLIGHT = 3, 3
"""Most iterations whose files are read together, and the least number of iterations that are in progress meanwhile."""
CLOSING = 0.9
"""Seconds that closing waits for the threads of a pipeline. A callback of the user may never return."""


class _Part(Protocol):
    """A part of the executor that has threads."""

    def close(self) -> None: ...
    def join(self, timeout: float) -> object: ...


class Executor:
    """Threads, streams, memory and the scheduler of one built pipeline."""

    def __init__(
        self,
        *,
        num_threads: int,
        concurrency: OperatorConcurrency,
        stream_policy: StreamPolicy,
        affinity: list[int] | None,
        name: str,
        gpu: CudaDevice | None = None,
        pool: BufferPool | None = None,
    ):
        """`pool` allocates batches on the CPU. None: the executor makes a pool, or uses the GPU's pinned memory."""
        self.gpu = gpu
        self.pool = pool or (BufferPool() if gpu is None else gpu.pinned)
        self.allocate: Callable[[int], np.ndarray] = self.pool.allocate
        self.device: Device = HostDevice() if gpu is None else gpu
        self._waits = OrderedThread(f"{name}-device")
        self._loop: LoopThread | None = None
        self._workers = WorkerThreads(num_threads, name, affinity)
        self._stream_policy = stream_policy
        self._concurrency = concurrency
        self._name = name
        self.threads = f"{name}-"
        """Prefix of the names of its threads."""
        self._cpu_stage = HostStream(f"{name}-cpu", affinity)
        self._streams: dict[str, Stream] = {}
        self._segments: list[BuiltSegment] = []
        self._segment_streams: list[Stream] = []
        self._jobs: set[Job] = set()
        self._decisions: deque[tuple[Callable[..., None], tuple[Any, ...]]] = deque()
        self._deciding = threading.Lock()
        self._decider = 0
        """The thread that is deciding."""
        self._plannable: deque[tuple[SegmentRun, Jobs]] = deque()
        self._planning = threading.Lock()
        self.one_at_a_time = False
        """Whether the only worker has nothing to do while a segment is planned, nor the planning thread while pixels are computed."""
        self._plans_for_device = False
        """Whether iterations consist of planning for the GPU alone: no thread works at the same time, and nothing waits."""
        self._pinned = bool(affinity)
        self._caller = 0
        """The thread of the user that decides while it waits; see :meth:`submit`."""
        self._deciding_state = WorkerState()
        self.on_loop = False
        """Whether only the loop's thread decides. Sessions with engines need this, because the loop's thread talks to engines."""
        self._open_records: deque[Record] = deque()
        self._submitted: deque[Record] = deque()
        """Iterations that are queued and not admitted yet."""
        self._together, self._least = 1, 0
        """The number of iterations that are admitted together, while at least so many are in progress; see :meth:`_gathers`."""
        self._depth = 1
        self._admits_on_stage = False
        """Whether the CPU's stage thread admits iterations. It does if every iteration begins there: it is woken in any case."""
        self.admits: Callable[[Callable[[], None]], object] | None = None
        """With engines beside a GPU: requests a call on the thread that talks to engines."""
        self.reports: Reports | None = None
        """With engines beside a GPU: ends of jobs, for the thread that talks to engines."""
        self.helps: Callable[[Record, CompletionWatch | None], None] | None = None
        """With engines beside a GPU: does the work of this thread while a caller waits for an iteration, or for the GPU's work on it."""
        self._admitted = 0
        self.closed = False
        self._broken: BaseException | None = None
        self.memory: MemoryStatistics | None = None
        self.counters: PipelineCounters | None = None
        self.progress: Progress | None = None
        """For engines."""
        self._pid = _forks.pid
        self.outputs: list[int] = []
        self._edge_count = 0

    def environment(
        self,
        batch_size: int,
        num_threads: int,
        device_id: int | None,
        checkpointing: bool,
        calling: Callable[[], AbstractContextManager[None]],
        depth: int,
        access: Access,
    ) -> Environment:
        self._depth = depth
        self.one_at_a_time = depth == 1 and num_threads == 1
        if self.gpu is not None:
            self.gpu.expect(depth)
        return Environment(batch_size, num_threads, device_id, checkpointing, self.allocate, calling, self.gpu, depth, access)

    def collect_reports(self) -> None:
        """Collect ends of jobs in :attr:`reports`. To be called before operators are made.

        Beside a thread that runs pure Python, each thread that reports waits for the interpreter. One thread that reports and talks to
        engines does everything that has come meanwhile.
        """
        if self.gpu is not None:
            self.reports = self._workers.collect_reports()
            self.gpu.report_to(self.reports)

    def load(self, segments: list[BuiltSegment], outputs: list[int], edge_count: int) -> None:
        """Set the program to run. Called once, before the first launch."""
        self._segments = segments
        self.outputs = outputs
        self._edge_count = edge_count
        self._segment_streams = assign_streams(segments, self._stream_policy, self._stream)
        for segment in segments:
            segment.instant = segment.instant and not self._on_gpu(segment)  # the loop's thread must not make calls that can block
            operators = [built.operator for built in segment.operators]
            segment.device_repeats = _repeats_of(segment) if self._on_gpu(segment) else None
            segment.anywhere = self._on_gpu(segment) and all(one.only_compiles and not one.barrier for one in operators)
        if self.counters is not None:
            self._count(self.counters)
        self._plans_for_device = all(segment.anywhere for segment in segments)
        self._scheduler = Scheduler(segments, self._concurrency, self._start)
        self._loop = shared_loop()
        first = [segment for segment in segments if not segment.producers]
        if all(segment.backend == "cpu" and not segment.instant and segment.remote is None for segment in first):
            self._cpu_stage.start()
            self._admits_on_stage = True
        if self.gpu is not None and all(segment.remote is None for segment in segments):
            self._gather([built.operator for segment in segments for built in segment.operators])

    def _gather(self, operators: Sequence[Operator]) -> None:
        """Admit several iterations at a time if a reader reads their files together, and if enough others are in progress meanwhile.

        Reading then takes one job and one wake-up of each worker instead of three, and later iterations are planned with warm caches.
        """
        if any(operator.reads_together and not operator.may_wait for operator in operators):
            needed = max(_LEAST_IN_FLIGHT, *[operator.least_in_flight for operator in operators])
            self._together = max(1, min(_TOGETHER, self._depth - needed))
            self._least = self._depth - self._together

    @property
    def loaded(self) -> bool:
        """Whether the executor has the operators, and therefore closes them."""
        return bool(self._segments)

    def _count(self, counters: PipelineCounters) -> None:
        names = {id(stream): str(key) for key, stream in [("cpu", self._cpu_stage), *self._streams.items()]}
        for segment, stream in zip(self._segments, self._segment_streams, strict=True):
            counted = counters.segment(segment)
            counted.stream = "loop" if segment.instant else names[id(stream)]
            if self._on_gpu(segment):
                counted.times = stream.times()  # type: ignore[attr-defined]

    def _on_gpu(self, segment: BuiltSegment) -> bool:
        return self.gpu is not None and segment.backend != "cpu"

    def _run_of(self, segment: BuiltSegment, record: Record) -> SegmentRun:
        if self.gpu is None or not self._on_gpu(segment):
            return SegmentRun(segment, record, self)
        return _device_run()(segment, record, self, self._segment_streams[segment.index])  # type: ignore[arg-type]  # of its GPU

    def output_stream(self) -> int | None:
        """Handle of the stream of the last segment with GPU outputs; None without a GPU."""
        outputs = set(self.outputs)
        for segment, stream in reversed(list(zip(self._segments, self._segment_streams))):
            if self._on_gpu(segment) and outputs & segment.kept:
                return stream.handle
        return None

    def _stream(self, key: str) -> Stream:
        if key == "cpu":
            return self._cpu_stage
        if key not in self._streams:
            self._streams[key] = self.device.stream(f"{self._name}-{key}")
        return self._streams[key]

    # --- called by the user's thread

    def new_record(self, index: int, batch_size: int) -> Record:
        """The record of iteration `index`, to be submitted. PipelineClosed if the executor is closed."""
        if self.closed or self._loop is None:
            raise PipelineClosed("the pipeline was closed")
        if self._broken is not None:
            raise RuntimeError(
                "the pipeline cannot continue: the executor failed with the error above. Build a new pipeline"
            ) from self._broken
        if _forks.pid != self._pid:
            self.check_process()
        record = Record(index, batch_size, self._edge_count)
        if self.counters is not None:
            stride = self.counters.stride
            record.weight = 0 if index % stride else stride
        return record

    def submit(self, record: Record, awaited: bool = False) -> None:
        """Queue an iteration. A second call with the same record does nothing.

        Returns immediately, unless the caller waits for the iteration (`awaited`) and no thread would work at the same time. The caller
        then makes short segments itself, and plans segments of a GPU: waking another thread and waiting for it would take 20 to 60 us of
        processor time.
        """
        if self._loop is None:
            return
        here = self._plans_for_device if self.gpu is not None else self.one_at_a_time and not self._pinned
        if awaited and here and not self.on_loop and only_ctrl_c():
            self._submitted.append(record)
            # numpy's treatment of errors belongs to the context, and the user's must not apply here.
            with uninterrupted(), contextlib.nullcontext() if self.gpu is None else self.gpu.entered():
                contextvars.Context().run(self._decide_here)
            return
        if self.on_loop:
            self._loop.call(self.guarded, self._admit, record)
            return
        self._submitted.append(record)
        if self._gathers():
            return
        if self.admits is not None:
            if only_ctrl_c():
                self._admit_here()
            else:
                self.admits(self._admit_submitted)
            return
        # The stage thread instead of the loop's thread: two switches of the interpreter lock less.
        if not (self._admits_on_stage and self._cpu_stage.submit(self._admit_submitted)):
            self._loop.call(self._admit_submitted)

    def submit_here(self, record: Record) -> None:
        """Like :meth:`submit`, on the loop's thread (see :attr:`on_loop`)."""
        self.guarded(self._admit, record)

    @property
    def inherited(self) -> bool:
        """Whether this is a forked child's copy. The threads exist only in the parent."""
        return _forks.pid != self._pid

    def following(self, record: Record) -> int:
        """Number of later iterations that are admitted. Their positions follow, because no iteration fails to be planned."""
        return self._admitted - record.index - 1 if self._together > 1 else 0

    def check_process(self) -> None:
        """RuntimeError in a forked child."""
        if _forks.pid != self._pid:
            raise RuntimeError(f"this pipeline was built in process {self._pid} and cannot be used in its forked child; build one here")

    # --- decisions: one at a time, by a thread that finds no other thread deciding

    def _decide_here(self) -> None:
        """Admit the queued iterations, on the thread of the user that waits for them."""
        self._caller = threading.get_ident()
        try:
            self._admit_submitted()
        finally:
            self._caller = 0

    def _admit_here(self) -> None:
        """Admit the queued iterations on the user's thread. With engines this sends a request. Another thread would have to be woken, and
        beside a thread that runs pure Python it would get the interpreter after a switch interval.

        If another thread is deciding, that thread admits them.
        """
        assert self.gpu is not None
        with uninterrupted(), self.gpu.entered():
            contextvars.Context().run(self._post, self._admit_all)

    def _admit_submitted(self, state: WorkerState | None = None) -> None:
        """Request the admission of all queued iterations."""
        self._post(self._admit_all)

    def _gathers(self) -> bool:
        """Whether queued iterations are not admitted yet: later ones will be admitted with them.

        If too few iterations are in progress, :meth:`finish_segment` admits them. So each caller gets its iteration.
        """
        return len(self._submitted) < self._together and len(self._open_records) >= self._least

    def _admit_all(self) -> None:
        while self._submitted:
            self._admit(self._submitted.popleft())

    def _admit(self, record: Record) -> None:
        if self.closed:
            record.fail(0, PipelineClosed("the pipeline was closed while this iteration was in flight"))
            record.finish()
        elif record.index == self._admitted:
            self._admitted += 1
            if record.weight:
                record.admitted = now()
            self._open_records.append(record)
            self._scheduler.admit(record)

    def _start(self, segment: BuiltSegment, record: Record) -> None:
        run = self._run_of(segment, record)
        if record.weight:
            run.started = now()
        if record.error is not None:
            segment.commit_positions(record, {})
            self.finish_segment(run)
            return
        if record.given is not None:
            segment.go_to(record.given)
        if segment.remote is not None:
            segment.remote.begin(run)
            return
        phases = run.phases()
        if segment.instant:
            self._run_now(run, phases)
            return
        pace = segment.pace
        short = pace.quick or (pace.awaited and self._decider == self._caller)
        if short and self.gpu is None and not self.on_loop:
            self._advance(run, phases, self._deciding_state, None)
            return
        try:
            if segment.anywhere and not self.on_loop and not (self._loop is not None and self._loop.is_current()):
                self._plannable.append((run, phases))
                return
            self._segment_streams[segment.index].submit(lambda state: self._advance(run, phases, state, None))
        except BaseException as error:  # no thread could be started
            self._failed(run, error)

    def _run_now(self, run: SegmentRun, phases: Jobs) -> None:
        """Plan a segment of instant operators on the deciding thread."""
        try:
            for job in phases:
                raise TypeError(f"an instant operator yielded {type(job).__name__}; instant operators have no jobs")
        except BaseException as error:
            self._record_failure(run, error)
        self.finish_segment(run)

    def planned_remote(self, run: SegmentRun) -> None:
        """The positions behind an iteration of the engines are known, so the next one may begin. Runs on the loop's thread."""
        self._planned(run)

    def _planned(self, run: SegmentRun) -> None:
        if self.closed:
            return
        self._scheduler.planned(run.segment, run.record)
        self._scheduler.pump()

    def finish_segment(self, run: SegmentRun, error: BaseException | None = None) -> None:
        """A segment of an iteration is done, or has failed with `error`."""
        if error is not None:
            self._record_failure(run, error)
        record = run.record
        if self.closed:
            record.edges = []  # no call will return these batches
            return
        if record.weight:
            record.done_at[run.segment.index] = record.finished_at = now()
        if self._scheduler.done(run.segment, record):
            if record.error is None:
                edges = record.edges
                record.outputs = [edges[edge] for edge in self.outputs]
                if record.handed is not None:
                    record.outputs = [batch.part(*record.handed) for batch in record.outputs]
            record.edges, record.fed = [], {}
            self._open_records.remove(record)
            record.finish()
            if self._together > 1 and self._submitted and not self._gathers():
                self._admit_all()
        self._scheduler.pump()

    # --- on stage and worker threads

    def _advance(self, run: SegmentRun, phases: Jobs, state: WorkerState | None, error: BaseException | None) -> None:
        """Resume a run until other threads have its next job, or until it ends. This thread does brief jobs itself, if it has a state."""
        while True:
            if self.closed:
                phases.close()
                return
            try:
                job = phases.throw(error) if error is not None else next(phases)
            except StopIteration:
                self._post(self.finish_segment, run)
                return
            except BaseException as failure:
                if self.closed:  # closing has stopped the operator; waiting callers get PipelineClosed
                    return
                failure.__traceback__ = None if isinstance(failure, MemoryError) else failure.__traceback__
                self._failed(run, failure)
                return
            finally:
                error = None  # the frame must not keep the error, whose traceback holds the frame
            alone = state is not None and job.brief
            if (job.is_pixels or isinstance(job, Waiting)) and not run.told and not (alone and len(self._segments) == 1):
                # The next iteration may be planned while the pixels of this one are computed, unless this thread computes them alone.
                run.told = True
                self._post(self._planned, run)
            if state is None or not job.brief:
                break
            error = self._done_here(job, state)
        self._share(run, phases, job, state)

    def _failed(self, run: SegmentRun, error: BaseException) -> None:
        self._record_failure(run, error)
        self._post(self.finish_segment, run)

    @staticmethod
    def _record_failure(run: SegmentRun, error: BaseException) -> None:
        run.record.fail(run.segment.index, error)
        if not run.committed:
            run.segment.commit_positions(run.record, {})

    def _done_here(self, job: Job, state: WorkerState) -> BaseException | None:
        """Do a whole job on this thread. Returns its error."""
        self._jobs.add(job)
        if self.closed:
            job.stop()
        try:
            job.work_alone(state)
            job.raise_error()
        except BaseException as error:
            return error
        finally:
            self._jobs.discard(job)
        return None

    def _share(self, run: SegmentRun, phases: Jobs, job: Job, state: WorkerState | None) -> None:
        """Give a job to the worker threads. The thread that ends the job resumes the run."""

        def finished() -> None:
            job.finished = _nothing  # breaks the cycle job -> this closure -> job, which would keep the batches alive
            self._jobs.discard(job)
            try:
                job.raise_error()
            except BaseException as error:
                self._advance(run, phases, None, error)
            else:
                self._advance(run, phases, None, None)

        job.finished = finished
        self._jobs.add(job)
        if self.closed:
            job.stop()
        if isinstance(job, Waiting):
            job.begin(self._waits.submit)
            return
        samples = job.count if isinstance(job, CompiledSamples) else self._workers.count
        self._workers.submit(job, samples)
        if state is not None and not job.is_pixels:
            job.work(state)  # the stage thread helps, because planning waits for this job

    def _post(self, function: Callable[..., None], *args: Any) -> None:
        """Request a decision. A thread that finds no other thread deciding decides for all.

        Waking a dedicated thread would take the interpreter lock two or three times per stage of an iteration. Beside a busy thread, each
        time takes up to a switch interval. The user's threads do not decide, because an interrupt could come between any two steps.
        """
        if self.on_loop:
            if self._loop is not None:
                self._loop.call(self.guarded, function, *args)
            return
        self._decisions.append((function, args))
        self._decide_waiting()
        self._plan_waiting()

    def decide_now(self, function: Callable[..., None], *args: Any) -> None:
        """Make a decision on this thread, after waiting for a thread that is deciding."""
        with self._deciding:
            self._decider = threading.get_ident()
            try:
                self.guarded(function, *args)
            finally:
                self._decider = 0
        self._decide_waiting()
        self._plan_waiting()

    def decide_next(self, function: Callable[..., None], *args: Any) -> None:
        """Request a decision after the present one. To be called in a decision."""
        self._decisions.append((function, args))

    def _decide_waiting(self) -> None:
        """Make the decisions that were requested, unless another thread does."""
        while self._decisions and self._deciding.acquire(blocking=False):
            self._decider = threading.get_ident()
            try:
                while self._decisions:
                    function, args = self._decisions.popleft()
                    self.guarded(function, *args)
            finally:
                self._decider = 0
                self._deciding.release()

    def _plan_waiting(self) -> None:
        """Plan the segments of a GPU that may start, unless another thread plans. A thread of its own would have to be woken for each."""
        while self._plannable and self._planning.acquire(blocking=False):
            try:
                while self._plannable:
                    run, phases = self._plannable.popleft()
                    self._advance(run, phases, None, None)
            finally:
                self._planning.release()

    def guarded(self, function: Callable[..., None], *args: Any) -> None:
        """Call a part of the runtime that decides."""
        try:
            function(*args)
        except Exception as error:
            self.broke(error)

    def broke(self, error: Exception) -> None:
        """A decision has failed, which is a bug in the runtime: callers get an error and do not wait forever."""
        log.error("unexpected error in the executor's scheduling", exc_info=error)
        self._broken = error
        for record in [*self._open_records, *self._submitted]:
            record.fail(0, error)
            record.finish()

    # --- the end

    def close(self) -> None:
        """Stop threads within :data:`CLOSING` seconds. Waiting consumers get :class:`PipelineClosed`. Idempotent."""
        if self.closed:
            return
        self.closed = True
        if self.inherited:
            return
        for job in list(self._jobs):
            job.stop()
        operators = [built.operator for segment in self._segments for built in segment.operators]
        for operator in operators:
            operator.stop()
        closing: list[_Part] = [self._workers, self._cpu_stage, *self._streams.values(), self._waits]
        closing.extend(self.gpu.parts if self.gpu is not None else ())
        for part in closing:
            part.close()
        deadline = time.monotonic() + CLOSING
        for part in closing:
            part.join(max(0.0, deadline - time.monotonic()))
        self._abandon_records()
        for operator in operators:
            operator.close()

    def _abandon_records(self) -> None:
        """Runs on the loop's thread, which alone knows the iterations in flight. Iterations admitted later fail immediately."""

        def abandon() -> None:
            for record in (*self._open_records, *self._submitted):
                record.error = record.error or PipelineClosed("the pipeline was closed while this iteration was in flight")
                record.finish()
            done.set()

        done = threading.Event()
        if self._loop is None:
            return
        # If this thread is already deciding, the last reference was dropped there. Waiting would be a deadlock.
        if self._loop.is_current() if self.on_loop else self._decider == threading.get_ident():
            abandon()
            return
        self._loop.call(self._post, abandon)
        done.wait(CLOSING)


@functools.cache
def _device_run() -> type[DeviceSegmentRun]:
    from .device_segments import DeviceSegmentRun

    return DeviceSegmentRun


def _repeats_of(segment: BuiltSegment) -> DeviceRepeats | None:
    from .device_repeats import device_repeats_of

    return device_repeats_of(segment.operators)


def _nothing() -> None:
    pass

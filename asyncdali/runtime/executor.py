"""The executor decides which segment of which iteration runs when.

Decisions are made one at a time, by the thread that reports a result. Iterations are admitted in order. A segment of iteration k starts
when its producers have finished iteration k and the same segment is planned for iteration k-1, because its position is known then.
`OperatorConcurrency` and the streams of `StreamPolicy` limit this further. Worker threads take the compiled work of one backend in the
order in which it was planned.
"""

from __future__ import annotations

import asyncio
import functools
import logging
import os
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager
from time import perf_counter_ns as now
from types import FrameType
from typing import TYPE_CHECKING, Any

import numpy as np

from .._deadlocks import FIRST_LOOK, Patience
from ..access import Access
from ..batch import Batch
from ..device.base import Device, Stream
from ..device.buffers import BufferPool
from ..device.host import HostDevice, HostStream
from ..device.threads import OrderedThread, WorkerState, WorkerThreads
from ..errors import PipelineClosed
from ..operators.base import Environment
from ..types import OperatorConcurrency, StreamPolicy
from .counters import PipelineCounters
from .engine_protocol import Here
from .jobs import CompiledSamples, Job, Waiting
from .loop import LoopThread, shared_loop
from .memory_statistics import MemoryStatistics
from .segments import BuiltSegment, SegmentRun

if TYPE_CHECKING:
    from ..device.cuda.device import CudaDevice
    from .device_segments import DeviceSegmentRun

log = logging.getLogger("asyncdali")

CLOSING = 0.9
"""Seconds that closing waits for the threads of a pipeline. A callback of the user may never return."""

_PHASES = SegmentRun.phases.__code__


class Record:
    """One iteration in flight: its batches, the positions after it, and the callers that wait for it."""

    __slots__ = (
        "_failed_segment", "_lock", "_waiters", "admitted", "arrived", "batch_size", "careful", "done_at", "done_segments", "driver",
        "edges", "error", "fed", "finished", "finished_at", "first", "given", "handed", "index", "number", "on_planned", "outputs",
        "place", "positions", "produced", "sources", "weight", "whole",
    )  # fmt: skip

    def __init__(self, index: int, batch_size: int, edge_count: int):
        self.index = index
        self.number = index  # number of the iteration, for operators and errors; an engine's records have another `index`
        self.given: Mapping[str, Any] | None = None  # in an engine: positions before the iteration, by operator
        self.produced: dict[str, int] = {}  # in an engine: samples that stateful operators produced, if not the batch's
        self.on_planned: Callable[[], None] | None = None  # in an engine: called for every segment whose positions are known
        self.batch_size = batch_size
        self.whole = 0  # number of samples of the whole iteration if only a part (`batch_size` samples) is made; 0: all are made
        self.first = 0  # the number in the iteration of the first sample that is made
        self.careful = False  # in an engine: the steps of pixels run and are noted one by one, to find the step that ends the process
        self.driver: Here | None = None  # the part of the executor that the waiting thread drives; None: other threads finish the iteration
        self.handed: tuple[int, int] | None = None  # range of the computed samples that is returned; None: all
        self.edges: list[Batch | None] = [None] * edge_count
        self.fed: dict[str, Any] = {}  # batches of external inputs
        self.place = (0, 0)  # epoch, and iteration in it
        self.positions: Any = {}  # a mapping
        self.sources: dict[str, Any] = {}  # positions of the sources before this iteration
        self.done_segments: set[int] = set()
        self.error: BaseException | None = None
        self.outputs: list[Batch] = []
        self.finished = False
        self.weight = 0  # for statistics: number of iterations that this record stands for; 0: this iteration is not timed
        self.admitted = self.finished_at = 0  # for statistics: when it was queued, when it was done
        self.arrived = 0  # for statistics: when the consumer requested it
        self.done_at: dict[int, int] = {}  # for statistics: when each segment was done
        self._failed_segment = 0
        self._waiters: list[Callable[[], None]] = []
        self._lock = threading.Lock()

    def fail(self, segment: int, error: BaseException) -> None:
        """The iteration has failed. Of several errors, the one of the earliest segment is kept, independent of timing."""
        with self._lock:
            if self.error is None or segment < self._failed_segment:
                self.error, self._failed_segment = error, segment

    def finish(self) -> None:
        """Wake the waiting callers (on the loop's thread, or in close)."""
        with self._lock:
            if self.finished:
                return
            self.finished = True
            waiters, self._waiters = self._waiters, []
        for wake in waiters:
            wake()

    def on_finished(self, wake: Callable[[], None]) -> None:
        """Call `wake` when the iteration is finished; immediately if it already is."""
        if self.driver is not None:
            self.driver.leave_to_loop()  # no caller waits here
        with self._lock:
            if not self.finished:
                self._waiters.append(wake)
                return
        wake()

    def runs_in(self, frame: FrameType) -> bool:
        """Whether a frame runs a segment of this iteration."""
        return frame.f_code is _PHASES and frame.f_locals["self"].record is self

    def _forget(self, wake: Callable[[], None]) -> None:
        """Undo :meth:`on_finished`."""
        with self._lock:
            if wake in self._waiters:
                self._waiters.remove(wake)

    def wait(self) -> None:
        """Block until finished; signals interrupt the wait. RuntimeError if a function of an operator waits for the calling thread."""
        if self.finished or (self.driver is not None and self.driver.drive(self)):
            return
        gate = threading.Lock()
        gate.acquire()
        self.on_finished(gate.release)
        try:
            # A signal between the interpreter's last check and the wait would not be noticed until the end, so check periodically.
            if gate.acquire(timeout=FIRST_LOOK):
                return
            patience = Patience(self.runs_in)
            while not gate.acquire(timeout=patience.seconds()):
                patience.look(notice=False)
        except BaseException:  # a signal handler raised (Ctrl-C)
            self._forget(gate.release)
            raise

    async def wait_async(self) -> None:
        """Wait inside any running event loop. Cancelling the wait loses nothing."""
        if self.finished:
            return
        loop = asyncio.get_running_loop()
        future: asyncio.Future[None] = loop.create_future()

        def wake() -> None:
            try:
                loop.call_soon_threadsafe(lambda: None if future.done() else future.set_result(None))
            except RuntimeError:
                pass  # that loop was closed while the wait was pending

        self.on_finished(wake)
        try:
            await future
        finally:
            self._forget(wake)


class Scheduler:
    """Decides which segments start. It only keeps books and runs nothing. Not thread-safe."""

    def __init__(self, segments: list[BuiltSegment], concurrency: OperatorConcurrency, start: Callable[[BuiltSegment, Record], None]):
        self._segments = segments
        self._start = start
        self._one_at_a_time = concurrency == OperatorConcurrency.NONE
        self._limited = {"cpu"} if concurrency == OperatorConcurrency.FULL else {"cpu", "mixed", "gpu"}
        self._records: dict[int, Record] = {}
        self._next = [0] * len(segments)
        self._planning: dict[int, int] = {}  # segment -> iteration that is being planned
        self._running = 0
        self._pumping = False
        self._busy_backends: set[str] = set()

    def resume(self, records: Iterable[Record], admitted: int) -> None:
        """Go on with iterations in flight. All `admitted` iterations have been started, without this scheduler."""
        self._records = {record.index: record for record in records}
        self._next = [admitted] * len(self._segments)
        self._running = len(self._records)

    def admit(self, record: Record) -> None:
        self._records[record.index] = record
        self.pump()

    def planned(self, segment: BuiltSegment, record: Record) -> None:
        """The segment's positions after this iteration are known, so the next iteration may be planned.

        Reported once or twice per iteration; the second report may come when the next iteration is already being planned.
        """
        if self._planning.get(segment.index) == record.index:
            del self._planning[segment.index]
            self._busy_backends.discard(segment.backend)

    def done(self, segment: BuiltSegment, record: Record) -> bool:
        """The segment is done for this record. Returns True if the whole record is done."""
        self.planned(segment, record)
        self._running -= 1
        record.done_segments.add(segment.index)
        if len(record.done_segments) < len(self._segments):
            return False
        del self._records[record.index]
        return True

    def pump(self) -> None:
        """Start every segment that may start, oldest iterations first."""
        if self._pumping:
            return  # a nested call (an iteration that failed immediately); the outer loop continues
        self._pumping = True
        try:
            self._pump()
        finally:
            self._pumping = False

    def _pump(self) -> None:
        progress = True
        while progress:
            progress = False
            for segment in self._segments:
                record = self._records.get(self._next[segment.index])
                if record is not None and self._may_start(segment, record):
                    self._next[segment.index] += 1
                    self._planning[segment.index] = record.index
                    self._running += 1
                    if segment.backend in self._limited:
                        self._busy_backends.add(segment.backend)
                    self._start(segment, record)
                    progress = True

    def _may_start(self, segment: BuiltSegment, record: Record) -> bool:
        if segment.index in self._planning or not segment.producers <= record.done_segments:
            return False
        if self._one_at_a_time and self._running:
            return False
        return segment.backend not in self._busy_backends


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
        self._streams: dict[Any, Stream] = {}
        self._segments: list[BuiltSegment] = []
        self._segment_streams: list[Stream] = []
        self._jobs: set[Job] = set()
        self._decisions: deque[tuple[Callable[..., None], tuple[Any, ...]]] = deque()
        self._deciding = threading.Lock()
        self._decider = 0
        """The thread that is deciding."""
        self._plannable: deque[tuple[SegmentRun, Iterator[Job]]] = deque()
        self._planning = threading.Lock()
        self.one_at_a_time = False
        """Whether the only worker has nothing to do while a segment is planned, nor the planning thread while pixels are computed."""
        self._deciding_state = WorkerState()
        self.on_loop = False
        """Whether only the loop's thread decides. Sessions with engines need this, because the loop's thread talks to engines."""
        self.here: Here | None = None
        """Decides on the threads that call the pipeline, as long as nothing needs the loop's thread."""
        self._open_records: deque[Record] = deque()
        self._submitted: deque[Record] = deque()
        """Iterations that are queued and not admitted yet."""
        self._admits_on_stage = False
        """Whether the CPU's stage thread admits iterations. It does if every iteration begins there: it is woken in any case."""
        self._admitted = 0
        self.closed = False
        self._broken: BaseException | None = None
        self.memory: MemoryStatistics | None = None
        self.counters: PipelineCounters | None = None
        self.progress: Callable[[Record, Any], None] | None = None
        """For engines: called with the operator that is about to be planned, or the segment whose pixels are about to be computed."""
        self._pid = os.getpid()
        self.outputs: list[int] = []
        self._edge_count = 0
        self._at_once: BuiltSegment | None = None
        """The only segment, if every iteration starts when it is admitted."""

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
        self.one_at_a_time = depth == 1 and num_threads == 1
        if self.gpu is not None:
            self.gpu.expect(depth)
        return Environment(batch_size, num_threads, device_id, checkpointing, self.allocate, calling, self.gpu, depth, access)

    def load(self, segments: list[BuiltSegment], outputs: list[int], edge_count: int) -> None:
        """Set the program to run. Called once, before the first launch."""
        self._segments = segments
        self.outputs = outputs
        self._edge_count = edge_count
        self._segment_streams = assign_streams(segments, self._stream_policy, self._stream)
        for segment in segments:
            segment.instant = segment.instant and not self._on_gpu(segment)  # the loop's thread must not make calls that can block
            operators = [built.operator for built in segment.operators]
            segment.anywhere = self._on_gpu(segment) and all(one.only_compiles and not one.barrier for one in operators)
        if self.counters is not None:
            self._count(self.counters)
        self._scheduler = Scheduler(segments, self._concurrency, self._start)
        self._loop = shared_loop()
        first = [segment for segment in segments if not segment.producers]
        if all(segment.backend == "cpu" and not segment.instant and segment.remote is None for segment in first):
            self._cpu_stage.start()  # now, because Ctrl-C could interrupt the user's thread while it starts a thread
            self._admits_on_stage = True

    @property
    def loaded(self) -> bool:
        """Whether the executor has the operators, and therefore closes them."""
        return bool(self._segments)

    def is_single(self, segment: BuiltSegment) -> bool:
        """Whether an iteration consists of this segment alone."""
        return self._segments == [segment]

    def start_at_once(self, segment: BuiltSegment) -> None:
        """Start every iteration when it is admitted. The positions of its only segment are known then, so nothing is scheduled."""
        assert self.is_single(segment)
        self._at_once = segment

    def start_in_turns(self) -> None:
        """Undo :meth:`start_at_once`. Iterations in flight have been started."""
        self._at_once = None
        self._scheduler.resume(self._open_records, self._admitted)

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
        return _device_run()(segment, record, self, self._segment_streams[segment.index])

    def output_stream(self) -> int | None:
        """Handle of the stream of the last segment with GPU outputs; None without a GPU."""
        outputs = set(self.outputs)
        for segment, stream in reversed(list(zip(self._segments, self._segment_streams))):
            if self._on_gpu(segment) and outputs & segment.kept:
                return stream.handle
        return None

    def _stream(self, key: Any) -> Stream:
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
        if os.getpid() != self._pid:
            self.check_process()
        record = Record(index, batch_size, self._edge_count)
        if self.counters is not None:
            stride = self.counters.stride
            record.weight = 0 if index % stride else stride
        record.driver = self.here
        return record

    def submit(self, record: Record) -> None:
        """Queue an iteration and return immediately. A second call with the same record does nothing."""
        if self._loop is None or (self.here is not None and self.here.decide(self._admit, record)):
            return
        if self.on_loop:
            self._loop.call(self.guarded, self._admit, record)
            return
        self._submitted.append(record)
        # The stage thread instead of the loop's thread: two switches of the interpreter lock less.
        if not (self._admits_on_stage and self._cpu_stage.submit(self._admit_submitted)):
            self._loop.call(self._admit_submitted)

    def submit_here(self, record: Record) -> None:
        """Like :meth:`submit`, on the loop's thread (see :attr:`on_loop`)."""
        self.guarded(self._admit, record)

    @property
    def inherited(self) -> bool:
        """Whether this is a forked child's copy. The threads exist only in the parent."""
        return os.getpid() != self._pid

    def check_process(self) -> None:
        """RuntimeError in a forked child."""
        if os.getpid() != self._pid:
            raise RuntimeError(f"this pipeline was built in process {self._pid} and cannot be used in its forked child; build one here")

    # --- decisions: one at a time, by a thread that finds no other thread deciding

    def _admit_submitted(self, state: WorkerState | None = None) -> None:
        """Request the admission of all queued iterations."""
        while self._submitted:
            self._post(self._admit, self._submitted.popleft())

    def _admit(self, record: Record) -> None:
        if self.closed:
            record.fail(0, PipelineClosed("the pipeline was closed while this iteration was in flight"))
            record.finish()
        elif record.index == self._admitted:
            self._admitted += 1
            if record.weight:
                record.admitted = now()
            self._open_records.append(record)
            if self._at_once is not None:
                self._start(self._at_once, record)
            else:
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
        if segment.pace.quick and self.gpu is None and self.here is None and not self.on_loop:
            self._advance(run, phases, self._deciding_state, None)
            return
        try:
            if segment.anywhere and not self.on_loop and not (self._loop is not None and self._loop.is_current()):
                self._plannable.append((run, phases))
                return
            self._segment_streams[segment.index].submit(lambda state: self._advance(run, phases, state, None))
        except BaseException as error:  # no thread could be started
            self._failed(run, error)

    def _run_now(self, run: SegmentRun, phases: Iterator[Job]) -> None:
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
        if self.closed:
            return
        record = run.record
        if record.weight:
            record.done_at[run.segment.index] = record.finished_at = now()
        if self._at_once is not None or self._scheduler.done(run.segment, record):
            if record.error is None:
                edges = record.edges
                record.outputs = [edges[edge] for edge in self.outputs]
                if record.handed is not None:
                    record.outputs = [batch.part(*record.handed) for batch in record.outputs]
            record.edges, record.fed = [], {}
            self._open_records.remove(record)
            record.finish()
        if self._at_once is None:
            self._scheduler.pump()

    # --- on stage and worker threads

    def _advance(self, run: SegmentRun, phases: Iterator[Job], state: WorkerState | None, error: BaseException | None) -> None:
        """Resume a run until it yields its next job or ends."""
        if self.closed:
            phases.close()  # type: ignore[attr-defined]
            return
        try:
            job = phases.throw(error) if error is not None else next(phases)  # type: ignore[attr-defined]
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
        self._run_job(run, phases, job, state)

    def _failed(self, run: SegmentRun, error: BaseException) -> None:
        self._record_failure(run, error)
        self._post(self.finish_segment, run)

    @staticmethod
    def _record_failure(run: SegmentRun, error: BaseException) -> None:
        run.record.fail(run.segment.index, error)
        if not run.committed:
            run.segment.commit_positions(run.record, {})

    def _run_job(self, run: SegmentRun, phases: Iterator[Job], job: Job, state: WorkerState | None) -> None:
        here = state if job.brief else None  # the thread that resumes the run
        def finished() -> None:
            job.finished = _nothing  # breaks the cycle job -> this closure -> job, which would keep the batches alive
            self._jobs.discard(job)
            try:
                job.raise_error()
            except BaseException as error:
                self._advance(run, phases, here, error)
            else:
                self._advance(run, phases, here, None)

        job.finished = finished
        self._jobs.add(job)
        if self.closed:
            job.stop()
        waits, pixels = isinstance(job, Waiting), getattr(job, "is_pixels", False)
        if (waits or pixels) and not run.told:
            # The next iteration may be planned while the pixels of this one are computed.
            run.told = True
            self._post(self._planned, run)
        if isinstance(job, Waiting):
            job.begin(self._waits.submit)
            return
        samples = job.count if isinstance(job, CompiledSamples) else self._workers.count
        if state is None:
            job.brief = False
        if not job.brief:
            self._workers.submit(job, samples)
        if state is not None and (job.brief or not pixels):
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
        while self._decisions and self._deciding.acquire(blocking=False):
            self._decider = threading.get_ident()
            try:
                while self._decisions:
                    function, args = self._decisions.popleft()
                    self.guarded(function, *args)
            finally:
                self._decider = 0
                self._deciding.release()
        self._plan_waiting()

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
        """A decision has failed, which is a bug in the runtime: callers get an error and do not wait for ever."""
        log.error("unexpected error in the executor's scheduling", exc_info=error)
        self._broken = error
        for record in list(self._open_records):
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
        closing: list[Any] = [self._workers, self._cpu_stage, *self._streams.values(), self._waits]
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
        if self._loop is None or (self.here is not None and self.here.decide(abandon)):
            return
        # If this thread is already deciding, the last reference was dropped there. Waiting would be a deadlock.
        if self._loop.is_current() if self.on_loop else self._decider == threading.get_ident():
            abandon()
            return
        self._loop.call(self._post, abandon)
        done.wait(CLOSING)


def assign_streams(segments: list[BuiltSegment], policy: StreamPolicy, make: Callable[[Any], Stream]) -> list[Stream]:
    """Assigns a stream to every segment. CPU segments share the CPU stage; the others follow `policy`.

    SINGLE: one stream for all. PER_BACKEND: one for mixed and one for gpu. PER_OPERATOR: a segment continues the lowest-numbered stream of
    its producers that no other segment has continued; otherwise it opens a new stream.
    """
    streams: list[Stream] = []
    numbers: dict[int, int] = {}
    continued: set[int] = set()
    opened = 0
    for segment in segments:
        if segment.backend == "cpu":
            streams.append(make("cpu"))
        elif policy == StreamPolicy.SINGLE:
            streams.append(make("stream"))
        elif policy == StreamPolicy.PER_OPERATOR:
            numbered = [index for index in segment.producers if index in numbers and index not in continued]
            free = sorted(numbered, key=numbers.__getitem__)
            if free:
                continued.add(free[0])
                numbers[segment.index] = numbers[free[0]]
            else:
                numbers[segment.index] = opened
                opened += 1
            streams.append(make(f"stream-{numbers[segment.index]}"))
        else:
            streams.append(make(segment.backend))
    return streams


@functools.cache
def _device_run() -> type[DeviceSegmentRun]:
    from .device_segments import DeviceSegmentRun

    return DeviceSegmentRun


def _nothing() -> None:
    pass

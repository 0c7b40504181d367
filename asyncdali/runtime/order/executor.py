"""The executor runs the segments of iterations on its threads and streams.

The :class:`~.scheduler.Scheduler` knows which segment may start, and the :class:`~.placement.Placement` on which threads this is decided,
planned and awaited. Worker threads take the compiled work of one backend in the order in which it was planned.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from time import perf_counter_ns as now
from typing import NamedTuple

import numpy as np

from ...device.buffers import BufferPool
from ...device.threads import WorkerState
from ...errors import PipelineClosed
from ...system import forks
from ...types import OperatorConcurrency
from ..counting.counters import PipelineCounters
from ..counting.memory_statistics import MemoryStatistics
from ..work.jobs import CompiledSamples, Job, Jobs, Waiting
from ..work.segments import BuiltOperator, BuiltSegment, Progress, SegmentRun
from .admission import Admission
from .placement import Order, Placement, usual
from .record import Record
from .scheduler import Scheduler, assign_streams
from .stages import CLOSING, Stages

log = logging.getLogger("asyncdali")


class Loaded(NamedTuple):
    """The program of an executor: the segments, and the edges that are returned, of all edges of an iteration."""

    segments: list[BuiltSegment]
    outputs: list[int]
    edge_count: int

    def operators(self) -> list[BuiltOperator]:
        return [built for segment in self.segments for built in segment.operators]


class Observers(NamedTuple):
    """Receivers of reports: the pipeline's counters, the memory statistics of DALI, and an engine's report of its activity."""

    counters: PipelineCounters | None = None
    memory: MemoryStatistics | None = None
    progress: Progress | None = None


NOBODY = Observers()


class Executor:
    """Threads, streams, memory and the scheduler of one built pipeline.

    Attributes:
        gpu: the GPU; None: the host device.
        pool: allocates batches on the CPU, by default from the device's memory for them.
        allocate: makes memory on the host.
        stages: its threads and streams.
        admission: the queue of iterations, and those in progress.
        placement: where iterations are admitted, decided, planned and awaited. Set by :meth:`load`.
        one_at_a_time: whether the only worker has nothing to do while a segment is planned, nor the planning thread while pixels are
            computed.
        counters, memory, progress: see :class:`Observers`.
    """

    placement: Placement
    _order: Order

    def __init__(self, stages: Stages, *, depth: int, pool: BufferPool | None = None, observers: Observers = NOBODY):
        """`depth`: most iterations in flight."""
        self.stages = stages
        self.gpu = stages.gpu
        self.pool = pool or stages.device.pinned
        self.allocate: Callable[[int], np.ndarray] = self.pool.allocate
        self.admission = Admission()
        self.one_at_a_time = depth == 1 and stages.workers.count == 1
        stages.device.expect(depth)
        self.counters, self.memory, self.progress = observers
        self._program = Loaded([], [], 0)
        self._jobs: set[Job] = set()
        self.closed = False
        self._broken: BaseException | None = None
        self._pid = forks.pid

    def load(
        self,
        segments: list[BuiltSegment],
        outputs: list[int],
        edge_count: int,
        concurrency: OperatorConcurrency,
        place: Callable[[Executor, list[BuiltSegment]], Placement] = usual,
        ahead: bool = False,
    ) -> None:
        """Set the program to run, and choose the placement. Called once, before the first launch. `ahead`: see ``scheduler``."""
        program = Loaded(segments, outputs, edge_count)
        for segment, stream in zip(segments, assign_streams(segments, self.stages.policy, self.stages.stream), strict=True):
            segment.stream = stream
        if self.counters is not None:
            self._count(self.counters, segments)
        self.placement = place(self, segments)
        resume = self._resume if ahead else None
        self._order = self.placement.order(segments, lambda own: Scheduler(own, concurrency, self._start, resume))
        self._program = program

    @property
    def loaded(self) -> bool:
        """Whether the executor has the operators, and therefore closes them."""
        return bool(self._program.segments)

    def _count(self, counters: PipelineCounters, segments: list[BuiltSegment]) -> None:
        names = self.stages.names()
        for segment in segments:
            counted = counters.segment(segment)
            counted.stream = "loop" if segment.instant else names[id(segment.stream)]
            counted.times = segment.times()

    def output_stream(self) -> int | None:
        """Handle of the stream of the last segment with GPU outputs; None without a GPU."""
        outputs = set(self._program.outputs)
        for segment in reversed(self._program.segments):
            if segment.stream.handle is not None and outputs & segment.kept:
                return segment.stream.handle
        return None

    # --- called by the user's thread

    def new_record(self, index: int, batch_size: int) -> Record:
        """The record of iteration `index`, to be submitted. PipelineClosed if the executor is closed."""
        if self.closed or not self.loaded:
            raise PipelineClosed("the pipeline was closed")
        if self._broken is not None:
            raise RuntimeError(
                "the pipeline cannot continue: the executor failed with the error above. Build a new pipeline"
            ) from self._broken
        if forks.pid != self._pid:
            self.check_process()
        record = Record(index, batch_size, self._program.edge_count)
        if self.counters is not None:
            stride = self.counters.stride
            record.weight = 0 if index % stride else stride
        return record

    def submit(self, record: Record, awaited: bool = False) -> None:
        """Queue an iteration. A second call with the same record does nothing. `awaited`: the caller is about to wait for it."""
        if self.loaded:
            self.placement.admit(record, awaited)

    @property
    def inherited(self) -> bool:
        """Whether this is a forked child's copy. The threads exist only in the parent."""
        return forks.pid != self._pid

    def check_process(self) -> None:
        """RuntimeError in a forked child."""
        if forks.pid != self._pid:
            raise RuntimeError(f"this pipeline was built in process {self._pid} and cannot be used in its forked child; build one here")

    # --- decisions, one at a time; the placement knows on which thread

    def admit_all(self) -> None:
        """Begin all queued iterations."""
        while (record := self.admission.next()) is not None:
            self.admit(record)

    def admit(self, record: Record) -> None:
        """Begin an iteration."""
        if self.closed:
            record.fail(0, PipelineClosed("the pipeline was closed while this iteration was in flight"))
            record.finish()
        elif self.admission.enter(record):
            if record.weight:
                record.admitted = now()
            self._order.admit(record)

    def _resume(self, pump: Callable[[], None]) -> None:
        """Start what a scheduler has held back. Called on any thread."""

        def resumed() -> None:
            if not self.closed:
                pump()

        self.placement.request(resumed)

    def _start(self, segment: BuiltSegment, record: Record) -> None:
        run = segment.new_run(record, self)
        if record.weight:
            run.started = now()
        if record.given is not None:
            segment.go_to(record.given)
        if record.error is not None:
            segment.commit_positions(record, {})
            self.finish_segment(run)
            return
        self.placement.begin(run)

    def run_now(self, run: SegmentRun) -> None:
        """Plan a segment of instant operators on the deciding thread."""
        try:
            for job in run.phases():
                raise TypeError(f"an instant operator yielded {type(job).__name__}; instant operators have no jobs")
        except BaseException as error:
            self._record_failure(run, error)
        self.finish_segment(run)

    def planned(self, run: SegmentRun) -> None:
        """The positions behind an iteration are known, so the next one may begin."""
        if self.closed:
            return
        scheduler = run.record.lane
        scheduler.planned(run.segment, run.record)
        scheduler.pump()

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
        scheduler = record.lane
        if scheduler.done(run.segment, record):
            if record.error is None:
                edges = record.edges
                record.outputs = [edges[edge] for edge in self._program.outputs]
                if record.handed is not None:
                    record.outputs = [batch.part(*record.handed) for batch in record.outputs]
            record.edges = []
            if record.error is None:
                record.fed = {}  # a failed iteration keeps its data: it may be made again
            self.admission.leave(record)
            self._order.leave(record)
            record.finish()
        scheduler.pump()

    # --- on stage and worker threads

    def advance(self, run: SegmentRun, phases: Jobs, state: WorkerState | None, error: BaseException | None) -> None:
        """Resume a run until other threads have its next job, or until it ends. This thread does brief jobs itself, if it has a `state`."""
        while True:
            if self.closed:
                phases.close()
                return
            try:
                job = phases.throw(error) if error is not None else next(phases)
            except StopIteration:
                self.placement.decide(self.finish_segment, run)
                return
            except BaseException as failure:
                if self.closed:  # closing has stopped the operator; waiting callers get PipelineClosed
                    return
                failure.__traceback__ = None if isinstance(failure, MemoryError) else failure.__traceback__
                self.failed(run, failure)
                return
            finally:
                error = None  # the frame must not keep the error, whose traceback holds the frame
            alone = state is not None and job.brief
            if (job.is_pixels or isinstance(job, Waiting)) and not run.told and not (alone and len(self._program.segments) == 1):
                # The next iteration may be planned while the pixels of this one are computed, unless this thread computes them alone.
                run.told = True
                self.placement.decide(self.planned, run)
            if state is None or not job.brief:
                break
            error = self._done_here(job, state)
        self._share(run, phases, job, state)

    def failed(self, run: SegmentRun, error: BaseException) -> None:
        """A run has ended with an error. Called on any thread."""
        self._record_failure(run, error)
        self.placement.decide(self.finish_segment, run)

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
                self.advance(run, phases, None, error)
            else:
                self.advance(run, phases, None, None)

        job.finished = finished
        self._jobs.add(job)
        if self.closed:
            job.stop()
        if isinstance(job, Waiting):
            job.begin(self.stages.waits.submit)
            return
        samples = job.count if isinstance(job, CompiledSamples) else self.stages.workers.count
        self.stages.workers.submit(job, samples)
        if state is not None and not job.is_pixels:
            job.work(state)  # the stage thread helps, because planning waits for this job

    def guarded(self, function: Callable[..., None], *args: object) -> None:
        """Call a part of the runtime that decides."""
        try:
            function(*args)
        except Exception as error:
            self.broke(error)

    def broke(self, error: Exception) -> None:
        """A decision has failed, which is a bug in the runtime: callers get an error and do not wait forever."""
        log.error("unexpected error in the executor's scheduling", exc_info=error)
        self._broken = error
        for record in self.admission.unfinished():
            record.fail(0, error)
            record.finish()

    # --- the end

    def close(self) -> None:
        """Stop threads within :data:`~.stages.CLOSING` seconds. Waiting consumers get :class:`PipelineClosed`. Idempotent."""
        if self.closed:
            return
        self.closed = True
        if self.inherited:
            return
        for job in list(self._jobs):
            job.stop()
        operators = [built.operator for built in self._program.operators()]
        for operator in operators:
            operator.stop()
        self.stages.close()
        if self.loaded:
            self._abandon_records()
        for operator in operators:
            operator.close()

    def _abandon_records(self) -> None:
        """A decision, because only decisions know the iterations in flight. Iterations admitted later fail immediately."""

        def abandon() -> None:
            for record in self.admission.unfinished():
                if record.error is None:
                    record.error = PipelineClosed("the pipeline was closed while this iteration was in flight")
                record.finish()
            done.set()

        done = threading.Event()
        # If this thread is already deciding, the last reference was dropped there. Waiting would be a deadlock.
        if self.placement.decides_here():
            abandon()
            return
        self.placement.request(abandon)
        done.wait(CLOSING)


def _nothing() -> None:
    pass

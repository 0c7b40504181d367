"""Counters of segments and their operators; see :mod:`.counters`.

One thread at a time plans a segment, so planning is counted without a lock. Pixels of two iterations may end at the same time.
"""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from time import perf_counter_ns as now
from typing import TYPE_CHECKING, Protocol

import numpy as np

from ...batch import Batch, storage_dtype
from ...compiled.addresses import address_of
from ...compiled.tables import table_of
from ...types import DALIDataType
from ..work.built import Built
from ..work.jobs import Job, JobTimes, Timed

if TYPE_CHECKING:
    from ...device.cuda.commands import Commands
    from ...graph.plan import PlannedOperator
    from ...operators.base import Operator
    from ..order.record import Record
    from ..work.segments import BuiltSegment

SAMPLED = 16
"""Processor time is measured in one of this many timed iterations."""

_FLUSH = 64
_SLOWEST = 5
"""Number of slow samples that a segment remembers."""

_YES, _PROCESSOR = Timed.YES, Timed.PROCESSOR


class Recorder(Protocol):
    """Receives the spans of a trace: the lane (None: the calling thread), the work, its begin and end (ns) and the iteration.

    It also receives levels: the size of a quantity at a time."""

    def span(self, what: str, began: int, ended: int, iteration: int, lane: str | None = None) -> None: ...

    def level(self, what: str, time: int, value: int) -> None: ...


class DeviceTimes(Protocol):
    """Measures work on a stream of a GPU without waiting for it (``device.cuda.timing.StreamTimes``)."""

    def mark(self, commands: Commands) -> int: ...
    def queued(self, begun: int, ended: int) -> None: ...
    def taken(self) -> list[int]: ...


class Estimate:
    """A part of a growing total (for example the processor time of a duration) that is measured in intervals.

    Between two measurements the part is assumed to have its last measured share."""

    __slots__ = ("_base", "_share", "_until")

    def __init__(self) -> None:
        self._base = self._share = 0.0
        self._until = 0  # the total at the last measurement

    def measured(self, before: int, took: int, part: int) -> None:
        """When the total was `before`, it grew by `took`, of which `part` is the measured part."""
        self._base = self.of(before) + part
        self._until = before + took
        self._share = part / took if took else 0.0

    def of(self, total: int) -> float:
        """The part of the whole total."""
        return self._base + (total - self._until) * self._share


class OutputCounters:
    """The samples and bytes of one output of an operator.

    Most outputs have the same shapes in every iteration (the same array object); only the first of these is recorded. Different shapes are
    added up.
    """

    __slots__ = ("_bytes", "_lock", "_log", "_samples", "_since", "dtype", "edge", "shapes")

    def __init__(self, edge: int) -> None:
        self.edge = edge
        self.shapes: np.ndarray | None = None  # the current shapes and their element type
        self.dtype = DALIDataType.NO_TYPE
        self._since = 0  # iterations before the current shapes
        self._samples = self._bytes = 0  # counts up to the current shapes
        self._log: list[tuple[np.ndarray, DALIDataType, int]] = []
        self._lock = threading.Lock()

    def changes(self, batch: Batch, iterations: int) -> None:
        """After `iterations` iterations, the shapes change to the shapes of `batch`."""
        with self._lock:
            if self.shapes is not None:
                self._log.append((self.shapes, self.dtype, iterations - self._since))
            self.shapes, self.dtype, self._since = batch.shapes, batch.dtype, iterations
            if len(self._log) >= _FLUSH:
                self._add_up()

    def _add_up(self) -> None:
        log, self._log = self._log, []
        self._samples += sum([len(shapes) * times for shapes, _, times in log])
        once = [(shapes, kind) for shapes, kind, times in log if times == 1]
        if once:
            self._bytes += _bytes(*zip(*once))
        self._bytes += sum([times * _bytes([shapes], [kind]) for shapes, kind, times in log if times > 1])

    def totals(self, iterations: int) -> tuple[int, int]:
        """Samples and bytes of `iterations` iterations."""
        with self._lock:
            self._add_up()
            if self.shapes is None:
                return self._samples, self._bytes
            times = max(0, iterations - self._since)  # `iterations` may have been read before a later change of shapes
            return self._samples + len(self.shapes) * times, self._bytes + times * _bytes([self.shapes], [self.dtype])


class OperatorCounters:
    """One operator: `planning` on the stage thread (without its jobs), `jobs` on worker threads before planning, `steps` in pixels."""

    __slots__ = ("counted", "jobs", "jobs_processor", "outputs", "planned", "planning", "settings", "steps")

    def __init__(self, planned: PlannedOperator, operator: Operator) -> None:
        self.planned = planned
        self.counted, self.settings = operator.counted, operator.settings
        """Numbers that the operator itself counts, and what it decided in ``build()``."""
        self.outputs = [OutputCounters(edge) for edge in planned.outputs]
        self.jobs = self.steps = 0
        self.jobs_processor = Estimate()
        """Processor time, of `jobs`."""
        self.planning = Estimate()
        """Its share of the segment's time."""

    def totals(self, iterations: int) -> tuple[int, int]:
        """Samples of the first output and bytes of all outputs, in `iterations` iterations."""
        totals = [output.totals(iterations) for output in self.outputs]
        return totals[0][0] if totals else 0, sum(size for _, size in totals)

    def job(self, times: JobTimes, weight: int) -> None:
        """Count a job of `prepare` that represents `weight` jobs."""
        if times.processor >= 0:
            self.jobs_processor.measured(self.jobs, times.busy * weight, times.processor * weight)
        self.jobs += times.busy * weight


def _bytes(shapes: Sequence[np.ndarray], types: Sequence[DALIDataType]) -> int:
    """Bytes of batches of these shapes and element types."""
    if len(set(map(id, types))) > 1:
        return sum(_bytes([item], [kind]) for item, kind in zip(shapes, types))
    if len(set(map(id, shapes))) == 1:
        return len(shapes) * _volume([shapes[0]]) * storage_dtype(types[0]).itemsize
    arrays = dict(zip(map(id, shapes), shapes))  # batches of equal samples share their shapes
    elements = 0
    ragged: dict[int, list[np.ndarray]] = {}
    for key, times in Counter(map(id, shapes)).items():
        if times == 1:
            ragged.setdefault(arrays[key].shape[1], []).append(arrays[key])
        else:
            elements += times * _volume([arrays[key]])
    elements += sum(map(_volume, ragged.values()))
    return elements * storage_dtype(types[0]).itemsize


def _volume(batches: Sequence[np.ndarray]) -> int:
    """Number of elements of all samples of batches of equal rank, given as their shapes."""
    ndim = batches[0].shape[1]
    if not ndim:
        return sum(map(len, batches))
    from ...compiled.volumes import SHAPES, volume

    dense = [np.ascontiguousarray(shapes, np.int64) for shapes in batches]
    words: list[int] = []
    for shapes in dense:
        words += SHAPES.entries(address=address_of(shapes), count=len(shapes))
    table = table_of(words)
    elements: int = volume(address_of(table), len(dense), ndim)
    return elements


class SegmentCounters:
    """One segment. ``statistics.SegmentStatistics`` explains the numbers."""

    def __init__(self, segment: BuiltSegment, operators: list[OperatorCounters]):
        self.index: int = segment.index
        self.backend: str = segment.backend
        self.operators = operators
        self.stream = ""
        self.recorder: Recorder | None = None
        self.always_processor = False
        self.iterations = self.planning = 0
        self.planning_processor, self.pixels_processor = Estimate(), Estimate()
        self.wait_input = self.wait_output = self.wait_turn = 0
        self.batches = self.samples = self.pixels = self.pixels_busy = 0
        self.slowest_sum = self._slowest_last = 0
        self.slowest: list[tuple[int, int, int, str]] = []  # time, iteration, sample, file; the slowest first, each file once
        self.times: DeviceTimes | None = None  # for segments on a GPU
        self.on_device = self._on_device_last = 0
        self._instant: bool = segment.instant
        self._producers: tuple[int, ...] = tuple(segment.producers)
        self._outputs = [output for operator in operators for output in operator.outputs]
        self._free = 0  # time at which the previous iteration had been planned
        self._lock = threading.Lock()

    # --- on the stage thread, or on one of several threads that plan lanes

    def lap(self, record: Record, started: int) -> Lap | None:
        """Begin to plan an iteration whose times are taken. `started` is when the segment was started.

        Returns None for 15 of 16 iterations of instant operators, which have no jobs; then calling :meth:`planned` is enough."""
        sampled = record.index % (SAMPLED * record.weight) == 0 or self.always_processor
        if self._instant and not sampled:
            return None
        return Lap(self, record, started, _PROCESSOR if sampled else _YES)

    def planned(self, record: Record, started: int, began: int, away: int = 0) -> int:
        """An iteration is planned and has its memory.

        Takes the time at which the segment was started, the time at which the thread `began`, and the time spent on jobs. Returns the
        planning time, multiplied by the iterations that it stands for."""
        ended = now()
        weight = record.weight
        took: int = (ended - began - away) * weight
        with self._lock:
            self.planning += took
            free = self._free
            self._passed(record.edges)
            self._free = ended
            if free:
                self._waited(record, free, started, weight)
        if self.recorder is not None:
            self.recorder.span(f"plan segment {self.index}", began, ended, record.index, self.stream)
        return took

    def called(self, edges: Mapping[int, Batch], planning: int, pixels: int, samples: int) -> None:
        """An iteration of a single operator was planned and computed in a call; times in nanoseconds."""
        with self._lock:
            self.planning += planning
            self.pixels += pixels
            self.pixels_busy += pixels
            self.batches += 1
            self.samples += samples
            self._passed(edges)

    def made_elsewhere(self, edges: Sequence[int]) -> None:
        """Engines make the segment. This process sees only these outputs."""
        self._outputs = [output for output in self._outputs if output.edge in edges]

    def passed(self, edges: Sequence[Batch] | Mapping[int, Batch]) -> None:
        """An iteration is planned. This is the only call for an iteration whose times are not taken."""
        with self._lock:
            self._passed(edges)

    def _passed(self, edges: Sequence[Batch] | Mapping[int, Batch]) -> None:
        for output in self._outputs:
            batch = edges[output.edge]
            if batch.shapes is not output.shapes or batch.dtype is not output.dtype:
                output.changes(batch, self.iterations)
        self.iterations += 1
        self._free = now()

    def _waited(self, record: Record, free: int, started: int, weight: int) -> None:
        """The segment could have started at `free`: find out why it did not."""
        asked = record.admitted
        if asked > free:
            self.wait_output += (asked - free) * weight
        else:
            asked = free
        ready = asked
        for index in self._producers:
            done = record.done_at.get(index, 0)
            if done > ready:
                ready = done
        if ready > asked:
            self.wait_input += (ready - asked) * weight
        if started > ready:
            self.wait_turn += (started - ready) * weight

    def watch(self, job: Job, name: str, iteration: int) -> None:
        """If a trace is recorded, the job's threads report their parts."""
        recorder = self.recorder
        if recorder is not None:
            job.on_thread = lambda began, ended: recorder.span(name, began, ended, iteration)

    # --- on the thread that queues work of a GPU

    def ran_on_device(self, marks: Sequence[int]) -> None:
        """An iteration's work is queued. `marks` are the events of `times` at its begin and end; none if it is not measured."""
        if self.times is None:
            return
        if marks:
            self.times.queued(*marks)
        with self._lock:
            if not marks:
                self.on_device += self._on_device_last
            self._add_device_times()

    def add_device_times(self) -> None:
        """Add the times that the GPU has reported since the last call."""
        with self._lock:
            self._add_device_times()

    def _add_device_times(self) -> None:
        if self.times is not None:
            for took in self.times.taken():
                self.on_device += took
                self._on_device_last = took

    # --- on the worker that leaves last

    def made(self, job: Job, owners: Sequence[Built], record: Record, samples: int) -> None:
        """The pixels of an iteration are computed. `owners` own the job's steps. Times stand for the iterations that are not timed."""
        weight = record.weight
        times, ended = (job.times(), now()) if weight else (None, 0)
        with self._lock:
            self.batches += 1
            self.samples += samples
            if times is None or not times.begun:
                return
            busy = times.busy * weight
            if times.processor >= 0:
                self.pixels_processor.measured(self.pixels_busy, busy, times.processor * weight)
                self._slowest_last = times.slowest
                if len(self.slowest) < _SLOWEST or times.slowest > self.slowest[-1][0]:
                    self.slowest = _with((times.slowest, record.index, times.sample, _origin(record, times.sample)), self.slowest)
            self.pixels += (ended - times.begun) * weight
            self.pixels_busy += busy
            self.slowest_sum += self._slowest_last * weight
            for owner, took in zip(owners, times.steps):
                owner.counters.steps += took * weight
        if self.recorder is not None:
            self.recorder.span("pixels", times.begun, ended, record.index, f"segment {self.index} ({self.backend})")


def _with(one: tuple[int, int, int, str], slowest: list[tuple[int, int, int, str]]) -> list[tuple[int, int, int, str]]:
    """The slowest samples, with another one. A file that is in the list already keeps its slowest sample."""
    kept = sorted([one, *slowest], reverse=True)
    files: set[str] = set()
    found = []
    for item in kept:
        if not item[3] or item[3] not in files:
            files.add(item[3])
            found.append(item)
    return found[:_SLOWEST]


def _origin(record: Record, sample: int) -> str:
    """The file of a sample of an iteration, if known."""
    for batch in record.edges:
        if batch is not None and batch.source_info and sample < len(batch.source_info):
            return str(batch.source_info[sample])
    return ""


class Lap:
    """The stopwatch of one segment while it plans one iteration. It is stopped while jobs run."""

    __slots__ = ("_away", "_began", "_counters", "_laps", "_last", "_left", "_record", "_started", "_used", "timed")

    def __init__(self, counters: SegmentCounters, record: Record, started: int, timed: Timed):
        self._counters, self._record, self._started, self.timed = counters, record, started, timed
        self._away = 0
        self._laps: list[tuple[OperatorCounters, int]] = []
        self._used = -time.thread_time_ns() if timed is _PROCESSOR else -1
        self._began = self._last = now()

    def planned(self, operator: OperatorCounters) -> None:
        """The next operator has been prepared and planned."""
        time = now() - self._away
        self._laps.append((operator, time - self._last))
        self._last = time

    def repeats(self) -> None:
        """All operators are planned as one. They keep the shares of the planning time that they had when they were measured last."""
        self._laps.clear()

    def yields(self, job: Job, operator: OperatorCounters) -> None:
        """A job of `prepare` is about to run on other threads. The generator may be resumed on another thread."""
        if self.timed is _PROCESSOR:
            self._used += time.thread_time_ns()
        self._counters.watch(job, operator.planned.spec.name, self._record.index)
        self._left = now()

    def resumes(self, job: Job, operator: OperatorCounters) -> None:
        """The job is over."""
        times = job.times()
        if times is not None:
            operator.job(times, self._record.weight)
        if self.timed is _PROCESSOR:
            self._used -= time.thread_time_ns()
        self._away += now() - self._left

    def ends(self) -> None:
        """All operators are planned, and their memory is allocated."""
        used = self._used + time.thread_time_ns() if self.timed is _PROCESSOR else -1
        counters = self._counters
        took = counters.planned(self._record, self._started, self._began, self._away)
        before = counters.planning - took
        weight = self._record.weight
        for operator, lap in self._laps:
            operator.planning.measured(before, took, lap * weight)
        if used >= 0:
            counters.planning_processor.measured(before, took, used * weight)

"""What is counted while a pipeline runs: integers, mostly nanoseconds, that :mod:`.statistics` makes a report of.

Who counts what: a segment's and its operators' planning on the stage thread that plans; pixels on the worker that leaves last; waits on
the loop's thread; the consumer's side on the thread that fetches. So only pixels need a lock (those of two iterations may end at once).
Reading a clock takes some 50 ns in Python, an iteration reads one or two per operator. Processor times are system calls: they are asked
for in one iteration of sixteen, unless a tool wants them all.
"""

from __future__ import annotations

import threading
import time
import weakref
from collections import deque
from collections.abc import Callable, Sequence
from time import perf_counter_ns as now
from typing import Any, Protocol

import numpy as np

from ..batch import Batch, storage_dtype
from ..device.buffers import PooledBuffer
from .jobs import Job, JobTimes, Timed

STAND_IN = "__input_"
"""How names of operators begin that stand for data, in debug mode: they are not counted."""

_SAMPLED = 16
_FLUSH = 64


class Recorder(Protocol):
    """Takes spans of time for a trace: on which lane (a thread's name) what was done from when to when (ns), for which iteration."""

    def span(self, what: str, began: int, ended: int, iteration: int, lane: str | None = None) -> None: ...


class OperatorCounters:
    """One operator: `planning` on the stage thread (its jobs left out), `jobs` on worker threads before planning, `steps` in pixels."""

    __slots__ = (
        "_bytes", "_flushing", "_shapes", "iterations", "jobs", "jobs_measured", "jobs_processor", "planned", "planning", "samples",
        "steps",
    )  # fmt: skip

    def __init__(self, planned: Any) -> None:
        self.planned = planned
        self.iterations = self.samples = self.planning = self.jobs = self.steps = 0
        self.jobs_measured = self.jobs_processor = 0  # of `jobs`: what was measured, and the processor time of that
        self._bytes = 0
        self._shapes: deque[tuple[np.ndarray, Any]] = deque()
        self._flushing = threading.Lock()

    def produced(self, outputs: Sequence[Batch | None]) -> None:
        """Count the samples and bytes of an iteration's outputs; sizes are added up later, for many iterations at once."""
        self.iterations += 1
        if outputs:
            self.samples += len(outputs[0].shapes)  # type: ignore[union-attr]
        for batch in outputs:
            self._shapes.append((batch.shapes, batch.dtype))  # type: ignore[union-attr]
        if len(self._shapes) > _FLUSH * len(outputs):
            self.bytes()

    def bytes(self) -> int:
        """Bytes of all outputs so far."""
        with self._flushing:
            times: dict[int, int] = {}
            first: dict[int, tuple[np.ndarray, Any]] = {}
            while self._shapes:
                item = self._shapes.popleft()
                key = id(item[0])  # batches of equal samples share their array of shapes
                times[key] = times.get(key, 0) + 1
                first.setdefault(key, item)
            ragged: dict[Any, list[np.ndarray]] = {}
            for key, (shapes, dtype) in first.items():
                if times[key] == 1:
                    ragged.setdefault((dtype, shapes.shape[1]), []).append(shapes)
                elif len(shapes):
                    self._bytes += times[key] * _volume(shapes) * storage_dtype(dtype).itemsize
            for (dtype, _), many in ragged.items():
                self._bytes += _volume(np.concatenate(many)) * storage_dtype(dtype).itemsize
            return self._bytes

    def job(self, times: JobTimes) -> None:
        """Count a job of `prepare`."""
        self.jobs += times.busy
        if times.processor >= 0:
            self.jobs_measured += times.busy
            self.jobs_processor += times.processor


def _volume(shapes: np.ndarray) -> int:
    """Elements of all samples."""
    if not shapes.shape[1]:
        return len(shapes)
    volume = shapes[:, 0]
    for k in range(1, shapes.shape[1]):
        volume = volume * shapes[:, k]
    return int(volume.sum())


class SegmentCounters:
    """One segment; see ``statistics.SegmentStatistics`` for what the numbers mean."""

    def __init__(self, root: PipelineCounters, segment: Any, operators: list[OperatorCounters]):
        self.root = root
        self.index: int = segment.index
        self.backend: str = segment.backend
        self.producers: set[int] = segment.producers
        self.operators = operators
        self.stream = ""
        self.iterations = self.planning = self.planning_measured = self.planning_processor = 0
        self.wait_input = self.wait_output = self.wait_turn = 0
        self.batches = self.samples = self.pixels = self.pixels_busy = self.pixels_measured = self.pixels_processor = 0
        self.slowest_sum = 0
        self.slowest: tuple[int, int, int, str] | None = None  # time, iteration, sample, file
        self.free = 0  # since when the next iteration could be planned
        self._lock = threading.Lock()

    # --- on the loop's thread

    def starts(self, record: Any) -> None:
        """The segment starts on an iteration: why not before?"""
        time = now()
        free = self.free
        if free:
            asked = max(free, record.admitted)
            ready = max([asked, *[record.done_at.get(index, 0) for index in self.producers]])
            self.wait_output += asked - free
            self.wait_input += ready - asked
            self.wait_turn += time - ready
        self.free = 0

    # --- on the stage thread

    def lap(self, record: Any) -> Lap:
        """Begin to plan an iteration."""
        return Lap(self, record)

    @property
    def timed(self) -> Timed:
        """How jobs count in this iteration."""
        return Timed.PROCESSOR if self.root.always_processor or self.iterations % _SAMPLED == 0 else Timed.YES

    # --- on the worker that leaves last

    def made(self, job: Job, owners: Sequence[Any], record: Any, samples: int) -> None:
        """The pixels of an iteration are made; `owners` of the job's steps."""
        times = job.times()
        if times is None:
            return
        ended = now()
        with self._lock:
            self.batches += 1
            self.samples += samples
            if not times.begun:
                return
            self.pixels += ended - times.begun
            self.pixels_busy += times.busy
            if times.processor >= 0:
                self.pixels_measured += times.busy
                self.pixels_processor += times.processor
            for owner, took in zip(owners, times.steps):
                owner.counters.steps += took
            self.slowest_sum += times.slowest
            if self.slowest is None or times.slowest > self.slowest[0]:
                self.slowest = (times.slowest, record.index, times.sample, _origin(record, times.sample))
        if self.root.recorder is not None:
            self.root.recorder.span("pixels", times.begun, ended, record.index, f"segment {self.index} ({self.backend})")


def _origin(record: Any, sample: int) -> str:
    """The file that a sample of an iteration was made from, if known."""
    for batch in record.edges:
        if batch is not None and batch.source_info and sample < len(batch.source_info):
            return str(batch.source_info[sample])
    return ""


class Lap:
    """The stopwatch of one segment while it plans one iteration; it rests while jobs run."""

    __slots__ = ("_at", "_counters", "_processor", "_record", "_resumed", "_took", "_used", "timed")

    def __init__(self, counters: SegmentCounters, record: Any):
        self._counters = counters
        self._record = record
        self.timed = counters.timed
        self._processor = self.timed is Timed.PROCESSOR
        self._took = self._used = 0
        self._resumes()

    def _resumes(self) -> None:
        self._resumed = time.thread_time_ns() if self._processor else 0
        self._at = now()

    def _lap(self, counters: OperatorCounters) -> None:
        at = now()
        took = at - self._at
        self._took += took
        counters.planning += took
        recorder = self._counters.root.recorder
        if recorder is not None:
            recorder.span(counters.planned.spec.name, self._at, at, self._record.index)
        self._at = at

    def planned(self, counters: OperatorCounters, outputs: Sequence[Batch | None]) -> None:
        """An operator has prepared and planned."""
        counters.produced(outputs)
        self._lap(counters)

    def yields(self, job: Job, counters: OperatorCounters) -> None:
        """A job of `prepare` is about to run, on other threads; this one may go on elsewhere."""
        self._lap(counters)
        if self._processor:
            self._used += time.thread_time_ns() - self._resumed
        self._counters.root.watch(job, counters.planned.spec.name, self._record.index)

    def resumes(self, job: Job, counters: OperatorCounters) -> None:
        """It is over."""
        times = job.times()
        if times is not None:
            counters.job(times)
        self._resumes()

    def ends(self) -> None:
        """Everything is planned, and there is memory for it."""
        counters = self._counters
        self._took += now() - self._at
        if self._processor:
            counters.planning_measured += self._took
            counters.planning_processor += self._used + time.thread_time_ns() - self._resumed
        counters.iterations += 1
        counters.planning += self._took


class SourceCounters:
    """One source: how often it was asked, how long that took, on the thread that asks."""

    __slots__ = ("_root", "kind", "measured", "name", "prefetch", "processor", "pulls", "samples", "wait")

    def __init__(self, root: PipelineCounters, name: str, kind: str, prefetch: int):
        self._root = root
        self.name = name
        self.kind = kind
        self.prefetch = prefetch
        self.pulls = self.samples = self.wait = 0
        self.measured = self.processor = 0

    def pull(self, ask: Callable[[], dict[str, Batch]]) -> dict[str, Batch]:
        """``ask()``, timed."""
        processor = time.thread_time_ns() if self._root.always_processor or self.pulls % _SAMPLED == 0 else -1
        began = now()
        try:
            answer = ask()
            if answer:
                self.samples += len(next(iter(answer.values())))
            return answer
        finally:
            ended = now()
            took = ended - began
            self.pulls += 1
            if self._root.recorder is not None:
                self._root.recorder.span(f"ask {self.name}", began, ended, self.pulls - 1)
            self.wait += took
            if processor >= 0:
                self.measured += took
                self.processor += time.thread_time_ns() - processor


class PipelineCounters:
    """All counters of one pipeline, and those of its consumer."""

    def __init__(self) -> None:
        self.began = now()
        self.segments: list[SegmentCounters] = []
        self.sources: list[SourceCounters] = []
        self.recorder: Recorder | None = None
        self.always_processor = False
        """Measure processor time in every iteration (tools: it costs some microseconds)."""
        self.iterations = self.samples = self.failed = 0
        self.wait = self.away = self.latency = 0
        self.ready: list[int] = []
        """How often so many iterations were ready when the consumer came."""
        self._fetched = 0  # when the consumer last got a batch
        self._asked = 0  # time spent asking sources until then
        self._delivered: deque[tuple[weakref.ref[Any], int]] = deque()

    def segment(self, built: Any) -> SegmentCounters:
        """Counters for a segment (a ``BuiltSegment``) and its operators, which take them from here on."""
        for item in built.operators:
            if item.counters is None:
                item.counters = OperatorCounters(item.planned)
        built.counters = SegmentCounters(self, built, [item.counters for item in built.operators])
        self.segments.append(built.counters)
        return built.counters

    def source(self, group: Any) -> SourceCounters:
        """Counters for a source (a ``sources.group.Group``)."""
        kind = "parallel" if group.parallel else ("awaited" if group.description.is_async else "called")
        self.sources.append(SourceCounters(self, group.name, kind, group.prefetch_queue_depth))
        return self.sources[-1]

    def watch(self, job: Job, name: str, iteration: int) -> None:
        """Where a trace is recorded: have the job's threads tell their part."""
        recorder = self.recorder
        if recorder is not None:
            job.on_thread = lambda began, ended: recorder.span(name, began, ended, iteration)

    # --- the consumer's side

    def arrives(self, in_flight: Sequence[Any]) -> None:
        """The consumer comes for the oldest iteration; only the first call for it counts."""
        if not in_flight or in_flight[0].arrived:
            return
        time = in_flight[0].arrived = now()
        ready = 0
        for record in in_flight:
            if not record.finished:
                break
            ready += 1
        while len(self.ready) <= ready:
            self.ready.append(0)
        self.ready[ready] += 1
        if self._fetched:
            self.away += max(0, time - self._fetched - (self._asking() - self._asked))

    def _asking(self) -> int:
        return sum(source.wait for source in self.sources)

    def ran(self, began: int, outputs: Sequence[Any] | None) -> None:
        """Debug mode: an iteration that began then was made in the consumer's own call; None: it failed."""
        if self._fetched:
            self.away += began - self._fetched
        self._fetched = now()
        took = self._fetched - began
        self.wait += took
        self.latency += took
        self.iterations += 1
        self.samples += len(outputs[0]) if outputs else 0
        self.failed += outputs is None

    def fetched(self, record: Any, outputs: Sequence[Batch]) -> None:
        """It has got the iteration."""
        time = now()
        self.wait += time - record.arrived
        self.latency += record.finished_at - record.admitted
        self.iterations += 1
        if outputs:
            self.samples += len(outputs[0].shapes)
        self.failed += not outputs
        self._fetched, self._asked = time, self._asking()
        for batch in outputs:
            self._deliver(batch.memory_owner)
        if self.recorder is not None:
            self.recorder.span("wait for a batch", record.arrived, time, record.index)

    def _deliver(self, owner: Any) -> None:
        base = getattr(owner, "base", None)
        if isinstance(base, PooledBuffer):
            self._delivered.append((weakref.ref(base), len(owner)))
        if len(self._delivered) > 256:
            self.held()

    def held(self) -> tuple[int, int]:
        """Blocks of pooled memory that the user still refers to, and their bytes."""
        count = size = 0
        for _ in range(len(self._delivered)):
            try:
                item = self._delivered.popleft()
            except IndexError:  # another thread counts, too
                break
            if item[0]() is not None:
                count, size = count + 1, size + item[1]
                self._delivered.append(item)
        return count, size

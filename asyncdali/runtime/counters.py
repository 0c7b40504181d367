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
from collections import Counter, deque
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
_CROWD = 256
_YES, _PROCESSOR = Timed.YES, Timed.PROCESSOR


class Recorder(Protocol):
    """Takes spans of time for a trace: on which lane (None: the calling thread) what was done from when to when (ns), for which iteration;
    and levels: how much of something there is, at a time."""

    def span(self, what: str, began: int, ended: int, iteration: int, lane: str | None = None) -> None: ...

    def level(self, what: str, time: int, value: int) -> None: ...


class DeviceTimes(Protocol):
    """Measures work on a stream of a GPU; nobody waits for it (``device.cuda.timing.StreamTimes``)."""

    def begin(self) -> int: ...
    def end(self, begun: int) -> None: ...
    def taken(self) -> list[int]: ...


class Estimate:
    """Processor time of which only a part is measured: for the rest the share last measured is assumed."""

    __slots__ = ("_share", "total")

    def __init__(self) -> None:
        self.total = 0.0
        self._share = 0.0

    def add(self, took: int, processor: int) -> None:
        """Something took that long; `processor`: its processor time, -1 if it was not measured."""
        if processor >= 0:
            self.total += processor
            self._share = processor / took if took else 0.0
        else:
            self.total += took * self._share


class OutputCounters:
    """One output of an operator: how many samples, how many bytes.

    Most outputs have the same shapes in every iteration (the very same array): these are only counted. What differs is added up for many.
    """

    __slots__ = ("_bytes", "_current", "_lock", "_log", "_samples", "edge", "shapes", "times")

    def __init__(self, edge: int) -> None:
        self.edge = edge
        self.times = 0  # batches with the current shapes
        self.shapes: np.ndarray | None = None
        self._current: Any = None  # their element type
        self._samples = self._bytes = 0  # of those before
        self._log: list[tuple[np.ndarray, Any, int]] = []
        self._lock = threading.Lock()

    def made(self, batch: Batch) -> None:
        """A batch was planned."""
        if batch.shapes is self.shapes and batch.dtype is self._current:
            self.times += 1
            return
        with self._lock:
            if self.shapes is not None:
                self._log.append((self.shapes, self._current, self.times))
            self.shapes, self._current, self.times = batch.shapes, batch.dtype, 1
            if len(self._log) >= _FLUSH:
                self._add_up()

    def _add_up(self) -> None:
        log, self._log = self._log, []
        self._samples += sum([len(shapes) * times for shapes, _, times in log])
        once = [(shapes, kind) for shapes, kind, times in log if times == 1]
        if once:
            self._bytes += _bytes(*zip(*once))
        self._bytes += sum([times * _bytes([shapes], [kind]) for shapes, kind, times in log if times > 1])

    def totals(self) -> tuple[int, int]:
        """Samples and bytes."""
        with self._lock:
            self._add_up()
            if self.shapes is None:
                return self._samples, self._bytes
            times = self.times
            return self._samples + len(self.shapes) * times, self._bytes + times * _bytes([self.shapes], [self._current])


class OperatorCounters:
    """One operator: `planning` on the stage thread (its jobs left out), `jobs` on worker threads before planning, `steps` in pixels."""

    __slots__ = ("iterations", "jobs", "jobs_processor", "outputs", "planned", "planning", "steps")

    def __init__(self, planned: Any) -> None:
        self.planned = planned
        self.outputs = [OutputCounters(edge) for edge in planned.outputs]
        self.iterations = self.planning = self.jobs = self.steps = 0
        self.jobs_processor = Estimate()

    @property
    def samples(self) -> int:
        """Samples of the first output."""
        return self.outputs[0].totals()[0] if self.outputs else 0

    @property
    def bytes(self) -> int:
        """Bytes of all outputs."""
        return sum(output.totals()[1] for output in self.outputs)

    def job(self, times: JobTimes) -> None:
        """Count a job of `prepare`."""
        self.jobs += times.busy
        self.jobs_processor.add(times.busy, times.processor)


def _bytes(shapes: Sequence[np.ndarray], types: Sequence[Any]) -> int:
    """Bytes of batches of these shapes and element types."""
    if len(set(map(id, types))) > 1:
        return sum(_bytes([item], [kind]) for item, kind in zip(shapes, types))
    if len(set(map(id, shapes))) == 1:
        return len(shapes) * _volume(shapes[0]) * storage_dtype(types[0]).itemsize
    arrays = dict(zip(map(id, shapes), shapes))  # batches of equal samples share theirs
    elements = 0
    ragged: dict[int, list[np.ndarray]] = {}
    for key, times in Counter(map(id, shapes)).items():
        if times == 1:
            ragged.setdefault(arrays[key].shape[1], []).append(arrays[key])
        else:
            elements += times * _volume(arrays[key])
    elements += sum(_volume(np.concatenate(many)) for many in ragged.values())
    return elements * storage_dtype(types[0]).itemsize


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
        self.iterations = self.planning = 0
        self.planning_processor, self.pixels_processor = Estimate(), Estimate()
        self.wait_input = self.wait_output = self.wait_turn = 0
        self.batches = self.samples = self.pixels = self.pixels_busy = 0
        self.slowest_sum = self._slowest_last = 0
        self.slowest: tuple[int, int, int, str] | None = None  # time, iteration, sample, file
        self.free = 0  # since when the next iteration could be planned
        self.times: DeviceTimes | None = None  # where it runs on a GPU
        self.on_device = Estimate()
        self._lock = threading.Lock()

    # --- on the loop's thread

    def starts(self, record: Any) -> None:
        """The segment starts on an iteration: why not before?"""
        free = self.free
        if not free:
            return
        self.free = 0
        time = now()
        asked = record.admitted
        if asked > free:
            self.wait_output += asked - free
        else:
            asked = free
        ready = asked
        for index in self.producers:
            done = record.done_at.get(index, 0)
            if done > ready:
                ready = done
        self.wait_input += ready - asked
        self.wait_turn += time - ready

    # --- on the stage thread

    def lap(self, record: Any) -> Lap:
        """Begin to plan an iteration."""
        return Lap(self, record, _PROCESSOR if self.iterations % _SAMPLED == 0 or self.root.always_processor else _YES)

    def planned(self, took: int, processor: int) -> None:
        """An iteration is planned: how long it took, and `processor` time of it, -1 if it was not measured."""
        self.iterations += 1
        self.planning += took
        self.planning_processor.add(took, processor)

    # --- on the thread that queues work of a GPU

    def ran_on_device(self, begun: int | None) -> None:
        """An iteration's work is queued; `begun` by `times`, None if it is not measured."""
        if self.times is None:
            return
        if begun is not None:
            self.times.end(begun)
        with self._lock:
            if begun is None:
                self.on_device.add(1, -1)
        self.add_device_times()

    def add_device_times(self) -> None:
        """Add what was measured of work that is over."""
        if self.times is not None:
            with self._lock:
                for took in self.times.taken():
                    self.on_device.add(1, took)

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
            self.pixels_processor.add(times.busy, times.processor)
            if times.processor >= 0:
                self._slowest_last = times.slowest
                if self.slowest is None or times.slowest > self.slowest[0]:
                    self.slowest = (times.slowest, record.index, times.sample, _origin(record, times.sample))
            self.slowest_sum += self._slowest_last
            for owner, took in zip(owners, times.steps):
                owner.counters.steps += took
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

    __slots__ = ("_away", "_began", "_counters", "_last", "_left", "_record", "_used", "timed")

    def __init__(self, counters: SegmentCounters, record: Any, timed: Timed):
        self._counters, self._record, self.timed = counters, record, timed
        self._away = 0
        self._used = -time.thread_time_ns() if timed is _PROCESSOR else -1
        self._began = self._last = now()

    def planned(self, counters: OperatorCounters) -> None:
        """An operator has prepared and planned."""
        time = now() - self._away
        counters.planning += time - self._last
        self._last = time
        counters.iterations += 1
        edges = self._record.edges
        for output in counters.outputs:
            output.made(edges[output.edge])

    def yields(self, job: Job, counters: OperatorCounters) -> None:
        """A job of `prepare` is about to run, on other threads; this one may go on elsewhere."""
        if self.timed is _PROCESSOR:
            self._used += time.thread_time_ns()
        self._counters.root.watch(job, counters.planned.spec.name, self._record.index)
        self._left = now()

    def resumes(self, job: Job, counters: OperatorCounters) -> None:
        """It is over."""
        times = job.times()
        if times is not None:
            counters.job(times)
        if self.timed is _PROCESSOR:
            self._used -= time.thread_time_ns()
        self._away += now() - self._left

    def ends(self) -> None:
        """Everything is planned, and there is memory for it."""
        counters, took = self._counters, now() - self._away - self._began
        if self.timed is _PROCESSOR:
            self._used += time.thread_time_ns()
        counters.planned(took, self._used)
        recorder = counters.root.recorder
        if recorder is not None:
            recorder.span(f"plan segment {counters.index}", self._began, now(), self._record.index, counters.stream)


class SourceCounters:
    """One source: how often it was asked, how long that took, on the thread that asks."""

    __slots__ = ("_root", "kind", "name", "prefetch", "processor", "pulls", "samples", "wait")

    def __init__(self, root: PipelineCounters, name: str, kind: str, prefetch: int):
        self._root = root
        self.name = name
        self.kind = kind
        self.prefetch = prefetch
        self.pulls = self.samples = self.wait = 0
        self.processor = Estimate()

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
            self.processor.add(took, time.thread_time_ns() - processor if processor >= 0 else -1)


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
        self._log: deque[tuple[int, ...]] = deque()
        self._reading = threading.Lock()
        self._delivered: deque[tuple[weakref.ref[Any], int]] = deque()
        self._crowded = _CROWD

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
        ready = 0
        for record in in_flight:
            if not record.finished:
                break
            ready += 1
        time = now()
        in_flight[0].arrived = (time, ready)
        if self.recorder is not None:
            self.recorder.level("iterations ready", time, ready)

    def fetched(self, record: Any, outputs: Sequence[Batch]) -> None:
        """It has got the iteration; no outputs: its error. Added up later, for many."""
        time, log = now(), self._log
        asked = sum([source.wait for source in self.sources]) if self.sources else 0
        log.append((*record.arrived, record.admitted, record.finished_at, time, asked, len(outputs[0].shapes) if outputs else -1))
        if len(log) >= _FLUSH:
            self.add_up()
        self._deliver(outputs)
        if self.recorder is not None:
            self.recorder.span("wait for a batch", record.arrived[0], time, record.index)

    def ran(self, began: int, outputs: Sequence[Any] | None) -> None:
        """Debug mode: an iteration that began then was made in the consumer's own call; None: it failed."""
        time = now()
        self._log.append((began, 0, began, time, time, 0, len(outputs[0]) if outputs else (0 if outputs is not None else -1)))

    def add_up(self) -> None:
        """Add what is in the log to the counters."""
        with self._reading:
            log = [self._log.popleft() for _ in range(len(self._log))]
            if not log:
                return
            arrived, ready, admitted, finished, fetched, asked, samples = zip(*log)
            # Between one fetch and the next arrival, what sources took left out.
            left = [then - taken for then, taken in zip((self._fetched or arrived[0], *fetched), (self._asked, *asked))]
            self.away += sum([max(0, came - taken - before) for came, taken, before in zip(arrived, asked, left)])
            self._fetched, self._asked = fetched[-1], asked[-1]
            self.wait += sum(fetched) - sum(arrived)
            self.latency += sum(finished) - sum(admitted)
            self.iterations += len(log)
            delivered = [count for count in samples if count >= 0]
            self.samples += sum(delivered)
            self.failed += len(log) - len(delivered)
            self.ready += [0] * (max(ready) + 1 - len(self.ready))
            for count, times in Counter(ready).items():
                self.ready[count] += times

    def _deliver(self, outputs: Sequence[Batch]) -> None:
        """Remember what keeps the outputs' memory alive. No callback: whoever drops it must not run any Python."""
        delivered = self._delivered
        for batch in outputs:
            owner = batch.owner
            if owner is None:
                owner = batch.memory_owner
            if type(owner) is not np.ndarray:
                continue
            root = owner.base  # what views of it refer to
            if root is None:
                root = owner
            elif not isinstance(root, (PooledBuffer, np.ndarray)):
                continue
            delivered.append((weakref.ref(root), owner.nbytes))
        if len(delivered) > self._crowded:
            self.held()
            self._crowded = max(_CROWD, 2 * len(delivered))  # a user who keeps everything must not pay for each batch

    def held(self) -> tuple[int, int]:
        """Outputs that the user still refers to, and their bytes."""
        sizes: dict[int, int] = {}
        for _ in range(len(self._delivered)):
            try:
                item = self._delivered.popleft()
            except IndexError:  # another thread counts, too
                break
            root = item[0]()
            if root is not None:
                if id(root) not in sizes:
                    self._delivered.append(item)
                sizes[id(root)] = item[1]
        return len(sizes), sum(sizes.values())

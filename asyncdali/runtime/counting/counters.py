"""Counters of a running pipeline: integers, mostly nanoseconds, from which :mod:`.statistics` makes a report.

Threads: the stage thread counts the planning of its segment and operators. The worker that leaves a job last counts pixels. The thread
that fetches counts the consumer's side.

Cost: reading a clock takes about 50 ns in Python. An iteration of instant operators reads the clock seven times; other iterations read it
two times more per operator. Reading processor time is a system call, so it is read in one iteration of 16, unless a tool asks for all.

The threads of a small pipeline wake each other and take turns at the interpreter, with cold caches, so counting costs about five times as
much there as in a loop. Three measures keep the cost low. Counting makes no objects except one weak reference per output, and the report
computes everything that follows from totals. (Logs of tuples or of array rows were no cheaper than sums.) Iterations shorter than 50 ms
are sampled: one in 4 is timed, and its times count 4 times; of iterations shorter than 2 ms one in 16. Timing an iteration takes 10 to
60 us. Iterations, samples and bytes are always counted one by one. Outputs of iterations that are not timed are remembered only if they
use memory of the pool.
"""

from __future__ import annotations

import time
import weakref
from collections import deque
from collections.abc import Callable, Sequence
from time import perf_counter_ns as now
from typing import TYPE_CHECKING, Any

import numpy as np

from ...batch import AddressView, Batch
from ...device.buffers import BlockOwner
from .segment_counters import SAMPLED, Estimate, OperatorCounters, Recorder, SegmentCounters

if TYPE_CHECKING:
    from ...sources.pullers import Puller
    from ..order.record import Record
    from ..work.segments import BuiltSegment

STAND_IN = "__input_"
"""Prefixes of names of operators that stand for data in debug mode. These operators are not counted."""

SPARSE, FEW = 16, 4
"""If iterations are short, one in SPARSE is timed. If they are of medium length, one in FEW is timed."""

SHORT, MEDIUM = 2_000_000, 50_000_000
"""Iterations are short, or of medium length, if the consumer gets one per this many nanoseconds or less."""

_LOOKS = 256  # iterations between two checks of their length; the first checks come after 16, 32, 64 and 128 iterations

_CROWD = 256
_ARRAY = np.ndarray
_reference = weakref.ref


class SourceCounters:
    """One source: how often it was asked, and how long that took on the asking thread."""

    __slots__ = ("_root", "kind", "name", "prefetch", "processor", "pulls", "samples", "wait")

    def __init__(self, root: PipelineCounters, name: str, kind: str, prefetch: int):
        self._root = root
        self.name = name
        self.kind = kind
        self.prefetch = prefetch
        self.pulls = self.samples = self.wait = 0
        self.processor = Estimate()
        """Processor time of the asking thread during `wait`."""

    def pull(self, ask: Callable[[], dict[str, Batch]]) -> dict[str, Batch]:
        """Call ``ask()`` and time the call."""
        root, pulls = self._root, self.pulls
        used = time.thread_time_ns() if pulls % SAMPLED == 0 or root.always_processor else -1
        began = now()
        try:
            answer = ask()
            if answer:
                self.samples += len(next(iter(answer.values())))
            return answer
        finally:
            took = now() - began
            self.pulls = pulls + 1
            if root.recorder is not None:
                root.recorder.span(f"ask {self.name}", began, began + took, pulls)
            if used >= 0:
                self.processor.measured(self.wait, took, time.thread_time_ns() - used)
            self.wait += took
            root.asked += took


class PipelineCounters:
    """All counters of a pipeline and of its consumer."""

    def __init__(self) -> None:
        self.began = now()
        self.segments: list[SegmentCounters] = []
        self.sources: list[SourceCounters] = []
        self.iterations = self.samples = self.failed = 0
        self.wait = self.away = self.latency = 0
        self.ready: list[int] = []
        """Entry k: how often k iterations were done when the consumer came."""
        self.asked = 0
        """Time spent asking sources."""
        self.recorder: Recorder | None = None
        """Receives the spans of a trace; see :meth:`record`."""
        self._always_processor = False
        self._fetched = 0  # when the consumer got its last batch
        self._asked = 0  # the value of `asked` at that time
        self.stride = 1
        """One iteration in this many is timed."""
        self._looked = self._seen = 0  # time of the last check for short iterations, and number of iterations at that time
        self._delivered: deque[weakref.ref[Any]] = deque()
        self._crowded = _CROWD

    def record(self, recorder: Recorder | None) -> None:
        """Begin a trace whose spans `recorder` receives. None: end the trace."""
        self.recorder = recorder
        self.stride = 1
        for segment in self.segments:
            segment.recorder = recorder

    @property
    def always_processor(self) -> bool:
        """Measure processor time in every iteration. For tools: it costs some microseconds."""
        return self._always_processor

    @always_processor.setter
    def always_processor(self, always: bool) -> None:
        self._always_processor = always
        self.stride = 1
        for segment in self.segments:
            segment.always_processor = always

    def forget_slowest(self) -> None:
        """Search for the slowest sample from now on. The first samples are slow because memory and code are touched for the first time."""
        for segment in self.segments:
            segment.slowest = []

    def segment(self, built: BuiltSegment) -> SegmentCounters:
        """Counters for a segment (a ``BuiltSegment``) and its operators, which use them from now on."""
        operators = []
        for item in built.operators:
            if item.counters is None:
                item.counters = OperatorCounters(item.planned, item.operator)
            operators.append(item.counters)
        counters = built.counters = SegmentCounters(built, operators)
        self.segments.append(counters)
        return counters

    def source(self, puller: Puller) -> SourceCounters:
        """Counters for the source of a ``sources.pullers.Puller``."""
        self.sources.append(SourceCounters(self, puller.group.name, puller.kind, puller.ahead))
        return self.sources[-1]

    # --- the consumer's side

    def _look(self, time: int) -> None:
        """Choose the iterations that are timed by their length."""
        looked, self._looked = self._looked, time
        seen, self._seen = self.iterations - self._seen, self.iterations
        self.stride = 1
        if looked and self.recorder is None and not self._always_processor:
            took = time - looked
            self.stride = SPARSE if took < seen * SHORT else FEW if took < seen * MEDIUM else 1

    def arrives(self, in_flight: Sequence[Record]) -> None:
        """The consumer comes for the oldest iteration. Only the first call per iteration counts."""
        records = tuple(in_flight)  # another thread may queue an iteration, or take one, between any two lines
        if not records or records[0].arrived or not records[0].weight:
            return
        ready = 0
        for record in records:
            if not record.finished:
                break
            ready += 1
        records[0].arrived = time = now()
        self._comes(time, ready, records[0].weight)

    def _comes(self, time: int, ready: int, weight: int) -> None:
        """The consumer comes, and `ready` iterations are done."""
        if ready >= len(self.ready):
            self.ready += [0] * (ready + 1 - len(self.ready))
        self.ready[ready] += weight
        if self._fetched:
            away = time - self._fetched - self.asked + self._asked
            if away > 0:
                self.away += away * weight
        if self.recorder is not None:
            self.recorder.level("iterations ready", time, ready)

    def fetched(self, record: Record, outputs: Sequence[Batch]) -> None:
        """The consumer has received the iteration. No outputs: it received the error."""
        self._fetched = time = now()
        self._asked = self.asked
        self.iterations += 1
        if outputs:
            self.samples += len(outputs[0].shapes)
        else:
            self.failed += 1
        weight = record.weight
        if weight:
            self.wait += (time - record.arrived) * weight
            self.latency += (record.finished_at - record.admitted) * weight
            if self.recorder is not None:
                self.recorder.span("wait for a batch", record.arrived, time, record.index)
            index = record.index
            if index % _LOOKS == 0 or (index < _LOOKS and index % SPARSE == 0 and index & (index - 1) == 0):
                self._look(time)
            self.note_held(outputs)
            return
        self.note_held([batch for batch in outputs if batch.values is None or batch.values.base is not None])

    def ran(self, began: int, outputs: Sequence[Any] | None) -> None:
        """Count an iteration of debug mode, which ran in the consumer's own call. `began`: its time. `outputs`: None if it failed."""
        time = now()
        self._comes(began, 0, 1)
        self.wait += time - began
        self.latency += time - began
        self._fetched, self._asked = time, self.asked
        self.iterations += 1
        self.samples += len(outputs[0]) if outputs else 0
        self.failed += outputs is None

    def note_held(self, outputs: Sequence[Batch]) -> None:
        """Remember what keeps the outputs' memory alive. There is no callback, because dropping a batch must not run Python code."""
        delivered = self._delivered
        for batch in outputs:
            owner = batch.owner if batch.alias_of is None else batch.memory_owner
            kind = type(owner)
            if kind is _ARRAY and owner.base is not None:
                owner = owner.base  # views refer to their owner through `base`
                kind = type(owner)
            if kind is AddressView:
                owner = owner.owner
                kind = type(owner)
            if kind is _ARRAY or issubclass(kind, BlockOwner):
                delivered.append(_reference(owner))
        if len(delivered) > self._crowded:
            self.held()
            self._crowded = max(_CROWD, 2 * len(delivered))  # so that a user who keeps every batch does not pay for a scan per batch

    def held(self) -> tuple[int, int]:
        """Number of outputs that the user still refers to, and their bytes."""
        sizes: dict[int, int] = {}
        for _ in range(len(self._delivered)):
            try:
                reference = self._delivered.popleft()
            except IndexError:  # another thread also removes entries
                break
            root = reference()
            if root is not None and id(root) not in sizes:
                self._delivered.append(reference)
                sizes[id(root)] = root.nbytes
        return len(sizes), sum(sizes.values())

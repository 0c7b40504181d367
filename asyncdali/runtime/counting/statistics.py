"""The result of ``Pipeline.statistics()``: plain frozen objects with seconds and counts.

Counts only grow, so the difference of two reports (:meth:`Statistics.since`) is a report of the time between them.
"""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from time import perf_counter_ns
from typing import TYPE_CHECKING, Any, TypeVar

from .counters import STAND_IN, PipelineCounters, SourceCounters
from .segment_counters import OperatorCounters, SegmentCounters

if TYPE_CHECKING:
    from ...device.buffers import BufferPool
    from ...options import PipelineOptions
    from ..order.record import Record

NO_STATISTICS = "statistics() needs a pipeline with enable_statistics=True (the default); this one has enable_statistics=False"

_Any = TypeVar("_Any")


_NOW = {
    "after_build", "allocated_bytes", "backend", "batch_size", "count", "depth", "free_bytes", "held_blocks", "held_bytes", "in_flight",
    "index", "kind",
    "lent", "operator", "outstanding", "pid",
    "prefetch", "ready", "serves", "settings", "slowest_sample", "slowest_samples", "stream",
}  # fmt: skip
"""Fields that describe a state and are not counts."""


@dataclass(frozen=True)
class OperatorStatistics:
    """One operator of the plan.

    Attributes:
        name, operator, backend: the instance, the operator (``"decoders.image"``), and ``"cpu"``, ``"mixed"`` or ``"gpu"``.
        iterations, samples, bytes: amount produced, in iterations that the whole segment planned. `bytes` counts all outputs.
        planning_seconds: on the stage thread, interpreter included: decisions for whole batches, and users' Python. For segments of a few
            microseconds (stream "loop"), one iteration in 16 is measured and stands for the others.
        prepare_seconds: on worker threads, before planning (reading files), summed over threads.
        steps_seconds: on worker threads, in its compiled steps, summed over threads.
        prepare_processor_seconds: processor time of `prepare_seconds`, estimated from one iteration in 16. A much smaller value than
            `prepare_seconds` means waiting (for a disk, for other threads).
        counted: numbers that the operator itself counts, as (name, number) pairs. Decoders count the JPEGs of each decoder.
        settings: decisions of ``build()`` that change results, and are in checkpoints. Mixed decoders on a GPU say how JPEGs are split
            between decoders: the parts of the GPU's engines and multiprocessors (the CPU has the rest), and the arguments that chose.
    """

    name: str
    operator: str
    backend: str
    iterations: int
    samples: int
    bytes: int
    planning_seconds: float
    prepare_seconds: float
    steps_seconds: float
    prepare_processor_seconds: float
    counted: tuple[tuple[str, int], ...] = ()
    settings: Mapping[str, Any] | None = None

    @property
    def busy_seconds(self) -> float:
        """All its time, on all threads."""
        return self.planning_seconds + self.prepare_seconds + self.steps_seconds


@dataclass(frozen=True)
class SegmentStatistics:
    """A segment: operators that run as one (see docs/architecture.md).

    Attributes:
        index, backend, operators: its number, its backend, and its operators by name.
        stream: the stage thread or stream that plans it; "loop" for segments of a few microseconds.
        iterations: number of planned iterations. batches, samples: how many of them have finished pixels.
        planning_seconds: on the stage thread, without jobs of `prepare`.
        planning_processor_seconds: processor time of `planning_seconds`, estimated from one iteration in 16. The difference is waiting: for
            the interpreter, for the processor, in a user's function.
        pixels_seconds: from the first sample of a batch to its last, summed over batches. Two batches may be computed at the same time.
        pixels_busy_seconds: the same, summed over threads. pixels_processor_seconds: processor time of that, estimated.
        slowest_sample_seconds: processor time of the slowest sample of each batch, summed over batches, estimated from one in 16.
        slowest_sample: the slowest of these samples: (seconds, iteration, sample, file or ""); None before there is any.
        slowest_samples: the slowest ones, of each file the slowest, at most 5.
        wait_output_seconds: could have continued, but no iteration was requested: the queue is full, a source
            is being asked, or the consumer is away.
        wait_input_seconds: was asked, but its inputs were not ready.
        wait_turn_seconds: inputs were ready, but `OperatorConcurrency` or the loop delayed it.
    """

    index: int
    backend: str
    stream: str
    operators: tuple[str, ...]
    iterations: int
    planning_seconds: float
    planning_processor_seconds: float
    batches: int
    samples: int
    pixels_seconds: float
    pixels_busy_seconds: float
    pixels_processor_seconds: float
    slowest_sample_seconds: float
    slowest_sample: tuple[float, int, int, str] | None
    wait_output_seconds: float
    wait_input_seconds: float
    wait_turn_seconds: float
    slowest_samples: tuple[tuple[float, int, int, str], ...] = ()

    @property
    def busy_seconds(self) -> float:
        """Planning and pixels, summed over threads."""
        return self.planning_seconds + self.pixels_busy_seconds


@dataclass(frozen=True)
class SourceStatistics:
    """One external source: how often it was asked for a batch, and how long the asking thread waited.

    `kind` is ``"called"`` (its code runs in the call), ``"awaited"``, ``"parallel"`` or ``"engines"`` (engines call it).
    `processor_seconds` is the processor time of the asking thread during `wait_seconds`, estimated from one batch in 16.
    """

    name: str
    kind: str
    prefetch: int
    batches: int
    samples: int
    wait_seconds: float
    processor_seconds: float


@dataclass(frozen=True)
class ConsumerStatistics:
    """The consumer: ``run()``, ``outputs()`` or ``await run_async()``.

    Attributes:
        iterations, samples, failed: delivered. Iterations that ended in an error count as `iterations` and as `failed`.
        wait_seconds: waiting for batches that were not ready. away_seconds: between two calls. Time in sources counts for neither.
        latency_seconds: from queueing an iteration to its end, summed.
    """

    iterations: int
    samples: int
    failed: int
    wait_seconds: float
    away_seconds: float
    latency_seconds: float


@dataclass(frozen=True)
class QueueStatistics:
    """Iterations in flight.

    `depth`: the target number; one more is decoded ahead for a GPU. `in_flight`, `ready`: the current number, and how many are done.
    `ready_on_arrival[k]`: how often k were done when the consumer came. All counts at 0 mean that the consumer always waits; all at
    `depth`, that it never waits.
    """

    depth: int
    in_flight: int
    ready: int
    ready_on_arrival: tuple[int, ...]


@dataclass(frozen=True)
class ThreadStatistics:
    """The CPU worker threads: their number, their working time (summed), and its processor time, estimated."""

    count: int
    busy_seconds: float
    processor_seconds: float


@dataclass(frozen=True)
class StreamStatistics:
    """A stage thread or stream: which segments it `serves`, and how long its thread was occupied.

    `device_seconds`: how long the GPU worked for the stream, gaps between launches included. The GPU measures one iteration in 16; the
    others are assumed to take as long. 0 without a GPU.
    """

    name: str
    serves: tuple[int, ...]
    busy_seconds: float
    device_seconds: float


@dataclass(frozen=True)
class BufferStatistics:
    """Current memory. `allocated`, `free`: of the pool (blocks of 64 KB and more). `held`: outputs that the user still refers to."""

    allocated_bytes: int
    free_bytes: int
    held_blocks: int
    held_bytes: int


@dataclass(frozen=True)
class KernelStatistics:
    """Compiled kernels of this process.

    Attributes:
        compiled: kernels that were missing on this machine. ``build()`` compiled them in `compiled_seconds`, before the first batch.
        after_build: names of kernels compiled since then, because their types or formats came with the data, or by other parts of the
            program. Iterations that need them waited; all of them together took `after_build_seconds`.
    """

    compiled: int = 0
    compiled_seconds: float = 0.0
    after_build: tuple[str, ...] = ()
    after_build_seconds: float = 0.0


@dataclass(frozen=True)
class WorkerStatistics:
    """Worker processes of parallel sources (docs/workers.md). `queue_wait_seconds`: how long tasks waited for a worker, summed."""

    count: int
    tasks: int
    samples: int
    busy_seconds: float
    queue_wait_seconds: float
    bytes: int
    restarts: int
    outstanding: int


@dataclass(frozen=True)
class EngineStatistics:
    """One engine (docs/engines.md).

    Attributes:
        index: its number. pid: its process id; 0 while it starts.
        asked, answered: number of requested iterations, and of answered ones.
        restarts: how often it was replaced.
        busy_seconds: from a request's arrival to its answer, summed. Several requests are in progress at a time.
        planning_seconds, pixels_seconds: of its stage threads, and of its worker threads (summed), since it was started.
        planning_processor_seconds: processor time of its planning, estimated.
        allocated_bytes, lent: memory of its pool, and the number of outputs in use in this process.
        outstanding: number of requested iterations that it has not answered yet.
        address: of an engine on another machine (docs/fleet.md), else empty. Such an engine counts its planning and pixels for all ranks.
        late, hedged: iterations that another engine answered first, and iterations that another engine was asked for, too.
        received_bytes: of its answers.
    """

    index: int
    pid: int
    asked: int
    answered: int
    restarts: int
    busy_seconds: float
    planning_seconds: float
    planning_processor_seconds: float
    pixels_seconds: float
    allocated_bytes: int
    lent: int
    outstanding: int
    address: str = ""
    late: int = 0
    hedged: int = 0
    received_bytes: int = 0


@dataclass(frozen=True)
class Statistics:
    """A report of where the time of a pipeline went; see :meth:`asyncdali.Pipeline.statistics`. Times are seconds.

    If iterations take less than 50 ms, one in 4 is timed, below 2 ms one in 16. Its times (and `ready_on_arrival`) stand for all.
    Iterations, samples and bytes are counted one by one. `buffers.held_*` then leaves out labels and other numbers of iterations that are
    not timed.
    """

    elapsed_seconds: float
    batch_size: int
    consumer: ConsumerStatistics
    queue: QueueStatistics
    segments: tuple[SegmentStatistics, ...]
    operators: tuple[OperatorStatistics, ...]
    sources: tuple[SourceStatistics, ...]
    threads: ThreadStatistics
    streams: tuple[StreamStatistics, ...]
    buffers: BufferStatistics
    workers: WorkerStatistics | None
    engines: tuple[EngineStatistics, ...] = ()
    kernels: KernelStatistics = KernelStatistics()

    def since(self, earlier: Statistics) -> Statistics:
        """The report of the time after `earlier`, a report of the same pipeline. ValueError for a report of another pipeline."""
        return dataclasses.replace(
            _difference(dataclasses.replace(self, engines=()), dataclasses.replace(earlier, engines=())),
            engines=tuple(_engines_since(self.engines, earlier.engines)),
        )

    def as_dict(self) -> dict[str, Any]:
        """The same as dicts, lists and numbers, for JSON."""
        return dataclasses.asdict(self)

    def operator(self, name: str) -> OperatorStatistics:
        """The operator instance with this name; KeyError if there is none."""
        for item in self.operators:
            if item.name == name:
                return item
        raise KeyError(f"no operator {name!r} in the plan; there are {', '.join(item.name for item in self.operators)}")


def _engines_since(later: Iterable[EngineStatistics], earlier: Iterable[EngineStatistics]) -> Iterator[EngineStatistics]:
    """Engines of other machines come and go. One that is new, or has started again, has done all of its work since `earlier`."""
    before = {(item.address or item.index): item for item in earlier}
    for item in later:
        known = before.get(item.address or item.index)
        yield item if known is None else _difference(item, known)


def _difference(later: _Any, earlier: _Any) -> _Any:
    changes = {}
    for item in dataclasses.fields(later):  # type: ignore[arg-type]
        if item.name not in _NOW:
            changes[item.name] = _minus(getattr(later, item.name), getattr(earlier, item.name))
    return dataclasses.replace(later, **changes)  # type: ignore[type-var]


def _minus(later: Any, earlier: Any) -> Any:
    if dataclasses.is_dataclass(later):
        return _difference(later, earlier)
    if isinstance(later, str):
        if later != earlier:
            raise ValueError(f"these statistics are of another pipeline: the operator {earlier!r} there has the place of {later!r} here")
        return later
    if isinstance(later, tuple):
        missing = len(later) - len(earlier)
        if missing < 0 or (missing and later and dataclasses.is_dataclass(later[0])):
            raise ValueError("these statistics are of another pipeline, or are newer than the statistics that they are subtracted from")
        return tuple(map(_minus, later, (*earlier, *[0] * missing)))
    return None if later is None else later - earlier


# --------------------------------------------------------------------------------------------------------------- from the counters


def take(
    counters: PipelineCounters, options: PipelineOptions, depth: int, in_flight: Sequence[Record], memory: BufferPool,
    pool: Mapping[str, Any] | None, engines: Sequence[Mapping[str, Any]] = (),
) -> Statistics:  # fmt: skip
    """A report made from `counters`. `memory` is the buffer pool; `pool` and `engines` are statistics of worker processes and engines."""
    segments = list(counters.segments)
    for segment in segments:
        segment.add_device_times()
    elsewhere = [item["operators"] for item in engines if "operators" in item]
    operators = tuple(
        _with_work_of(_operator(item, segment), elsewhere)
        for segment in segments
        for item in segment.operators
        if not item.planned.spec.name.startswith(STAND_IN)
    )
    busy = sum(item.jobs for segment in segments for item in segment.operators) + sum(segment.pixels_busy for segment in segments)
    streams: dict[str, list[SegmentCounters]] = {}
    for segment in segments:
        streams.setdefault(segment.stream, []).append(segment)
    made = tuple(map(_segment, segments))
    in_work = list(in_flight)
    held = counters.held()
    return Statistics(
        elapsed_seconds=(perf_counter_ns() - counters.began) / 1e9,
        batch_size=int(options.batch_size),
        consumer=ConsumerStatistics(
            counters.iterations, counters.samples, counters.failed, counters.wait / 1e9, counters.away / 1e9, counters.latency / 1e9
        ),
        queue=QueueStatistics(depth, len(in_work), sum(record.finished for record in in_work), tuple(counters.ready)),
        segments=made,
        operators=operators,
        sources=tuple(map(_source, counters.sources)),
        threads=ThreadStatistics(
            int(options.num_threads),
            busy / 1e9,
            sum(item.pixels_processor_seconds for item in made) + sum(item.prepare_processor_seconds for item in operators),
        ),
        streams=tuple(
            StreamStatistics(
                name, tuple(item.index for item in parts), sum(item.planning for item in parts) / 1e9,
                sum(item.on_device for item in parts) / 1e9,
            )
            for name, parts in streams.items()
        ),
        buffers=BufferStatistics(memory.allocated_bytes, memory.idle_bytes(), *held),
        workers=None if pool is None else _workers(pool),
        engines=tuple(map(_engine, engines)),
    )


def _operator(item: OperatorCounters, segment: SegmentCounters) -> OperatorStatistics:
    spec, iterations = item.planned.spec, segment.iterations
    return OperatorStatistics(
        spec.name, spec.schema.name, spec.device, iterations, *item.totals(iterations), item.planning.of(segment.planning) / 1e9,
        item.jobs / 1e9, item.steps / 1e9, item.jobs_processor.of(item.jobs) / 1e9, item.counted(), item.settings(),
    )  # fmt: skip


def _segment(item: SegmentCounters) -> SegmentStatistics:
    slowest = tuple((took / 1e9, iteration, sample, file) for took, iteration, sample, file in item.slowest)
    return SegmentStatistics(
        index=item.index, backend=item.backend, stream=item.stream, operators=tuple(part.planned.spec.name for part in item.operators),
        iterations=item.iterations, planning_seconds=item.planning / 1e9,
        planning_processor_seconds=item.planning_processor.of(item.planning) / 1e9,
        batches=item.batches, samples=item.samples, pixels_seconds=item.pixels / 1e9, pixels_busy_seconds=item.pixels_busy / 1e9,
        pixels_processor_seconds=item.pixels_processor.of(item.pixels_busy) / 1e9,
        slowest_sample_seconds=item.slowest_sum / 1e9,
        slowest_sample=slowest[0] if slowest else None, slowest_samples=slowest,
        wait_output_seconds=item.wait_output / 1e9, wait_input_seconds=item.wait_input / 1e9, wait_turn_seconds=item.wait_turn / 1e9,
    )  # fmt: skip


def _source(item: SourceCounters) -> SourceStatistics:
    return SourceStatistics(
        item.name, item.kind, item.prefetch, item.pulls, item.samples, item.wait / 1e9,
        item.processor.of(item.wait) / 1e9,
    )  # fmt: skip


def _workers(pool: Mapping[str, Any]) -> WorkerStatistics:
    workers = pool["workers"]
    return WorkerStatistics(
        len(workers), sum(item["tasks"] for item in workers), sum(item["samples"] for item in workers),
        sum(item["busy_seconds"] for item in workers), pool["queue_wait_seconds"], pool["bytes"], pool["restarts"], pool["outstanding"],
    )  # fmt: skip


def _engine(item: Mapping[str, Any]) -> EngineStatistics:
    return EngineStatistics(
        item["engine"], item["pid"], item["asked"], item["answered"], item["restarts"], item["busy_seconds"], item.get("planning", 0) / 1e9,
        item.get("planning_processor", 0) / 1e9, item.get("pixels", 0) / 1e9,
        item.get("allocated", 0), item.get("lent", 0), item["outstanding"], item.get("address", ""), item.get("late", 0),
        item.get("hedged", 0), item.get("bytes", 0),
    )  # fmt: skip


def _with_work_of(here: OperatorStatistics, elsewhere: Sequence[Mapping[str, Sequence[object]]]) -> OperatorStatistics:
    """An operator of this process, with what it did in engines.

    This process counts only batches that cross the cut. Engines count all batches, but the count of a replaced engine is lost.
    """
    found = [engine[here.name] for engine in elsewhere if here.name in engine]
    if not found:
        return here
    *times, counted = zip(*found)
    planning, jobs, steps, processor, samples, size = map(sum, times)
    totals: Counter[str] = Counter()
    for item in (here.counted, *counted):
        totals.update(dict(item))
    return dataclasses.replace(
        here, planning_seconds=here.planning_seconds + planning / 1e9, prepare_seconds=here.prepare_seconds + jobs / 1e9,
        steps_seconds=here.steps_seconds + steps / 1e9, prepare_processor_seconds=here.prepare_processor_seconds + processor / 1e9,
        samples=max(here.samples, samples), bytes=max(here.bytes, size), counted=tuple(totals.items()),
    )  # fmt: skip

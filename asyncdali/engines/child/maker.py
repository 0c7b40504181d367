"""Iterations of the part of a program before the cut, made on request. All of it runs on the loop's thread.

A maker keeps no state from one request to the next. It knows nothing of sockets: ``server`` (an engine of this machine) and
``asyncdali.fleet.actor`` (an engine of another machine) pass requests to it and send its answers.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from time import perf_counter_ns as now
from typing import Any

from ...batch import Batch
from ...device.buffers import BufferPool
from ...graph.plan import build_plan
from ...operators.base import Environment
from ...runtime.counting.counters import PipelineCounters
from ...runtime.engine_protocol import Engines
from ...runtime.order.executor import Executor, Observers
from ...runtime.order.loop import shared_loop
from ...runtime.order.placement import OnLoop
from ...runtime.order.record import Record
from ...runtime.order.stages import Stages
from ...runtime.parts import why_whole
from ...runtime.work.making import Seeds, make_operators, make_segments
from ...runtime.work.segments import BuiltOperator, BuiltSegment, Progress
from ...types import OperatorConcurrency, StreamPolicy
from ..cut import make_cut, segments_before
from ..wire.failures import EngineError, packed
from ..wire.handshake import description
from ..wire.program import Program
from .spans import Spans

Header = dict[str, Any]
Answer = Callable[[Header, list[Batch]], None]
"""Called with header and batches of an answer. The header has "a" for a finished iteration, "planned" for its plan (see ``begin``)."""


class Maker:
    """Builds the part of a program before the cut, and makes its iterations.

    `pool` allocates batches. `noting` is called with each sample that a user's function is called for. `engines` are processes that do the
    work in place of this one. `sources`: the owner calls the sources that need nothing but a position, and hands their batches to `begin`.

    `far`: the training process may be on another machine. `progress` is called before each step of an iteration.

    Attributes:
        cut: the part of the plan that is made here.
        numbers: the number of each operator of the plan, by name.
        stateful: the operators that have positions, by name.
        description: what the handshake compares.
        busy: nanoseconds in which an iteration was made, summed over iterations.
        made: number of iterations.
        engines: the argument.
    """

    def __init__(
        self, program: Program, pool: BufferPool | None, noting: Callable[[int], None] | None = None, engines: Engines | None = None,
        sources: bool = False, far: bool = False, progress: Progress | None = None,
    ):  # fmt: skip
        options = program.options
        self.engines = engines
        self.busy = self.made = 0
        self._count = 0
        self._spans: Spans | None = None
        plan = build_plan(program.outputs, program.instances, program.definition, Seeds(program.seed).entry)
        self.cut = cut = make_cut(plan, program.cut, sources)
        if engines is not None:
            engines.cut(plan, False, False)
            pool = engines.pool
        self._why_whole = why_whole(plan)
        self.numbers = {planned.spec.name: k for k, planned in enumerate(plan.operators)}
        self.executor = Executor(
            Stages("asyncdali-engine", options.num_threads, options.affinity(), options.stream_policy or StreamPolicy.PER_BACKEND, None),
            depth=options.depth, pool=pool,
            observers=Observers(PipelineCounters() if options.enable_statistics else None, None, progress),
        )  # fmt: skip
        environment = Environment(
            int(options.batch_size), int(options.num_threads), options.device_id, bool(options.enable_checkpointing),
            self.executor.allocate, program.calling, None, options.depth, program.access, noting=noting,
        )  # fmt: skip
        built: list[BuiltOperator] = []
        make_operators(cut.before, environment, built)
        parts = segments_before(cut) if engines is None else [item for item in plan.segments if item.in_engines]
        segments = make_segments(parts, built, BuiltSegment)
        self.stateful = {item.planned.spec.name: item for item in built if item.operator.stateful}
        self._inputs = set(cut.inputs)
        self._segments = len(segments)
        self.empty = not cut.before
        self.description = description(plan, options, program.seed, built, cut.before if far else None)
        place = (lambda executor, segments: OnLoop(executor)) if engines is None else engines.place
        self.executor.load(segments, cut.crossing, plan.edge_count, options.concurrency or OperatorConcurrency.BACKEND, place)
        if engines is not None:
            engines.attach(self.executor, segments[0])

    def begin(
        self, header: Header, fed: Callable[[Any], Batch], answer: Answer, guarded: Callable[..., None],
        pulled: dict[str, Batch] | None = None, error: Exception | None = None,
    ) -> None:  # fmt: skip
        """Queue an iteration. `fed` turns an entry of the header into a batch. `answer` is called with each answer.

        `guarded` is called with a function and its arguments; it handles the function's errors. `pulled` are the whole batches of the
        sources that the owner calls, by node; `error` is an error of one of them.
        """
        key = [header["i"], header["g"]]
        try:
            record = self._record(header, fed, pulled or {}) if error is None else None
        except MemoryError as failure:
            record, error = None, failure
        except Exception as failure:
            record, error = None, EngineError(f"an engine cannot use a request: {type(failure).__name__}: {failure}")
        if record is None:
            answer({"a": key, "error": packed(RuntimeError("no record") if error is None else error), "took": 0, "moves": 0}, [])
            return
        self._count += 1
        began = now()
        if header.get("tell"):
            record.on_planned = self._tell(key, record, answer, guarded)
        record.on_finished(lambda: guarded(self._finished, key, record, began, answer))
        assert isinstance(self.executor.placement, OnLoop)
        self.executor.placement.admit_here(record)

    def _record(self, header: Header, fed: Callable[[object], Batch], pulled: dict[str, Batch]) -> Record:
        first, stop = header["slice"]
        samples = header["n"]
        if not 0 <= first <= stop <= samples:
            raise ValueError(f"an iteration of {samples} samples does not have the samples {first} to {stop}")
        if stop - first < samples and self._why_whole:
            raise ValueError(f"no part of an iteration can be made: {self._why_whole}")
        record = self.executor.new_record(self._count, stop - first)
        record.number = header["k"]
        if stop - first < samples:
            record.first, record.whole = first, samples
        positions = header["at"]
        record.given = {name: built.load(positions[name]) for name, built in self.stateful.items()}
        self._trace(header.get("trace"), record)
        record.careful = bool(header.get("probe"))
        offset = first - header["from"]
        record.fed = {name: _part(fed(header["fed"][name]), offset, stop - first) for name in self._inputs}
        record.fed.update({name: _part(batch, first, stop - first) for name, batch in pulled.items()})
        return record

    def _tell(self, key: list[int], record: Record, answer: Answer, guarded: Callable[..., None]) -> Callable[[], None]:
        """A callback that answers with the numbers of samples by which positions move on, when all segments are planned.

        Then the next iteration can be requested.
        """
        left = [None] * self._segments
        loop = shared_loop()

        def planned() -> None:
            left.pop()
            if not left:
                loop.call(guarded, answer, {"planned": key, "produced": record.produced, "moves": len(record.produced)}, [])

        return planned

    def _trace(self, wanted: object, record: Record) -> None:
        """Record spans from this iteration on if `wanted`, else stop."""
        counters = self.executor.counters
        if counters is None or (not wanted and counters.recorder is None):
            return
        if not wanted:
            self._spans = None
            counters.record(None)
            return
        if self._spans is None:
            self._spans = Spans()
            counters.record(self._spans)
        record.weight = 1
        self._spans.begins(record.index, record.number)

    def _finished(self, key: list[int], record: Record, began: int, answer: Answer) -> None:
        took = now() - began
        self.busy += took
        self.made += 1
        header: Header = {"a": key, "took": took, "moves": len(record.produced)}
        if record.produced:
            header["produced"] = record.produced
        batches: list[Batch] = []
        if record.error is not None:
            header["error"] = packed(record.error)
            record.error = None
        elif not record.careful:
            batches, header["out"] = record.outputs, []
        record.outputs = []
        if self._spans is not None:
            header["spans"] = self._spans.take()
        answer(header, batches)

    def statistics(self, engines: Sequence[Mapping[str, Any]] = ()) -> dict[str, Any]:
        """The work of this engine, as JSON data. `engines`: the statistics of the processes that do the work in its place."""
        data: dict[str, Any] = {"iterations": self.made, "busy": self.busy, "allocated": self.executor.pool.allocated_bytes}
        counters = self.executor.counters
        if engines:
            data["allocated"] += sum(item.get("allocated", 0) for item in engines)
            data.update(_work_of(engines))
        elif counters is not None:
            segments = counters.segments
            data["planning"] = sum(segment.planning for segment in segments)
            data["pixels"] = sum(segment.pixels_busy for segment in segments)
            data["planning_processor"] = sum(segment.planning_processor.of(segment.planning) for segment in segments)
            data["operators"] = {
                item.planned.spec.name: [
                    item.planning.of(segment.planning), item.jobs, item.steps, item.jobs_processor.of(item.jobs),
                    *item.totals(segment.iterations), item.counted(),
                ]
                for segment in segments
                for item in segment.operators
            }
        return data


def _work_of(engines: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """The sums of the engines' own counters. Counters of an engine that has not answered are missing."""
    data: dict[str, Any] = {name: sum(item.get(name, 0) for item in engines) for name in ("planning", "pixels", "planning_processor")}
    operators: dict[str, list[list[Any]]] = {}
    for item in engines:
        for name, entry in item.get("operators", {}).items():
            operators.setdefault(name, []).append(entry)
    data["operators"] = {}
    for name, entries in operators.items():
        *sums, counted = zip(*entries)
        totals: Counter[str] = Counter()
        for counts in counted:
            totals.update(dict(counts))
        data["operators"][name] = [*map(sum, sums), list(totals.items())]
    return data


def _part(batch: Batch, offset: int, count: int) -> Batch:
    if offset + count > len(batch):
        raise ValueError(f"a fed batch of {len(batch)} samples has no samples {offset} to {offset + count}")
    return batch if len(batch) == count else batch.part(offset, offset + count)

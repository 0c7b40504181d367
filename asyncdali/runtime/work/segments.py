"""One segment in one iteration: prepare, plan, pixels.

:meth:`SegmentRun.phases` is a generator that yields jobs and is resumed after each job. Before the pixels a stage thread resumes it, after
the pixels the worker that finished last. No thread waits.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Generator, Mapping, Sequence
from time import perf_counter_ns
from types import GeneratorType
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

import numpy as np
from asyncdali_workers.limits import TooLarge

from ...batch import Batch
from ...batch import largest as largest_of
from ...compiled.addresses import address_of
from ...device.base import Stream
from ...errors import because, operator_error
from ...graph.peephole import enabled
from ...graph.plan import PlannedOperator, Segment
from ...operators.base import Arguments, CompiledJob, Gate, Iteration, Operator, Planned, PythonJob, Role, SampleError, Step, Trait
from ..counting.segment_counters import Lap, OperatorCounters, SegmentCounters
from ..order.record import Record, runs_record
from ..templates import Templates, operator_templates, segment_templates
from ..templates.whole import TooLargeOutput
from . import branches
from .built import Built
from .choices import MOST_DRAWN, ChosenWindows, Drawn
from .jobs import CompiledSamples, Job, Jobs, PythonSamples, Timed
from .pace import AWAITED_FILES_NS, AWAITED_NS, Pace

if TYPE_CHECKING:
    from ...device.cuda.device import CudaStream
    from ..counting.memory_statistics import MemoryStatistics
    from ..counting.segment_counters import DeviceTimes

log = logging.getLogger("asyncdali")

MAX_SCRATCH = 64 << 20
"""A larger intermediate result of a sample is placed in pooled memory instead of every thread's scratch memory."""


class Remote(Protocol):
    """Makes one segment in another process."""

    def begin(self, run: SegmentRun) -> None:
        """Make the segment for an iteration and call :meth:`Executor.finish_segment` when it is done. Runs on the loop's thread."""


class BuiltOperator:
    """An operator instance of a built pipeline with its place in the plan."""

    __slots__ = ("arguments", "counters", "draws", "following", "gate", "hands_out_samples", "hands_over", "inputs", "is_input",
                 "is_transfer", "keeps", "operator", "output_device", "outputs", "planned", "position", "prepares", "skips_empty",
                 "sources", "templates")  # fmt: skip

    def __init__(self, planned: PlannedOperator, operator: Operator):
        self.planned = planned
        self.operator = operator
        self.inputs = planned.inputs
        self.arguments = list(planned.arguments.items())
        self.outputs = planned.outputs
        self.output_device = operator.output_device
        self.prepares = operator.prepares(operator.spec)
        self.is_transfer, self.is_input = planned.is_transfer, planned.spec.schema.role is Role.INPUT
        self.skips_empty = Trait.SEES_EMPTY not in operator.traits  # a look-up in a Flag takes 0.5 us
        self.hands_over = Trait.HANDS_OVER in operator.traits
        self.hands_out_samples = Trait.HANDS_OUT_SAMPLES in operator.traits
        self.following = 0
        """Number of later iterations whose files it may read together with those of an iteration."""
        self.draws = operator.stateful and not (operator.places_position or operator.chooses_windows or hasattr(operator, "origin_of"))
        """Whether its outputs are draws."""
        self.keeps = False
        """Whether iterations keep its draws without a copy, because no output and no function of the user shares their memory."""
        self.gate = Gate(operator) if planned.inputs or planned.arguments else None
        by_predicate = Trait.PREDICATE_DECIDES in operator.traits
        self.sources = [planned.arguments["predicate"]] if by_predicate else [*self.inputs, *planned.arguments.values()]
        """Edges that decide in which branch of a conditional the operator is."""
        self.counters: OperatorCounters | None = None
        self.position: Any = operator.start if operator.stateful else None
        """The position of a stateful operator. It moves when an iteration has been planned."""
        self.templates = operator_templates(self)
        """Plans that are copied; None: every iteration is planned."""

    def save(self, position: Any) -> Any:
        """The position as JSON data; see :meth:`Operator.save`."""
        return self.operator.save(position)

    def load(self, data: Any) -> Any:
        """The position that was saved as `data`; see :meth:`Operator.load`."""
        return self.operator.load(data)

    def after(self, position: Any, samples: int) -> Any:
        """The position behind an iteration of `samples` samples. An operator that cannot compute it (a reader without data) stays."""
        try:
            return self.operator.after(position, samples)
        except Exception as error:
            log.debug("operator %s keeps its position: %s", self.planned.spec.name, error)
            return position


class BuiltSegment:
    """A segment ready to run on the host: its operators, and the objects that must live as long as it."""

    def __init__(self, segment: Segment, operators: list[BuiltOperator]):
        self.segment = segment
        self.index = segment.index
        self.backend = segment.backend
        self.producers = segment.producers
        self.operators = operators
        self.instant = all(built.operator.instant for built in operators)
        self.fuses_launches = enabled("launches")
        self.anywhere = False
        """Whether any thread may plan it: it belongs to a GPU's iteration, and has neither user code nor a reader that may wait."""
        self.stateful = [built for built in operators if built.operator.stateful]
        self.read = sorted({edge for built in operators for edge in built.inputs} - {edge for built in operators for edge in built.outputs})
        """Edges of other segments that are inputs of operators."""
        self.kept = segment.consumed_outside
        self.returned = segment.returned
        self.in_engines = segment.in_engines
        self.remote: Remote | None = None
        """The engines that make the segment; None: this process makes it."""
        self.counters: SegmentCounters | None = None
        self.pace = _pace_of([built.operator for built in operators])
        self.templates = segment_templates(operators, self.kept, MAX_SCRATCH)
        """Iterations that are copied as a whole; None: an operator is planned in every iteration."""
        self.stream: Stream
        """The thread or stream of its stage, which the executor chooses."""

    def new_run(self, record: Record, host: Host) -> SegmentRun:
        """Make the run of this segment for an iteration."""
        return SegmentRun(self, record, host)

    def times(self) -> DeviceTimes | None:
        """The clock of a device's work; None: the host's."""
        return None

    def go_to(self, positions: Mapping[str, Any]) -> None:
        """Set the positions of the operators."""
        for built in self.stateful:
            built.position = positions[built.planned.spec.name]

    def commit_positions(self, record: Record, produced: dict[int, int]) -> None:
        """Move the stateful operators by the samples that they produced (`produced`: operator's id -> samples).

        An operator that did not run moves as if it had, so a failed iteration is skipped exactly. Never raises: an operator that cannot
        compute its next position (a reader without data) keeps its position.
        """
        for built in self.stateful:
            # A part of an iteration advances positions like the whole iteration. A pipeline is not divided into parts if its positions
            # depend on data.
            samples = record.whole or produced.get(id(built.operator), record.batch_size)
            if record.given is not None and samples != (record.whole or record.batch_size):
                record.produced[built.planned.spec.name] = samples
            built.position = built.after(built.position, samples)
            record.positions[built.planned.spec.name] = built.position  # type: ignore[index]  # only engines set a mapping of their own
        if record.on_planned is not None:
            record.on_planned()


def _pace_of(operators: Sequence[Operator]) -> Pace:
    """The pace of a segment of these operators."""
    if any(operator.may_wait for operator in operators):
        return Pace(False)
    if any(Trait.READS_FILES in operator.traits for operator in operators):
        return Pace(False, AWAITED_FILES_NS)
    return Pace(not any(operator.prepares(operator.spec) for operator in operators), AWAITED_NS)


Steps: TypeAlias = "list[tuple[BuiltOperator, Step | Batch]]"
"""Operators of an iteration with the results of their plans: a step to run, or the finished batch."""

Fresh: TypeAlias = list[tuple[int, Batch]]
"""Edges, and their batches whose memory this iteration fills."""

Slots: TypeAlias = list[tuple[int, int]]
"""For each intermediate in scratch memory: the address of its address table, and its offset in a thread's scratch memory."""


Progress: TypeAlias = "Callable[[Record, BuiltOperator | BuiltSegment | tuple[BuiltSegment, BuiltOperator]], None]"
"""Called with the operator that is about to be planned, the segment whose pixels are about to be computed, or the segment and the operator
whose step is about to run."""


class Host(Protocol):
    """The part of an executor, or of an ``immediate.Engine``, that a run uses."""

    allocate: Callable[[int], np.ndarray]
    """Makes memory on the host."""

    @property
    def memory(self) -> MemoryStatistics | None: ...

    @property
    def progress(self) -> Progress | None: ...

    @property
    def one_at_a_time(self) -> bool:
        """Whether the planning thread also computes the pixels."""



def _keep_draws(record: Record, built: BuiltOperator, outputs: Sequence[Batch], rows: np.ndarray | None) -> None:
    """Keep draws for the provenance of the iteration. In a branch no later plan would lead to them; the user may write to the originals."""
    values = [batch.values for batch in outputs if batch.values is not None and batch.values.nbytes <= MOST_DRAWN]
    if len(values) == len(outputs):
        record.keep(built.planned.spec.name, Drawn(values if built.keeps else [value.copy() for value in values], record.first, rows))


def find_kept_draws(operators: Sequence[BuiltOperator], outputs: Sequence[int]) -> None:
    """Find the operators whose draws iterations keep. Draws that may share memory with an output of the pipeline, or that a function of the
    user gets, are not kept: the user may write to them."""
    shown = set(outputs)
    for built in reversed(operators):
        operator = built.operator
        branching = built.planned.spec.schema.role.is_branching
        if operator.barrier or ((operator.eager or operator.passes_on or branching) and not shown.isdisjoint(built.outputs)):
            shown.update((*built.inputs, *built.planned.arguments.values()))
        built.keeps = built.draws and shown.isdisjoint(built.outputs)


class SegmentRun:
    """Runs one segment for one iteration record."""

    def __init__(self, segment: BuiltSegment, record: Record, executor: Host, stream: CudaStream | None = None):
        self.segment = segment
        self.record = record
        self.executor = executor
        self.committed = False
        self.told = False  # whether the scheduler was notified that the run is planned
        self.started = 0  # for statistics: when it was started
        self._issue_on = stream
        self._scratch_places: dict[int, int] = {}  # offsets of partial batches in scratch memory
        self._job: CompiledSamples | None = None  # the job of an iteration whose plan is copied

    @runs_record
    def phases(self) -> Jobs:
        """Yield the jobs of this run. Raises the error of the iteration."""
        steps: Steps = []
        fresh: Fresh = []
        produced: dict[int, int] = {}
        counters, pace = self.segment.counters, self.segment.pace
        pace.begins()
        lap = None if counters is None or not self.record.weight else counters.lap(self.record, self.started)
        templates, copied = self._templates(lap), False
        slots: Slots = []
        scratch = 0
        try:
            operators: Sequence[BuiltOperator] = self.segment.operators
            if templates is not None:
                yield from self._each(templates.heads, steps, fresh, produced, lap)
                operators, copied = templates.rest, self._copied(templates, steps, fresh, produced, lap)
            if not copied:
                yield from self._each(operators, steps, fresh, produced, lap)
                self._note_memory()
                slots, scratch = self._place(fresh)
                self._take_over(steps)
        finally:
            self.segment.commit_positions(self.record, produced)
            self.committed = True
        if lap is not None:
            lap.ends()
        elif counters is not None:
            if self.record.weight:
                counters.planned(self.record, self.started, self.started)
            else:
                counters.passed(self.record.edges)
        pace.planned()
        yield from self._pixels(steps, fresh, slots, scratch, Timed.NO if lap is None else lap.timed)

    def abandon(self) -> None:
        """The phases have ended with an error or an interrupt, and the memory of this run will be reused."""

    def _templates(self, lap: Lap | None) -> Templates | None:
        """The templates that may serve the iteration, or None. An iteration that measures every operator is planned."""
        whole = lap is None or lap.timed is not Timed.PROCESSOR
        return self.segment.templates if whole and self._is_plain() else None

    def _copied(self, templates: Templates, steps: Steps, fresh: Fresh, produced: dict[int, int], lap: Lap | None) -> bool:
        """Copy the plans of ``templates.rest``, if there is a template for the batches."""
        template = None if fresh or steps else templates.find(self.record.edges, self.record.batch_size)
        if template is None:
            return False
        if lap is not None:
            lap.repeats()
        produced.update(template.produced)
        try:
            self._job = template.job_for(self.record.edges, templates.positions(), self.executor.allocate, lap is not None)
        except TooLargeOutput as error:
            raise self._wrap(error.built, error.error) from error.error
        return True

    def _is_plain(self) -> bool:
        """Whether the iteration may be copied: no tool observes single operators, and the record is of a whole iteration."""
        record, executor = self.record, self.executor
        return not record.whole and not record.careful and executor.progress is None and executor.memory is None

    def _each(
        self, operators: Sequence[BuiltOperator], steps: Steps, fresh: Fresh, produced: dict[int, int], lap: Lap | None
    ) -> Jobs:
        """Prepare and plan operators."""
        for built in operators:
            try:
                if built.hands_over:
                    self._hand_over(built, fresh, produced)
                else:
                    yield from self._one(built, steps, fresh, produced, lap)
            except Exception as error:
                raise self._wrap(built, error) from error
            if lap is not None:
                lap.planned(built.counters)  # type: ignore[arg-type]  # counted segments have counters for all operators

    def planning(self, built: BuiltOperator, steps: Steps, fresh: Fresh) -> Jobs:
        """Prepare and plan one operator whose inputs are planned, for a dry run."""
        yield from self._each([built], steps, fresh, {}, None)

    def _pixels(self, steps: Steps, fresh: Fresh, slots: Slots, scratch: int, timed: Timed) -> Jobs:
        """Compute the outputs' contents: all steps as one job."""
        if self._job is not None:
            yield from self._computed(self._job)
            return
        if self.record.careful:
            yield from self._one_by_one(steps, fresh)
            return
        if not steps:
            self.segment.pace.without_pixels()
            return
        if self.executor.progress is not None:
            self.executor.progress(self.record, self.segment)
        resolved = branches.resolved(steps, self._scratch_places)
        yield from self._computed(CompiledSamples(_samples(fresh, self.record), resolved, slots, scratch, timed))
        for _, batch in fresh:
            if batch.links:
                batch.settle()

    def _computed(self, job: CompiledSamples) -> Jobs:
        """Compute the outputs' contents."""
        counters, pace = self.segment.counters, self.segment.pace
        job.is_pixels = True
        self._begins(job)
        # A job of a joint is reported together with the jobs of other threads, so this thread cannot end it.
        job.brief = job.joint is None and (pace.brief or self.executor.one_at_a_time)
        began = perf_counter_ns()
        if counters is not None and counters.recorder is not None:
            counters.watch(job, f"pixels of segment {counters.index}", self.record.index)
        try:
            yield job
        except SampleError as error:
            raise self._wrap(error.owner, error, whole=True) from error
        took = perf_counter_ns() - began
        if job.brief:
            pace.computed(took)
        else:
            pace.shared(took)
        if counters is not None:
            counters.made(job, job.owners, self.record, job.count)

    def _begins(self, job: CompiledSamples) -> None:
        """A job of pixels is about to begin."""

    def _one_by_one(self, steps: Steps, fresh: Fresh) -> Jobs:
        """The outputs' contents, with one job per step, so that the running step is known. No data is in scratch memory."""
        for built, step in branches.resolved(steps, self._scratch_places):
            if self.executor.progress is not None:
                self.executor.progress(self.record, (self.segment, built))
            job = CompiledSamples(_samples(fresh, self.record), [(built, step)], [], 0, Timed.NO)
            job.is_pixels = True
            try:
                yield job
            except SampleError as error:
                raise self._wrap(error.owner, error, whole=True) from error
        for _, batch in fresh:
            if batch.links:
                batch.settle()

    def _hand_over(self, built: BuiltOperator, fresh: Fresh, produced: dict[int, int]) -> None:
        """Take the batch that was fed to the iteration as the output of an external input."""
        record, name = self.record, built.planned.spec.name
        if self.executor.progress is not None:
            self.executor.progress(record, built)
        fed = record.fed[name]
        if isinstance(fed, BaseException):
            raise fed
        batch = self._fed(fed.handed(record.first, record.batch_size) if record.whole else fed)
        batch.device = built.output_device
        edge = built.outputs[0]
        record.edges[edge] = batch
        if batch.owner is None or batch.alias_of is not None or batch.links:
            fresh.append((edge, batch))
        produced[id(built.operator)] = len(batch.shapes)

    def _fed(self, batch: Batch) -> Batch:
        """A fed batch in the memory of the segment's device."""
        return batch

    def _one(self, built: BuiltOperator, steps: Steps, fresh: Fresh, produced: dict[int, int], lap: Lap | None) -> Jobs:
        """Prepare and plan one operator."""
        record, operator = self.record, built.operator
        edges = record.edges
        inputs = list(map(edges.__getitem__, built.inputs))
        named = {name: edges[edge] for name, edge in built.arguments} if built.arguments else {}
        leader = inputs[0] if inputs else next(iter(named.values())) if named else None
        count = record.batch_size if leader is None else len(leader.shapes)
        rows = self._rows(built) if built.sources else None
        if rows is not None and count == 0 and built.skips_empty:
            self._skip(built, produced, rows)
            return
        if built.gate is not None:
            built.gate.check(inputs, named, count)
        arguments = Arguments(built.planned.spec, named, count)
        if self.executor.progress is not None:
            self.executor.progress(record, built)
        position, first, whole = built.position, record.first, record.whole
        if first:
            position = operator.part_at(position, first)
        iteration = Iteration(
            record.number, record.batch_size, record.fed, self._issue_on, position, None, first, whole, built.following
        )  # fmt: skip
        if built.prepares:
            preparation = operator.prepare(inputs, arguments, iteration)
            if isinstance(preparation, GeneratorType):  # isinstance with the abstract class Generator takes 0.4 us
                iteration.prepared = yield from self._prepare(built, preparation, lap)
        planned = self._plan(built, inputs, arguments, iteration)
        if iteration.windows is not None:
            record.keep(built.planned.spec.name, ChosenWindows(*iteration.windows, first, rows))
        if built.keeps or (rows is not None and built.draws):
            _keep_draws(record, built, planned.outputs, rows)
        for edge, batch in zip(built.outputs, planned.outputs, strict=True):
            edges[edge] = batch
            batch.device = built.output_device
            if inputs and batch.source_info is None and len(batch.shapes) == count:
                batch.source_info = inputs[0].source_info
            if rows is not None and batch.rows is None:
                batch.rows, batch.feed = rows, None  # a branch has other numbers of samples than the fed batch
            if batch.owner is None or batch.alias_of is not None or batch.links:
                fresh.append((edge, batch))
                if batch.links or (rows is not None and batch.owner is None and batch.alias_of is None):
                    steps.append((built, batch))  # its addresses are passed on while the pixels are computed
        produced[id(operator)] = len(planned.outputs[0].shapes) if planned.outputs else count
        for step in planned.steps:
            steps.append((built, step if rows is None else branches.in_branch(step, rows)))

    def _prepare(self, built: BuiltOperator, preparation: Generator[Any, None, Any], lap: Lap | None) -> Generator[Job, None, Any]:
        """Yield the jobs of a preparation and return the operator's result. The preparation gets the error of its job."""
        error: BaseException | None = None
        try:
            while True:
                try:
                    wanted = next(preparation) if error is None else preparation.throw(error)
                except StopIteration as end:
                    return end.value
                finally:
                    error = None  # the frame must not keep the error, whose traceback holds the frame
                job = _as_job(wanted, built, Timed.NO if lap is None else lap.timed)
                job.brief = job.brief or self.executor.one_at_a_time
                if lap is not None:
                    lap.yields(job, built.counters)  # type: ignore[arg-type]
                try:
                    yield job
                except Exception as failure:
                    error = failure
                    continue
                if lap is not None:
                    lap.resumes(job, built.counters)  # type: ignore[arg-type]
        finally:
            preparation.close()

    def _plan(self, built: BuiltOperator, inputs: list[Batch], arguments: Arguments, iteration: Iteration) -> Planned:
        templates, record = built.templates, self.record
        found = None if templates is None or record.whole or record.careful else templates.find(record.edges, record.batch_size)
        if templates is None or found is None:
            return built.operator.plan(inputs, arguments, iteration)
        planned: Planned = found.planned(record.edges, templates.positions())
        return planned

    def _skip(self, built: BuiltOperator, produced: dict[int, int], rows: np.ndarray) -> None:
        """An operator in a branch without samples: it is not called, and its outputs are empty."""
        for edge in built.outputs:
            batch = branches.nothing(rows)
            batch.device = built.output_device
            self.record.edges[edge] = batch
        produced[id(built.operator)] = 0

    def _place(self, fresh: Fresh) -> tuple[Slots, int]:
        """Allocate memory for the outputs: from the pool if other segments read them, otherwise in each thread's scratch memory."""
        kept: set[int] = set()
        for edge, batch in reversed(fresh):  # consumers first: a batch that is linked to a kept batch is kept too
            if edge in self.segment.kept or id(batch) in kept:
                root = batch.alias_of or batch
                kept.add(id(root))
                kept.update(id(source.alias_of or source) for source in root.links)
        slots: Slots = []
        offset = 0
        for edge, batch in fresh:
            if batch.owner is not None or batch.alias_of is not None or batch.links:
                continue
            extents, feed = batch.extents, batch.feed
            try:
                if extents is None and feed is None and id(batch) in kept:
                    batch.reserve(self.executor.allocate)
                    continue
                if extents is None:
                    sizes = batch.checked_sizes()
                    if feed is not None and feed.held is not None:
                        sizes = feed.held
                    largest = int(largest_of(sizes, initial=0))
                else:
                    largest = extents.largest
                elsewhere = id(batch) in kept or offset + largest > MAX_SCRATCH or self.record.careful
                if elsewhere and extents is not None:
                    batch.place_known(batch.granted(self.executor.allocate, extents.total, extents.sizes), extents)
                elif elsewhere:
                    batch.place(batch.granted(self.executor.allocate, int(sizes.sum()), sizes), sizes=sizes)
            except TooLarge as error:
                built = next(item for item in self.segment.operators if edge in item.outputs)
                raise self._wrap(built, error) from error
            if not elsewhere:
                if batch.rows is None:
                    slots.append((address_of(batch.addresses), offset))
                else:
                    self._scratch_places[id(batch)] = offset
                offset += -(-largest // 64) * 64
        return slots, offset

    def _take_over(self, steps: Steps) -> None:
        """Outputs get copies of samples that a branch left in memory of others. Only these samples are copied, together with the pixels."""
        for edge in self.segment.returned:
            batch = self.record.edges[edge]
            root = batch.alias_of or batch
            if root.links and root.reused_samples().any():
                built = next(item for item in self.segment.operators if edge in item.outputs)
                steps.append((built, branches.taken_over(root, self.executor.allocate)))

    def _note_memory(self) -> None:
        statistics = self.executor.memory
        if statistics is not None:
            for built in self.segment.operators:
                spec = built.planned.spec
                statistics.note(f"{spec.device.upper()}_{spec.name}", [self.record.edges[edge] for edge in built.outputs])

    def _wrap(self, built: Built, error: BaseException, whole: bool = False) -> BaseException:
        """The error for the user. `whole`: its sample is numbered in the whole batch, not in the branch's part."""
        if not isinstance(error, Exception):
            return error
        source = None
        if isinstance(error, TooLarge) and error.sample is not None:
            error = because(SampleError(error.sample, str(error)), error)
        if isinstance(error, SampleError):
            rows = self._rows(built)
            source = self._source_info(built, int(rows[error.sample]) if whole and rows is not None else error.sample)
            if rows is not None and not whole:
                error.sample, error.others = int(np.flatnonzero(rows == error.sample)[0]), ()
            error.sample += self.record.first
            error.others = tuple(sample + self.record.first for sample in error.others)
        return operator_error(built.planned, error, self.record.number, source)

    def _rows(self, built: Built) -> np.ndarray | None:
        """The branch of a conditional that contains an operator; None outside of branches."""
        return branches.rows_of(built, self.record.edges)

    def _source_info(self, built: Built, sample: int) -> str | None:
        for edge in built.inputs:
            batch = self.record.edges[edge]
            if batch is not None and batch.source_info and sample < len(batch.source_info):
                return str(batch.source_info[sample])
        return None


def _samples(fresh: Fresh, record: Record) -> int:
    """Number of samples of the job. A partial batch has as many as the batch that it is a part of."""
    return max((len(batch) if batch.rows is None else len(batch.rows) for _, batch in fresh), default=record.batch_size)


def _as_job(job: PythonJob | CompiledJob, built: BuiltOperator, timed: Timed) -> Job:
    if isinstance(job, PythonJob):
        return PythonSamples(job, timed)
    samples = CompiledSamples(job.count, [(built, step) for step in job.steps], timed=timed)
    samples.brief = job.brief
    return samples

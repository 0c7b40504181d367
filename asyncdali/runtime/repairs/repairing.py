"""Makes a failed iteration again, and decides what is done with bad samples."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ...batch import Batch
from ...device.threads import WorkerState
from ...errors import OperatorError, message_of
from ..order.record import Record
from ..work.jobs import Job
from ..work.segments import BuiltOperator, BuiltSegment, SegmentRun
from .quarantine import BadSample, Quarantine
from .replacing import MOST_ATTEMPTS, NoReplacement, Replacing, replacement

if TYPE_CHECKING:
    from ...graph.plan import Plan
    from ...options import PipelineOptions
    from ..order.executor import Executor

_ACTIONS = ("raise", "replace", "drop")


class TooManyBad(OperatorError):
    """More samples are bad than `max_bad` allows."""


class _Unrepaired(Exception):
    """The error of the iteration must be raised."""


class _Attempt:
    """The repair of one iteration: its record, the positions before it, its fed batches, and the bad samples that were found.

    `counts`: how often each sample has failed.
    """

    def __init__(self, record: Record, positions: Mapping[str, Any], fed: dict[str, Any]):
        self.record, self.positions, self.fed = record, positions, fed
        self.entries: list[BadSample] = []
        self.counts: dict[int, int] = {}


class _Host:
    """The calling thread in the role of an executor: it does all jobs by itself."""

    memory = None
    progress = None
    one_at_a_time = True

    def __init__(self, allocate: Callable[[int], np.ndarray]):
        self.allocate = allocate


class Repairs:
    """The bad samples of one pipeline.

    Its operators are those of the executor; the segments are its own, because a segment has the position of its next iteration.
    """

    def __init__(self, plan: Plan, operators: Sequence[BuiltOperator], options: PipelineOptions, executor: Executor):
        self._plan, self._executor = plan, executor
        self._on_error, self._most = options.on_error, options.max_bad
        self.quarantine = Quarantine(options.quarantine)
        self._host = _Host(executor.allocate)
        self._state: WorkerState | None = None
        self._stream: Any = None
        own = {id(item.planned): BuiltOperator(item.planned, item.operator) for item in operators}
        self._segments = [BuiltSegment(segment, [own[id(planned)] for planned in segment.operators]) for segment in plan.segments]
        self._readers: dict[str, Any] = {
            item.planned.spec.name: item.operator for item in operators if hasattr(item.operator, "order")
        }
        self._actions: dict[str, dict[int, str]] = {}
        self._data: dict[str, str | None] = {}
        for name, reader in self._readers.items():
            self._data[name] = reader.digest() if options.quarantine is not None else None
            known = self._actions[name] = self.quarantine.load(name, self._data[name])
            reader.replacing = Replacing(reader.order, reader.spec.seed or 0, options.replace_from == "shard", set(known))
        self._above = _readers_above(plan, self._readers)

    def repair(self, record: Record, positions: Mapping[str, Any]) -> None:
        """Make an iteration that has failed for a sample again, until it has no bad sample. Its error stays if that is impossible.

        `positions`: of the stateful operators before the iteration.
        """
        attempt = _Attempt(record, positions, dict(record.fed))
        error = record.error
        try:
            while isinstance(error, OperatorError) and error.sample is not None and error.iteration is not None:
                for sample in (error.sample, *error.other_samples):
                    self._leave_out(attempt, error, sample)
                if len(attempt.entries) >= record.batch_size > 1 and len(attempt.counts) == record.batch_size:
                    break  # every sample has failed: the cause is not the data
                made = self._again(attempt)
                if not isinstance(made, BaseException):
                    for entry in attempt.entries:
                        self.quarantine.add(entry)
                    record.outputs = self._without_dropped(record, positions, made)
                    record.error = None
                    return
                error = made
            else:
                record.error = error
        except TooManyBad as end:
            assert isinstance(error, OperatorError)
            record.error = _because(end, error)
        except _Unrepaired:
            record.error = error
        except NoReplacement:
            pass  # the cause is not the data: the first error is raised
        except BaseException:  # an interrupt, or an error of the user's function: the next call repairs the iteration from the beginning
            self._forget(attempt)
            raise
        self._forget(attempt)

    # --- bad samples

    def _leave_out(self, attempt: _Attempt, error: OperatorError, sample: int) -> None:
        """Note that a sample is bad. The next attempt has another one in its place."""
        count = attempt.counts[sample] = attempt.counts.get(sample, 0) + 1
        if count > MOST_ATTEMPTS // 2:  # before the reader finds no other index
            raise NoReplacement
        readers, record = self._above.get(error.name, ()), attempt.record
        if not readers:
            self._leave_out_fed(attempt, error, sample)
            return
        for name in readers:
            reader, position = self._readers[name], attempt.positions[name]
            drawn, _ = reader.order.take(position, record.whole or record.batch_size)
            index = int(reader.replacing.applied(position, drawn)[sample])
            if index != int(drawn[sample]) and count == 1:
                continue  # the drawn one became known after this iteration was planned: try again before another one is blamed
            origin = error.source_info or _origin(reader, index)
            entry = BadSample(origin, error.operator, _cause(error), name, index, record.number, sample, "replace", self._data[name])
            self._actions[name][index] = self._decide(attempt, error, entry)
            reader.replacing.left_out.add(index)

    def _leave_out_fed(self, attempt: _Attempt, error: OperatorError, sample: int) -> None:
        """Put another sample of the same batch in place of a fed one."""
        record, fed = attempt.record, attempt.fed
        if not fed or record.batch_size < 2:
            raise _Unrepaired
        entry = BadSample(error.source_info, error.operator, _cause(error), "", -1, record.number, sample, "replace", None)
        self._decide(attempt, error, entry)
        number = replacement(0, (record.number,), sample, attempt.counts[sample], record.batch_size - 1)
        for name, batch in fed.items():
            if isinstance(batch, Batch):
                rows = np.arange(len(batch))
                rows[sample] = number + (number >= sample)
                fed[name] = _rows_of(batch, rows)

    def _decide(self, attempt: _Attempt, error: OperatorError, entry: BadSample) -> str:
        """"replace" or "drop". _Unrepaired if the error must be raised, TooManyBad past the budget, ValueError for another answer."""
        action = self._on_error(error, entry) if callable(self._on_error) else self._on_error
        if action not in _ACTIONS:
            raise ValueError(f"on_error returned {action!r}; expected one of {', '.join(_ACTIONS)}")
        if action == "raise" or (action == "drop" and not entry.reader):
            raise _Unrepaired
        attempt.entries.append(dataclasses.replace(entry, action=action))
        count, allowed = len(self.quarantine) + len(attempt.entries), self._allowed()
        if count > allowed:
            table = self.quarantine.table(attempt.entries)
            raise TooManyBad(f"{count} samples are bad, more than max_bad={self._most} allows ({allowed}):\n{table}")
        return str(action)

    def _forget(self, attempt: _Attempt) -> None:
        """The iteration keeps its error, so nothing is known about its samples."""
        for entry in attempt.entries:
            if entry.reader:
                self._actions[entry.reader].pop(entry.index, None)
                self._readers[entry.reader].replacing.left_out.discard(entry.index)

    def _allowed(self) -> int:
        if self._most is None:
            return 1 << 62
        if isinstance(self._most, int):
            return self._most
        return int(self._most * sum(reader.order.count for reader in self._readers.values()))

    def _without_dropped(self, record: Record, positions: Mapping[str, Any], outputs: list[Batch]) -> list[Batch]:
        """The outputs without samples that are dropped."""
        count = record.batch_size
        kept = np.ones(count, bool)
        for name, actions in self._actions.items():
            if "drop" not in actions.values():
                continue
            draw, _ = self._readers[name].order.take(positions[name], record.whole or count)
            for k, index in enumerate(draw[record.first : record.first + count].tolist()):
                kept[k] &= actions.get(index) != "drop"
        if kept.all():
            return outputs
        rows = record.kept = np.flatnonzero(kept)
        return [_rows_of(batch, rows) if len(batch) == count else batch for batch in outputs]

    def drops_of(self, record: Record, positions: Mapping[str, Any]) -> list[Batch]:
        """The outputs of an iteration without an error, without samples that are dropped."""
        return self._without_dropped(record, positions, record.outputs)

    @property
    def may_drop(self) -> bool:
        """Whether a sample is known that is dropped."""
        return any("drop" in actions.values() for actions in self._actions.values())

    # --- making iterations

    def _again(self, attempt: _Attempt) -> list[Batch] | Exception:
        """The outputs of the iteration, or its error."""
        record, positions = attempt.record, attempt.positions
        again = Record(record.index, record.batch_size, self._plan.edge_count)
        again.number, again.whole, again.first, again.handed = record.number, record.whole, record.first, record.handed
        again.fed = dict(attempt.fed)
        gpu = self._executor.gpu
        try:
            if gpu is None:
                self._run(again, positions)
            else:
                with gpu.entered():
                    self._run(again, positions)
        except Exception as error:
            return error
        outputs = [again.edges[edge] for edge in self._plan.outputs]
        return [batch.part(*again.handed) for batch in outputs] if again.handed is not None else outputs

    def _run(self, record: Record, positions: Mapping[str, Any]) -> None:
        for segment in self._segments:
            segment.go_to(positions)
            phases: Any = self._run_of(segment, record).phases()
            error: BaseException | None = None
            while True:
                try:
                    job = next(phases) if error is None else phases.throw(error)
                except StopIteration:
                    break
                error = self._done(job)

    def _run_of(self, segment: BuiltSegment, record: Record) -> SegmentRun:
        gpu = self._executor.gpu
        if gpu is None or segment.backend == "cpu":
            return SegmentRun(segment, record, self._host)
        from ..gpu.device_segments import DeviceSegmentRun

        if self._stream is None:
            self._stream = gpu.stream(f"{self._executor.stages.name}-repairs")
        return DeviceSegmentRun(segment, record, self._host, self._stream)

    def _done(self, job: Job) -> BaseException | None:
        if self._state is None:
            self._state = WorkerState()
        try:
            job.work_alone(self._state)
            job.raise_error()
        except BaseException as error:
            if not isinstance(error, Exception):
                raise
            return error
        return None


def _readers_above(plan: Plan, readers: Mapping[str, object]) -> dict[str, tuple[str, ...]]:
    """For each operator the readers that its samples come from."""
    made: dict[int, frozenset[str]] = {}
    found: dict[str, tuple[str, ...]] = {}
    for planned in plan.operators:
        name = planned.spec.name
        above = frozenset().union(*(made.get(edge, frozenset()) for edge in (*planned.inputs, *planned.arguments.values())))
        if name in readers:
            above |= {name}
        for edge in planned.outputs:
            made[edge] = above
        found[name] = tuple(sorted(above))
    return found


def _rows_of(batch: Batch, rows: np.ndarray) -> Batch:
    """Some samples of a batch, over the same memory."""
    info = batch.source_info
    made = Batch(
        np.ascontiguousarray(batch.shapes[rows]), batch.dtype, batch.layout, np.ascontiguousarray(batch.addresses[rows]),
        batch.memory_owner, device=batch.device, source_info=None if info is None else [info[k] for k in rows.tolist()],
    )  # fmt: skip
    reused = batch.reused_memory
    made.reused = reused if isinstance(reused, bool) else reused[rows]
    return made


def _origin(reader: Any, index: int) -> str | None:
    """The file or record of a sample; None for a reader of another package that cannot say."""
    try:
        found = reader.origin_of(index)
    except TypeError:
        return None
    where = "" if found.offset is None else f", byte {found.offset}"
    return f"{found.file}{where}{f' ({found.part})' if found.part else ''}"


def _cause(error: OperatorError) -> str:
    """The first line of the cause of an operator's error."""
    cause = error if error.__cause__ is None else error.__cause__
    text = message_of(cause).strip()
    return text.splitlines()[0][:300] if text else type(cause).__name__


def _because(made: TooManyBad, error: OperatorError) -> BaseException:
    made.operator, made.name, made.iteration, made.sample = error.operator, error.name, error.iteration, error.sample
    made.__cause__ = error
    return made

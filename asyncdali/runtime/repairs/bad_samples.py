"""Makes a failed iteration again, and decides what is done with bad samples."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ...batch import Batch
from ...device.threads import WorkerState
from ...errors import OperatorError, SampleError, because, message_of, operator_error
from ...options import ACTIONS, REST
from ..order.placement import repairing_segment_kind
from ..order.producer import Producer
from ..order.record import Record
from ..work.jobs import Job
from ..work.making import make_segments
from ..work.segments import BuiltOperator, BuiltSegment
from .feeding import FedSamples
from .quarantine import BadSample, Quarantine
from .replacing import MOST_ATTEMPTS, NoReplacement, Replacing

if TYPE_CHECKING:
    from ...graph.plan import Plan, PlannedOperator
    from ...options import PipelineOptions
    from ..order.executor import Executor



ENOUGH = 16
"""Bad samples after which an iteration is given up if all its samples have failed. A small batch may have only bad ones by chance."""


class TooManyBad(OperatorError):
    """More samples are bad than `max_bad` allows."""


class _Unrepaired(Exception):
    """The error of the iteration must be raised."""


class _Attempt:
    """The repair of one iteration: its record, the positions before it, its fed samples, and the bad samples that were found.

    `counts`: how often each sample has failed. `dropped`: fed samples that the outputs do not have.
    """

    def __init__(self, record: Record, positions: Mapping[str, object], fed: FedSamples):
        self.record, self.positions, self.fed = record, positions, fed
        self.entries: list[BadSample] = []
        self.counts: dict[int, int] = {}
        self.dropped: set[int] = set()


class _Host:
    """The calling thread in the role of an executor: it does all jobs by itself."""

    memory = None
    progress = None
    one_at_a_time = True

    def __init__(self, allocate: Callable[[int], np.ndarray]):
        self.allocate = allocate


class Repairs:
    """The bad samples of one pipeline.

    Its operators are those of the executor. Plans of one operator are made one after another, so an iteration is made again when the
    executor has nothing to do. The segments are its own, because a segment has the position of its next iteration.
    """

    def __init__(
        self, plan: Plan, operators: Sequence[BuiltOperator], options: PipelineOptions, executor: Executor, producer: Producer
    ):
        self._plan, self._executor, self._producer = plan, executor, producer
        self._most = options.max_bad
        self._planned = {item.planned.spec.name: item.planned for item in operators}
        self._choices = _choices(options.on_error, self._planned)
        self._seed = options.seed if isinstance(options.seed, int) else 0
        self.quarantine = Quarantine(options.quarantine)
        self._host = _Host(executor.allocate)
        self._state: WorkerState | None = None
        self._operators = [BuiltOperator(item.planned, item.operator) for item in operators]
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
        self.may_drop = any("drop" in actions.values() for actions in self._actions.values())
        """Whether a sample may be known that is dropped."""
        for puller in producer.sources.pullers:
            puller.keeps_errors = self._choices[puller.port.name] != "raise"

    def repair(self, record: Record, positions: Mapping[str, object]) -> None:
        """Make an iteration that has failed for a sample again, until it has no bad sample. Its error stays if that is impossible.

        `positions`: of the stateful operators before the iteration.
        """
        producer = self._producer
        attempt = _Attempt(record, positions, FedSamples(record, producer.sources, self._seed, producer.asking))
        error, failures = record.error, attempt.fed.failures()
        if failures:  # the error only says that there are some
            error = record.error = failures[0][2]
        try:
            while True:
                for name, sample, cause in failures:
                    error = cause
                    self._leave_out_fed(attempt, self._of_source(name, sample, cause, record), sample)
                if not failures:
                    if not isinstance(error, OperatorError) or error.sample is None or error.iteration is None:
                        record.error = error
                        break
                    used = self._used(attempt, error)
                    for sample in (error.sample, *error.other_samples):
                        self._leave_out(attempt, error, sample, used)
                if len(attempt.counts) >= record.batch_size and len(attempt.entries) >= max(ENOUGH, record.batch_size):
                    break  # every sample has failed: the cause is not the data
                made = self._again(attempt)
                if not isinstance(made, BaseException):
                    for entry in attempt.entries:
                        self.quarantine.add(entry)
                    record.outputs = self._without_dropped(record, positions, made, attempt.dropped)
                    record.error = None
                    return
                error, failures = made, []
        except TooManyBad as end:
            assert error is not None
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

    def _of_source(self, name: str, sample: int, cause: Exception, record: Record) -> OperatorError:
        """The error of a source for one sample."""
        failure = because(SampleError(sample, message_of(cause) or type(cause).__name__), cause)
        made = operator_error(self._planned[name], failure, record.number)
        made.__cause__ = cause
        return made

    def _used(self, attempt: _Attempt, error: OperatorError) -> dict[str, np.ndarray]:
        """The indices of the failed attempt, by reader before the failed operator. A bad sample changes those of the next attempt."""
        record, found = attempt.record, {}
        for name in self._above.get(error.name, ()):
            reader, position = self._readers[name], attempt.positions[name]
            drawn, _ = reader.order.take(position, record.whole or record.batch_size)
            found[name] = reader.replacing.applied(position, drawn)
        return found

    def _leave_out(self, attempt: _Attempt, error: OperatorError, sample: int, used: Mapping[str, np.ndarray]) -> None:
        """Note that a sample is bad. The next attempt has another one in its place. `used`: the indices of this attempt."""
        record = attempt.record
        if not used:
            self._leave_out_fed(attempt, error, sample)
            return
        count = self._counted(attempt, sample)
        for name, indices in used.items():
            reader, index = self._readers[name], int(indices[sample])
            drawn, _ = reader.order.take(attempt.positions[name], record.whole or record.batch_size)
            if index in reader.replacing.left_out:
                continue  # another place of this iteration has the same sample
            if index != int(drawn[sample]) and count == 1:
                continue  # the drawn one became known after this iteration was planned: try again before another one is blamed
            origin = error.source_info or _origin(reader, index)
            entry = BadSample(origin, error.operator, _cause(error), name, index, record.number, sample, "replace", self._data[name])
            action = self._actions[name][index] = self._decide(attempt, error, entry)
            self.may_drop |= action == "drop"
            reader.replacing.left_out.add(index)

    def _leave_out_fed(self, attempt: _Attempt, error: OperatorError, sample: int) -> None:
        """Note that a sample from Python is bad."""
        fed = attempt.fed
        if not attempt.record.fed or (fed.size < 2 and not fed.indexed):
            raise _Unrepaired
        self._counted(attempt, sample)
        if self._bad_index(attempt, error, sample, fed.index(sample)) == "drop" and fed.index(sample) == fed.first + sample:
            attempt.dropped.add(sample)

    def _bad_index(self, attempt: _Attempt, error: OperatorError, sample: int, index: int) -> str:
        """Note that the sample with this index, which stands at the place `sample`, is bad. Returns what is done with it."""
        fed, known = attempt.fed, ("", -1)
        if fed.indexed:
            known = self._producer.sources.pullers[0].port.name, index
        elif origins := next(iter(attempt.record.origins.values()), None):
            # A sample behind a regrouping. The entry has no digest of the data set, because the reader must not leave it out.
            known = origins.index(index) or known
        action = "replace"
        if index not in fed.bad:
            entry = BadSample(error.source_info, error.operator, _cause(error), *known, attempt.record.number, sample, "replace", None)
            action = self._decide(attempt, error, entry)
            fed.bad.add(index)
        return action

    def _counted(self, attempt: _Attempt, sample: int) -> int:
        count = attempt.counts[sample] = attempt.counts.get(sample, 0) + 1
        if count > MOST_ATTEMPTS // 2:  # before the reader finds no other index
            raise NoReplacement
        return count

    def _decide(self, attempt: _Attempt, error: OperatorError, entry: BadSample) -> str:
        """"replace" or "drop". _Unrepaired if the error must be raised, TooManyBad past the budget, ValueError for another answer."""
        choice = self._choices.get(error.name, "raise")
        action = choice(error, entry) if callable(choice) else choice
        if action not in ACTIONS:
            raise ValueError(f"on_error returned {action!r}; expected one of {', '.join(ACTIONS)}")
        if action == "raise":
            raise _Unrepaired
        if self.quarantine.knows(entry):
            return str(action)
        attempt.entries.append(dataclasses.replace(entry, action=action))
        count, allowed = len(self.quarantine) + len(attempt.entries), self._allowed()
        if count > allowed:
            table = self.quarantine.table(attempt.entries)
            raise TooManyBad(f"{count} samples are bad, more than max_bad={self._most} allows ({allowed}):\n{table}")
        return str(action)

    def _forget(self, attempt: _Attempt) -> None:
        """The iteration keeps its error, so nothing is known about its samples."""
        for entry in attempt.entries:
            if entry.reader in self._readers:
                self._actions[entry.reader].pop(entry.index, None)
                self._readers[entry.reader].replacing.left_out.discard(entry.index)

    def _allowed(self) -> int:
        if self._most is None:
            return 1 << 62
        if isinstance(self._most, int):
            return self._most
        behind = sum(puller.samples for puller in self._producer.sources.pullers)
        return int(self._most * (behind + sum(reader.order.count for reader in self._readers.values())))

    def _without_dropped(
        self, record: Record, positions: Mapping[str, object], outputs: list[Batch], fed: Collection[int] = ()
    ) -> list[Batch]:
        """The outputs without samples that are dropped. `fed`: numbers in the whole iteration of fed samples that are dropped."""
        whole = record.whole or record.batch_size
        kept = np.ones(whole, bool)
        kept[list(fed)] = False
        for name, actions in self._actions.items():
            if "drop" not in actions.values():
                continue
            draw, _ = self._readers[name].order.take(positions[name], whole)
            for k, index in enumerate(draw.tolist()):
                kept[k] &= actions.get(index) != "drop"
        first, stop = record.handed or (record.first, record.first + record.batch_size)
        kept = kept[first:stop]
        if kept.all():
            return outputs
        rows = record.kept = np.flatnonzero(kept)
        return [batch.chosen(rows) if len(batch) == len(kept) else batch for batch in outputs]

    def drops_of(self, record: Record, positions: Mapping[str, object]) -> list[Batch]:
        """The outputs of an iteration without an error, without samples that are dropped."""
        return self._without_dropped(record, positions, record.outputs)

    # --- making iterations

    def _again(self, attempt: _Attempt) -> list[Batch] | Exception:
        """The outputs of the iteration, or its error."""
        record, positions = attempt.record, attempt.positions
        again = Record(record.index, record.batch_size, self._plan.edge_count)
        again.number, again.whole, again.first, again.handed = record.number, record.whole, record.first, record.handed
        again.place = record.place

        def failed(name: str, sample: int, index: int, cause: Exception) -> None:
            self._bad_index(attempt, self._of_source(name, sample, cause, record), sample, index)

        again.fed = attempt.fed.made(failed) if record.fed else {}
        try:
            with self._producer.quiet(), self._executor.stages.device.entered():
                self._run(again, positions)
        except Exception as error:
            return error
        outputs = [again.edges[edge] for edge in self._plan.outputs]
        return [batch.part(*again.handed) for batch in outputs] if again.handed is not None else outputs

    def _run(self, record: Record, positions: Mapping[str, object]) -> None:
        for segment in self._segments:
            segment.go_to(positions)
            phases: Any = segment.new_run(record, self._host).phases()
            error: BaseException | None = None
            while True:
                try:
                    job = next(phases) if error is None else phases.throw(error)
                except StopIteration:
                    break
                error = self._done(job)

    @functools.cached_property
    def _segments(self) -> list[BuiltSegment]:
        """The segments for iterations that are made again, made for the first bad sample, on the device of the executor."""
        kind = repairing_segment_kind(self._executor.gpu, f"{self._executor.stages.name}-repairs")
        return make_segments(self._plan.segments, self._operators, kind)

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


def _choices(on_error: object, operators: Mapping[str, PlannedOperator]) -> dict[str, object]:
    """The rule for bad samples, by the operator's name in the pipeline."""
    if not isinstance(on_error, Mapping):
        return dict.fromkeys(operators, on_error)
    names = {name: (name, planned.spec.schema.name, REST) for name, planned in operators.items()}
    return {name: next((on_error[key] for key in keys if key in on_error), "raise") for name, keys in names.items()}


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


def _because(made: TooManyBad, error: BaseException) -> BaseException:
    if isinstance(error, OperatorError):
        made.operator, made.name, made.iteration, made.sample = error.operator, error.name, error.iteration, error.sample
    made.__cause__ = error
    return made

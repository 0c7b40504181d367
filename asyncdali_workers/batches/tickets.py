"""A requested batch: the answers of its slices, and the batch assembled from them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..errors import WorkerCallbackError, WorkerError, decode_exception
from ..shared.records import ERROR, OK, STOP, Done, Task, task_of
from ..shared.schema import BatchSchema
from ..source import Source
from ..worker.streams import read_snapshot
from ..worker.writing import OutputTable
from .batches import OutputPart, PoolBatch, expected_outputs, expected_part, joined, table_part
from .slots import SlotLease


class SliceOutcome:
    """The outcome of a slice. `error` makes the exception for a slice that no worker will answer.

    It makes a new exception for each caller: a raised exception refers to frames, and the answer is kept."""

    __slots__ = ("data", "done", "error", "leases", "outputs", "pid")

    def __init__(self, done: Done | None, error: Callable[[], BaseException] | None = None):
        self.done = done
        self.error = error
        self.outputs: list[OutputTable] | None = None  # None: as predicted
        self.data = b""
        self.leases: list[SlotLease] = []
        self.pid = 0  # process id of the worker that answered

    @property
    def sample(self) -> int:
        return 0 if self.done is None else self.done.sample


class Ticket:
    """One batch of a source. While a worker may still write to its slot, the pool holds it; afterwards its users do."""

    __slots__ = (
        "__weakref__", "answers", "cancelled", "deaths", "epoch", "iteration", "learnt", "lease", "number", "ring", "schema", "slices",
        "source", "source_index", "tasks",
    )  # fmt: skip

    def __init__(self, number: int, source_index: int, source: Source, iteration: int, epoch: int, slices: list[tuple[int, int]]):
        self.number = number
        self.source_index, self.source = source_index, source
        self.iteration, self.epoch = iteration, epoch
        self.slices = slices
        self.ring = 0
        self.schema: BatchSchema | None = None
        self.lease: SlotLease | None = None
        self.tasks: list[Task] = []
        self.answers: dict[int, SliceOutcome | None] = {}  # slice -> answer; None: withdrawn before it began
        self.deaths: dict[int, int] = {}  # sample -> number of workers that died at it
        self.cancelled = False
        self.learnt = False

    def __repr__(self) -> str:
        return f"<Ticket {self.number}: {self.source.name}, iteration {self.iteration}, epoch {self.epoch}>"

    @property
    def complete(self) -> bool:
        """Whether every slice of the batch has an answer."""
        return len(self.answers) == len(self.slices)

    @property
    def task_range(self) -> range:
        """Numbers of the tasks of this batch, one for each slice."""
        return range(task_of(self.number, 0), task_of(self.number, len(self.slices)))

    def where(self, sample: int) -> str:
        """The place of `sample` in words, for error texts."""
        if self.source.kind == "samples":
            return f"sample {sample} of iteration {self.iteration}, epoch {self.epoch}"
        return f"batch {self.iteration}, epoch {self.epoch}"


def error_of(ticket: Ticket, pids: list[int]) -> BaseException | None:
    """The exception to raise for a complete ticket: an error before the end of data; among errors the lowest sample."""
    worst: tuple[bool, int, int] | None = None
    for number, answer in ticket.answers.items():
        if answer is None or (answer.error is None and answer.done is not None and answer.done.kind == OK):
            continue
        stopped = answer.error is None and answer.done is not None and answer.done.kind == STOP
        rank = (stopped, answer.sample, number)
        worst = rank if worst is None else min(worst, rank)
    if worst is None:
        return None
    answer = ticket.answers[worst[2]]
    assert answer is not None
    if worst[0]:
        return _stop(answer)
    return _callback_error(ticket, answer, pids) if answer.error is None else answer.error()


def _stop(answer: SliceOutcome) -> StopIteration:
    """Its value is the number of samples of the batch before the end."""
    return StopIteration(answer.sample)


def _callback_error(ticket: Ticket, answer: SliceOutcome, pids: list[int]) -> BaseException:
    assert answer.done is not None and answer.done.kind == ERROR
    what = f"{ticket.source.name} (worker {answer.done.worker}, process {pids[answer.done.worker]}), "
    if not answer.data:
        return WorkerCallbackError(f"{what}{ticket.where(answer.sample)}: the call failed, and no memory was left for the error text")
    try:
        return decode_exception(answer.data, what)
    except Exception as error:
        return WorkerError(f"{what}{ticket.where(answer.sample)}: the call failed with an error that cannot be unpickled: {error}")


def as_expected(ticket: Ticket) -> bool:
    return all(answer is not None and answer.outputs is None for answer in ticket.answers.values())


def assembled(ticket: Ticket) -> tuple[PoolBatch, list[Any] | None]:
    """The batch of a complete ticket without errors, and its key for the prediction (None: as expected)."""
    assert ticket.lease is not None
    answers = [ticket.answers[number] for number in range(len(ticket.slices))]
    count = sum(answer.done.count for answer in answers if answer is not None and answer.done is not None)
    last = answers[-1]
    assert last is not None and last.done is not None
    workers = [
        (first, answer.done.worker, answer.pid)
        for (first, _), answer in zip(ticket.slices, answers)
        if answer is not None and answer.done is not None
    ]
    if as_expected(ticket):
        assert ticket.schema is not None
        return PoolBatch(expected_outputs(ticket.schema, count, ticket.lease), count, workers, None, last.done.pulls), None
    leases = [ticket.lease, *(lease for answer in answers if answer is not None for lease in answer.leases)]
    what = f"{ticket.source.name}, iteration {ticket.iteration}, epoch {ticket.epoch}"
    outputs, key = [], []
    for number in range(1 if ticket.source.num_outputs is None else ticket.source.num_outputs):
        parts = [_part(ticket, slot, number, leases) for slot in range(len(answers))]
        output, kind = joined(parts, number, count, leases, what)
        outputs.append(output)
        key.append(kind)
    snapshot = read_snapshot(last.data)[0] if last.data else None
    return PoolBatch(outputs, count, workers, snapshot, last.done.pulls), key


def _part(ticket: Ticket, number: int, output: int, leases: list[SlotLease]) -> OutputPart:
    answer = ticket.answers[number]
    assert answer is not None and answer.done is not None and ticket.lease is not None
    first = ticket.slices[number][0]
    if answer.outputs is not None:
        return table_part(answer.outputs[output], first, leases)
    assert ticket.schema is not None
    expected = ticket.schema.outputs[output]
    assert expected is not None
    return expected_part(expected, first, answer.done.count, ticket.lease.extent.mapping.address)

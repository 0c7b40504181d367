"""Dry runs: operators of a built pipeline are planned at a given position, and no pixel is computed.

Operators are pure, so an iteration can be planned beside those that run. A dry run finds shapes, draws and windows. Readers and decoders
read the files and their headers, if a window depends on them. Functions of the user are not called.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

import numpy as np

from ...batch import Batch
from ...device.threads import WorkerState
from ...graph.plan import Segment
from ...operators.base import Role, Trait
from ..order.record import Record
from .choices import ChosenWindows
from .jobs import Job
from .segments import BuiltOperator, BuiltSegment, Fresh, SegmentRun, Steps

NOTHING: Mapping[int, Batch] = MappingProxyType({})


@dataclass
class DryRun:
    """The result of a dry run.

    edges     the planned batches, by the number of their edge
    known     edges whose contents are known
    windows   windows that operators chose, by the operator's name
    failures  operators that were not planned, and the reasons
    """

    edges: dict[int, Batch] = field(default_factory=dict)
    known: set[int] = field(default_factory=set)
    windows: dict[str, ChosenWindows] = field(default_factory=dict)
    failures: dict[str, str] = field(default_factory=dict)


class _Alone:
    """The calling thread as the host of a run."""

    memory = None
    progress = None
    one_at_a_time = True

    def __init__(self, allocate: Callable[[int], np.ndarray]):
        self.allocate = allocate
        self._state = WorkerState()

    def work(self, job: Job) -> BaseException | None:
        """Do a job and return its error, if any."""
        job.work(self._state)
        try:
            job.raise_error()
        except Exception as error:
            return error
        return None


class DryRuns:
    """Dry runs of a built pipeline with these operators. One runs at a time."""

    def __init__(self, operators: Sequence[BuiltOperator], edge_count: int, allocate: Callable[[int], np.ndarray], on_cuda: bool):
        self._operators = [BuiltOperator(built.planned, built.operator) for built in operators]  # these have their own positions
        for built in self._operators:
            built.templates = None
        self._producers = {edge: built for built in self._operators for edge in built.outputs}
        self._segment = BuiltSegment(Segment(0, "cpu", 0), [])
        self._edge_count = edge_count
        self._host = _Alone(allocate)
        self._on_cuda = on_cuda
        self._lock = threading.Lock()
        self._needed: dict[Hashable, list[BuiltOperator]] = {}  # by the names that were asked for

    def needed_by(self, names: Collection[str]) -> list[BuiltOperator]:
        """The operators with these names and all operators before them, in the order of the plan."""
        todo = [built for built in self._operators if built.planned.spec.name in names]
        found: set[int] = set()
        while todo:
            built = todo.pop()
            if id(built) not in found:
                found.add(id(built))
                todo += [self._producers[edge] for edge in (*built.inputs, *built.planned.arguments.values())]
        return [built for built in self._operators if id(built) in found]

    def run(
        self, names: tuple[str, ...], positions: Mapping[str, Any], batch_size: int, number: int, fed: Mapping[int, Batch] = NOTHING
    ) -> DryRun:
        """Plan the operators `names`, and all that they need, for iteration `number` of `batch_size` samples at these `positions`.

        `fed`: known batches, by their edge. Operators with a known output are not planned.
        """
        found = DryRun()
        if not names:
            return found
        with self._lock:
            record = Record(number, batch_size, self._edge_count)
            run = SegmentRun(self._segment, record, self._host)
            needed = self._needed.get(names)
            if needed is None:
                needed = self._needed[names] = self.needed_by(names)
            for built in needed:
                given = [edge for edge in built.outputs if edge in fed] if fed else ()
                for edge in given:
                    found.edges[edge] = run.record.edges[edge] = fed[edge]
                    found.known.add(edge)
                if given:
                    continue
                reason = self._hindrance(built, found, positions)
                if not reason:
                    built.position = positions.get(built.planned.spec.name)
                    reason = self._plan(run, built, found)
                if reason:
                    found.failures[built.planned.spec.name] = reason
            for built in needed:
                built.position = None
            found.windows.update({name: choice for name, choice in record.choices.items() if isinstance(choice, ChosenWindows)})
            return found

    def _hindrance(self, built: BuiltOperator, found: DryRun, positions: Mapping[str, object]) -> str:
        """Why an operator cannot be planned; empty if it can."""
        planned, operator = built.planned, built.operator
        name = planned.spec.name
        if planned.spec.schema.role is Role.INPUT:
            return "its data comes from the program"
        if operator.barrier:
            return "it calls a function of the user"
        if Trait.ACTS_OUTSIDE in operator.traits and not operator.stateful:
            return "it acts outside of the pipeline"
        if operator.stateful and name not in positions:
            return "its position depends on the decisions of all iterations before"
        edges = [*built.inputs, *planned.arguments.values()]
        missing = [edge for edge in edges if edge not in found.edges]
        if missing:
            return f"{self._producers[missing[0]].planned.spec.name} was not planned"
        unread = [edge for edge in planned.reads_contents(self._on_cuda) if edge not in found.known]
        if unread:
            return f"it reads what {self._producers[unread[0]].planned.spec.name} computes"
        return ""

    def _plan(self, run: SegmentRun, built: BuiltOperator, found: DryRun) -> str:
        steps: Steps = []
        fresh: Fresh = []
        jobs: Any = run.planning(built, steps, fresh)
        error: BaseException | None = None
        try:
            while True:
                job = next(jobs) if error is None else jobs.throw(error)
                error = self._host.work(job)
        except StopIteration:
            pass
        except Exception as failure:
            return str(failure)
        for edge in built.outputs:
            batch = run.record.edges[edge]
            found.edges[edge] = batch
            complete = not steps and batch.alias_of is None and not batch.links and (batch.owner is not None or batch.values is not None)
            if built.planned.eager or complete:
                found.known.add(edge)
        return ""



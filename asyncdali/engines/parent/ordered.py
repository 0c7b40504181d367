"""Requests and answers in the order of iterations. Everything runs on one thread of the training process: the loop's, or a receiver.

The problem. Several engines make iterations at the same time and answer in any order. An engine may die, hang or be replaced. Positions of
an iteration follow from the iterations before it, and sometimes from their data (draws in branches of conditionals).

What does not work:

- Positions in the engines: a replacement would have to receive them, and two engines could not share a stream.
- Waiting for an answer before the next request: engines would work one after another.
- Order by engine: the slowest engine would hold all others, and a repeated request would be out of order.

The solution. A request carries the positions before its iteration. The positions behind it are computed here, at once, so the next request
can be sent. Iterations are kept in ``asked`` in their order, and an answer is delivered when it is the oldest one. The choice of the engine
is a hint: the same request may be sent again, to any engine, and gives the same bits. Where positions depend on data (``_chained``), the
engine reports the number of samples as soon as the iteration is planned. If a prediction was wrong, the following iterations are requested
again; `generation` tells answers to requests that were replaced.

:class:`Ordered` knows positions, order and correction. Subclasses choose who makes an iteration: ``loader`` the engines of this machine,
``asyncdali.fleet.remote`` those of other machines.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping
from time import perf_counter_ns as now
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from ...errors import because, operator_error
from ...graph.plan import Plan
from ...operators.base import Iteration
from ...runtime.order.executor import Executor
from ...runtime.order.loop import shared_loop
from ...runtime.order.placement import BesideEngines, OnLoop
from ...runtime.order.record import Record
from ...runtime.parts import why_whole
from ...runtime.work.segments import BuiltSegment, SegmentRun
from ..cut import Cut
from ..wire.encoding import Entries, Frame

if TYPE_CHECKING:
    from ...runtime.counting.segment_counters import Recorder

NOTHING: Mapping[Any, Any] = MappingProxyType({})


class Asked:
    """An iteration requested from engines."""

    # Most iterations never set these fields. Defaults of the class cost nothing per iteration.
    body = b""
    generation = 0
    told = False  # an engine has already sent how many samples the stateful operators produced
    answer: Mapping[str, Any] | None = None
    error: BaseException | None = None
    engine_name = ""
    """The engine that has answered."""

    def __init__(self, run: SegmentRun, before: Mapping[str, object]):
        self.run = run
        self.before: Mapping[str, Any] = before  # positions
        self.header: dict[str, Any] = {}


Kind = TypeVar("Kind", bound=Asked)


class Ordered(Generic[Kind]):
    """Runs the segment before the cut elsewhere (``runtime.work.segments.Remote``), and delivers it in the order of iterations."""

    kind: type[Kind]

    def __init__(self, cut: Cut, plan: Plan, executor: Executor, segment: BuiltSegment, placement: OnLoop | BesideEngines):
        self.cut, self.executor, self.segment = cut, executor, segment
        self.operators = {planned.spec.name: planned for planned in plan.operators}
        self._chained = cut.depends_on_branches
        self.why_whole = why_whole(plan)
        self._fed = tuple(cut.inputs)
        self.asked: OrderedDict[int, Kind] = OrderedDict()
        self._loop = shared_loop()
        self.placement = placement
        """Its thread is the one on which everything runs."""
        self.broken: str | None = None
        self.closed = False
        if segment.counters is not None:
            segment.counters.made_elsewhere(cut.crossing)
            segment.counters.stream = "engines"

    # --- for subclasses

    def _pack(self, asked: Kind) -> None:
        """Make the request of an iteration: the header of :meth:`packed`, and the place of the frame."""
        raise NotImplementedError

    def _dispatch(self) -> None:
        """Send requests that no engine works on."""
        raise NotImplementedError

    def _withdraw(self, asked: Kind) -> None:
        """Forget which engines work on an iteration, because its request has changed."""
        raise NotImplementedError

    # --- requests

    def begin(self, run: SegmentRun) -> None:
        record, segment = run.record, self.segment
        before = {built.planned.spec.name: built for built in segment.stateful}
        asked = self.kind(run, {name: built.position for name, built in before.items()})
        error = self._fed_error(record)
        if error is None and self.broken is not None:
            error = RuntimeError(self.broken)
        if error is None:
            try:
                self._pack(asked)
            except Exception as failure:  # no shared memory left
                error = operator_error(segment.operators[0].planned, failure, record.number)
                error.__cause__ = failure
        if not self._chained or error is not None:
            segment.commit_positions(record, {})
            run.committed = True
            self.executor.planned(run)
        self.asked[record.index] = asked
        if error is not None:
            asked.error = error
            self.placement.decide_next(self._deliver)  # deferred, because this call comes from the scheduler
            return
        self._dispatch()

    def _fed_error(self, record: Record) -> BaseException | None:
        """The exception that an external input was fed instead of a batch."""
        for name in self._fed:
            fed = record.fed.get(name)
            if isinstance(fed, Exception):
                return because(operator_error(self.operators[name], fed, record.number), fed)
        return None

    def packed(self, asked: Kind, packer: Entries, frame: Frame) -> None:
        """The header of a request. Fed batches are packed into `frame`."""
        record = asked.run.record
        first, size, whole = record.first, record.batch_size, record.whole
        given = Iteration(record.number, size, record.fed, first=first, whole=whole)
        fed = {name: packer.pack(given.taken(name), frame) for name in self.cut.inputs}
        part = {"n": whole or size, "slice": [first, first + size], "from": first}
        asked.header = {"i": record.index, "k": record.number, **part, "fed": fed}
        if self._chained:
            asked.header["tell"] = 1
        if self.recorder() is not None:
            asked.header["trace"] = 1
        self._place(asked)

    def _place(self, asked: Asked) -> None:
        """The positions that a request contains."""
        stateful = self.segment.stateful
        asked.header["at"] = {built.planned.spec.name: built.save(asked.before[built.planned.spec.name]) for built in stateful}
        asked.header["g"] = asked.generation

    def recorder(self) -> Recorder | None:
        """The recorder of the current trace. None if no trace is recorded."""
        counters = self.executor.counters
        return None if counters is None else counters.recorder

    # --- answers

    def planned(self, asked: Kind | None, produced: dict[str, int]) -> None:
        """An engine has planned an iteration whose positions depend on data."""
        if asked is not None and not asked.run.committed:
            asked.told = True
            self._commit(asked, produced)
            self.executor.planned(asked.run)

    def _deliver(self) -> None:
        """Deliver finished iterations, in order."""
        while self.asked and not self.closed:
            asked = next(iter(self.asked.values()))
            if asked.answer is None and asked.error is None:
                return
            run, answer = asked.run, asked.answer or NOTHING
            record = run.record
            produced = answer.get("produced", {})
            if not run.committed:
                self._commit(asked, produced)
            elif produced and record.given is not None:
                record.produced.update(produced)  # the positions came from elsewhere, and are corrected there
            elif produced and not asked.told:
                self._correct(asked, produced)
            del self.asked[record.index]
            if asked.error is None:
                record.engine = asked.engine_name
                for edge, batch in zip(self.cut.crossing, answer["out"], strict=True):
                    record.edges[edge] = batch
                counters = run.segment.counters
                if counters is not None and record.weight:
                    counters.planned(record, run.started, now())
                elif counters is not None:
                    counters.passed(record.edges)
            asked.answer = NOTHING  # another engine may still work on the iteration: do not keep the batches until it answers
            error, asked.error = asked.error, None
            self.executor.finish_segment(run, error)
            del error

    def _commit(self, asked: Asked, produced: dict[str, int]) -> None:
        by_id = {
            id(built.operator): produced[built.planned.spec.name]
            for built in self.segment.stateful
            if built.planned.spec.name in produced
        }
        if asked.run.record.given is not None:
            self.segment.go_to(asked.before)
        self.segment.commit_positions(asked.run.record, by_id)
        asked.run.committed = True

    def _correct(self, asked: Asked, produced: dict[str, int]) -> None:
        """Request the following iterations again, because an iteration moved positions on by unexpected numbers of samples."""
        self._chained = True
        self.segment.go_to(asked.before)
        self._commit(asked, produced)
        for later in list(self.asked.values())[1:]:
            later.before = {built.planned.spec.name: built.position for built in self.segment.stateful}
            self.segment.commit_positions(later.run.record, {})
            later.generation += 1
            later.answer = later.error = None
            self._withdraw(later)
            self._place(later)
        self.placement.decide_next(self._dispatch)

    def give_up(self, reason: str) -> None:
        self.broken = reason
        for asked in self.asked.values():
            if asked.answer is None and asked.error is None:
                asked.error = RuntimeError(reason)
        self._deliver()

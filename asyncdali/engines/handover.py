"""Requests in flight change hands between the usual way (``loader``) and the fast path of ``run()``."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from time import monotonic
from typing import TYPE_CHECKING, Any

from ..runtime.record import Record
from .places import Place, Request
from .steps import RENEWED, Base, Behind

if TYPE_CHECKING:
    from ..batch import Batch
    from .loader import Loader
    from .pool import EngineProcess


class Handover:
    """See the module. To be used by the thread that decides (:attr:`deciding`)."""

    def __init__(self, loader: Loader):
        self._loader = loader

    @property
    def deciding(self) -> AbstractContextManager[Any]:
        """Held by the thread that decides."""
        return self._loader.deciding

    def give(self, indices: range) -> tuple[Base, int, list[Place]] | None:
        """Hand the requests in flight to the fast path. None if something unusual is going on.

        Returns the base, the steps to the next iteration, and the engines: iteration `k` belongs to number `k` modulo their number.
        """
        loader = self._loader
        base, places = loader.base, loader.places
        if not loader.is_here or loader.closed or loader.broken is not None or base is None or loader.steps >= RENEWED:
            return None
        if list(loader.asked) != list(indices):
            return None
        for place in places:
            engine = place.engine
            if not engine.ready or engine.base is not base or engine.gone or engine.unneeded or engine.announced_to_us or place.alone:
                return None
        count = len(places)
        holders = [self._holder(asked, base) for asked in loader.asked.values()]
        first = next((places.index(place) - index for index, place in zip(indices, holders) if place is not None), 0)
        ends = [places[(first + k) % count] for k in range(count)]
        if any(place is not ends[index % count] for index, place in zip(indices, holders)):
            return None
        if sum(len(place.outstanding) for place in places) != len(indices):
            return None
        loader.asked.clear()
        for place in places:
            place.outstanding.clear()
        loader.executor.withdraw_all()
        return base, loader.steps, ends

    def _holder(self, asked: Request, base: Base) -> Place | None:
        """The engine that makes an iteration in the usual way."""
        if asked.base is not base or asked.generation or asked.deaths or asked.answer is not None or asked.error is not None:
            return None
        return next((place for place in self._loader.places if place.engine is asked.engine), None)

    def take_back(self, record: Record, base: Base, steps: int, place: Place | None) -> None:
        """Take an iteration back from the fast path. `place` has its request; None: the request was not sent."""
        asked = self._loader.asked[record.index] = Request(self._loader.executor.admit_again(record), Behind(base, steps))
        asked.base, asked.steps = base, steps
        record.positions = Behind(base, steps + 1)
        if place is not None:
            asked.engine, asked.sent = place.engine, monotonic()
            place.outstanding[record.index, 0] = asked

    def go_on(self, index: int, steps: int) -> None:
        """The next iteration is number `index`, that many steps behind the base."""
        self._loader.executor.admit_from(index)
        self._loader.steps, self._loader.before = steps, None

    def dispatch(self) -> None:
        """Deliver what has arrived, and send what is not sent."""
        self._loader.decide(self._loader.go_forward)

    def pass_on(self, place: Place, engine: EngineProcess, data: bytes) -> None:
        """Handle a message that arrived for the fast path, and that the fast path has not used."""
        receive = self._loader.answers.receive
        if not self._loader.decide(receive, place, engine, data):
            self._loader.request(receive, place, engine, data)

    def note_shapes(self, batches: Sequence[Batch]) -> None:
        """For statistics: the next iterations have outputs of these shapes."""
        counters = self._loader.segment.counters
        if counters is not None:
            counters.changed(dict(zip(self._loader.cut.crossing, batches)))

    def count_iterations(self, count: int) -> None:
        """For statistics: the fast path has delivered iterations."""
        counters = self._loader.segment.counters
        if counters is not None:
            counters.passed_by(count)

"""Engines that die, stop or hang: their replacement, and the search for the sample at which engines end."""

from __future__ import annotations

from time import monotonic
from typing import TYPE_CHECKING

from ...errors import SampleError, operator_error
from ..wire.failures import EngineError
from .places import EnginePlace, Request
from .search import Search
from .starting import CHECKS

if TYPE_CHECKING:
    from .engine_process import EngineProcess
    from .loader import Loader

WATCHING = 1.0
"""Longest interval (s) between two checks for engines that have not answered for `engine_timeout`."""

DEATHS = 2
"""An iteration fails when this number of engines ended while they made it."""

REPEATS = 5
"""An iteration of which no sample ends an engine is made as a whole again, so many times after further deaths: another program kills
engines. Not without a limit, because the whole may need more memory than the machine has."""

STARTS = 3
"""Number of consecutive replacements that may end before they are ready."""


class Faults:
    """See the module."""

    def __init__(self, loader: Loader):
        self._loader = loader
        self._watched = False
        self._names = [planned.spec.name for planned in loader.operators.values()]

    def watch_soon(self) -> None:
        """Start to check the engines' times."""
        if self._loader.pool.timeout is not None and not self._watched:
            self._watched = True
            self._loader.request_later(min(self._loader.pool.timeout / 4, WATCHING), self._watch)

    def _watch_start(self, engine: EngineProcess) -> None:
        """End a replacement that makes no progress before it is ready."""
        if self._loader.closed or engine.ended or engine.start is None:
            return
        if engine.start.stuck():
            engine.kill(engine.start.reason)
        else:
            self._loader.request_later(engine.start.limit / CHECKS, lambda: self._watch_start(engine))

    def _watch(self) -> None:
        """End engines that have not answered for `engine_timeout` seconds."""
        self._watched = False
        timeout = self._loader.pool.timeout
        if timeout is not None and self._check_times():
            self._watched = True
            self._loader.request_later(min(timeout / 4, WATCHING), self._watch)

    def _check_times(self) -> bool:
        """Kill engines that are late. Returns whether anything is outstanding."""
        timeout = self._loader.pool.timeout
        if self._loader.closed or timeout is None:
            return False
        time, busy = monotonic(), False
        for place in self._loader.places:
            waiting = [next(iter(queue.values())).sent for queue in (place.outstanding, place.calls) if queue]  # type: ignore[attr-defined]
            if waiting and place.engine.ready and time - max(min(waiting), place.heard) > timeout:
                place.engine.kill(f"did not answer for {timeout:g} s (engine_timeout)")
            busy = busy or bool(waiting)
        return busy or bool(self._loader.asked)

    def lost(self, place: EnginePlace, engine: EngineProcess) -> None:
        """Handle the end of an engine."""
        self._loader.ignore(place)
        iteration, what, number, sample = engine.status()
        ready, reason = engine.ready, engine.reason
        engine.close()
        if self._loader.closed:
            return
        for (_, generation), asked in place.outstanding.items():
            if asked.generation != generation:
                continue
            asked.engine = None
            asked.deaths += ready
            doing = self._doing(what, number) if iteration == asked.run.record.number else ""
            if asked.search is not None and ready:
                asked.search.died()
                asked.died = reason, doing, number, sample
                self.search_on(asked)
            elif asked.deaths >= DEATHS and asked.search is None:
                asked.died = reason, doing, number, sample
                if asked.spared and asked.repeats < REPEATS:
                    asked.repeats += 1
                    asked.generation += 1
                elif asked.spared or self._loader.why_whole:
                    asked.error = self._death(asked)
                else:
                    record = asked.run.record
                    low, high = record.first, record.first + record.batch_size
                    if doing and sample >= 0:  # the status page names the sample, so the search begins with this sample only
                        low, high = low + sample, low + sample + 1
                    asked.search = Search(low, high)
                    self.search_on(asked)
        place.outstanding.clear()
        self._loader.sources.lost(place, engine)
        place.alone = False
        place.restarts += 1
        place.starts = 0 if ready else place.starts + 1
        if place.starts >= STARTS:
            self._loader.give_up(f"engine {engine.number} {reason}, {STARTS} times before it was ready: the pipeline cannot continue")
            return
        try:
            place.engine = self._loader.pool.launch(engine.number)
        except Exception as error:
            self._loader.give_up(f"engine {engine.number} {reason} and cannot be replaced: {error}")
            return
        place.heard = 0.0
        self._loader.pool.engines[engine.number] = place.engine
        self._loader.await_messages(place)
        self._watch_start(place.engine)
        for call in place.calls.values():
            self._loader.sources.send(call, place)
        self._loader.go_forward()

    def search_on(self, asked: Request) -> None:
        """Request the next part of an iteration at which engines end, or set the iteration's error when the search is done."""
        assert asked.search is not None
        asked.generation += 1
        asked.engine = None
        if asked.search.probe is not None:
            return
        if asked.search.sample < 0 and not asked.spared:  # another program may have killed the engines: run the whole iteration once more
            asked.spared, asked.search, asked.deaths = True, None, DEATHS - 1
        else:
            asked.error = self._death(asked)

    def _doing(self, what: int, number: int) -> str:
        planned = self._loader.operators[self._names[number]]
        name = f"`asyncdali.fn.{planned.spec.schema.name}` (name {planned.spec.name!r})"
        if what == 2:
            return f" while it made the pixels of the segment that begins with {name}"
        return f" while it ran {name}" if what == 1 else f" while it made the pixels of {name}"

    def _death(self, asked: Request) -> BaseException:
        """The error of an iteration at which engines ended."""
        reason, doing, number, sample = asked.died
        record, search = asked.run.record, asked.search
        planned = self._loader.operators[self._names[number]] if doing else self._loader.segment.operators[0].planned
        text = f"an engine {reason}{doing}. {asked.deaths} engines ended at this iteration."
        if asked.spared:
            text += " No sample does so by itself: another program may kill them, or the whole batch needs more memory than there is."
            sample = -1
        elif search is None:
            text += f" Its samples cannot be tried one by one: {self._loader.why_whole}."
            sample = record.first + sample if doing and sample >= 0 else -1
        else:
            text += f" Sample {search.sample} does so by itself."
            sample = search.sample
        return operator_error(planned, EngineError(text) if sample < 0 else SampleError(sample, text), record.number)

"""Calls of sources that engines make: requests, answers, and the deaths of engines in a call."""

from __future__ import annotations

import contextlib
from time import monotonic
from typing import TYPE_CHECKING, Any

from asyncdali_workers.exceptions import text_of

from ...errors import PipelineClosed, SampleError, operator_error
from ..wire import channel as channels
from ..wire.failures import EngineError, unpacked
from .places import EnginePlace, Request
from .sources import Call

if TYPE_CHECKING:
    from .engine_process import EngineProcess
    from .loader import Loader

SOURCE_DEATHS = 3
"""A call of a source fails when this number of engines ended in it. Another program may have killed one or two of these engines."""


class SourceRequests:
    """See the module. `names` are the inputs whose sources engines call."""

    def __init__(self, loader: Loader, names: list[str]):
        self._loader = loader
        self.names = names

    def call(self, call: Call) -> None:
        """Request a call of a source from an engine. May be called from any thread."""
        self._loader.request(self._begin, call)

    def _begin(self, call: Call) -> None:
        if self._loader.closed:
            call.failed(PipelineClosed("the pipeline was closed"))
        elif self._loader.broken is not None:
            call.failed(RuntimeError(self._loader.broken))
        else:
            place = self.home(call)
            place.calls[call.token] = call
            self.send(call, place)

    def send(self, call: Call, place: EnginePlace) -> None:
        """Send the request of a call to an engine."""
        engine = place.engine
        call.hold(engine.unneeded)
        call.sent = monotonic()
        header, descriptors = self._loader.sender.outer(engine, {})
        header.update(ask=call.token, source=call.source, position=call.position)
        with contextlib.suppress(OSError):  # the engine has ended, which its socket reports
            channels.send_now(engine.channel, channels.message(header), descriptors)
        self._loader.faults.watch_soon()

    def heard(self, place: EnginePlace, header: dict[str, Any]) -> None:
        """An engine has answered a call."""
        call = place.calls.pop(header["asked"], None)
        if call is None:
            return
        place.busy += header["took"]
        if "error" in header:
            error = unpacked(header["error"])
            call.failed(error if isinstance(error, Exception) else RuntimeError(f"{type(error).__name__}: {text_of(error)}"))
        elif "end" in header:
            call.failed(StopIteration())
        else:
            call.answered(header["nodes"])

    def lost(self, place: EnginePlace, engine: EngineProcess) -> None:
        """An engine has ended: its replacement makes its calls. A call at which several engines ended has failed."""
        source, iteration, sample = engine.source_status()
        for token, call in list(place.calls.items()):
            if engine.ready and (source, iteration) == (call.source, call.iteration):
                call.deaths += 1
                if call.deaths >= SOURCE_DEATHS:
                    del place.calls[token]
                    call.failed(self._death(call, engine.reason, sample))

    def _death(self, call: Call, reason: str, sample: int) -> Exception:
        group = self._loader.cut.groups[call.source]
        planned = next(planned for planned in self._loader.cut.before if planned.attachment is group)
        text = f"an engine {reason} while it called the source {group.name!r}. {call.deaths} engines ended at this call."
        return operator_error(planned, EngineError(text) if sample < 0 else SampleError(sample, text), call.index)

    def name(self, asked: Request) -> None:
        """Name the batches that an engine has from its sources. Any other engine would call the sources again."""
        calls: dict[int, Call] = {}
        fills: dict[int, dict[str, Any]] = {}
        for name in self.names:
            batch = asked.run.record.fed[name]
            calls[batch.call.token] = batch.call
            fill = batch.fill()
            fills.setdefault(batch.call.token, {}).update({} if fill is None else {name: fill})
        asked.header["sources"] = [[call.token, call.source, call.position, fills[token]] for token, call in calls.items()]
        asked.home = self.home(next(iter(calls.values())))

    def home(self, call: Call) -> EnginePlace:
        """The engine that makes a call: the same one for all sources of an iteration."""
        return self._loader.places[call.iteration % len(self._loader.places)]

    def fail(self, error: Exception) -> None:
        """All calls have failed."""
        for place in self._loader.places:
            while place.calls:
                place.calls.popitem()[1].failed(error)

"""Messages of engines: what arrived is handed to the part of the training process that it concerns."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from time import monotonic
from typing import TYPE_CHECKING, Any

from ..child.spans import hand_on
from ..wire import channel as channels
from ..wire.blocks import Lease
from ..wire.encoding import lease_of, unpack
from ..wire.failures import EngineError, packed, unpacked
from .places import EnginePlace, Request

if TYPE_CHECKING:
    from .engine_process import EngineProcess
    from .loader import Loader


class Answers:
    """See the module."""

    def __init__(self, loader: Loader):
        self._loader = loader
        self.waiting: list[Callable[[dict[str, Any]], None]] = []
        """Calls that wait for an engine's own statistics."""

    def receive(self, place: EnginePlace, engine: EngineProcess, data: bytes, descriptors: Sequence[int] = ()) -> None:
        """Handle a message of an engine."""
        header, body = channels.parsed(data)
        if len(descriptors) < len(header.get("new", ())):  # the kernel drops descriptors beyond the limit; a replacement sends its own
            for descriptor in descriptors:
                os.close(descriptor)
            engine.kill("could not hand over memory, because this process has no free file descriptor (ulimit -n)")
            return
        for number, descriptor in zip(header.get("new", ()), descriptors):
            engine.blocks.add(number, descriptor)
        gone = header.get("gone")
        lease = None
        if "large" in header:
            lease = Lease(None, header["large"][3], engine.returned, 0)
            try:
                header, body = channels.parsed(engine.blocks.bytes(header["large"]))
            except MemoryError as error:
                header = _unreadable(header, engine, error)
        self._heard(place, engine, header, body, descriptors)
        del lease
        if gone:
            engine.blocks.drop(gone)

    def _heard(
        self, place: EnginePlace, engine: EngineProcess, header: dict[str, Any], body: memoryview, descriptors: Sequence[int]
    ) -> None:
        place.heard = monotonic()
        if "a" in header:
            key = tuple(header["a"])
            place.alone = False
            place.answered += 1
            place.busy += header["took"]
            recorder = self._loader.recorder()
            if recorder is not None and "spans" in header:
                hand_on(header["spans"], recorder.span, engine.number)
            asked = place.outstanding.pop(key, None)
            if asked is None or asked.generation != key[1]:
                engine.returned.extend(lease_of(entry) for entry in header.get("out", ()) if lease_of(entry))
            if asked is not None and asked.generation == key[1] and asked.search is not None:
                asked.search.survived()
                self._loader.faults.search_on(asked)
            elif asked is not None and asked.generation == key[1]:
                self._answered(asked, engine, header, body)
            self._loader.go_forward()
        elif "planned" in header:
            self._loader.planned(place.outstanding.get(tuple(header["planned"])), header["produced"])
        elif "asked" in header:
            self._loader.sources.heard(place, header)
        elif "born" in header:
            self._loader.watch(place, engine, descriptors)
            self._loader.pool.progressed(engine, header["born"])
        elif "ready" in header:
            refusal = self._loader.pool.refusal(engine, header)
            if refusal:  # for example packages were replaced after the other engines started
                engine.kill("differs from this process")
                self._loader.give_up(refusal)
                return
            engine.ready, engine.pid, engine.start, place.starts = True, header["ready"], None, 0
        elif "failed" in header:
            engine.reason = f"could not be built again: {unpacked(header['failed'])}"
        elif "statistics" in header:
            for heard in tuple(self.waiting):
                heard({"engine": engine.number, **header["statistics"]})

    def _answered(self, asked: Request, engine: EngineProcess, header: dict[str, Any], body: memoryview) -> None:
        if "error" in header:
            asked.error = unpacked(header["error"])
        else:
            returned = engine.returned

            def lease(mapping: object, number: int, size: int) -> Lease:
                return Lease(mapping, number, returned, size)

            try:
                header["out"] = [unpack(entry, body, engine.blocks, lease) for entry in header["out"]]
            except (ValueError, MemoryError) as error:
                engine.returned.extend(lease_of(entry) for entry in header["out"] if type(entry) is list and lease_of(entry))
                asked.error = EngineError(f"the answer of engine {engine.number} cannot be used: {error}")
        asked.answer, asked.engine_name = header, f"engine {engine.number} (process {engine.pid})"
        asked.keep = ()


def _unreadable(header: dict[str, Any], engine: EngineProcess, error: MemoryError) -> dict[str, Any]:
    """In place of an answer in a block that cannot be mapped: its iteration has failed. Other messages are never that large."""
    text = f"the answer of engine {engine.number} cannot be used: {error}"
    return {"a": header["a"], "took": 0, "moves": 0, "error": packed(MemoryError(text))}

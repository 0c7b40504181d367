"""Requests to engines: which engine gets a request, and its message."""

from __future__ import annotations

from collections.abc import Mapping
from time import monotonic
from typing import TYPE_CHECKING, Any

from ...device.buffers import BufferPool
from ..wire import channel as channels
from ..wire.encoding import Frame, Packer
from .places import WINDOW_OF_GPU, EnginePlace, Request

if TYPE_CHECKING:
    from .engine_process import EngineProcess
    from .loader import Loader


class Sender:
    """See the module."""

    def __init__(self, loader: Loader):
        self._loader = loader
        pool = loader.pool
        self._keep: list[Any] = []
        allocate = (pool.pool or BufferPool(pool.own.make)).allocate
        self.packer = Packer(pool.own, allocate, self._kept)

    def pack(self, asked: Request) -> None:
        """Make the request of an iteration: header, frame and blocks."""
        frame = Frame()
        self._keep = asked.keep = []
        self._loader.packed(asked, self.packer, frame)
        body = frame.joined()
        if self._loader.sources.names:
            self._loader.sources.name(asked)
        if len(body) > channels.LARGEST // WINDOW_OF_GPU:  # so that the socket's buffer has room for all requests in flight
            # The positions are small and may need a correction, so only the frame goes through a block.
            asked.header["large"] = self.packer.place(body)
            body = b""
        asked.body = body
        asked.blocks = dict(self.packer.used)
        self.packer.used.clear()

    def room(self, asked: Request) -> EnginePlace | None:
        """The engine that gets a request now. None: all are busy."""
        home, window = asked.home, self._loader.window
        if home is not None and not asked.deaths:
            return None if home.alone or len(home.outstanding) >= window else home
        places = self._loader.places
        count = len(places)
        if count == 1 and not asked.deaths:
            place = places[0]
            return None if place.alone or len(place.outstanding) >= window else place
        number = asked.run.record.index
        free = [place for place in places if not place.alone and len(place.outstanding) < (1 if asked.deaths else window)]
        return min(free, key=lambda place: (len(place.outstanding), (place.engine.number - number) % count), default=None)

    def send(self, asked: Request, place: EnginePlace) -> None:
        """Send a request to an engine."""
        engine = place.engine
        asked.engine = engine
        asked.sent = monotonic()
        place.outstanding[asked.run.record.index, asked.generation] = asked
        place.alone = asked.deaths > 0
        place.asked += 1
        try:
            header, descriptors = self.outer(engine, asked.blocks)
            header.update(asked.header, g=asked.generation)
            if asked.search is not None:
                header.update(slice=asked.search.probe, probe=1)
            channels.send_now(engine.channel, channels.message(header, asked.body), descriptors)
        except OSError:
            pass  # the engine has ended, and its socket reports the end; the socket's buffer always has room for all requests in flight
        self._loader.faults.watch_soon()

    def outer(self, engine: EngineProcess, blocks: Mapping[int, int]) -> tuple[dict[str, object], list[int]]:
        """Fields that every message has: leases that ended, new blocks, and freed blocks."""
        header: dict[str, Any] = {}
        gone = self._loader.pool.own.take_gone()
        if gone:
            for place in self._loader.places:
                place.engine.gone += [number for number in gone if number in place.engine.announced]
        if engine.gone:
            header["gone"] = engine.gone
            engine.announced.difference_update(engine.gone)
            engine.gone = []
        if engine.unneeded:
            header["unneeded"] = [engine.unneeded.popleft() for _ in range(len(engine.unneeded))]
        if engine.returned:
            back = []
            while engine.returned:
                back.append(engine.returned.popleft())
            header["back"] = back
        new = {number: descriptor for number, descriptor in blocks.items() if number not in engine.announced}
        if new:
            header["new"] = list(new)
            engine.announced.update(new)
        return header, list(new.values())

    def _kept(self, owner: object) -> int:
        self._keep.append(owner)
        return 0

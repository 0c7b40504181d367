"""The graphs of decoders and the operators that read their pictures, for :mod:`pairs`."""

from __future__ import annotations

from . import pairs
from .bricks import Brick
from .engine import CallEngine
from .fused import FusedCall, FusedProgram, can_be_fused

_MOST = 16
"""Graphs that an engine keeps."""


class Graphs:
    """Graphs by engine, bricks and number of samples."""

    def find(self, engine: CallEngine, first: Brick, second: Brick, arguments: int, count: int) -> FusedProgram | None:
        """See :class:`pairs.PairGraphs`."""
        known, key = engine.graphs, (first, second, count)
        with engine.graphs_lock:
            if key not in known:
                if len(known) >= _MOST:
                    del known[next(iter(known))]
                calls = FusedCall(first, ((-1, 0),), False), FusedCall(second, ((0, 0), *[(-1, 0)] * arguments), True)
                usable = can_be_fused(first) and can_be_fused(second)
                known[key] = FusedProgram.of(calls, count, engine.num_threads, engine.crew) if usable else None
            found: FusedProgram | None = known[key]
            return found


pairs.graphs = Graphs()

"""The origins of regrouped samples: for each sample its part, the raw iteration, and the place in it."""

from __future__ import annotations

import weakref
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from .contract import Rows

if TYPE_CHECKING:
    from ..runtime.order.moments import Moment
    from .part_streams import PartStream


class RegroupedOrigins:
    """The origins of the samples of one batch. It keeps no pixels."""

    def __init__(self, parts: Sequence[PartStream], found: Sequence[Rows]):
        self._parts = [weakref.ref(part) for part in parts]  # outputs keep their origins, and no pipeline
        self._pieces = [(rows.part, rows.raw.moment, rows.raw.places[rows.rows]) for rows in found]
        self._stops = np.cumsum([len(rows) for rows in found])

    def __len__(self) -> int:
        return int(self._stops[-1])

    @property
    def pieces(self) -> Sequence[tuple[int, Moment, np.ndarray]]:
        """The samples in order, in pieces: part, raw iteration, and places in it."""
        return self._pieces

    def of(self, sample: int) -> tuple[int, Moment, int]:
        """Part, position of the raw iteration, and place in it, of a sample of the batch."""
        piece = int(np.searchsorted(self._stops, sample, "right"))
        part, moment, places = self._pieces[piece]
        return part, moment, int(places[sample - (self._stops[piece] - len(places))])

    def index(self, sample: int) -> tuple[str, int] | None:
        """The reader that the sample comes from, and its index there. None if a source made it."""
        part, moment, place = self.of(sample)
        if moment.origins:
            return next(iter(moment.origins.values())).index(place)
        stream = self._parts[part]()
        reader = None if stream is None else stream.reader
        if reader is None:
            return None
        indices, _ = reader.taken(moment.positions[reader.spec.name], moment.samples)
        return reader.spec.name, int(indices[place])

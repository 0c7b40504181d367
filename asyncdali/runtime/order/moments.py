"""The moment of an iteration: the position at which it was made. Outputs keep it, so that their provenance can be asked for later."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple, Protocol

import numpy as np

from ..work.choices import ChosenWindows, Drawn


class OriginsInParts(Protocol):
    """The origins of the samples of one batch that a source has regrouped."""

    @property
    def pieces(self) -> Sequence[tuple[int, Moment, np.ndarray]]:
        """The samples in order, in pieces: part, position of the raw iteration, and places in it."""

    def of(self, sample: int) -> tuple[int, Moment, int]:
        """Part, position of the raw iteration, and place in it."""

    def index(self, sample: int) -> tuple[str, int] | None:
        """Name of a reader and index in its data set. None if a source made the sample."""


NO_ORIGINS: Mapping[str, OriginsInParts] = MappingProxyType({})
NO_WORKERS: Mapping[str, Sequence[tuple[int, int, int]]] = MappingProxyType({})
NO_CHOICES: Mapping[str, ChosenWindows | Drawn] = MappingProxyType({})


class Moment(NamedTuple):
    """Facts that name an iteration of a built pipeline. Making one takes less than a microsecond.

    Attributes:
        explain: makes the provenance of a moment; None: the pipeline is gone.
        step: number of the iteration, from 0. Pipelines whose sources end epochs count from the beginning of the epoch.
        epoch: number of the epoch, as sources count it.
        positions: before the iteration, by the name of the stateful operator.
        samples: number of samples of the whole iteration.
        handed: range of the samples that are returned.
        origins: for sources that regroup samples, by name: where each sample comes from.
        choices: windows and draws by operator, as far as iterations keep them.
        engine: the process that made a part of the iteration; empty without engines.
        workers: for sources that a pool of workers calls, by name: (first sample, worker, process id), in order.
    """

    explain: Callable[[], Callable[[Moment], object] | None]
    step: int
    epoch: int
    positions: Mapping[str, Any]
    samples: int
    handed: tuple[int, int]
    origins: Mapping[str, OriginsInParts] = NO_ORIGINS
    choices: Mapping[str, ChosenWindows | Drawn] = NO_CHOICES
    engine: str = ""
    workers: Mapping[str, Sequence[tuple[int, int, int]]] = NO_WORKERS

    def provenance(self) -> object:
        """The provenance of the iteration. RuntimeError if its pipeline is gone."""
        explain = self.explain()
        if explain is None:
            raise RuntimeError("the pipeline that made this batch is gone, so the provenance of the batch is unknown")
        return explain(self)

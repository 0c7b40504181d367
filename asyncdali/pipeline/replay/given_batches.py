"""Regrouped batches of a replayed step are given to its session, which does not form them."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ...regrouping.regrouping import Regrouping
from ...sources.pullers import Puller

if TYPE_CHECKING:
    from ...batch import Batch
    from ...runtime.order.moments import OriginsInParts
    from ...sources.ports import Port


class GivenBatches(Puller):
    """Stands for a regrouping whose batches are given."""

    kind = "regrouped"
    group: Any  # a Regrouping

    def __init__(self, group: Regrouping, ports: dict[str, Port], batch_size: int, graphs: Callable[[], list[dict[str, Any]]]):
        super().__init__(group, ports, batch_size)  # type: ignore[arg-type]  # it has what pullers read of a Group
        self._graphs = graphs
        self._given: dict[str, Batch] = {}

    @property
    def graphs(self) -> list[dict[str, Any]]:
        return self._graphs()

    def keep_snapshots(self) -> Any:
        return _SavedPosition()

    def wanted(self) -> list[tuple[int, str]]:
        """The outputs that the pipeline uses: number and name."""
        return [(number, port.name) for number, port in enumerate(self._ports) if port is not None]

    def give(self, batches: dict[str, Batch], origins: OriginsInParts) -> None:
        """Set the next batches."""
        self._given, self.origins = batches, origins

    def pull(self) -> dict[str, Batch]:
        return self._given


class _SavedPosition:
    """The position of a regrouping as a checkpoint has it; a session keeps it, and does not move it."""

    position: Any = None
    before: Any = None

    def load(self, data: Any) -> Any:
        return data

    def save(self, position: Any) -> Any:
        return position

    def settle(self) -> None:
        """Nothing changes."""

"""Sources that are asked ahead of need: what was asked for is on its way while the pipeline works."""

from __future__ import annotations

from typing import Any

from ..batch import Batch
from .group import Group
from .ports import Port
from .pullers import Puller


class AheadPuller(Puller):
    """Keeps `prefetch_queue_depth` batches asked for.

    They are kept by key: the iteration, for what is asked by position; a running number for sources that just go on.
    """

    def __init__(self, group: Group, ports: dict[str, Port], batch_size: int):
        super().__init__(group, ports, batch_size)
        self._asked: dict[int, Any] = {}
        self._turn = 0

    # --- to be written

    def _ask(self, iteration: int) -> Any:
        """Ask for a batch; returns what stands for it."""
        raise TypeError("abstract")

    def _answer(self, asked: Any) -> dict[str, Batch]:
        """Wait for what was asked for."""
        raise TypeError("abstract")

    def _cancel(self, asked: Any) -> None:
        """It is not needed any more."""
        raise TypeError("abstract")

    # --- the order

    def start(self) -> None:
        self._ask_ahead(self._key())

    def pull(self) -> dict[str, Batch]:
        key = self._key()
        self._ask_ahead(key)
        try:
            batches = self._answer(self._asked[key])
        except Exception:  # an interrupt leaves it where it is
            self._answered(key)
            raise
        self._answered(key)
        self._ask_ahead(key + 1)
        return batches

    def _key(self) -> int:
        return self.iteration if self.description.resumable else self._turn

    def _answered(self, key: int) -> None:
        del self._asked[key]
        if not self.description.resumable:
            self._turn += 1

    def _ask_ahead(self, first: int) -> None:
        for key in range(first, first + self.group.prefetch_queue_depth):
            if key not in self._asked:
                self._asked[key] = self._ask(key)

    def _forget(self) -> None:
        """Nothing of what was asked for is needed."""
        asked, self._asked = self._asked, {}
        for item in asked.values():
            self._cancel(item)
        self._turn += len(asked)

    def ended(self) -> None:
        super().ended()
        self._forget()

    def restart(self, epoch: int) -> None:
        super().restart(epoch)
        if self.description.resumable:
            self._forget()  # asked by position: those were positions of the epoch before

    def seek(self, iteration: int, epoch: int) -> None:
        self._forget()
        super().seek(iteration, epoch)

    def close(self) -> None:
        self._forget()

"""Sources that are asked ahead of need: what was asked for is on its way while the pipeline works."""

from __future__ import annotations

from typing import Any

from asyncdali_workers.interrupts import uninterrupted

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
        self._round = 0
        """Ends that were answered. What goes on after an end belongs to the next round, and is not asked before the end was answered: what
        is asked then is forgotten. The pipeline's epoch would not do, as another source may end that."""
        self._got: dict[str, Batch] | None = None  # the answer to what was asked first

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
        if self._got is None:
            self._ask_ahead(key)
            try:
                self._got = self._answer(self._asked[key])
            except Exception:  # an interrupt leaves it where it is
                self._answered(key)
                raise
        self._asked[key] = None
        self._ask_ahead(key + 1)
        return self._got

    def advance(self, iteration: int) -> None:
        if self._got is not None:
            self._answered(self._key())
        super().advance(iteration)

    def drop(self) -> None:
        super().drop()
        if self._got is not None:
            self._answered(self._key())

    def _key(self) -> int:
        return self.iteration if self.description.resumable else self._turn

    def _answered(self, key: int) -> None:
        self._asked.pop(key, None)
        if not self.description.resumable:
            self._turn = key + 1
        self._got = None

    def _ask_ahead(self, first: int) -> None:
        for key in range(first, first + self.group.prefetch_queue_depth):
            if key not in self._asked:
                with uninterrupted():  # nobody else knows what was asked for
                    self._asked[key] = self._ask(key)

    def _forget(self) -> None:
        """Nothing of what was asked for is needed."""
        asked, self._asked, self._got = self._asked, {}, None
        for item in asked.values():
            if item is not None:
                self._cancel(item)
        self._turn += len(asked)

    def ended(self) -> None:
        super().ended()
        self._round += 1
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

"""Sources that are asked ahead of need, so that their work overlaps the pipeline's."""

from __future__ import annotations

from typing import Any

from asyncdali_workers.interrupts import uninterrupted

from .group import Group
from .ports import Port
from .pullers import Puller
from .samples import Answer


class AheadPuller(Puller):
    """Keeps several requests in flight; by default `prefetch_queue_depth`.

    The key of a request is the iteration, for sources that are asked by position, and a running number for other sources.
    """

    def __init__(self, group: Group, ports: dict[str, Port], batch_size: int):
        super().__init__(group, ports, batch_size)
        self._asked: dict[int, Any] = {}
        self._turn = 0
        self._round = 0
        """Number of ends that were answered.

        Requests behind an end belong to the next round. They are made only after the end was answered, and earlier requests behind it are
        dropped. The pipeline's epoch cannot be used, because another source may end the epoch.
        """
        self._got: tuple[int, Answer] | None = None  # the oldest request that is not used, and its answer

    # --- implemented by subclasses

    def _ask(self, iteration: int) -> object:
        """Request a batch. Returns an object that represents the request."""
        raise TypeError("abstract")

    def _answer(self, asked: Any) -> Answer:
        """Wait for a request."""
        raise TypeError("abstract")

    def _cancel(self, asked: Any) -> None:
        """Cancel a request."""
        raise TypeError("abstract")

    # --- the order

    def start(self) -> None:
        self._ask_ahead(self._key())

    def pull(self) -> Answer:
        key = self._key()
        if self._got is None:
            self._ask_ahead(key)
            self._got = key, self._answer(self._asked[key])  # an interrupt leaves the request in the queue
        self._asked[key] = None
        self._ask_ahead(key + 1)
        return self._got[1]

    def advance(self, iteration: int) -> None:
        if self._got is not None:
            self._answered(self._got[0])
        super().advance(iteration)

    def drop(self) -> None:
        super().drop()
        if self._got is not None:
            self._answered(self._got[0])

    def _key(self) -> int:
        return self.iteration if self.description.resumable else self._turn

    def _answered(self, key: int) -> None:
        self._asked.pop(key, None)
        if not self.description.resumable:
            self._turn = key + 1
        self._got = None

    def _ask_ahead(self, first: int) -> None:
        for key in range(first, first + self.ahead):
            if key not in self._asked:
                with uninterrupted():  # an interrupt between the two steps would lose the request
                    self._asked[key] = self._ask(key)

    def _forget(self) -> None:
        """Drop all requests."""
        asked, self._asked, self._got = self._asked, {}, None
        for item in asked.values():
            if item is not None:
                self._cancel(item)
        self._turn += len(asked)

    def failed(self) -> None:
        self._answered(self._key())
        super().failed()

    def ended(self) -> None:
        super().ended()
        self._round += 1
        self._forget()

    def restart(self, epoch: int) -> None:
        super().restart(epoch)
        if self.description.resumable:
            self._forget()  # the requests were for positions of the previous epoch

    def seek(self, iteration: int, epoch: int) -> None:
        self._forget()
        super().seek(iteration, epoch)

    def close(self) -> None:
        self._forget()

"""The public class of the pool: start, submit, receive, close."""

from __future__ import annotations

import weakref
from collections.abc import Sequence
from typing import Any

from .arguments import Settings
from .batches.batches import PoolBatch
from .batches.tickets import Ticket
from .dispatcher import Dispatcher
from .interrupts import uninterrupted
from .source import Source


class WorkerPool:
    """Processes that run sources by position.

    sources: the sources to run. A batch is requested by the source's number in this list.
    num_workers: number of processes.
    start_method: "fork", "spawn" or "forkserver".
    pickler: for "spawn" and "forkserver": a module or object with ``dumps`` and ``loads``, or a tuple (module, dumps kwargs, loads kwargs).
    worker_timeout: seconds that a callable may take (per sample for kind "samples", otherwise per batch); None: no limit.
    max_retries: how often a sample is given to another worker after its worker died.
    seed: seed of the workers' random number generators; None: a different one each time.
    name: name of the pool in error texts.
    """

    def __init__(
        self,
        sources: Sequence[Source],
        *,
        num_workers: int,
        start_method: str = "fork",
        pickler: object = None,
        worker_timeout: float | None = None,
        max_retries: int = 2,
        seed: int | None = None,
        name: str = "pool",
    ):
        settings = Settings(num_workers, start_method, pickler, worker_timeout, max_retries, seed, name)
        dispatcher = Dispatcher(list(sources), settings)
        self._dispatcher = dispatcher
        self._finalizer = weakref.finalize(self, dispatcher.close)  # also called at the interpreter's exit

    def start(self) -> None:
        """Start the workers. Returns when all are ready. An error here leaves no process or descriptor."""
        self._dispatcher.start()

    def submit(self, source: int, iteration: int, epoch: int) -> Ticket:
        """Request a batch of the source with this index, for this iteration of this epoch. Never blocks."""
        return self._dispatcher.submit(source, iteration, epoch)

    def receive(self, ticket: Ticket, timeout: float | None = None) -> PoolBatch:
        """Wait for a batch. The same ticket gives the same batch again, until the ticket is dropped.

        Raises StopIteration at the source's end; the source's own error (also a WorkerCallbackError); WorkerDied, WorkerTimeout,
        PoolClosed; TimeoutError after `timeout` seconds.
        """
        return self._dispatcher.receive(ticket, timeout)

    def ready(self, ticket: Ticket) -> bool:
        """Whether `receive` would return immediately for `ticket`."""
        return self._dispatcher.ready(ticket)

    def cancel(self, ticket: Ticket) -> None:
        """Cancel the batch of `ticket`: slices that have not begun are dropped, and results and errors of the others are discarded."""
        self._dispatcher.cancel(ticket)

    def statistics(self) -> dict[str, Any]:
        """The report of the pool and its workers, by name; see docs/workers.md."""
        return self._dispatcher.statistics()

    def close(self) -> None:
        """End all workers within a second, whatever they are doing. Received batches stay valid."""
        with uninterrupted():  # runs once
            self._finalizer()

    def __enter__(self) -> WorkerPool:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def num_workers(self) -> int:
        """Number of worker processes."""
        return self._dispatcher.num_workers

    @property
    def pids(self) -> list[int]:
        """Process ids of the living workers."""
        return self._dispatcher.pids()

    @property
    def start_method(self) -> str:
        """How workers are started: "fork", "spawn" or "forkserver"."""
        return self._dispatcher.start_method

    @property
    def closed(self) -> bool:
        """Whether the pool was closed; a closed pool takes no batches."""
        return self._dispatcher.closed

"""A pool of Python worker processes that compute samples and batches by position.

Installed as ``asyncdali_workers``. It does not know pipelines: it imports only the standard library, numpy and cloudpickle.

    batches/        batches in progress, as the parent sees them
    processes/      start, replacement and end of workers
    worker/         the code of a worker
    shared/         memory that parent and workers read and write

The path of a batch::

    parent                                                   worker (several)

    pool.py, dispatcher.py    a batch is requested
        |
    batches/tasks.py          slices, and a slot of memory
    batches/queues.py ------ rings in shared memory -------> worker/worker.py       takes the next slice
                                                                 |
                                                             worker/callbacks.py    calls the source
                                                             worker/writing.py      samples into the slot
                                                                 |
    batches/answers.py <---- records through one pipe ------ worker/worker.py
        |
    batches/batches.py        arrays over the slot, without a copy

    arguments.py    Checks the arguments of a pool
    channels.py     Resources that a pool and its workers share
    counts.py       Counts of a pool, for its statistics
    cuda.py         Asks the CUDA driver whether it is initialised, without initialising it
    dispatcher.py   Runs a pool in the parent, without a thread or a timer
    errors.py       Errors of a pool, and the transport of a callable's exception from a worker to the receiver of its batch
    exceptions.py   Exceptions as plain data, for processes that cannot share objects
    info.py         Positions that are passed to callables
    interpreter.py  Refuses free-threaded builds of Python
    interrupts.py   Exceptions of signal handlers
    limits.py       Checks whether there is enough memory, before memory is reserved whose size comes from data or from arguments
    parts.py        Objects that the parts of a running pool share
    pickling.py     Pickles sources for workers that are not forked from this process
    pool.py         The public class of the pool: start, submit, receive, close
    source.py       Descriptions of the sources that a pool runs

May import the standard library, numpy and cloudpickle; never asyncdali.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from . import interpreter

interpreter.require()

from .info import BatchInfo, SampleInfo  # noqa: E402

if TYPE_CHECKING:
    from .batches.batches import PoolBatch, PoolOutput
    from .batches.tickets import Ticket
    from .cuda import check_fork_allowed
    from .errors import PoolClosed, WorkerCallbackError, WorkerDied, WorkerError, WorkerTimeout
    from .pickling import pickle_by_value
    from .pool import WorkerPool
    from .source import Source

_HOMES = {
    "WorkerPool": "pool", "Source": "source", "Ticket": "batches.tickets", "PoolBatch": "batches.batches", "PoolOutput": "batches.batches",
    "WorkerError": "errors",
    "WorkerCallbackError": "errors", "WorkerDied": "errors", "WorkerTimeout": "errors", "PoolClosed": "errors",
    "pickle_by_value": "pickling", "check_fork_allowed": "cuda",
}  # fmt: skip

__all__ = [
    "WorkerPool", "Source", "Ticket", "PoolBatch", "PoolOutput", "SampleInfo", "BatchInfo", "WorkerError", "WorkerCallbackError",
    "WorkerDied", "WorkerTimeout", "PoolClosed", "pickle_by_value", "check_fork_allowed",
]  # fmt: skip


def __getattr__(name: str) -> Any:
    """Loads the pool at its first use, because most programs use only the infos."""
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    found = globals()[name] = getattr(importlib.import_module(f".{_HOMES[name]}", __name__), name)
    return found

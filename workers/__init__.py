"""A pool of Python worker processes that compute samples and batches by position.

Installed as ``asyncdali_workers``. It does not know pipelines: it imports only the standard library, numpy and cloudpickle.

May import the standard library, numpy and cloudpickle; never asyncdali.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from .info import BatchInfo, SampleInfo

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

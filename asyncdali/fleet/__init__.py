"""One global order for many ranks: each rank makes its samples of every batch (docs/engines.md).

``batch_size`` of the pipeline is the global batch. Rank r gets a fixed slice of it. The batches of all ranks, concatenated, are the batches
of the pipeline alone, for any number of ranks. A checkpoint is the same on every rank.

Engines may be on other machines (docs/fleet.md). The engine's side is ``actor``, the trainer's ``remote``. Between them: ``proof`` (the
token), ``link`` (frames), ``near`` (shared memory on one machine), ``addresses``. ``metrics`` is for Prometheus.

May import ``pipeline``, ``engines``, ``runtime``, ``graph.plan``, ``device.buffers``, ``batch`` and ``errors``. Only tools and adapters
import this room.
"""

from ..plugin.epochs import LastBatchPolicy
from .actor import Actor
from .proof import read_token
from .ranks import RankLoader, loader

__all__ = ["Actor", "LastBatchPolicy", "RankLoader", "loader", "read_token"]

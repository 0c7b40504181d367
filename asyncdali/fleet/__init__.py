"""One global order for many ranks: each rank makes its samples of every batch (docs/engines.md).

``batch_size`` of the pipeline is the global batch. Rank r gets a fixed slice of it. The batches of all ranks, concatenated, are the batches
of the pipeline alone, for any number of ranks. A checkpoint is the same on every rank.

May import ``checkpoint``, ``errors``, ``pipeline``, ``runtime.parts`` and ``plugin.epochs``. Nothing imports this room.
"""

from ..plugin.epochs import LastBatchPolicy
from .ranks import RankLoader, loader

__all__ = ["LastBatchPolicy", "RankLoader", "loader"]

"""A pool of Python worker processes that are asked for samples and batches by position.

Installed as ``asyncdali_workers``. It knows nothing of pipelines: its own code imports the standard library, numpy and cloudpickle only.
"""

from __future__ import annotations

from .info import BatchInfo, SampleInfo

__all__ = ["BatchInfo", "SampleInfo"]

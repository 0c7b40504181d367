"""The public class Pipeline and the decorator pipeline_def.

May import every room below: engines, runtime, sources, graph, tensors, options. Only plugins, tools and the package's top import it.
"""

from __future__ import annotations

from .._absent import refuser
from ..data_node import DataNode
from ..graph.rewrite.marks import do_not_convert
from ..types import OperatorConcurrency, StreamPolicy
from . import experimental
from .decorator import pipeline_def
from .pipeline import Pipeline

__all__ = ["DataNode", "OperatorConcurrency", "Pipeline", "StreamPolicy", "do_not_convert", "experimental", "pipeline_def"]

__getattr__ = refuser(__name__, {"WorkerPool": "see asyncdali_workers (docs/workers.md) for a pool of Python processes"})

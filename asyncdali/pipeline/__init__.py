"""Pipeline and pipeline_def: the front door."""

from __future__ import annotations

from ..data_node import DataNode
from ..graph.rewrite.marks import do_not_convert
from .decorator import pipeline_def
from .pipeline import Pipeline

__all__ = ["DataNode", "Pipeline", "do_not_convert", "pipeline_def"]

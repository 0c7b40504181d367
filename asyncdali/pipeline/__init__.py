"""Pipeline and pipeline_def: the front door."""

from __future__ import annotations

from .decorator import pipeline_def
from .pipeline import Pipeline

__all__ = ["Pipeline", "pipeline_def"]

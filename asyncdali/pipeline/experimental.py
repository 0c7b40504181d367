"""DALI's module for `pipeline_def` with `debug`. The function is that of ``asyncdali``."""

from __future__ import annotations

from .decorator import pipeline_def

__all__ = ["pipeline_def"]

"""Where DALI has its `pipeline_def` with `debug`: the same as that of ``asyncdali``."""

from __future__ import annotations

from .decorator import pipeline_def

__all__ = ["pipeline_def"]

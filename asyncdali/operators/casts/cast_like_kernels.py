"""Compiled steps of ``cast_like``: those of ``cast``."""

from __future__ import annotations

from .cast_kernels import cast_step, make_cast_step

__all__ = ["cast_step", "make_cast_step"]

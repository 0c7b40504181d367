"""Compiled step of ``sphere``: a displacement of each pixel."""

from __future__ import annotations

from .sphere_water_kernels import ROWS_OF_SCRATCH, displacement_step

__all__ = ["ROWS_OF_SCRATCH", "displacement_step"]

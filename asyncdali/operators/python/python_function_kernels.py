"""Compiled step of ``python_function``: arrays that a function returns on a GPU are copied."""

from __future__ import annotations

from ..moves.copy_kernels import copy_step

__all__ = ["copy_step"]

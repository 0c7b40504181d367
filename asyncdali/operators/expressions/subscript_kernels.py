"""Compiled step of subscripts: the selected elements are one piece of the input."""

from __future__ import annotations

from ..moves.pieces_kernels import copy_step

__all__ = ["copy_step"]

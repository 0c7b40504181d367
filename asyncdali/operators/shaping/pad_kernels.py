"""Compiled step of ``pad``: the fill value and the input are pieces of the output."""

from __future__ import annotations

from ..moves.pieces_kernels import copy_step

__all__ = ["copy_step"]

"""Compiled steps of ``multi_paste``: the pasted regions are pieces of the output, converted if types differ."""

from __future__ import annotations

from ..moves.pieces_kernels import converting_step, copy_step

__all__ = ["converting_step", "copy_step"]

"""Compiled step of ``stack``: each input is a piece of the output."""

from __future__ import annotations

from ..moves.pieces_kernels import copy_step

__all__ = ["copy_step"]

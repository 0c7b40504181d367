"""Compiled step of ``paste``: the canvas and the image are pieces of the output."""

from __future__ import annotations

from ..moves.pieces_kernels import copy_step

__all__ = ["copy_step"]

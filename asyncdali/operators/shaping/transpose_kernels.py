"""Compiled step of ``transpose``: the input is one piece, read with exchanged strides."""

from __future__ import annotations

from ..moves.pieces_kernels import copy_step

__all__ = ["copy_step"]

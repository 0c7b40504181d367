"""Compiled step of ``dump_image``: images on a GPU are copied to the host before they are written."""

from __future__ import annotations

from ..moves.copy_kernels import make_copy_step

__all__ = ["make_copy_step"]

"""Compiled step of ``sequence_rearrange``: copies of frames, as for ``element_extract``."""

from __future__ import annotations

from .element_extract_kernels import frame_copy_step, make_frame_copy_step

__all__ = ["frame_copy_step", "make_frame_copy_step"]

"""Compiled steps of ``warp_affine``: affine maps, as for ``rotate``."""

from __future__ import annotations

from .rotate_kernels import image_step, make_rotate_step

__all__ = ["image_step", "make_rotate_step"]

"""When kernels compute four pixels of three bytes at a time (quads.cuh)."""

from __future__ import annotations

import numpy as np

_SIDE, _PIXELS = 1 << 22, 1 << 29
"""Sides and numbers of pixels of images are smaller, as ``fits_quads`` of quads.cuh demands."""


def in_quads(heights: np.ndarray, widths: np.ndarray, channels: np.ndarray) -> bool:
    """Whether all images of a batch, whose elements are bytes, can be computed so."""
    sides = max(heights.max(initial=0), widths.max(initial=0))
    return bool((channels == 3).all() and sides < _SIDE and (heights * widths < _PIXELS).all())

"""Compiled steps of ``laplacian``: separable filters, as for ``gaussian_blur``."""

from __future__ import annotations

from .gaussian_blur_kernels import make_separable_step, separable_step

__all__ = ["make_separable_step", "separable_step"]

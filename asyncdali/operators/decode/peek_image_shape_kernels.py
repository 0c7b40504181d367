"""Compiled part of ``peek_image_shape``: the scan of JPEG headers."""

from __future__ import annotations

from ...codecs.jpeg.jpeg_kernels import NOT_JPEG, read_headers, scan_headers

__all__ = ["NOT_JPEG", "read_headers", "scan_headers"]

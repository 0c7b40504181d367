"""Compiled steps of ``decoders.numpy``: headers are read, then arrays are copied, reordered or converted."""

from __future__ import annotations

from ...codecs.npy_header_kernels import NOT_NUMPY, read_headers
from ..casts.cast_kernels import make_cast_step
from ..moves.copy_kernels import copy_step as whole_copy_step
from ..moves.copy_kernels import make_copy_step
from ..moves.pieces_kernels import copy_step

__all__ = ["NOT_NUMPY", "copy_step", "make_cast_step", "make_copy_step", "read_headers", "whole_copy_step"]

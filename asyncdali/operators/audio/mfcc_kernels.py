"""Compiled steps of ``mfcc``: the cosine transform is a matrix along an axis, as the filters of ``mel_filter_bank``."""

from __future__ import annotations

from .mel_filter_bank_kernels import axis_matrix_step, make_axis_matrix_step

__all__ = ["axis_matrix_step", "make_axis_matrix_step"]

"""Conversions between the tensors of pipelines and torch, at the same place as in DALI: ``plugin.pytorch.torch_utils``."""

from __future__ import annotations

from .convert import feed_ndarray, to_torch_tensor, to_torch_type

__all__ = ["feed_ndarray", "to_torch_tensor", "to_torch_type"]

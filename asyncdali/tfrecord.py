"""Declarations of features of TFRecord files, for ``fn.readers.tfrecord``."""

from __future__ import annotations

from .readers.tfrecord.features import Feature, FixedLenFeature, VarLenFeature, float32, int64, string

__all__ = ["Feature", "FixedLenFeature", "VarLenFeature", "float32", "int64", "string"]

"""Pipelines as `tf.data` data sets. Needs TensorFlow (``pip install asyncdali[tf]``)."""

from __future__ import annotations

from . import experimental
from .dataset import DALIDataset

__all__ = ["DALIDataset", "experimental"]

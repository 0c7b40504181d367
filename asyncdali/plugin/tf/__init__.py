"""Pipelines as `tf.data` data sets. Needs TensorFlow (``pip install asyncdali[tf]``).

May import the same rooms as `plugin`.
"""

from __future__ import annotations

from ..._extras import need

need("tensorflow", "tf", "asyncdali.plugin.tf")

from . import experimental  # noqa: E402
from .dataset import DALIDataset  # noqa: E402
from .wrapper import (  # noqa: E402
    MIN_TENSORFLOW_VERSION,
    DALIIterator,
    DALIIteratorWrapper,
    DALIRawIterator,
    dataset_compatible_tensorflow,
    dataset_distributed_compatible_tensorflow,
    dataset_inputs_compatible_tensorflow,
    dataset_options,
    serialize_pipeline,
)  # fmt: skip

__all__ = [
    "DALIDataset", "DALIIterator", "DALIIteratorWrapper", "DALIRawIterator", "MIN_TENSORFLOW_VERSION", "dataset_compatible_tensorflow",
    "dataset_distributed_compatible_tensorflow", "dataset_inputs_compatible_tensorflow", "dataset_options", "experimental",
    "serialize_pipeline",
]  # fmt: skip

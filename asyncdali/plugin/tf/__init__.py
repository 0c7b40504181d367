"""Pipelines as `tf.data` data sets. Needs TensorFlow (``pip install asyncdali[tf]``).

    calls.py         Ends calls of TensorFlow's threads into Python before the interpreter ends
    cursors.py       Batches of a pipeline by position
    dataset.py       DALIDataset: a pipeline of readers as a tf.data.Dataset
    experimental.py  DALIDatasetWithInputs: pipelines with external inputs, fed by other data sets
    signature.py     Types and shapes of the elements of a data set: declared, or found out from the pipeline
    wrapper.py       DALIIterator: batches of a pipeline as tensors, one call at a time

May import the same rooms as `plugin`.
"""

from __future__ import annotations

from ...messages.extras import need

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

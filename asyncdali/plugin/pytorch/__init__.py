"""Pipelines in PyTorch: iterators that return tensors, torch functions in the graph, torch data sets as sources.

CPU tensors are views of the pipeline's memory and stay valid as long as they are referenced. Needs torch
(``pip install asyncdali[torch]``).
"""

from __future__ import annotations

from ..base_iterator import LastBatchPolicy
from . import experimental, fn, torch_utils
from .convert import feed_ndarray, to_torch_type
from .dataset import PipelineDataset, TorchDatasetSource, from_torch_dataset
from .function import TorchPythonFunction
from .iterator import DALIClassificationIterator, DALIGenericIterator, DALIRaggedIterator

__all__ = [
    "DALIClassificationIterator", "DALIGenericIterator", "DALIRaggedIterator", "LastBatchPolicy", "PipelineDataset", "TorchDatasetSource",
    "TorchPythonFunction", "experimental", "feed_ndarray", "fn", "from_torch_dataset", "to_torch_type",
    "torch_utils",
]  # fmt: skip

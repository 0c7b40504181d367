"""Pipelines in PyTorch: iterators that return tensors, torch functions in the graph, torch data sets as sources.

CPU tensors are views of the pipeline's memory and stay valid as long as they are referenced. Needs torch
(``pip install asyncdali[torch]``).

    experimental/   a pipeline inside a torch DataLoader (`proxy/`)
    fn/             `torch_python_function`, at the same place as in DALI
    loader_evaluator/    how long a loop waits for its loader

    convert.py      Conversion between tensor lists and torch tensors
    dataset.py      Torch data sets as sources of a pipeline, and pipelines as torch data sets
    function.py     Torch functions as operators
    iterator.py     Iterators that return torch tensors
    torch_utils.py  Conversions between the tensors of pipelines and torch, at the same place as in DALI

Epochs and last batches are those of all frameworks: ``plugin/base_iterator.py`` and ``plugin/epochs.py``.

May import what `plugin` may.
"""

from __future__ import annotations

from ...messages.extras import need

need("torch", "torch", "asyncdali.plugin.pytorch")

from ...pipeline import Pipeline  # noqa: E402
from ...tensors import TensorCPU, TensorGPU, TensorListGPU  # noqa: E402
from ..base_iterator import _DaliBaseIterator  # noqa: E402, F401
from ..epochs import LastBatchPolicy  # noqa: E402
from . import experimental, fn, torch_utils  # noqa: E402
from .convert import feed_ndarray, to_torch_type  # noqa: E402
from .dataset import PipelineDataset, TorchDatasetSource, from_torch_dataset  # noqa: E402
from .function import TorchPythonFunction  # noqa: E402
from .iterator import DALIClassificationIterator, DALIGenericIterator, DALIRaggedIterator  # noqa: E402

__all__ = [
    "DALIClassificationIterator", "DALIGenericIterator", "DALIRaggedIterator", "LastBatchPolicy", "Pipeline", "PipelineDataset",
    "TensorCPU", "TensorGPU", "TensorListGPU", "TorchDatasetSource", "TorchPythonFunction", "experimental", "feed_ndarray", "fn",
    "from_torch_dataset", "to_torch_type", "torch_utils",
]  # fmt: skip

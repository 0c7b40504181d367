"""A pipeline inside a torch DataLoader: worker processes make samples, the pipeline of the main process works on whole batches.

The data set of a :class:`DataLoader` calls `DALIServer.proxy` with its data, sample by sample, as it would call a transform; what it gets
stands for the pipeline's outputs of that sample. When a worker has made a batch, its data travels to the main process with it, where the
server feeds the pipeline; the loader puts the pipeline's outputs, as torch tensors, where the batch has what stood for them. Workers may
be started in any way (fork, spawn, forkserver) and be persistent::

    with DALIServer(pipeline()) as server:
        dataset = ImageFolder(root, transform=server.proxy, loader=read_bytes)
        for images, labels in DataLoader(server, dataset, batch_size=64, num_workers=4, drop_last=True):
            ...

With a loader of torch's own `DALIServer.produce_data` does the last step, without working ahead.

May import what `plugin` may.
"""

from __future__ import annotations

from ...convert import to_torch_tensor
from .loader import DataLoader
from .references import OutputBatchReference, OutputSampleReference, Proxy, Run
from .server import DALIServer

DALIOutputBatchRef, DALIOutputSampleRef, DALIPipelineRunRef = OutputBatchReference, OutputSampleReference, Run
"""DALI's names of what stands for outputs, and for an iteration."""

__all__ = [
    "DALIOutputBatchRef", "DALIOutputSampleRef", "DALIPipelineRunRef", "DALIServer", "DataLoader", "OutputBatchReference",
    "OutputSampleReference", "Proxy", "to_torch_tensor",
]  # fmt: skip

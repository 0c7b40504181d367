"""A pipeline inside a torch DataLoader. Worker processes make samples; the pipeline of the main process processes whole batches.

The data set of a :class:`DataLoader` calls `DALIServer.proxy` with its data, sample by sample, like a transform. Each call returns
references to the pipeline's outputs of this sample. A batch of a worker is sent to the main process together with its data. There the
server feeds the pipeline, and the loader replaces the references in the batch by the pipeline's outputs as torch tensors. Workers may be
started in any way (fork, spawn, forkserver) and be persistent::

    with DALIServer(pipeline()) as server:
        dataset = ImageFolder(root, transform=server.proxy, loader=read_bytes)
        for images, labels in DataLoader(server, dataset, batch_size=64, num_workers=4, drop_last=True):
            ...

Without the `with` block, the loader starts the server, and stops it when the loader is released.

With one of torch's own loaders, call `DALIServer.produce_data` to replace the references; then no batch is processed in advance.

    loader.py      A torch DataLoader whose batches hold a pipeline's outputs
    references.py  The messages of DataLoader workers: references to outputs, together with the samples that the pipeline processes
    server.py      The server

May import what `plugin` may.
"""

from __future__ import annotations

from ...convert import to_torch_tensor
from .loader import DataLoader
from .references import OutputBatchReference, OutputSampleReference, Proxy, Run
from .server import DALIServer

DALIOutputBatchRef, DALIOutputSampleRef, DALIPipelineRunRef = OutputBatchReference, OutputSampleReference, Run
"""DALI's names for the references to outputs, and for one run of the pipeline."""

__all__ = [
    "DALIOutputBatchRef", "DALIOutputSampleRef", "DALIPipelineRunRef", "DALIServer", "DataLoader", "OutputBatchReference",
    "OutputSampleReference", "Proxy", "to_torch_tensor",
]  # fmt: skip

"""Work of a process while it waits for others to start."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ..data_node import DataNode


def prepare() -> None:
    """Build a small pipeline, which imports every module that a build needs (0.5 s of processor time). Later calls take milliseconds."""
    from .. import fn, pipeline_def

    @pipeline_def(batch_size=1, num_threads=1, seed=0)
    def small() -> DataNode:
        return fn.random.uniform()

    pipe = small()
    pipe.build()
    pipe.close()

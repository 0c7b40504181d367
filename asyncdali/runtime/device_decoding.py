"""A batch that the GPU's JPEG engines and the CPU's threads decode together.

The engines leave whole images in device memory, the threads windows in pinned memory; one kernel gathers both into the batch.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..batch import Batch
from ..compiled.memory import address_of
from ..device.cuda.device import CudaDevice, CudaStream
from ..device.cuda.gather import gather_launch
from ..device.cuda.nvjpeg import DecodedImages
from ..operators.base import Step
from . import branches


class SplitDecode:
    """One decoder in one iteration; `built` is the operator, `batch` its output, `branch` the rows of the branch that it is in, if any."""

    images: DecodedImages

    def __init__(self, built: Any, step: Step, batch: Batch, branch: np.ndarray | None = None):
        self._branch = np.arange(len(batch)) if branch is None else branch
        assert step.hardware is not None
        self._built, self._step, self._batch = built, step, batch
        self._plan = step.hardware
        self._sizes = batch.sizes()
        self._pinned = np.empty(0, np.uint8)

    def start(self, device: CudaDevice, stream: CudaStream) -> list[tuple[Any, Step]]:
        """Give the engines their part; returns the steps for the rest."""
        plan, chosen = self._plan, self._plan.chosen
        whole = plan.windows[chosen] == np.stack([np.zeros_like(plan.extents[chosen]), plan.extents[chosen]], axis=1)
        targets = None
        if whole.all():  # straight to where they belong
            targets = self._batch.addresses[chosen], self._batch.memory_owner, stream.record()
        self._in_place = targets is not None
        self.images = plan.decoder.start(plan.sources[chosen], plan.sizes[chosen], plan.extents[chosen], plan.bgr, targets)
        return self._by_host(device, ~chosen)

    def all_by_host(self, device: CudaDevice) -> list[tuple[Any, Step]]:
        """The steps for the whole batch, when the engines could not."""
        self._plan.chosen[:] = False
        return self._by_host(device, ~self._plan.chosen)

    def _by_host(self, device: CudaDevice, rows: np.ndarray) -> list[tuple[Any, Step]]:
        if not rows.any():
            return []
        sizes = np.where(rows, self._sizes, 0)
        self._pinned = device.staging.allocate(int(sizes.sum()))
        self._plan.targets[:] = np.cumsum(sizes) - sizes + address_of(self._pinned)
        places = self._branch
        return [(self._built, branches.in_branch(self._step, np.where((places >= 0) & rows[places], places, -1)))]

    def gather(self, device: CudaDevice, stream: CudaStream) -> list[Any]:
        """Queue what brings both parts together, behind the engines' work; returns what must be kept meanwhile."""
        plan, batch = self._plan, self._batch
        moved = np.ones(len(batch), bool)
        rows, row_bytes = batch.shapes[:, 0].copy(), batch.shapes[:, 1] * batch.shapes[:, 2]
        sources, pitches = np.empty(len(batch), np.int64), row_bytes.copy()
        keep: list[Any] = [self._pinned, self._step]
        by_host = ~plan.chosen
        if by_host.any():
            size = len(self._pinned)
            copy = device.pool.allocate(size, stream.handle)
            device.driver.copy(copy.address, address_of(self._pinned), size, stream.handle)
            sources[by_host] = plan.targets[by_host] - address_of(self._pinned) + copy.address
            keep.append(copy)
        if plan.chosen.any():
            buffer = self.images.buffer
            assert buffer is not None and self.images.ready is not None
            stream.wait(self.images.ready)
            buffer.readers.add(stream.handle)
            moved = ~plan.chosen if self._in_place else moved
            pitches[plan.chosen] = 3 * plan.extents[plan.chosen, 1]
            anchors = plan.windows[plan.chosen, 0]
            sources[plan.chosen] = self.images.addresses + anchors[:, 0] * pitches[plan.chosen] + 3 * anchors[:, 1]
            keep.append(buffer)
        if moved.any():
            tables = [np.ascontiguousarray(table[moved]) for table in (sources, pitches, rows, row_bytes, batch.addresses)]
            keep.extend(device.run([gather_launch(*tables)], stream))
        return keep

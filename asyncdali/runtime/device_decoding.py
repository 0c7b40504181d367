"""A batch that the GPU's decoders and the CPU's threads decode together.

The former leave whole images in device memory, the threads windows in pinned memory; one kernel gathers all into the batch.
"""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

from ..batch import Batch
from ..compiled.memory import address_of
from ..device.cuda.device import CudaDevice, CudaStream
from ..device.cuda.gather import gather_launch
from ..device.cuda.nvjpeg import DecodedImages
from ..device.cuda.nvjpeg_library import ALLOCATOR_FAILURE, NvjpegError
from ..operators.base import Step
from . import branches


class SplitDecode:
    """One decoder in one iteration; `built` is the operator, `batch` its output, `branch` the rows of the branch that it is in, if any."""

    images: list[DecodedImages]
    """What each lane of the GPU will have made."""

    def __init__(self, built: Any, step: Step, batch: Batch, branch: np.ndarray | None = None):
        self._branch = np.arange(len(batch)) if branch is None else branch
        assert step.hardware is not None
        self._built, self._step, self._batch = built, step, batch
        self._plan = step.hardware
        self._sizes = batch.sizes()
        self._pinned = np.empty(0, np.uint8)
        self._share: Any = None

    def start(self, device: CudaDevice, stream: CudaStream) -> list[tuple[Any, Step]]:
        """Give the GPU's decoders their parts; returns the steps for the rest."""
        plan, self._device = self._plan, device
        origins = np.zeros_like(plan.extents)
        whole = (plan.windows == np.stack([origins, plan.extents], axis=1)).all(axis=(1, 2))
        self._in_place = np.zeros(len(whole), bool)
        self.images = []
        if plan.balance is not None:
            engines = sum(int(chosen.sum()) for decoder, chosen in plan.lanes if decoder.engines)
            self._share = plan.balance.share(engines, int((~plan.chosen).sum()))
        for decoder, chosen in plan.lanes:
            targets = None
            if whole[chosen].all():  # straight to where they belong
                self._in_place |= chosen
                targets = self._batch.addresses[chosen], self._batch.memory_owner, stream.record()
            then = functools.partial(self._share.over, "engines") if self._share is not None and decoder.engines else None
            self.images.append(decoder.start(plan.sources[chosen], plan.sizes[chosen], plan.extents[chosen], plan.bgr, targets, then))
        return self._by_host(device, ~plan.chosen)

    def host_over(self) -> None:
        """The CPU's threads have finished their part, or given up."""
        if self._share is not None:
            self._share.over("host")

    @property
    def failed(self) -> bool:
        """Whether a lane could not decode its part: a broken file fails all that are decoded with it. Raises what no file can cause."""
        errors = [images.error for images in self.images if images.error is not None]
        for error in errors:
            if not isinstance(error, NvjpegError):
                raise error
            if error.status == ALLOCATOR_FAILURE:
                raise self._device.pool.exhausted(str(error)) from error
        return bool(errors)

    def judge(self) -> None:
        """After the CPU has decoded all that a lane could not: no file was broken. RuntimeError if only the lane was to decode it."""
        for (decoder, _), images in zip(self._plan.lanes, self.images):
            if isinstance(images.error, NvjpegError):
                decoder.gave_up(images.error)

    def all_by_host(self, device: CudaDevice) -> list[tuple[Any, Step]]:
        """The steps for the whole batch, when a decoder of the GPU could not."""
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
        """Queue what brings both parts together, behind the GPU decoders' work; returns what must be kept meanwhile."""
        plan, batch = self._plan, self._batch
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
        moved = by_host | ~self._in_place
        for (_, chosen), images in zip(plan.lanes, self.images):
            buffer = images.buffer
            if buffer is None or images.ready is None:  # failed
                continue
            stream.wait(images.ready)  # also where the CPU decoded all again: nobody else writes then
            buffer.readers.add(stream.handle)
            if not plan.chosen.any():
                continue
            pitches[chosen] = 3 * plan.extents[chosen, 1]
            anchors = plan.windows[chosen, 0]
            sources[chosen] = images.addresses + anchors[:, 0] * pitches[chosen] + 3 * anchors[:, 1]
            keep.append(buffer)
        if moved.any():
            tables = [np.ascontiguousarray(table[moved]) for table in (sources, pitches, rows, row_bytes, batch.addresses)]
            keep.extend(device.run([gather_launch(*tables)], stream))
        return keep

"""A batch that the GPU's decoders and the CPU's threads decode together.

The former leave whole images in device memory, the threads windows in pinned memory; one kernel gathers all into the batch.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any

import numpy as np

from ..batch import Batch
from ..compiled.memory import address_of
from ..device.cuda.commands import Commands
from ..device.cuda.device import CudaDevice
from ..device.cuda.gather import gather_launch
from ..device.cuda.memory import DeviceBuffer
from ..device.cuda.nvjpeg import DecodedImages, Files
from ..device.cuda.nvjpeg_library import ALLOCATOR_FAILURE, IMAGE, NvjpegError
from ..device.launch import Launch
from ..operators.base import Step
from . import branches

if TYPE_CHECKING:
    from ..operators.decode.decoder_lanes import Lane


class SplitDecode:
    """One decoder in one iteration; `built` is the operator, `batch` its output, `branch` the rows of the branch that it is in, if any."""

    images: list[DecodedImages]
    """What each lane of the GPU will have made."""

    def __init__(self, built: Any, step: Step, batch: Batch, branch: np.ndarray | None = None):
        self._branch = branch
        assert step.hardware is not None
        self._built, self._step, self._batch = built, step, batch
        self._plan = step.hardware
        self._pinned = np.empty(0, np.uint8)
        self._share: Any = None

    def start(self, device: CudaDevice, commands: Commands) -> list[tuple[Any, Step]]:
        """Give the GPU's decoders their parts; returns the steps for the rest. `commands` are for the stream that the batch is made on."""
        plan, self._device = self._plan, device
        self.images = []
        if plan.balance is not None:
            engines = sum(lane.samples for lane in plan.lanes if lane.decoder.engines)
            self._share = plan.balance.share(engines, len(plan.sizes) - sum(lane.samples for lane in plan.lanes))
        for lane in plan.lanes:
            data, lengths, images, space = plan.files(lane, self._batch.addresses)
            files = Files(data, lengths, images.view(IMAGE), space)
            # Whole images go straight to where they belong.
            targets = None if files.space else (self._batch.memory_owner, device.events.last(commands))
            then = functools.partial(self._share.over, "engines") if self._share is not None and lane.decoder.engines else None
            self.images.append(lane.decoder.start(files, plan.bgr, targets, then))
        return self._by_host(device)

    def host_over(self) -> None:
        """The CPU's threads have finished their part, or given up."""
        if self._share is not None:
            self._share.over("host")

    @property
    def failed(self) -> bool:
        """Whether a lane could not decode its part: a broken file fails all that are decoded with it. Raises what no file can cause."""
        failed = [images for images in self.images if images.error is not None]
        for images in failed:
            if not isinstance(images.error, NvjpegError):
                error, images.error = images.error, None
                assert error is not None
                try:
                    raise error
                finally:
                    del error  # its traceback holds this frame, and memory of the GPU with it
            if images.error.status == ALLOCATOR_FAILURE:
                raise self._device.pool.exhausted(str(images.error)) from images.error
        return bool(failed)

    def judge(self) -> None:
        """After the CPU has decoded all that a lane could not: no file was broken. RuntimeError if only the lane was to decode it."""
        for lane, images in zip(self._plan.lanes, self.images):
            if isinstance(images.error, NvjpegError):
                lane.decoder.gave_up(images.error)

    def all_by_host(self, device: CudaDevice) -> list[tuple[Any, Step | Batch]]:
        """The steps for the whole batch, when a decoder of the GPU could not."""
        self._plan.give_up()
        return [*self._by_host(device)]

    def _by_host(self, device: CudaDevice) -> list[tuple[Any, Step]]:
        """The step for the samples that no decoder of the GPU takes, if there are any."""
        plan = self._plan
        rows, size = plan.rest(self._batch.sizes())
        if rows is None:
            return []
        self._pinned = device.staging.allocate(size)
        plan.targets += address_of(self._pinned)
        if self._branch is not None:
            rows = np.where(self._branch >= 0, rows[self._branch], -1)
        return [(self._built, branches.in_branch(self._step, rows))]

    def gather(
        self, device: CudaDevice, commands: Commands, passing: list[DeviceBuffer], keep: list[Any]
    ) -> list[tuple[None, Launch]]:
        """Add to `commands` what goes before the launches that bring all parts together, behind the GPU decoders' work. Returns these
        launches; `keep` gets what they need, `passing` the device memory that nobody else knows."""
        plan, batch = self._plan, self._batch
        moved_by = 0
        keep += (self._pinned, self._step)
        if len(self._pinned):
            size, pinned_at = len(self._pinned), address_of(self._pinned)
            copy = device.pool.allocate(size, commands)
            commands.copy(copy.address, pinned_at, size)
            moved_by = copy.address - pinned_at
            passing.append(copy)
        elsewhere: list[tuple[Lane, np.ndarray]] = []
        for lane, images in zip(plan.lanes, self.images):
            buffer = images.buffer
            if buffer is None or images.ready is None:  # failed
                continue
            commands.wait(images.ready)  # also where the CPU decoded all again: nobody else writes then
            buffer.readers.add(commands.stream)
            keep.append(images)
            if buffer is not batch.memory_owner:
                passing.append(buffer)
                elsewhere.append((lane, images.images))
        moves, largest = plan.moves(batch, moved_by, elsewhere)
        if moves is None:
            return []
        return [(None, gather_launch(moves[0], moves[1], moves[2], moves[3], moves[4], largest))]

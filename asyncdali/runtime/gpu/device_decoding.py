"""A batch that the GPU's decoders and the CPU's threads decode together.

The GPU's decoders leave whole images in device memory, the CPU's threads leave windows in pinned memory. One kernel gathers both into the
batch.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, cast

import numpy as np

from ...batch import Batch
from ...device.buffers import PooledBuffer
from ...device.cuda.commands import Commands
from ...device.cuda.device import CudaDevice
from ...device.cuda.gather import copy_launch, gather_launch
from ...device.cuda.gather_tables import GATHER_WINDOW
from ...device.cuda.memory import CudaEvent, DeviceBuffer
from ...device.cuda.nvjpeg import DecodedImages, Files
from ...device.cuda.nvjpeg_library import ALLOCATOR_FAILURE, IMAGE, NvjpegError
from ...device.joint import Joint
from ...device.launch import Launch
from ...operators.base import Step
from ..work import branches

if TYPE_CHECKING:
    from ...operators.decode.image_decoder_lanes import GpuImages, Lane
    from ...operators.decode.lane_balance import Share
    from ..work.segments import BuiltOperator


class SplitDecode:
    """One decoder in one iteration. `built` is the operator, `batch` its output, `branch` the rows of its branch of a conditional."""

    images: list[DecodedImages]
    """The parts of the GPU's lanes."""

    def __init__(self, built: BuiltOperator, step: Step, batch: Batch, branch: np.ndarray | None = None):
        self._branch = branch
        self._built, self._step, self._batch = built, step, batch
        self._plan = cast("GpuImages", step.hardware)
        self._pinned: PooledBuffer | None = None
        self._share: Share | None = None
        self._keeps = False  # samples are copied to the cache

    @property
    def measures(self) -> bool:
        """Whether the time of each part is measured."""
        return self._plan.balance is not None

    def start(self, device: CudaDevice, joint: Joint | None) -> list[tuple[BuiltOperator, Step]]:
        """Start the GPU's decoders on their parts and return the steps for the rest.

        The ends of the parts are reported together with the other jobs of `joint`; None: one by one.
        """
        plan, self._device = self._plan, device
        self.images = []
        if plan.balance is not None:
            engines = sum(lane.samples for lane in plan.lanes if lane.decoder.engines)
            self._share = plan.balance.share(engines, plan.samples - sum(lane.samples for lane in plan.lanes))
        for lane in plan.lanes:
            data, lengths, rows, images, space = plan.files(lane)
            files = Files(data, lengths, rows, images.view(IMAGE), space)
            targets = None if files.space else self._batch.memory_owner  # whole images are decoded into the batch's memory
            then = functools.partial(self._share.over, "engines") if self._share is not None and lane.decoder.engines else None
            self.images.append(lane.decoder.start(files, plan.bgr, targets, then, joint))
        if plan.lanes:
            self._batch.memory_owner.before = ()  # each lane has its waits
        return self._by_host(device)

    def host_over(self) -> None:
        """The CPU's threads have finished their part, or have given up."""
        if self._share is not None:
            self._share.over("host")

    @property
    def failed(self) -> bool:
        """Whether a lane could not decode its part: one broken file fails the whole part. Raises errors that no file can cause."""
        failed = [images for images in self.images if images.error is not None]
        for images in failed:
            if not isinstance(images.error, NvjpegError):
                error, images.error = images.error, None
                assert error is not None
                try:
                    raise error
                finally:
                    del error  # its traceback holds this frame, and with it device memory
            if images.error.status == ALLOCATOR_FAILURE:
                raise self._device.pool.exhausted(str(images.error)) from images.error
        return bool(failed)

    def judge(self) -> None:
        """Called after the CPU has decoded the failed parts and found no broken file. RuntimeError if only the lane was to decode them."""
        for lane, images in zip(self._plan.lanes, self.images):
            if isinstance(images.error, NvjpegError):
                lane.decoder.gave_up(images.error)

    def all_by_host(self, device: CudaDevice) -> list[tuple[BuiltOperator, Step | Batch]]:
        """The steps for the whole batch, for when a decoder of the GPU has failed."""
        self._plan.give_up()
        return [*self._by_host(device)]

    def _by_host(self, device: CudaDevice) -> list[tuple[BuiltOperator, Step]]:
        """The step for the samples that no decoder of the GPU takes, if there are any."""
        plan = self._plan
        samples, size = plan.rest()
        if not samples:
            return []
        self._pinned = pinned = device.staging.lend(size)
        plan.targets += pinned.address
        step = self._step if self._branch is None else branches.in_branch(self._step, self._branch)
        return [(self._built, step)]

    def gather(
        self, device: CudaDevice, commands: Commands, passing: list[DeviceBuffer], keep: list[object]
    ) -> list[tuple[None, Launch]]:
        """Add the commands before the gathering launches to `commands`, behind the work of the GPU's decoders, and return the launches.

        `keep` receives the objects that the launches need, `passing` the device memory that only this object knows."""
        plan, batch = self._plan, self._batch
        moved_by = 0
        keep += (self._pinned, self._step)
        pinned = self._pinned
        if pinned is not None and pinned.nbytes:
            copy = device.pool.allocate(pinned.nbytes, commands)
            commands.copy(copy.address, pinned.address, pinned.nbytes, pinned=True)
            moved_by = copy.address - pinned.address
            passing.append(copy)
        elsewhere: list[tuple[Lane, np.ndarray]] = []
        for lane, images in zip(plan.lanes, self.images):
            buffer = images.buffer
            if buffer is None or images.ready is None:  # the lane has failed
                plan.count_refused(lane.samples)
                continue
            plan.count(lane)
            commands.wait(images.ready)  # even if the CPU has decoded everything again, because the lane may still write into this memory
            buffer.readers.add(commands.stream)
            keep.append(images)
            if buffer is not batch.memory_owner:
                passing.append(buffer)
                elsewhere.append((lane, images.images))
        plan.show_kept(moved_by)
        moves, largest = plan.moves(moved_by, elsewhere)
        if len(moves) and plan.kept is not None and not plan.kept.together:
            moves = self._copied_one_by_one(moves, plan.kept.sources, commands)
        launches = []
        if len(moves):
            launches.append(gather_launch(moves, largest))
        return [(None, launch) for launch in launches + self._to_cache(keep)]

    def _copied_one_by_one(self, moves: np.ndarray, sources: np.ndarray, commands: Commands) -> np.ndarray:
        """Copy the pictures at `sources` (0: none), one copy for each. Returns the remaining moves."""
        batch, there = self._batch, sources != 0
        for target, source, size in zip(batch.addresses[there].tolist(), sources[there].tolist(), batch.sizes()[there].tolist()):
            commands.copy(target, source, size, pinned=True)
        rest: np.ndarray = moves[~np.isin(moves[:, GATHER_WINDOW.word.target], batch.addresses[there])]
        return rest

    def _to_cache(self, keep: list[object]) -> list[Launch]:
        """The launch that copies samples of the finished batch to the cache of decoded pictures."""
        kept, batch = self._plan.kept, self._batch
        if kept is None:
            return []
        keep.append(kept)
        chosen = np.flatnonzero(kept.slots)
        if not len(chosen) or any(images.error is not None for images in self.images):
            return []  # after an error the CPU decoded the pictures, and its pixels differ slightly
        self._keeps = True
        return [copy_launch(batch.addresses[chosen], kept.slots[chosen], batch.sizes()[chosen])]

    def queued(self, event: CudaEvent) -> None:
        """Everything that :meth:`gather` queued is before `event`."""
        if self._keeps and self._plan.kept is not None:
            self._plan.kept.filled(event)

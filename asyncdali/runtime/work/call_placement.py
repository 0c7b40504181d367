"""Where the calls of debug and dynamic mode run: one object per :class:`immediate.Engine`, replaced at the first mixed or gpu operator.

| placement | chosen for | operators run | jobs end |
|---|---|---|---|
| :class:`CallsOnHost` | the CPU, and a machine without a GPU | on the calling thread and its helpers | before the call returns |
| :class:`CallsOnGpu` | mixed and gpu operators of a machine with a GPU | also on one stream | also by a report of the GPU's decoders |
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, TypeAlias

from asyncdali_workers.interrupts import uninterrupted

from ...batch import Batch
from ...device.base import Device, DevicePart
from ...device.buffers import BufferPool
from ...device.host import HostDevice
from ...device.threads import WorkerState, WorkerThreads
from ...graph.plan import Plan, cut_for_gpu
from ...operators.base import Environment
from ...sources.device_data import DeviceData
from ...tensors.host_memory import HostMemory
from .jobs import CompiledSamples
from .making import MakeSegment, check_kernels, on_stream
from .segments import BuiltSegment

if TYPE_CHECKING:
    from ...device.cuda.arrays import CudaMemory
    from ...device.cuda.device import CudaDevice

Complete: TypeAlias = Callable[[CompiledSamples, WorkerThreads | None, WorkerState], None]
"""Does a job of compiled code on the calling thread and on helpers."""


class CallsOnHost:
    """The calling thread and its helpers compute everything in plain memory. `only_plans`: the calling thread leaves pixels to helpers."""

    gpu: CudaDevice | None = None

    def __init__(self, only_plans: bool):
        self.device: Device = HostDevice()
        self.segment_kind: MakeSegment = BuiltSegment
        self.memory: HostMemory | CudaMemory = HostMemory(self.pool.allocate)
        self.complete: Complete = _leave_pixels if only_plans else share

    @property
    def pool(self) -> BufferPool:
        """Memory of the host for batches."""
        return self.device.pinned

    @property
    def parts(self) -> Sequence[DevicePart]:
        """Objects to be closed with the engine."""
        return self.device.parts

    def environment(self, before: Environment, depth: int) -> Environment:
        """The environment of operators that are made from now on. `depth`: the prefetch depth of a pipeline of this graph."""
        return before

    def adapt(self, plan: Plan) -> None:
        """Prepare the plan of a call with mixed or gpu operators."""

    def copied(self, data: object, stream: object) -> Batch | None:
        """A copy of data in the GPU's memory, which is ready on the user's `stream`. None: the data must be read as data of the host."""
        return None


class CallsOnGpu(CallsOnHost):
    """Mixed and gpu operators queue their work on one stream."""

    def __init__(self, gpu: CudaDevice, name: str):
        self.gpu, self.device, self.memory = gpu, gpu, gpu.memory
        self._stream = gpu.stream(f"{name}-device")
        self.segment_kind, self.complete = on_stream(self._stream), _share_beside_gpu

    @property
    def parts(self) -> Sequence[DevicePart]:
        return [self._stream, *self.device.parts]

    def environment(self, before: Environment, depth: int) -> Environment:
        # The depth decides which decoder of a GPU takes a picture. With the same depth the pixels are the same.
        return replace(before, gpu=self.gpu, allocate=self.pool.allocate, depth=depth)

    def adapt(self, plan: Plan) -> None:
        check_kernels(plan.operators)
        cut_for_gpu(plan)

    def copied(self, data: object, stream: object) -> Batch | None:
        assert self.gpu is not None
        made = DeviceData(self.gpu.fed_arrays(), no_copy=False).batch(data, True, stream)
        if made is not None:
            made.device = "gpu"
        return made


def placed(gpu: CudaDevice | None, before: CallsOnHost, name: str) -> CallsOnHost:
    """The placement with the chosen GPU. Without one it stays the one before."""
    return before if gpu is None else CallsOnGpu(gpu, name)


def share(job: CompiledSamples, helpers: WorkerThreads | None, state: WorkerState, most: int | None = None) -> None:
    """Do a job of compiled code on the calling thread and on helpers. It is over when this returns. Its error is not raised.

    `most`: the largest number of helpers; None: all may take part."""
    if helpers is None or job.count < 2:
        job.work_alone(state)
    else:
        _finish(job, helpers, state, most)


def _leave_pixels(job: CompiledSamples, helpers: WorkerThreads | None, state: WorkerState) -> None:
    """:func:`share`, where the calling thread computes no pixels but those that are not worth waking another one."""
    if helpers is None or not job.is_pixels:
        share(job, helpers, state)
    elif job.brief:
        job.work_alone(state)
    else:
        _finish(job, helpers, None)


def _share_beside_gpu(job: CompiledSamples, helpers: WorkerThreads | None, state: WorkerState) -> None:
    """:func:`share` where the GPU's decoders may report the end of a job."""
    _finish(job, helpers if job.count > 1 else None, state)


def _finish(job: CompiledSamples, helpers: WorkerThreads | None, state: WorkerState | None, most: int | None = None) -> None:
    """Work on a job until all threads and devices have reported its end, also after an interrupt. Without a `state`, only wait."""
    done = threading.Event()
    job.finished = done.set
    # The last thread to leave the job reports its end. An interrupt of this thread between leaving and reporting would lose the end.
    # No interrupt waits longer for it: this thread is in compiled code, which handlers of signals do not enter.
    offered = False
    try:
        with uninterrupted():
            if helpers is not None:
                others = job.count if state is None else job.count - 1
                helpers.submit(job, others if most is None else min(others, most))
            offered = True
            if state is not None:
                job.work(state)
        done.wait()
    except BaseException:  # an interrupt: no thread may work on memory that this call drops
        job.stop()
        with uninterrupted():
            if offered:
                done.wait()
        raise

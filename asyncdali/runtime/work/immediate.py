"""Operators that run when they are called, on the calling thread. Debug mode uses them.

There is no queue and no event loop. A plan of one operator is executed segment by segment, and helper threads share its jobs. Mixed and gpu
operators queue their work on one stream. Operators, checks and error texts are those of the executor.
"""

from __future__ import annotations

import secrets
import threading
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from time import perf_counter_ns
from typing import TYPE_CHECKING, Any

import numpy as np
from asyncdali_workers.interrupts import uninterrupted

from ...batch import Batch
from ...data_node import DataNode, on_device
from ...device.host import FUSES_BACKENDS
from ...device.select import choose_gpu, users_device
from ...device.threads import WorkerState, WorkerThreads
from ...errors import PipelineClosed, operator_error
from ...graph.node import OperatorInstance
from ...graph.plan import Plan, PlannedOperator, build_plan
from ...operators.base import Environment, Operator
from ...options import PipelineOptions
from ...sources.external_source import ExternalInput
from ...sources.sources import Fed, Sources
from ...tensors import TensorListCPU, TensorListGPU
from ...tensors.data import Converter
from ...tensors.lists import array_of, cpu_list, makers, memory_of
from ...types import DALIDataType
from ..counting.counters import PipelineCounters
from ..counting.memory_statistics import MemoryStatistics
from ..counting.statistics import NO_STATISTICS, Statistics, take
from ..order.record import Record
from ..order.stages import close_all
from .call_placement import CallsOnHost, placed, share
from .jobs import CompiledSamples, Job, Waiting
from .making import MakeSegment, make_segments
from .segments import BuiltOperator, Progress, SegmentRun

if TYPE_CHECKING:
    from ...device.cuda.device import CudaDevice

_ON_CUDA = (2, 13)  # kDLCUDA, kDLCUDAManaged
_SOURCE = {"gpu": "cpu", "cpu": "gpu"}
"""Where data that is moved to a device comes from."""


class Engine:
    """Memory and threads that the operators of a pipeline share. `seed` is the pipeline's seed; one is drawn if none was given.

    `calling(seed)` becomes the :attr:`Environment.calling` of its operators. The GPU is chosen for the first mixed or gpu operator.
    `helpers` returns the helper threads, which the engine does not close; by default the engine starts its own. `only_plans`: the helpers
    compute pixels, and the calling thread waits for them.
    """

    progress: Progress | None = None
    one_at_a_time = False  # the calling thread works on every job
    memory: MemoryStatistics | None = None  # no memory statistics in debug mode

    def __init__(
        self, options: PipelineOptions, name: str, calling: Callable[[int], Callable[[], AbstractContextManager[None]]],
        helpers: Callable[[], WorkerThreads | None] | None = None, only_plans: bool = False,
    ):  # fmt: skip
        from ...compiled import driver, places

        driver.run_job.compile()
        places.lay_out.compile()
        self._place = CallsOnHost(only_plans)
        self.gpu: CudaDevice | None = None
        self.allocate: Callable[[int], np.ndarray] = self._place.pool.allocate
        self.counters = PipelineCounters() if options.enable_statistics else None
        self._options = options
        self.batch_size = int(options.batch_size)
        self.device_id: int | None = options.device_id
        self.seed = secrets.randbits(62) if options.seed is None else int(options.seed)
        choose_gpu(self.device_id, False)  # its warning belongs to the build
        self._chosen = self._closed = False
        self._transfers: dict[str, Immediate] = {}
        threads = int(options.num_threads)
        self.environment = Environment(self.batch_size, threads, self.device_id, False, self.allocate, calling(self.seed))
        self._name = name
        self._state = WorkerState()
        # One thread less, because the calling thread works as well.
        self._own = WorkerThreads(threads - 1, name, options.affinity()) if threads > 1 and helpers is None else None
        self._helpers = self._own if helpers is None else helpers()
        self._converter = Converter(self.allocate, None, no_copy=True)

    def choose(self) -> CudaDevice | None:
        """The GPU for mixed and gpu operators. None: they use the host device."""
        if not self._chosen:
            if self._closed:
                raise PipelineClosed("the pipeline was closed")
            with uninterrupted(), users_device():
                self._place = place = placed(choose_gpu(self.device_id, True), self._place, self._name)
                self.gpu, self.allocate = place.gpu, place.pool.allocate
                self.environment = place.environment(self.environment, self._options.depth)
            self._chosen = True
        return self.gpu

    def adapt(self, plan: Plan) -> None:
        """Prepare the plan of a call with mixed or gpu operators for the device that runs them."""
        self.choose()
        self._place.adapt(plan)

    def segment_kind(self) -> MakeSegment:
        """The function that makes segments for the present placement."""
        return self._place.segment_kind

    def entered(self) -> AbstractContextManager[None]:
        """Make the GPU, if there is one, the calling thread's device within the block. The thread is the user's."""
        return self._place.device.entered()

    @property
    def num_threads(self) -> int:
        """Threads that share a job, the calling one among them."""
        return self.environment.num_threads

    def state(self) -> WorkerState:
        """The calling thread's memory for compiled code."""
        return self._state

    def share(self, job: CompiledSamples) -> None:
        """:func:`share` with the helper threads."""
        share(job, self._helpers, self._state)

    def work(self, job: Job) -> BaseException | None:
        """Run a job and return its error, if any."""
        if isinstance(job, CompiledSamples):
            self._place.complete(job, self._helpers, self._state)
            return _error_of(job)
        done = threading.Event()
        job.finished = done.set
        samples = 1 if isinstance(job, Waiting) else self.batch_size
        if self._helpers is not None and samples > 1:
            self._helpers.submit(job, samples - 1)
        try:
            job.work(self._state)
            done.wait()
        except BaseException:  # an interrupt
            job.stop()
            raise
        return _error_of(job)

    def tensors(self, batch: Batch) -> TensorListCPU | TensorListGPU:
        """A batch in the form that users get. Waits until the GPU has made it."""
        batch = batch.private()
        self._place.device.complete([batch])
        made = makers(self.device_id or 0, self._place.memory)
        return made[batch.device.partition(":")[0]](batch)  # dynamic mode has "gpu:1"

    def batch_of(self, data: Any) -> Batch:
        """The batch of a tensor list or of a list of arrays. Shares memory of the host, and of tensor lists of this GPU."""
        if isinstance(data, TensorListCPU):
            return data._batch
        if isinstance(data, TensorListGPU):
            self.choose()
            here = self._place.memory.owns(memory_of(data))
            return data._batch if here else self.moved(data.as_cpu()._batch, "gpu", 0)
        found = self._on_gpu(data, None)
        return self._converter.samples(data) if found is None else found

    def _on_gpu(self, data: object, stream: object) -> Batch | None:
        """A copy of data in the GPU's memory, which is ready on the user's `stream`. None: the data is not there."""
        first = data[0] if isinstance(data, (list, tuple)) and data else data
        if not _is_on_gpu(array_of(first)):
            return None
        self.choose()
        return self._place.copied(data, stream)

    def copied(self, data: object, stream: object) -> TensorListCPU | TensorListGPU:
        """A copy of any object that can be a batch. Data in the GPU's memory is ready on `stream`."""
        made = self._on_gpu(data, stream)
        return cpu_list(Converter(self.allocate, None, no_copy=False).batch(data)) if made is None else self.tensors(made)

    def moved(self, batch: Batch, device: str, index: int) -> Batch:
        """A batch on another device, "cpu" or "gpu". `index` is the iteration's number."""
        transfer = self._transfers.get(device)
        if transfer is None:
            source = stand_in("__input_0", _SOURCE[device])
            transfer = self._transfers[device] = Immediate(self, [on_device(source, device)], [])
        (made,) = transfer.run({"__input_0": batch}, len(batch), index)
        return made

    def sources(self, planned: Sequence[PlannedOperator]) -> Sources:
        """The inputs of one call of `external_source`, whose operators are made."""
        return Sources(planned, self.batch_size, self.allocate, False, None, self.gpu)

    def statistics(self) -> Statistics:
        """The counters' report; see ``Pipeline.statistics``."""
        if self.counters is None:
            raise RuntimeError(NO_STATISTICS)
        return take(self.counters, self._options, 1, (), self._place.pool, None)

    def close(self) -> None:
        """End the helper threads, wait for them and the GPU, and return the stream. Later calls run without helpers. Idempotent."""
        with uninterrupted(), self.entered():
            self._closed = True
            closing: list[Any] = [*self._place.parts]
            self._helpers = None
            if self._own is not None:
                closing.append(self._own)
                self._own = None
            if close_all(closing):
                self._place.device.release()
            self._transfers.clear()  # they refer to this object


def _error_of(job: Job) -> BaseException | None:
    """The error of a job that is over, if any."""
    try:
        job.raise_error()
    except BaseException as error:
        return error
    return None


def _is_on_gpu(value: object) -> bool:
    """Whether an array or DLPack object is in a GPU's memory."""
    if isinstance(value, (np.ndarray, type)):
        return False
    place = getattr(value, "__dlpack_device__", None)
    return hasattr(value, "__cuda_array_interface__") or (place is not None and place()[0] in _ON_CUDA)


def repeated(values: np.ndarray, dtype: DALIDataType, layout: str, count: int) -> Batch:
    """A batch of `count` times the same array."""
    return Batch.from_values(np.repeat(values[None], count, 0), layout, dtype)


def stand_in(name: str, device: str) -> DataNode:
    """A node for data that will be given when an :class:`Immediate` runs."""
    return OperatorInstance(ExternalInput.schema, name, device, (), {}, {}, explicit_name=True, definition=None).outputs[0]


class Immediate:
    """A small built graph: one operator, with placeholders for its inputs.

    `seed` is used by operators without a seed of their own.
    """

    def __init__(self, engine: Engine, outputs: Sequence[DataNode], instances: Sequence[OperatorInstance], seed: int = 0):
        self._engine = engine
        self.plan = build_plan(outputs, instances, None, lambda k: seed, FUSES_BACKENDS)
        if any(planned.backend != "cpu" for planned in self.plan.operators):
            engine.adapt(self.plan)
        self._built: dict[int, BuiltOperator] = {}
        try:
            with engine.entered():
                for planned in self.plan.operators:
                    self._built[id(planned)] = BuiltOperator(planned, self._make(planned))
        except BaseException:
            self.close()
            raise
        self._segments = make_segments(self.plan.segments, list(self._built.values()), engine.segment_kind())
        if engine.counters is not None:
            for segment in self._segments:
                counted = engine.counters.segment(segment)
                counted.stream = "caller"
                counted.times = segment.times()
        self._before: list[tuple[BuiltOperator, Any]] = []

    def _make(self, planned: PlannedOperator) -> Operator:
        try:
            operator = planned.kind(planned.spec, self._engine.environment)
            operator.neighbours = planned.neighbours
            operator.infer([None] * len(planned.inputs))  # element types may differ from call to call
        except Exception as error:
            raise operator_error(planned, error, None) from error
        return operator

    @property
    def stateful(self) -> bool:
        """Whether a call depends on earlier calls."""
        return any(segment.stateful for segment in self._segments)

    def with_positions(self) -> list[BuiltOperator]:
        """The operators that have a position."""
        return [built for segment in self._segments for built in segment.stateful]

    def go_to(self, position: object) -> None:
        """Set the position of the operator that has one."""
        for built in self.with_positions():
            built.position = position

    def run(self, fed: Fed, batch_size: int, index: int) -> list[Batch]:
        """The output batches for the inputs `fed`. `index` is the iteration's number, for messages. Raises the operator's error."""
        edges = self.run_edges(fed, batch_size, index)
        return [edges[edge] for edge in self.plan.outputs]

    def run_edges(self, fed: Fed, batch_size: int, index: int) -> list[Batch]:
        """:meth:`run`, with the batches of all edges. Those that only operators read have shapes, but their memory is used again."""
        self._before = [(built, built.position) for segment in self._segments for built in segment.stateful]
        record = Record(index, batch_size, self.plan.edge_count)
        record.weight = 1
        record.fed = dict(fed)
        with self._engine.entered():
            for segment in self._segments:
                run = segment.new_run(record, self._engine)
                run.started = record.admitted = perf_counter_ns()
                self._run(run)
        return record.edges

    def _run(self, run: SegmentRun) -> None:
        phases: Any = run.phases()
        error = None
        try:
            while True:
                job = next(phases) if error is None else phases.throw(error)
                error = self._engine.work(job)
        except StopIteration:
            return
        except BaseException:
            with uninterrupted():
                phases.close()  # after an interrupt: move the positions now, not when the generator is collected
                run.abandon()
            raise

    def skip(self, batch_size: int, index: int) -> None:
        """Move the positions as if an iteration had run."""
        for segment in self._segments:
            segment.commit_positions(Record(index, batch_size, 0), {})

    def take_back(self) -> None:
        """Return to the position before the last run."""
        for built, position in self._before:
            built.position = position

    def close(self) -> None:
        """Release the operators' resources."""
        with self._engine.entered():
            for built in self._built.values():
                built.operator.close()

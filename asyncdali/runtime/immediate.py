"""Operators that run when they are called, on the calling thread. Debug mode uses them.

There is no queue and no event loop. A plan of one operator is executed segment by segment, and helper threads share its jobs. Operators,
checks and error texts are those of the executor.
"""

from __future__ import annotations

import secrets
import threading
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from time import perf_counter_ns
from typing import Any

import numpy as np

from ..batch import Batch
from ..data_node import DataNode
from ..device.buffers import BufferPool
from ..device.host import FUSES_BACKENDS
from ..device.select import use_host_device
from ..device.threads import WorkerState, WorkerThreads
from ..errors import operator_error
from ..graph.node import OperatorInstance
from ..graph.plan import PlannedOperator, build_plan
from ..operators.base import Environment, Operator
from ..options import PipelineOptions
from ..sources.external_source import ExternalInput
from ..sources.sources import Fed, Sources
from ..tensors import TensorListCPU, TensorListGPU
from ..tensors.data import Converter
from ..tensors.host_memory import HostMemory
from ..tensors.lists import cpu_list, gpu_list
from ..types import DALIDataType
from .counters import PipelineCounters
from .jobs import CompiledSamples, Job
from .memory_statistics import MemoryStatistics
from .record import Record
from .segments import BuiltOperator, BuiltSegment, Progress, SegmentRun
from .statistics import NO_STATISTICS, Statistics, take


class Engine:
    """Memory and threads that the operators of a pipeline share. `seed` is the pipeline's seed; one is drawn if none was given.

    `calling(seed)` becomes the :attr:`Environment.calling` of its operators.
    """

    progress: Progress | None = None
    one_at_a_time = False  # the calling thread works on every job
    memory: MemoryStatistics | None = None  # no memory statistics in debug mode

    def __init__(self, options: PipelineOptions, name: str, calling: Callable[[int], Callable[[], AbstractContextManager[None]]]):
        from ..compiled import driver, places

        driver.run_job.compile()
        places.lay_out.compile()
        self._pool = BufferPool()
        self.allocate: Callable[[int], np.ndarray] = self._pool.allocate
        self.counters = PipelineCounters() if options.enable_statistics else None
        self._options = options
        self.batch_size = int(options.batch_size)
        self.device_id: int | None = options.device_id
        self.seed = secrets.randbits(62) if options.seed is None else int(options.seed)
        use_host_device(self.device_id, False)
        threads = int(options.num_threads)
        self.environment = Environment(self.batch_size, threads, self.device_id, False, self.allocate, calling(self.seed))
        self._state = WorkerState()
        # One thread less, because the calling thread works as well.
        self._helpers = WorkerThreads(threads - 1, name, options.affinity()) if threads > 1 else None
        self._device_memory = HostMemory(self.allocate)
        self._converter = Converter(self.allocate, None, no_copy=True)

    def following(self, record: Record) -> int:
        """No iteration is known before the program asks for it."""
        return 0

    def work(self, job: Job) -> BaseException | None:
        """Run a job and return its error, if any."""
        done = threading.Event()
        job.finished = done.set
        samples = job.count if isinstance(job, CompiledSamples) else self.batch_size
        if self._helpers is not None and samples > 1:
            self._helpers.submit(job, samples - 1)
        try:
            job.work(self._state)
            done.wait()
        except BaseException:  # an interrupt
            job.stop()
            raise
        try:
            job.raise_error()
        except BaseException as error:
            return error
        return None

    def tensors(self, batch: Batch) -> TensorListCPU | TensorListGPU:
        """A batch in the form that users get."""
        batch = batch.private()
        if batch.device == "gpu":
            return gpu_list(batch, self.device_id or 0, None, self._device_memory)
        return cpu_list(batch)

    def batch_of(self, data: Any) -> Batch:
        """The batch of a tensor list or of a list of arrays. Shares memory where possible."""
        if isinstance(data, (TensorListCPU, TensorListGPU)):
            return data._batch
        return self._converter.samples(data)

    def copied(self, data: Any) -> TensorListCPU:
        """A copy of any object that can be a batch."""
        return cpu_list(Converter(self.allocate, None, no_copy=False).batch(data))

    def sources(self, planned: Sequence[PlannedOperator]) -> Sources:
        """The inputs of one call of `external_source`."""
        return Sources(planned, self.batch_size, self.allocate, False, None)

    def statistics(self) -> Statistics:
        """The counters' report; see ``Pipeline.statistics``."""
        if self.counters is None:
            raise RuntimeError(NO_STATISTICS)
        return take(self.counters, self._options, 1, (), self._pool, None)

    def close(self) -> None:
        """End the helper threads. Later calls run without them."""
        if self._helpers is not None:
            self._helpers.close()
            self._helpers = None


def repeated(values: np.ndarray, dtype: DALIDataType, layout: str, device: str, count: int) -> Batch:
    """A batch of `count` times the same array."""
    batch = Batch.from_values(np.repeat(values[None], count, 0), layout, dtype)
    batch.device = device
    return batch


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
            use_host_device(engine.device_id, True)
        self._built: dict[int, BuiltOperator] = {}
        try:
            for planned in self.plan.operators:
                self._built[id(planned)] = BuiltOperator(planned, self._make(planned))
        except BaseException:
            self.close()
            raise
        self._segments = [BuiltSegment(item, [self._built[id(planned)] for planned in item.operators]) for item in self.plan.segments]
        if engine.counters is not None:
            for segment in self._segments:
                engine.counters.segment(segment).stream = "caller"
        self._before: list[tuple[BuiltOperator, Any]] = []

    def _make(self, planned: PlannedOperator) -> Operator:
        try:
            operator = planned.kind(planned.spec, self._engine.environment)
            operator.infer([None] * len(planned.inputs))  # element types may differ from call to call
        except Exception as error:
            raise operator_error(planned, error, None) from error
        return operator

    @property
    def stateful(self) -> bool:
        """Whether a call depends on earlier calls."""
        return any(segment.stateful for segment in self._segments)

    def run(self, fed: Fed, batch_size: int, index: int) -> list[Batch]:
        """The output batches for the inputs `fed`. `index` is the iteration's number, for messages. Raises the operator's error."""
        self._before = [(built, built.position) for segment in self._segments for built in segment.stateful]
        record = Record(index, batch_size, self.plan.edge_count)
        record.weight = 1
        record.fed = dict(fed)
        for segment in self._segments:
            run = SegmentRun(segment, record, self._engine)
            run.started = record.admitted = perf_counter_ns()
            self._run(run)
        return [record.edges[edge] for edge in self.plan.outputs]

    def _run(self, run: SegmentRun) -> None:
        phases: Any = run.phases()
        error = None
        try:
            while True:
                job = next(phases) if error is None else phases.throw(error)
                error = self._engine.work(job)
        except StopIteration:
            return
        finally:
            phases.close()  # after an interrupt: move the positions now, not when the generator is collected

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
        for built in self._built.values():
            built.operator.close()

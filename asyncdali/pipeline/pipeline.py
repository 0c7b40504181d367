"""Pipeline: definition, building, running and storing of a graph, for synchronous and asynchronous callers."""

from __future__ import annotations

import os
import threading
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from contextlib import AbstractContextManager, AsyncExitStack
from typing import TYPE_CHECKING, Any

import numpy as np

from .. import checkpoint as checkpoints
from .._notices import warn
from .._version import __version__
from ..access import EVERYTHING, Access
from ..data_node import DataNode
from ..errors import PipelineClosed
from ..graph import context
from ..graph.node import Definition
from ..options import PipelineOptions, option_names, unknown_option
from ..runtime.claims import claim, take_next
from ..types import DALIDataType, PipelineAPIType
from .closing import close_at_exit
from .dali_names import DaliNames
from .storing import both_spellings, own_options, stored_options

if TYPE_CHECKING:
    from ..engines.pool import EnginePool
    from ..runtime.parts import Part
    from ..runtime.session import Session
    from ..runtime.statistics import Statistics
    from ..sources.parallel import Parallel
    from ..tensors import TensorListCPU, TensorListGPU


class Pipeline(DaliNames):
    """A graph of operators and everything that runs it.

    Args:
        batch_size: largest number of samples in a batch.
        num_threads: CPU worker threads.
        device_id: GPU number; None for a pipeline without GPU. Without CUDA the host device stands in, with a warning.
        seed: seed of all operators that are not given one; None or negative: different every time.
        exec_pipelined: False computes exactly one iteration per run.
        prefetch_queue_depth: iterations kept in flight; an int, or a dict with `cpu_size` and `gpu_size` (separate queues).
        exec_async: False: scheduling waits for the result.
        bytes_per_sample: expected size of a sample: sizes the first buffers.
        set_affinity: pin worker threads to CPUs (``DALI_AFFINITY_MASK``: comma-separated CPU numbers).
        enable_memory_stats: collect memory statistics for :meth:`executor_statistics`.
        enable_statistics: count what :meth:`statistics` tells (some microseconds per iteration).
        enable_checkpointing, checkpoint: see :meth:`checkpoint`; `checkpoint` (bytes) is restored in :meth:`build`.
        strict: refuse a checkpoint of another graph or data set; False logs the differences and goes on.
        py_num_workers, py_start_method, py_callback_pickler: Python worker processes of parallel external sources.
        worker_timeout: seconds a parallel source may take for a sample (a batch, for sources of batches); then its worker is replaced.
            None: no limit.
        max_retries: how often a sample that kills its worker is tried again.
        engines: processes that make the CPU part of each iteration (docs/engines.md); 0: this process does.
        engine_start_method: how engines are started, as `py_start_method`.
        engine_timeout: seconds an engine may take for an iteration; then it is replaced, and the iteration made again. None: no limit.
        engine_cut: nodes (or names of operators) up to which engines work; None: all CPU operators that need nothing of a GPU.
        output_dtype, output_ndim, output_layout: what every output must be (a value for all, or a list); checked in every iteration.
        exec_dynamic: None: on unless `exec_pipelined` or `exec_async` is off or the queues are separate. False forbids ``.cpu()`` in the
            graph.
        stream_policy, concurrency: how work is spread over streams, and which operators may overlap.
    """

    def __init__(
        self,
        batch_size: int | None = None,
        num_threads: int | None = None,
        device_id: int | None = None,
        seed: int | None = None,
        exec_pipelined: bool = True,
        prefetch_queue_depth: int | dict[str, int] = 2,
        exec_async: bool = True,
        bytes_per_sample: int = 0,
        set_affinity: bool = False,
        max_streams: Any = None,
        default_cuda_stream_priority: Any = None,
        **options: Any,
    ):
        for name in options:
            if name not in option_names():
                raise TypeError(unknown_option("Pipeline", name, option_names()))
        self._options = PipelineOptions(
            batch_size=batch_size, num_threads=num_threads, device_id=device_id, seed=seed, exec_pipelined=exec_pipelined,
            prefetch_queue_depth=prefetch_queue_depth, exec_async=exec_async, bytes_per_sample=bytes_per_sample,
            set_affinity=set_affinity, max_streams=max_streams, default_cuda_stream_priority=default_cuda_stream_priority, **options,
        )  # fmt: skip
        self._reported = {}
        self._definition = Definition()
        self._access = EVERYTHING
        self._outputs: list[Any] | None = None
        self._session: Session | None = None
        self._building = threading.RLock()  # threads that use an unbuilt pipeline at once must not build it twice
        self._closed = False
        self._api_type: PipelineAPIType | None = None
        self._api_check = True
        self._shared: deque[Any] = deque()
        self._nodes: list[DataNode] | None = None
        self._parallel: Parallel | None = None
        self._engines: EnginePool | None = None
        self._in_engine = False
        self._part: Part | None = None  # what is made of each iteration; None: all (asyncdali.fleet)
        self._unfinished: list[Callable[[], None]] = []  # closes what a build has opened and not finished: an interrupt may leave it here
        self.output_names: tuple[str, ...] | None = None
        """Names of the outputs, where the graph function returned a dict: :meth:`epoch`, ``async for`` and iterators give dicts then."""

    # --- properties

    @property
    def max_batch_size(self) -> int | None:
        """Largest batch size."""
        size: int | None = self._max_batch_size
        return size

    @property
    def batch_size(self) -> int | None:
        """Deprecated name of :attr:`max_batch_size`."""
        warn("Pipeline.batch_size is called max_batch_size now", DeprecationWarning)
        return self.max_batch_size

    num_threads = property(lambda self: self._num_threads, doc="CPU worker threads.")
    device_id = property(lambda self: self._device_id, doc="GPU number, or None.")
    exec_pipelined = property(lambda self: self._options.exec_pipelined, doc="Whether iterations are computed ahead.")
    exec_async = property(lambda self: self._options.exec_async, doc="Whether scheduling returns at once.")
    exec_dynamic = property(lambda self: self._options.exec_dynamic, doc="True for the default executor, None or False otherwise.")
    exec_separated = property(lambda self: self._options.exec_separated, doc="Whether CPU and GPU queues have depths of their own.")
    stream_policy = property(lambda self: self._options.stream_policy, doc="As given.")
    concurrency = property(lambda self: self._options.concurrency, doc="As given.")
    set_affinity = property(lambda self: self._options.set_affinity, doc="Whether worker threads are pinned.")
    max_streams = property(lambda self: -1, doc="Always -1.")
    default_cuda_stream_priority = property(lambda self: 0, doc="Always 0.")
    prefetch_queue_depth = property(lambda self: self._options.prefetch_queue_depth, doc="As given.")
    cpu_queue_size = property(lambda self: self._options.cpu_queue_size, doc="Depth of the CPU queue.")
    gpu_queue_size = property(lambda self: self._options.gpu_queue_size, doc="Depth of the GPU queue.")
    enable_memory_stats = property(lambda self: self._options.enable_memory_stats, doc="As given.")
    py_num_workers = property(lambda self: self._options.py_num_workers, doc="Python worker processes.")
    engines = property(lambda self: self._options.engines, doc="Processes that make the CPU part of each iteration; 0: this one does.")
    py_start_method = property(lambda self: self._options.py_start_method, doc='"fork", "spawn" or "forkserver".')

    @property
    def seed(self) -> int | None:
        """The seed of the operators' streams. Where none was given (or a negative one), the one drawn in :meth:`build`; None before."""
        return self._options.seed if self._session is None or self._options.seed is not None else self._session.seed

    @property
    def is_restored_from_checkpoint(self) -> bool:
        """Whether :meth:`build` restored a checkpoint."""
        return self._session is not None and self._session.restored

    @property
    def num_outputs(self) -> int:
        """Number of outputs (builds)."""
        return len(self._built_session().plan.outputs)

    def output_dtype(self) -> list[DALIDataType | None]:
        """Declared element type of each output, None where not declared (builds)."""
        return self._built_session().expected_dtype

    def output_ndim(self) -> list[int | None]:
        """Declared number of dimensions of each output, None where not declared (builds)."""
        return self._built_session().expected_ndim

    def output_layout(self) -> list[str | None]:
        """Declared layout of each output, None where not declared (builds)."""
        return self._built_session().expected_layout

    # --- current pipeline

    @staticmethod
    def current() -> Pipeline | None:
        """The pipeline being defined on this thread. In a function that a pipeline calls while it runs: a stand-in with its properties."""
        pipeline: Pipeline | None = context.current()
        return pipeline

    @staticmethod
    def push_current(pipeline: Pipeline) -> Pipeline | None:
        """Make `pipeline` current on this thread; returns the previous one."""
        previous: Pipeline | None = context.push(pipeline)
        return previous

    @staticmethod
    def pop_current() -> None:
        """Leave the current pipeline; AttributeError if there is none."""
        context.pop()

    def __enter__(self) -> Pipeline:
        """Operators made inside the block belong to this pipeline."""
        context.push(self)
        return self

    def __exit__(self, *exc: object) -> None:
        context.pop()

    def _calling(self, seed: int | None) -> Callable[[], AbstractContextManager[None]]:
        """What the runtime calls the user's functions within: :meth:`current` is a stand-in there, with this pipeline's properties."""
        from .callbacks import calling

        return calling(self, seed)

    # --- definition

    def define_graph(self) -> Any:
        """Legacy: override to define the graph; return the outputs."""
        raise NotImplementedError(
            "this pipeline has no outputs: give it a graph with set_outputs(), or return at least one output from the graph function"
        )

    def set_outputs(self, *outputs: Any) -> None:
        """Set the outputs: DataNodes, or constants (numbers, arrays, flat lists).

        Before building, the last call wins; after, it does nothing.
        """
        if self._session is None:
            self._outputs, self._nodes = list(outputs), None

    def add_sink(self, edge: DataNode) -> None:
        """Run the operator behind `edge` although nothing uses its outputs."""
        if not isinstance(edge, DataNode):
            raise TypeError(f"add_sink expects a DataNode, got {type(edge).__name__}")
        edge.source.constants["preserve"] = True
        if edge.source not in self._definition.instances:
            self._definition.add(edge.source)

    def _output_nodes(self) -> list[DataNode]:
        """The outputs as nodes: constants become constant operators."""
        if self._nodes is not None:
            return self._nodes
        if not self._outputs:
            with self:
                made = self.define_graph()
            self._outputs = list(made) if isinstance(made, (tuple, list)) else [made]
        from ..graph.constants import constant_node, output_constant

        nodes = []
        with self:
            for index, output in enumerate(self._outputs):
                if isinstance(output, DataNode):
                    nodes.append(output)
                else:
                    values, dtype = output_constant(output, index)
                    nodes.append(constant_node(values, dtype))
        self._nodes = nodes
        return nodes

    # --- building

    def build(self, define_graph: Callable[[], Any] | None = None) -> None:
        """Check the options, instantiate the operators, restore the checkpoint if one was given. Idempotent; nothing runs yet.

        Raises ValueError/TypeError for options, RuntimeError (or the operator's error) for what is wrong with the graph.
        """
        if self._closed:
            raise PipelineClosed("the pipeline was closed")
        self._refuse_in_callbacks("build()")
        with self._building:
            if self._session is None:
                self._build(define_graph)

    def _build(self, define_graph: Callable[[], Any] | None) -> None:
        if define_graph is not None:
            self.define_graph = define_graph  # type: ignore[method-assign]
        self._options.check_for_build()
        from ..runtime.session import Session  # brings in asyncio and threads: only pipelines that are built need them

        close_at_exit(self)
        self._release_unfinished()
        try:
            self._start_workers()  # before the device is touched: a process cannot be forked after that
            self._session = Session(
                self._options, self._output_nodes(), self._definition.instances, self, self._parallel, self._unfinished.append,
                self._engines,
            )  # fmt: skip
        finally:
            self._release_unfinished()

    def _release_unfinished(self) -> None:
        """Close what a build that failed or was interrupted has opened.

        What this does not come to, because of another interrupt, is left for the next build or :meth:`close`.
        """
        if not self._unfinished:
            return
        from asyncdali_workers.interrupts import uninterrupted

        with uninterrupted():
            if self._session is None:
                for close in reversed(self._unfinished):
                    close()
                if self._parallel is not None and self._parallel.pool.closed:
                    self._parallel = None
                if self._engines is not None and self._engines.closed:
                    self._engines = None
            self._unfinished.clear()

    def start_py_workers(self) -> None:
        """Start the worker processes of parallel external sources, and engines; :meth:`build` does it otherwise.

        With the start method "fork" it has to be done before anything in this process uses CUDA: call it for all pipelines before building
        any. Does nothing without parallel sources and engines, or the second time. Raises RuntimeError when a process cannot be forked
        any more, or when the workers do not start.
        """
        if self._closed:
            raise PipelineClosed("the pipeline was closed")
        self._refuse_in_callbacks("start_py_workers()")
        with self._building:
            self._options.check_for_build()
            self._release_unfinished()
            self._start_workers()
            self._unfinished.clear()

    def _start_workers(self) -> None:
        if self._parallel is None:
            self._start_parallel()
        if self._engines is None and self._options.engines:
            from .engines import start_engines

            self._engines = start_engines(self, self._unfinished.append)

    def _start_parallel(self) -> None:
        from ..graph.plan import reachable
        from ..sources.group import parallel_groups
        from ..tooling.doctor import at_build

        order = reachable(self._output_nodes(), self._definition.instances).order
        groups = parallel_groups(order)
        at_build(self._options, {instance.schema.name for instance in order}, bool(groups))
        if groups:
            from ..sources.parallel import Parallel

            parallel = Parallel(groups, self._options, self._saved_positions())
            self._unfinished.append(parallel.close)
            try:
                parallel.start()
                self._parallel = parallel
            except BaseException:
                self._release_unfinished()
                raise

    def _saved_positions(self) -> dict[str, Any]:
        """Of the checkpoint to be restored: positions by operator."""
        data = self._options.checkpoint
        return {} if data is None else checkpoints.decode(data).get("operators", {})

    def _built_session(self) -> Session:
        if self._closed:
            raise PipelineClosed("the pipeline was closed")
        if self._session is None:
            self.build()
        assert self._session is not None
        self._session.executor.check_process()
        return self._session

    def _refuse_in_callbacks(self, name: str, hook: bool = True) -> None:
        """RuntimeError if a function that this pipeline calls is the caller: it would wait for itself, or change what is half done.

        `hook`: the legacy hook ``iter_setup`` may not call it either.
        """
        session = self._session
        if self._in_engine:
            raise RuntimeError(
                f"{name} was called from a function that this very pipeline calls, in one of its engines. Call it from outside; other "
                "pipelines can be used here."
            )
        if self._building._is_owned() if session is None else session.calls_here(hook):  # type: ignore[attr-defined]
            raise RuntimeError(
                f"{name} was called from a function that this very pipeline calls (a source, the function of an operator, or the graph "
                "function while building). Call it from outside, when the pipeline's call has returned; other pipelines can be used here."
            )

    # --- running

    def enable_api_check(self, enable: bool) -> None:
        """False allows to mix `run`, the scheduled calls and iterators on one pipeline."""
        self._api_check = enable

    def _use_api(self, kind: PipelineAPIType) -> None:
        if not self._api_check:
            return
        if self._api_type is None:
            self._api_type = kind
        elif self._api_type is not kind:
            raise RuntimeError(
                f"Mixing pipeline API type. Currently used: {self._api_type}, but trying to use: {kind}. "
                "Use either `run`, or `schedule_run` and `outputs`/`share_outputs`, or an iterator."
            )

    def iter_setup(self) -> None:
        """Legacy hook: called once before each scheduled iteration, after the sources were asked; may feed inputs, or raise StopIteration
        to end the epoch."""

    def _launch(self, session: Session) -> None:
        """Queue one iteration; on the first call as many as the queue is deep."""
        session.producer.schedule(self.iter_setup)
        if not self.exec_async:
            session.wait_all()
        session.check_open()

    def run(self, cuda_stream: Any = None, /, **inputs: Any) -> tuple[TensorListCPU | TensorListGPU, ...]:
        """Run one iteration and return its outputs.

        Keeps `prefetch_queue_depth` iterations in flight. With `cuda_stream` (a handle, or a torch, CuPy, CUDA stream object) the
        call does not wait for GPU outputs; they are ordered on that stream instead.

        Raises the operator's error at the iteration it belongs to (the next call goes on with the next iteration), StopIteration at the end
        of the data, RuntimeError when API families are mixed.
        """
        self._refuse_in_callbacks("run()")
        self._use_api(PipelineAPIType.BASIC)
        session = self._built_session()
        _check_stream(cuda_stream, self)
        if inputs:
            self._feed_now(session, inputs, cuda_stream)
        return take_next(session, self._launch, cuda_stream)

    def _feed_now(self, session: Session, inputs: dict[str, Any], cuda_stream: Any) -> None:
        """`run(name=data)`: only where the next iteration is the one returned."""
        for name in inputs:
            session.producer.sources.port(name)  # all or nothing
        if self.exec_pipelined and session.depth > 1:
            raise RuntimeError(
                "Inputs can be given to `run` only with prefetch_queue_depth=1 or exec_pipelined=False: otherwise the outputs returned are "
                "not "
                f"those of the data given. This pipeline has prefetch_queue_depth={self.prefetch_queue_depth}, "
                f"exec_pipelined={self.exec_pipelined}."
            )
        for name, data in inputs.items():
            session.producer.feed(name, data, None, cuda_stream)

    def schedule_run(self) -> None:
        """Queue one iteration (the first call fills the queue); does not wait when `exec_async`."""
        self._refuse_in_callbacks("schedule_run()")
        self._use_api(PipelineAPIType.SCHEDULED)
        session = self._built_session()
        self._launch(session)
        session.producer.wait_without_frames()

    def outputs(self, cuda_stream: Any = None, /) -> tuple[TensorListCPU | TensorListGPU, ...]:
        """Release what was shared before, wait for the oldest scheduled iteration and return its outputs.

        Raises StopIteration when nothing is scheduled, else as :meth:`run`.
        """
        self._refuse_in_callbacks("outputs()")
        self.release_outputs()
        return self.share_outputs(cuda_stream)

    def share_outputs(self, cuda_stream: Any = None, /) -> tuple[TensorListCPU | TensorListGPU, ...]:
        """As :meth:`outputs`, keeping what was shared before."""
        self._refuse_in_callbacks("share_outputs()")
        self._use_api(PipelineAPIType.SCHEDULED)
        _check_stream(cuda_stream, self)
        result = self._built_session().fetch(cuda_stream)
        self._shared.append(result)
        return result

    def release_outputs(self) -> None:
        """Give up the outputs shared so far (they stay valid as long as they are referenced)."""
        self._refuse_in_callbacks("release_outputs()")
        self._use_api(PipelineAPIType.SCHEDULED)
        self._shared.clear()

    def empty(self) -> bool:
        """True when no scheduled iteration is left to be fetched."""
        return self._session is None or not self._session.in_flight

    def reset(self) -> None:
        """After the end of the data: start the next epoch. Does nothing otherwise.

        A pipeline with a `checkpoint` is built: the checkpoint may have been taken at the end of the data.
        """
        self._refuse_in_callbacks("reset()")
        if self._session is not None or self._options.checkpoint is not None:
            self._built_session().producer.reset()

    # --- data from Python

    def feed_input(
        self, data_node: str | DataNode, data: Any, layout: str | None = None, cuda_stream: Any = None, use_copy_kernel: bool = False
    ) -> None:
        """Queue a batch for an external input without a source (builds); each iteration takes one.

        `data` is a list of arrays, an array whose first axis counts samples, a TensorList, or a DLPack object. It is copied unless the
        input has ``no_copy=True``. Data in the memory of the pipeline's GPU (CuPy, torch, DLPack, TensorGPU, TensorListGPU), for an input
        there, are copied in the order of `cuda_stream` (a handle or stream object; None or -1: the one that the data name). If there
        is none, the call waits for the copy. `use_copy_kernel` changes nothing in the result.

        Raises KeyError for an unknown input, RuntimeError for one that has a source and for data that is no batch or larger than
        the batch size, TypeError for a `data_node` that is neither a name nor a node. What contradicts the input's dtype, ndim or layout
        fails the iteration it would have fed.
        """
        self._refuse_in_callbacks("feed_input()", hook=False)
        session = self._built_session()
        try:
            session.producer.feed(data_node, data, layout, cuda_stream)
        except Exception as error:
            session.check_open(error)
            raise

    def input_feed_count(self, input_name: str) -> int:
        """How many batches to feed before the first run, so that nothing waits (builds); before later runs one each. KeyError if
        unknown."""
        return self._built_session().producer.feed_count(input_name)

    def external_source_shm_statistics(self) -> dict[str, list[int]]:
        """Shared memory of the worker processes: `capacities` and `per_sample_capacities` in bytes; empty lists without workers."""
        return {"capacities": [], "per_sample_capacities": []} if self._parallel is None else self._parallel.shm_statistics()

    def worker_statistics(self) -> dict[str, Any]:
        """What the worker processes did: tasks, busy and waiting time, bytes, restarts; empty without workers."""
        return {} if self._parallel is None else self._parallel.pool.statistics()

    # --- asynchronous front end

    async def run_async(self, *, stream: Any = None) -> tuple[TensorListCPU | TensorListGPU, ...]:
        """As :meth:`run`, awaitable in any running event loop; several tasks may wait at once and are served in turn.

        A cancelled await loses no batch. The end of the data is StopAsyncIteration.
        """
        self._refuse_in_callbacks("run_async()")
        self._use_api(PipelineAPIType.BASIC)
        session = self._built_session()
        _check_stream(stream, self)
        async with AsyncExitStack() as stack:
            turn = session.turn()  # now: the order is that of the calls
            stack.push_async_exit(turn)
            async with claim(session, self._launch):
                await turn.__aenter__()
                session.arrives()
                if session.in_flight:
                    await session.in_flight[0].wait_async()
                    if stream is None:
                        await session.device_done()
            try:
                return session.fetch(stream)
            except StopIteration:
                raise StopAsyncIteration from None

    def __aiter__(self) -> AsyncIterator[Any]:
        """One epoch: until the sources end, or for pipelines of readers until `epoch_size` samples were delivered.

        Batches are what :meth:`run` returns; with :attr:`output_names`, dicts of it by name.
        """
        return self._epoch_async()

    async def _epoch_async(self) -> AsyncIterator[Any]:
        session = self._built_session()
        end = session.end_of_epoch()
        while end is None or session.iteration < end:
            try:
                batch = await self.run_async()
            except StopAsyncIteration:
                self.reset()
                return
            yield self._named(batch)

    def epoch(self) -> Iterator[Any]:
        """``for batch in pipe.epoch():`` one epoch, as ``async for batch in pipe`` gives it. After a `break`, the rest of that epoch comes
        next."""
        self._refuse_in_callbacks("epoch()")
        session = self._built_session()
        self._use_api(PipelineAPIType.BASIC)
        return self._epoch(session)

    def _epoch(self, session: Session) -> Iterator[Any]:
        end = session.end_of_epoch()
        while end is None or session.iteration < end:
            try:
                batch = self.run()
            except StopIteration:
                self.reset()
                return
            yield self._named(batch)

    def _named(self, batch: tuple[Any, ...]) -> Any:
        return batch if self.output_names is None else dict(zip(self.output_names, batch, strict=True))

    def __del__(self) -> None:
        # Not weakref.finalize: what it would have to hold (the session, and through it users' sources) may refer to the pipeline.
        if getattr(self, "_closed", True) is False:
            self._close()

    async def __aenter__(self) -> Pipeline:
        """Build; the pipeline is closed at the end of the block."""
        self._built_session()
        return self

    async def __aexit__(self, *exc: object) -> None:
        self.close()

    def close(self) -> None:
        """Stop threads and free what the pipeline holds, within a second; outputs stay valid. Idempotent.

        Callers that wait in other threads, and all later calls, get PipelineClosed. RuntimeError from a function that the pipeline calls.
        """
        if not self._closed:
            self._refuse_in_callbacks("close()")
            self._close()

    def _close(self) -> None:
        """Closing is not interrupted: what it has not come to could not be closed again."""
        if self._closed:
            return
        if self._session is None and self._parallel is None and self._engines is None and not self._unfinished:
            self._closed = True
            return
        from asyncdali_workers.interrupts import uninterrupted

        with uninterrupted():
            self._closed = True
            self._release_unfinished()
            if self._session is not None:
                self._session.close()
                return
            for pool in (self._parallel, self._engines):
                if pool is not None:
                    pool.close()

    # --- metadata

    def epoch_size(self, name: str | None = None) -> int | dict[str, int]:
        """Padded epoch size of the reader `name`, or a dict of all readers' (builds). RuntimeError for an unknown name."""
        if name is not None:
            return int(self.reader_meta(name)["epoch_size_padded"])
        return {reader: meta["epoch_size_padded"] for reader, meta in self.reader_meta().items()}

    def reader_meta(self, name: str | None = None) -> dict[str, Any]:
        """Metadata of the reader `name` (builds), or a dict of all readers'.

        Integers `epoch_size`, `epoch_size_padded`, `number_of_shards`, `shard_id`, `pad_last_batch`, `stick_to_shard`. RuntimeError for an
        unknown name.
        """
        metas = self._built_session().reader_metas()
        if name is None:
            return metas
        if name not in metas:
            known = ", ".join(map(repr, metas)) or "none"
            raise RuntimeError(f"Operator {name!r} not found or does not expose valid metadata. Readers of this pipeline: {known}.")
        return metas[name]

    def executor_statistics(self) -> dict[str, Any]:
        """Empty with the default executor; otherwise {operator: memory statistics per output} when `enable_memory_stats`."""
        return self._built_session().memory_statistics()

    def statistics(self) -> Statistics:
        """Where the time went since the pipeline was built (builds): per segment, operator, source, stream and worker process, and how full
        the queue was. The difference of two is that of what happened between: ``pipe.statistics().since(earlier)``.

        RuntimeError with ``enable_statistics=False``.
        """
        return self._built_session().statistics()

    def output_stream(self) -> int | None:
        """Handle of the native stream on which GPU outputs are ordered (builds); None on the host device, which has none."""
        return self._built_session().output_stream()

    def save_graph_to_dot_file(
        self, filename: str | os.PathLike[str], *, show_tensors: bool = False, show_ids: Any = None, use_colors: bool = False
    ) -> None:
        """Write the graph that runs as a Graphviz file (builds); `show_tensors` draws the data, too, `use_colors` marks the devices."""
        if show_ids is not None:
            warn("`show_ids` does nothing: operators are identified by their names", DeprecationWarning)
        from ..graph.dot import dot

        drawn = dot(self._built_session().plan, show_tensors, use_colors)  # before the file is opened: this may fail
        with open(filename, "w", encoding="utf-8") as file:
            file.write(drawn)

    def save_graph_to_svg_file(self, filename: str | os.PathLike[str]) -> None:
        """Draw the plan (builds): a column per stage, a frame per segment; hovering shows arguments and the user's line."""
        from ..graph.drawing import svg

        drawn = svg(self._built_session().plan)  # before the file is opened: this may fail
        with open(filename, "w", encoding="utf-8") as file:
            file.write(drawn)

    def __str__(self) -> str:
        """What runs, segment by segment; before building only that it is not built."""
        head = f"{type(self).__name__}(batch_size={self.max_batch_size}, num_threads={self.num_threads}, device_id={self.device_id})"
        if self._session is None:
            return f"{head}, not built: {len(self._definition.instances)} operators"
        from ..graph.drawing import text

        return f"{head}\n{text(self._session.plan)}"

    # --- the graph as data

    def serialize(self, define_graph: Callable[[], Any] | None = None, filename: str | os.PathLike[str] | None = None) -> bytes:
        """The graph and the pipeline's options as bytes (JSON); also written to `filename`. State is not included: see :meth:`checkpoint`.

        RuntimeError if an operator holds Python objects (callbacks). Does not build; unlike :meth:`build` it accepts any options.
        """
        if define_graph is not None:
            if not callable(define_graph):
                raise TypeError(
                    f"define_graph must be callable, got {type(define_graph).__name__}. Did you mean `.serialize(filename=...)`?"
                )
            self.define_graph = define_graph  # type: ignore[method-assign]
        from ..graph import serialize

        data = serialize.serialize(self._output_nodes(), self._definition.instances, stored_options(self._options))
        if filename is not None:
            checkpoints.write(filename, data)
        return data

    @classmethod
    def deserialize(
        cls,
        serialized_pipeline: bytes | None = None,
        filename: str | os.PathLike[str] | None = None,
        *,
        allow: Iterable[str | os.PathLike[str]] | None = None,
        allow_write: Iterable[str | os.PathLike[str]] | None = (),
        **overrides: Any,
    ) -> Pipeline:
        """A pipeline from what :meth:`serialize` gave or wrote. Nothing is opened, listed or written before :meth:`build` or the first use.

        The bytes hold no code. They do name files, and sizes: what is read when the pipeline is built and run is up to whoever made them.
        Give `allow` for bytes that somebody else made (see SECURITY.md).

        Args:
            serialized_pipeline: the bytes; or
            filename: the file that holds them.
            allow: what the graph may read: folders, schemes (``"s3://"``) and beginnings of URLs. It also limits the entries of lists,
                manifests and annotations. None: everything.
            allow_write: folders in which the graph may write: indices of ``readers.tfrecord``, saved annotations of ``readers.coco``.
                None: everywhere.
            overrides: options of the pipeline; they take precedence over the stored ones.

        Raises:
            RuntimeError: the bytes are not a pipeline. What lies outside of `allow` is refused in :meth:`build`, where a file names it when
                that file is read, and in ``io.file.read`` when it runs.
        """
        if (serialized_pipeline is None) == (filename is None):
            raise ValueError("serialized_pipeline and filename are mutually exclusive; give precisely one of them")
        from ..graph import serialize

        access = Access.of(allow, allow_write)
        document = serialize.parse(_read(filename) if serialized_pipeline is None else serialized_pipeline)
        pipeline = cls(**{**own_options(serialize.options_of(document)), **both_spellings(overrides)})
        pipeline._adopt(document, access)
        return pipeline

    def deserialize_and_build(
        self,
        serialized_pipeline: bytes,
        *,
        allow: Iterable[str | os.PathLike[str]] | None = None,
        allow_write: Iterable[str | os.PathLike[str]] | None = (),
    ) -> None:
        """Take the graph of a serialized pipeline, keep this object's own options, and build: files are opened and listed.

        `batch_size`, `num_threads` and `seed` are the stored ones where this object was given none: its operators continue as those of the
        stored pipeline do from its start. `allow` and `allow_write` limit which files are opened, as in :meth:`deserialize`. RuntimeError
        if this pipeline is built already, or for what is no serialized pipeline.
        """
        if self._session is not None:
            raise RuntimeError("the pipeline is built already; its graph cannot be replaced")
        from ..graph import serialize

        access = Access.of(allow, allow_write)
        document = serialize.parse(serialized_pipeline)
        self._options.fill_in(serialize.options_of(document))
        self._adopt(document, access)
        self.build()

    def _adopt(self, document: dict[str, Any], access: Access) -> None:
        from .. import fn  # noqa: F401  registers the operators
        from ..graph import serialize

        self._outputs, self._definition.instances = serialize.rebuild(document, self)
        self._access = access

    # --- checkpoints

    def checkpoint(self, filename: str | os.PathLike[str] | None = None) -> bytes:
        """The state after the last iteration returned, as bytes; also written to `filename` (atomically) if given. Builds.

        Restore with ``Pipeline(..., enable_checkpointing=True, checkpoint=data)``. RuntimeError unless `enable_checkpointing`.
        """
        self._refuse_in_callbacks("checkpoint()")
        if not self._options.enable_checkpointing:
            raise RuntimeError(
                "Cannot save the checkpoint. The `enable_checkpointing` was not specified when creating the pipeline"
            )
        data = self._built_session().checkpoint(__version__)
        if filename is not None:
            checkpoints.write(filename, data)
        return data


def _read(filename: Any) -> bytes:
    with open(filename, "rb") as file:
        return file.read()


def _check_stream(stream: Any, pipeline: Pipeline) -> None:
    """TypeError for what is no stream; RuntimeError without the default executor."""
    if stream is None:
        return
    import ctypes

    named = ("__cuda_stream__", "cuda_stream", "ptr", "handle")
    if not isinstance(stream, (int, np.integer, ctypes.c_void_p)) and not any(hasattr(stream, name) for name in named):
        raise TypeError(f"cuda_stream must be a stream handle or a stream object, got {type(stream).__name__}")
    if not pipeline.exec_dynamic:
        raise RuntimeError("outputs on a stream need the default executor (exec_dynamic=True)")

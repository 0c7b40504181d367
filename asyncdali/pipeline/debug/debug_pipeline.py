"""DebugPipeline: runs the pipeline function in every iteration, operator by operator.

``debug=True`` replaces the pipeline's ``Definition`` (``debug_definition``). An operator that is added to it runs immediately, on the
calling thread, as a brick of dynamic mode, and its output nodes get data. A call (``debug_calls``) is matched to its operator by the lines
of the user's program that lead to the call. Checks, error texts and random streams are those of a graph.

The first mixed or gpu operator chooses the device. A GPU works on one stream, and the host waits only for contents that it reads:
``.get()``, printing, ``.cpu()``, outputs. An interrupt may come between any two steps of the calling thread, so after an error the stream
and the decoders are waited for.

Positions are those of a graph. An iteration that meets the end of the data, an error of a source or an interrupt is repeated: all
positions are restored. After any other error, the positions of calls that were not reached advance, too. With conditional execution both
branches run, with partial batches.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from time import perf_counter_ns
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np

from ...data_node import DataNode
from ...errors import OperatorTypeError
from ...graph import context
from ...graph.constants import output_constant
from ...options import PipelineOptions
from ...runtime.work.immediate import Engine, repeated
from ...runtime.work.output_lists import mismatch
from ...tensors import TensorListCPU, TensorListGPU
from ...tensors.lists import cpu_list
from ..closing import close_at_exit
from ..conversion import check_convertible
from ..core import Core
from ..decorator import outputs_of
from ..pipeline import Pipeline
from .definition import DataNodeDebug, DebugDefinition

if TYPE_CHECKING:
    from ...runtime.counting.statistics import Statistics

_WITHOUT = "is not available in debug mode (debug=True)"


class DebugCore(Core):
    """The core of a pipeline in debug mode: a definition whose operators run immediately, and no session.

    Attributes:
        debugged: the definition.
        engine: memory and threads of the operators; None before :meth:`build`.
        runner: the thread that is in :meth:`DebugPipeline.run`.
    """

    def __init__(self, pipeline: Pipeline, options: PipelineOptions):
        self.debugged = DebugDefinition(options)
        super().__init__(pipeline, options, self.debugged)
        self.engine: Engine | None = None
        self.runner: int | None = None

    @property
    def is_built(self) -> bool:
        return self.engine is not None

    @property
    def seed(self) -> int | None:
        return self.options.seed if self.engine is None or self.options.seed is not None else self.engine.seed

    def build(self, define_graph: Callable[[], Any] | None = None) -> None:
        self.check_open()
        if define_graph is not None:
            raise RuntimeError(f"define_graph {_WITHOUT}: the pipeline function is executed in every run")
        with self.building:
            if self.engine is not None:
                return
            self.options.check_for_build()
            if self.options.checkpoint is not None:
                raise RuntimeError(f"restoring a checkpoint {_WITHOUT}")
            self.engine = Engine(self.options, f"asyncdali-{id(self.pipeline):x}", self.calling)
            self.debugged.start(self.engine)
            close_at_exit(self)

    def built(self) -> NoReturn:
        raise RuntimeError(f"this {_WITHOUT}: there is no graph, the pipeline function is executed in every run")

    def start_workers(self) -> None:
        self.check_open()  # sources of workers run in this process

    def refuse_in_callbacks(self, name: str, hook: bool = True) -> None:
        if self.runner == threading.get_ident():
            raise RuntimeError(f"{name} was called from the function of the same pipeline, or from a function that the pipeline calls")

    def close(self) -> None:
        if self.closed:
            return
        super().close()
        if self.engine is not None:
            self.engine.close()  # first: operators are closed when the GPU has finished their work
            self.debugged.close()


class DebugPipeline(Pipeline):
    """A pipeline with ``debug=True``, made by :func:`pipeline_def`.

    Every :meth:`run` executes the pipeline function. Operators compute their results when they are called and return :class:`DataNodeDebug`
    nodes; ``.get()`` and printing show their data. There is no graph, so methods that need one raise RuntimeError. With conditional
    execution (`rewrites`) both branches of an `if` on a node are executed, each with its samples.
    """

    _core: DebugCore
    _core_class = DebugCore

    def __init__(self, function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any], rewrites: bool = False, **options: Any):
        if rewrites:
            check_convertible(function)
        if options.get("engines"):
            raise ValueError(
                f"debug=True runs every operator in this process, when it is called; engines={options['engines']} was given. Leave out "
                "one of them."
            )
        super().__init__(**options)
        self._rewrites = rewrites
        self._function = function
        self._arguments = (args, kwargs)
        self._running = threading.Lock()

    # --- running

    def run(self, cuda_stream: object = None, /, **inputs: object) -> tuple[TensorListCPU | TensorListGPU, ...]:
        """Execute the pipeline function and return its outputs.

        Raises an operator's error at the line that called it, StopIteration at the end of the data, and RuntimeError for a stream and for
        `inputs`.
        """
        if cuda_stream is not None:
            raise RuntimeError(f"run() with a stream {_WITHOUT}")
        if inputs:
            raise RuntimeError(f"run() with inputs {_WITHOUT}: use feed_input()")
        self.build()
        self._core.refuse_in_callbacks("run()")
        index, outputs = -1, None
        finished = self._core.debugged.finished
        try:
            with self._running:
                began = perf_counter_ns()
                try:
                    self._core.runner = threading.get_ident()
                    index, outputs = self._core.debugged.run(self._iterate)
                finally:
                    self._core.runner = None
                    engine = self._core.engine
                    if engine is not None and engine.counters is not None:
                        engine.counters.ran(began, outputs)
                finished.pop(index)
            return outputs
        except BaseException:
            if outputs is not None:
                finished[index] = outputs  # an interrupt: the next run returns them
            raise

    async def run_async(self, *, stream: object = None) -> tuple[TensorListCPU | TensorListGPU, ...]:
        """Run one iteration, as :meth:`run` does. It blocks the event loop. Raises StopAsyncIteration at the end of the data."""
        try:
            return self.run(stream)
        except StopIteration:
            raise StopAsyncIteration from None

    def _iterate(self) -> tuple[TensorListCPU | TensorListGPU, ...]:
        """Call the pipeline function. Its results are returned as tensor lists."""
        args, kwargs = self._arguments
        definition = self._core.debugged
        with context.Defining(self, definition):
            returned = outputs_of(self, definition, self._function, args, kwargs, self._rewrites)
            if returned is None:
                returned = self.define_graph()  # raises the error for missing outputs
            outputs = [self._output(item, k) for k, item in enumerate(returned)]
        declared = [self._core.options.expected(f"output_{fact}", len(outputs)) for fact in ("dtype", "ndim", "layout")]
        error = mismatch([item._batch for item in outputs], *declared)
        if error is not None:
            raise error
        return tuple(outputs)

    def _output(self, value: object, index: int) -> TensorListCPU | TensorListGPU:
        """One output. A value that is no batch is repeated for every sample."""
        if isinstance(value, DataNodeDebug):
            return value.get()
        if isinstance(value, DataNode):
            raise RuntimeError(f"Output {index}, {value.name!r}, has no data: it was made outside of the pipeline function")
        if isinstance(value, (TensorListCPU, TensorListGPU)):
            return value
        array, dtype = output_constant(value, index)
        return cpu_list(repeated(np.asarray(array), dtype, "", self._core.debugged.size()))

    def reset(self) -> None:
        """Start the next epoch after the end of the data. Otherwise do nothing."""
        self._core.refuse_in_callbacks("reset()")
        self._core.debugged.reset()

    # --- data from Python

    def feed_input(
        self, data_node: str | DataNode, data: object, layout: str | None = None, cuda_stream: object = None, use_copy_kernel: bool = False
    ) -> None:
        """Queue a batch for an external input without a source. Each run takes one.

        Before the first run no input is known, so the data is kept for the future input of that name. Errors are those of a graph.
        """
        if not isinstance(data_node, (str, DataNode)):
            raise OperatorTypeError(f"an external input is given by its name or node, got {type(data_node).__name__}")
        self.build()
        self._core.debugged.feed(data_node if isinstance(data_node, str) else data_node.name, data, layout, cuda_stream)

    def input_feed_count(self, input_name: str) -> int:
        """1: a run takes one batch of each input."""
        return 1

    def statistics(self) -> Statistics:
        """Statistics since the build, as of other pipelines. All work happens inside :meth:`run`, so the consumer waits for all of it."""
        self.build()
        engine = self._core.engine
        assert engine is not None
        return engine.statistics()

    # --- the rest

    def add_sink(self, edge: DataNode) -> None:
        """Does nothing, because every called operator runs."""
        if not isinstance(edge, DataNode):
            raise TypeError(f"add_sink expects a DataNode, got {type(edge).__name__}")

    def __str__(self) -> str:
        options = f"batch_size={self.max_batch_size}, num_threads={self.num_threads}, device_id={self.device_id}"
        return f"{type(self).__name__}({options}), debug mode: {len(self._core.debugged)} operators were called so far"

    async def __aenter__(self) -> DebugPipeline:
        self.build()
        return self


def _unavailable(name: str, what: str) -> Callable[..., Any]:
    def method(self: DebugPipeline, *args: object, **kwargs: object) -> Any:
        raise RuntimeError(f"{what} {_WITHOUT}")

    method.__name__, method.__qualname__ = name, f"DebugPipeline.{name}"
    method.__doc__ = "Not available in debug mode: RuntimeError."
    return method


for _name in (
    "schedule_run", "outputs", "share_outputs", "release_outputs", "set_outputs", "serialize", "deserialize_and_build", "checkpoint",
    "epoch_size", "reader_meta", "executor_statistics", "output_stream", "save_graph_to_dot_file", "save_graph_to_svg_file", "output_dtype",
    "output_ndim", "output_layout", "__enter__", "__aiter__",
):  # fmt: skip
    setattr(DebugPipeline, _name, _unavailable(_name, f"{_name}()"))

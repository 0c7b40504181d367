"""Pipeline: the public class. Its parts are in modules of their own; the work is done by its core (``core.py``)."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from .. import checkpoint as checkpoints
from .._version import __version__
from ..access import Access
from ..data_node import DataNode
from ..graph import context
from ..options import PipelineOptions, option_names, unknown_option
from .core import Core
from .front import core_of
from .properties import Properties
from .reports import Reporting
from .running import Running
from .storing import both_spellings, own_options, stored_options
from .streams import refuse_to_store

if TYPE_CHECKING:
    from ..provenance.diff import Difference
    from ..runtime.blueprint import Calling


class Pipeline(Properties, Running, Reporting):
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
        enable_statistics: count the numbers of :meth:`statistics` (some microseconds per iteration).
        enable_checkpointing, checkpoint: see :meth:`checkpoint`; `checkpoint` (bytes) is restored in :meth:`build`.
        strict: refuse a checkpoint of another graph or data set; False logs the differences and continues.
        py_num_workers, py_start_method, py_callback_pickler: Python worker processes of parallel external sources.
        worker_timeout: seconds a parallel source may take for a sample (a batch, for sources of batches); then its worker is replaced.
            None: no limit.
        max_retries: how often a sample that kills its worker is tried again.
        engines: processes that make the CPU part of each iteration (docs/engines.md); 0: this process does.
        engine_start_method: how engines are started, as `py_start_method`.
        engine_timeout: seconds an engine may take for an iteration; then it is replaced, and the iteration made again. None: no limit.
            Also the seconds without progress that its start may have, if they are more than 300.
        engine_cut: nodes (or names of operators) up to which engines work; None: all CPU operators that need nothing of a GPU.
        engine_sources: engines call the sources that need nothing but a position; False: this process calls all sources.
        output_dtype, output_ndim, output_layout: what every output must be (a value for all, or a list); checked in every iteration.
        exec_dynamic: None: on unless `exec_pipelined` or `exec_async` is off or the queues are separate. False forbids ``.cpu()`` in the
            graph.
        on_error: "raise" (default): the error of a sample is the error of its iteration. "replace": another sample takes its place.
            "drop": the batch is smaller. A function ``(error, entry) -> one of these`` decides for each bad sample. A dict has one of
            these for each operator: ``{"decoders.image": "replace", "*": "raise"}`` (docs/bad_data.md).
        replace_from: "shard" or "data set": where replacements come from.
        max_bad: most bad samples: a number, or a fraction of the data set below 1. None: no limit.
        quarantine: a file that bad samples are appended to, and that names samples to leave out.
        stream_policy, concurrency: how work is spread over streams, and which operators may overlap.
    """

    _core_class: type[Core] = Core

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
        chosen = PipelineOptions(
            batch_size=batch_size, num_threads=num_threads, device_id=device_id, seed=seed, exec_pipelined=exec_pipelined,
            prefetch_queue_depth=prefetch_queue_depth, exec_async=exec_async, bytes_per_sample=bytes_per_sample,
            set_affinity=set_affinity, max_streams=max_streams, default_cuda_stream_priority=default_cuda_stream_priority, **options,
        )  # fmt: skip
        self._core = self._core_class(self, chosen)
        self.output_names = None

    # --- current pipeline

    @staticmethod
    def current() -> Pipeline | None:
        """The pipeline being defined on this thread. In a function that a pipeline calls while it runs: a stand-in with its properties."""
        pipeline = context.current()
        return pipeline if isinstance(pipeline, Pipeline) else None

    @staticmethod
    def push_current(pipeline: Pipeline) -> Pipeline | None:
        """Make `pipeline` current on this thread; returns the previous one."""
        previous = context.push(pipeline, None if pipeline is None else core_of(pipeline).definition)
        return previous if isinstance(previous, Pipeline) else None

    @staticmethod
    def pop_current() -> None:
        """Leave the current pipeline; AttributeError if there is none."""
        context.pop()

    def _calling(self, seed: int | None) -> Calling:
        """See :meth:`Core.calling`."""
        from .callbacks import calling

        attributes = {name: value for name, value in vars(self).items() if not name.startswith("_")}
        return calling(self._core.options, seed, self._core.reported, attributes)

    @staticmethod
    def _calling_elsewhere(options: PipelineOptions, seed: int) -> Calling:
        """As :meth:`_calling`, in an engine that has no pipeline."""
        from .callbacks import calling

        return calling(options, seed, {}, {"output_names": None})

    def __enter__(self) -> Pipeline:
        """Operators made inside the block belong to this pipeline."""
        context.enter(self, self, self._core.definition)
        return self

    __exit__ = context.leave

    # --- definition

    def define_graph(self) -> Any:
        """Legacy: override to define the graph; return the outputs."""
        raise NotImplementedError(
            "this pipeline has no outputs: give it a graph with set_outputs(), or return at least one output from the graph function"
        )

    def set_outputs(self, *outputs: object) -> None:
        """Set the outputs: DataNodes, or constants (numbers, arrays, flat lists).

        Before building, the last call wins; after, it does nothing.
        """
        self._core.set_outputs(list(outputs))

    def add_sink(self, edge: DataNode) -> None:
        """Run the operator behind `edge` although nothing uses its outputs."""
        if not isinstance(edge, DataNode):
            raise TypeError(f"add_sink expects a DataNode, got {type(edge).__name__}")
        edge.source.constants["preserve"] = True
        definition = self._core.definition
        if edge.source not in definition.instances:
            definition.add(edge.source)

    # --- building and closing

    def build(self, define_graph: Callable[[], Any] | None = None) -> None:
        """Check the options, instantiate the operators, restore the checkpoint if one was given. Idempotent; nothing runs yet.

        `define_graph`, if given, is called without arguments to define the graph. Raises ValueError/TypeError for options, RuntimeError (or
        the operator's error) for errors of the graph.
        """
        self._core.build(define_graph)

    def start_py_workers(self) -> None:
        """Start the worker processes of parallel external sources, and engines; :meth:`build` does it otherwise.

        With the start method "fork" it has to be done before anything in this process uses CUDA: call it for all pipelines before building
        any. Does nothing without parallel sources and engines, or the second time. Raises RuntimeError when a process cannot be forked
        any more, or when the workers do not start.
        """
        self._core.start_workers()

    async def __aenter__(self) -> Pipeline:
        """Build; the pipeline is closed at the end of the block."""
        self._core.built()
        return self

    async def __aexit__(self, *exc: object) -> None:
        self.close()

    def close(self) -> None:
        """Stop threads and free what the pipeline holds, within a second; outputs stay valid. Idempotent.

        Callers that wait in other threads, and all later calls, get PipelineClosed. RuntimeError from a function that the pipeline calls.
        """
        if not self._core.closed:
            self._core.refuse_in_callbacks("close()")
            self._core.close()

    def __del__(self) -> None:
        # Not weakref.finalize: the finaliser would hold the session. The session holds users' sources, which may refer to the pipeline.
        core = self.__dict__.get("_core")
        if core is not None and not core.closed:
            core.close()

    def __str__(self) -> str:
        """The plan as text, segment by segment. Before :meth:`build` the text says that the pipeline is not built."""
        head = f"{type(self).__name__}(batch_size={self.max_batch_size}, num_threads={self.num_threads}, device_id={self.device_id})"
        session = self._core.session
        if session is None:
            return f"{head}, not built: {len(self._core.definition.instances)} operators"
        from ..graph.drawing import text

        return f"{head}\n{text(session.plan)}"

    # --- the graph as data

    def serialize(
        self, define_graph: Callable[[], Any] | None = None, filename: str | os.PathLike[str] | None = None, *, format: str = "asyncdali"
    ) -> bytes:
        """The graph and the pipeline's options as bytes (JSON); also written to `filename`. State is not included: see :meth:`checkpoint`.

        `define_graph`, if given, is called without arguments to define the graph first. With ``format="dali"`` DALI 2.4 can make the
        pipeline from the bytes; options for statistics, processes and layouts of outputs are not in them.

        RuntimeError if an operator holds Python objects (callbacks), and with ``format="dali"`` for everything that DALI does not have.
        ValueError for another `format`. Does not build; unlike :meth:`build` it accepts any options.
        """
        if format not in ("asyncdali", "dali"):
            raise ValueError(f"format is {format!r}; it must be 'asyncdali' or 'dali'")
        if define_graph is not None:
            if not callable(define_graph):
                raise TypeError(
                    f"define_graph must be callable, got {type(define_graph).__name__}. Did you mean `.serialize(filename=...)`?"
                )
            self.define_graph = define_graph  # type: ignore[method-assign]
        from ..graph import dali_written, serialize

        core = self._core
        refuse_to_store(core.output_nodes(), core.definition.instances)
        if format == "dali":
            data = dali_written.written(core.output_nodes(), core.definition.instances, core.options)
        else:
            data = serialize.serialize(core.output_nodes(), core.definition.instances, stored_options(core.options))
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
        **overrides: object,
    ) -> Pipeline:
        """Make the pipeline that :meth:`serialize` or DALI 2.4 stored. No file is opened, listed or written before :meth:`build` or the
        first use.

        The bytes contain no code, but they name files and sizes. So the author of the bytes decides which files the pipeline reads. Give
        `allow` for bytes from other people (see SECURITY.md).

        Args:
            serialized_pipeline: the bytes; or
            filename: the file that holds them.
            allow: what the graph may read: folders, schemes (``"s3://"``) and beginnings of URLs. It also limits the entries of lists,
                manifests and annotations. None: everything.
            allow_write: folders in which the graph may write: indices of ``readers.tfrecord``, saved annotations of ``readers.coco``.
                None: everywhere.
            overrides: options of the pipeline; they take precedence over the stored ones.

        Raises:
            RuntimeError: the bytes are not a pipeline. A file outside of `allow` is refused later: in :meth:`build` if the graph names it,
                when a list is read if the list names it, and in an iteration if ``io.file.read`` gets its name.
        """
        if (serialized_pipeline is None) == (filename is None):
            raise ValueError("serialized_pipeline and filename are mutually exclusive; give precisely one of them")
        from ..graph import serialize

        access = Access.of(allow, allow_write)
        document = serialize.parse(_read(filename) if serialized_pipeline is None else serialized_pipeline)
        pipeline = cls(**{**own_options(serialize.options_of(document)), **both_spellings(overrides)})
        core_of(pipeline).adopt(document, access)
        return pipeline

    def deserialize_and_build(
        self,
        serialized_pipeline: bytes,
        *,
        allow: Iterable[str | os.PathLike[str]] | None = None,
        allow_write: Iterable[str | os.PathLike[str]] | None = (),
    ) -> None:
        """Take the graph of `serialized_pipeline`, keep this object's own options, and build: files are opened and listed.

        `batch_size`, `num_threads` and `seed` are the stored ones where this object was given none: its operators continue as those of the
        stored pipeline do from its start. `allow` and `allow_write` limit which files are opened, as in :meth:`deserialize`. RuntimeError
        if this pipeline is built already, or if the data is not a serialized pipeline.
        """
        if self._core.is_built:
            raise RuntimeError("the pipeline is built already, so its graph cannot be replaced")
        from ..graph import serialize

        access = Access.of(allow, allow_write)
        document = serialize.parse(serialized_pipeline)
        self._core.options.fill_in(serialize.options_of(document))
        self._core.adopt(document, access)
        self.build()

    def diff(self, other: object, *, contents: bool = False) -> Difference:
        """The differences between this pipeline and another one, a checkpoint or a stored graph (bytes), and the first step that differs.

        `other` is a pipeline, or the bytes of a checkpoint or of a stored graph.
        `contents`: also read the files that both name, and compare their contents. Builds the pipelines. ``asyncdali diff A B`` does the
        same for files.
        """
        from ..provenance.diff import diff
        from .replay.comparing import side_of

        self._core.refuse_in_callbacks("diff()")
        return diff(side_of("this pipeline", self, Pipeline.deserialize), side_of("the other", other, Pipeline.deserialize), contents)

    # --- checkpoints

    def checkpoint(self, filename: str | os.PathLike[str] | None = None, *, format: str = "asyncdali") -> bytes:
        """The state after the last iteration returned, as bytes; also written to `filename` (atomically) if given. Builds.

        Restore with ``Pipeline(..., enable_checkpointing=True, checkpoint=data)``. Checkpoints that DALI 2.4 made are restored, too. With
        ``format="dali"`` DALI 2.4 can restore the checkpoint; framework iterators' state is not in it.

        RuntimeError unless `enable_checkpointing`; CheckpointError for a state that DALI's format cannot hold; ValueError for another
        `format`.
        """
        if format not in ("asyncdali", "dali"):
            raise ValueError(f"format is {format!r}; it must be 'asyncdali' or 'dali'")
        self._core.refuse_in_callbacks("checkpoint()")
        if not self._core.options.enable_checkpointing:
            raise RuntimeError(
                "Cannot save the checkpoint. The `enable_checkpointing` was not specified when creating the pipeline"
            )
        session = self._core.built()
        mark, saving, iterator = session.delivery.mark(), session.saving, session.delivery.iterator_data
        data = saving.checkpoint_for_dali(mark) if format == "dali" else saving.checkpoint(__version__, mark, iterator)
        if filename is not None:
            checkpoints.write(filename, data)
        return data


def _read(filename: Any) -> bytes:
    with open(filename, "rb") as file:
        return file.read()

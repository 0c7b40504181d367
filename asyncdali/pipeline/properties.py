"""Properties of a pipeline: its options and outputs."""

from __future__ import annotations

from ..compat.pipeline_attributes import DaliNames
from ..messages.notices import warn
from ..types import DALIDataType


class Properties(DaliNames):
    """The properties of :class:`~asyncdali.Pipeline`."""

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
    exec_pipelined = property(lambda self: self._core.options.exec_pipelined, doc="Whether iterations are computed ahead.")
    exec_async = property(lambda self: self._core.options.exec_async, doc="Whether scheduling returns immediately.")
    exec_dynamic = property(lambda self: self._core.options.exec_dynamic, doc="True for the default executor, None or False otherwise.")
    exec_separated = property(lambda self: self._core.options.exec_separated, doc="Whether CPU and GPU queues have depths of their own.")
    stream_policy = property(lambda self: self._core.options.stream_policy, doc="As given.")
    concurrency = property(lambda self: self._core.options.concurrency, doc="As given.")
    set_affinity = property(lambda self: self._core.options.set_affinity, doc="Whether worker threads are pinned.")
    max_streams = property(lambda self: -1, doc="Always -1.")
    default_cuda_stream_priority = property(lambda self: 0, doc="Always 0.")
    prefetch_queue_depth = property(lambda self: self._core.options.prefetch_queue_depth, doc="As given.")
    cpu_queue_size = property(lambda self: self._core.options.cpu_queue_size, doc="Depth of the CPU queue.")
    gpu_queue_size = property(lambda self: self._core.options.gpu_queue_size, doc="Depth of the GPU queue.")
    enable_memory_stats = property(lambda self: self._core.options.enable_memory_stats, doc="As given.")
    py_num_workers = property(lambda self: self._core.options.py_num_workers, doc="Python worker processes.")
    engines = property(lambda self: self._core.options.engines, doc="Processes that make the CPU part of each iteration; 0: this one does.")
    py_start_method = property(lambda self: self._core.options.py_start_method, doc='"fork", "spawn" or "forkserver".')

    @property
    def seed(self) -> int | None:
        """The seed of the operators' streams. If none (or a negative one) was given: None before :meth:`build`, which draws one."""
        return self._core.seed

    @property
    def is_restored_from_checkpoint(self) -> bool:
        """Whether :meth:`build` restored a checkpoint."""
        session = self._core.session
        return session is not None and session.restored

    @property
    def num_outputs(self) -> int:
        """Number of outputs. Builds the pipeline."""
        return len(self._core.built().plan.outputs)

    def output_dtype(self) -> list[DALIDataType | None]:
        """Declared element type of each output; None for an output without a declaration. Builds the pipeline."""
        return self._core.built().delivery.lists.dtypes

    def output_ndim(self) -> list[int | None]:
        """Declared number of dimensions of each output; None for an output without a declaration. Builds the pipeline."""
        return self._core.built().delivery.lists.ndims

    def output_layout(self) -> list[str | None]:
        """Declared layout of each output; None for an output without a declaration. Builds the pipeline."""
        return self._core.built().delivery.lists.layouts

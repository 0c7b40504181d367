"""Attributes of pipelines with an underscore: programs for DALI read, set or call them, although DALI does not document them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from ..pipeline.front import Front

if TYPE_CHECKING:
    from asyncdali_workers.pool import WorkerPool

    from ..graph.node import OperatorInstance
    from ..types import PipelineAPIType


def _option(name: str) -> property:
    return property(lambda self: getattr(self._core.options, name), doc=f"The option `{name}`.")


def _settable_option(name: str) -> property:
    """Setting takes effect before :meth:`Pipeline.build`. On a built pipeline only the reported value changes, as in DALI."""

    def get(self: DaliNames) -> Any:
        return self._core.reported.get(name, getattr(self._core.options, name))

    def set_(self: DaliNames, value: object) -> None:
        if self._is_built:
            self._core.reported[name] = value
        else:
            setattr(self._core.options, name, value)  # `build` checks the value

    return property(get, set_, doc=f"The option `{name}`; see the module.")


class DaliNames(Front):
    """Base class of :class:`asyncdali.Pipeline`."""

    _max_batch_size = _settable_option("batch_size")
    _num_threads = _settable_option("num_threads")
    _device_id = _settable_option("device_id")
    _seed = _option("seed")
    _exec_pipelined = _option("exec_pipelined")
    _exec_async = _option("exec_async")
    _exec_dynamic = _option("exec_dynamic")
    _exec_separated = _option("exec_separated")
    _prefetch_queue_depth = _option("prefetch_queue_depth")
    _cpu_queue_size = _option("cpu_queue_size")
    _gpu_queue_size = _option("gpu_queue_size")
    _set_affinity = _option("set_affinity")
    _bytes_per_sample = _option("bytes_per_sample")
    _enable_memory_stats = _option("enable_memory_stats")
    _enable_checkpointing = _option("enable_checkpointing")
    _py_num_workers = _option("py_num_workers")
    _py_start_method = _option("py_start_method")
    _py_callback_pickler = _option("py_callback_pickler")

    @property
    def _is_built(self) -> bool:
        return self._core.is_built

    _api_type = property(lambda self: self._core.api_type, doc="With which kind of calls the pipeline was used; None before.")
    _built = property(lambda self: self._is_built, doc="Whether the pipeline was built.")
    _py_graph_built = property(lambda self: self._is_built, doc="Whether the pipeline was built.")
    _pipe = property(lambda self: self._core.session, doc="The engine; None before `build`. It has none of the methods of DALI's.")

    @property
    def _py_pool(self) -> WorkerPool | None:
        """The worker processes of parallel sources; None without any."""
        parallel = self._core.processes.parallel
        return None if parallel is None else parallel.pool

    @property
    def _ops(self) -> list[OperatorInstance] | None:
        """The operators of the graph; None before `build`."""
        from ..graph.plan import reachable

        return None if self._core.session is None else list(reachable(self._core.output_nodes(), self._core.definition.instances).order)

    @property
    def _names_and_devices(self) -> list[tuple[str, str]] | None:
        """(name, device) of each output; None before `build`."""
        return None if self._core.session is None else [(node.name, node.device) for node in self._core.output_nodes()]

    @property
    def _num_outputs(self) -> int | None:
        """None before `build`."""
        return None if self._core.session is None else len(self._core.session.plan.outputs)

    @property
    def _consumer_iter(self) -> int:
        """Number of returned iterations of this epoch of the sources."""
        return 0 if self._core.session is None else self._core.session.iteration

    @property
    def _consumer_epoch_idx(self) -> int:
        """The sources' epoch of the next batch to be returned."""
        return 0 if self._core.session is None else self._core.session.producer.place()[0]

    @property
    def _epoch_idx(self) -> int:
        """The sources' epoch that is being queued."""
        return 0 if self._core.session is None else self._core.session.producer.sources.epoch

    @property
    def _first_iter(self) -> bool:
        """Whether no iteration of this epoch has been queued yet."""
        return self._core.session is None or not self._core.session.producer.started

    @property
    def _last_iter(self) -> bool:
        """Whether a source has met the end of its data."""
        return self._core.session is not None and self._core.session.producer.ended

    def _prefetch(self) -> None:
        """Queue as many iterations as the queue holds. Builds the pipeline."""
        session = self._core.built()
        before = session.producer.launched
        while True:
            launched = session.producer.launched
            self._core.schedule(session)
            queued = session.producer.launched - before
            if queued >= session.depth or session.producer.launched == launched:  # full, or the sources have no more data
                return

    @contextmanager
    def _check_api_type_scope(self, kind: PipelineAPIType) -> Iterator[None]:
        """Within the block, calls count as calls of `kind`, for users' own iterators. RuntimeError for a kind other than the one that the
        pipeline was used with."""
        self._core.use_api(kind)
        before, self._core.api_check = self._core.api_check, False
        try:
            yield
        finally:
            self._core.api_check = before

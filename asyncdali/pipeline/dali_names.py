"""Underscore names that programs for DALI read, set or call on a pipeline, although DALI does not document them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ..graph.node import Definition
    from ..options import PipelineOptions
    from ..runtime.session import Session
    from ..sources.parallel import Parallel
    from ..types import PipelineAPIType


def _option(name: str) -> Any:
    return property(lambda self: getattr(self._options, name), doc=f"The option `{name}`.")


def _settable_option(name: str) -> Any:
    """Setting takes effect before :meth:`Pipeline.build`. On a built pipeline only the reported value changes, as in DALI."""

    def get(self: DaliNames) -> Any:
        return self._reported.get(name, getattr(self._options, name))

    def set_(self: DaliNames, value: Any) -> None:
        if self._is_built:
            self._reported[name] = value
        else:
            setattr(self._options, name, value)  # `build` checks it

    return property(get, set_, doc=f"The option `{name}`; see the module.")


class DaliNames:
    """Base class of :class:`asyncdali.Pipeline`."""

    _options: PipelineOptions
    _session: Session | None
    _parallel: Parallel | None = None
    _definition: Definition
    _reported: dict[str, Any]
    """Options set after `build`."""
    _api_check: bool

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
        return self._session is not None

    _built = property(lambda self: self._is_built, doc="Whether the pipeline was built.")
    _py_graph_built = property(lambda self: self._is_built, doc="Whether the pipeline was built.")
    _pipe = property(lambda self: self._session, doc="The engine; None before `build`. It has none of the methods of DALI's.")

    @property
    def _py_pool(self) -> Any:
        """The worker processes of parallel sources; None without any."""
        return None if self._parallel is None else self._parallel.pool

    @property
    def _ops(self) -> list[Any] | None:
        """The operators of the graph; None before `build`."""
        from ..graph.plan import reachable

        return None if self._session is None else list(reachable(self._output_nodes(), self._definition.instances).order)

    @property
    def _names_and_devices(self) -> list[tuple[str, str]] | None:
        """(name, device) of each output; None before `build`."""
        return None if self._session is None else [(node.name, node.device) for node in self._output_nodes()]

    @property
    def _num_outputs(self) -> int | None:
        """None before `build`."""
        return None if self._session is None else len(self._session.plan.outputs)

    @property
    def _consumer_iter(self) -> int:
        """Number of returned iterations of this epoch of the sources."""
        return 0 if self._session is None else self._session.iteration

    @property
    def _consumer_epoch_idx(self) -> int:
        """The sources' epoch of the next batch to be returned."""
        return 0 if self._session is None else self._session.producer.place()[0]

    @property
    def _epoch_idx(self) -> int:
        """The sources' epoch that is being queued."""
        return 0 if self._session is None else self._session.producer.sources.epoch

    @property
    def _first_iter(self) -> bool:
        """Whether nothing of this epoch has been queued yet."""
        return self._session is None or not self._session.producer.started

    @property
    def _last_iter(self) -> bool:
        """Whether a source has met the end of its data."""
        return self._session is not None and self._session.producer.ended

    def _prefetch(self) -> None:
        """Queue as many iterations as the queue holds. Builds the pipeline."""
        session = self._built_session()
        before = session.producer.launched
        while True:
            launched = session.producer.launched
            self._launch(session)
            queued = session.producer.launched - before
            if queued >= session.depth or session.producer.launched == launched:  # full, or the sources have no more data
                return

    @contextmanager
    def _check_api_type_scope(self, kind: PipelineAPIType) -> Iterator[None]:
        """Within the block, calls count as calls of `kind`, for users' own iterators. RuntimeError for a kind other than the one that the
        pipeline was used with."""
        self._use_api(kind)
        before, self._api_check = self._api_check, False
        try:
            yield
        finally:
            self._api_check = before

    if TYPE_CHECKING:

        def _built_session(self) -> Session: ...
        def _launch(self, session: Session) -> None: ...
        def _use_api(self, kind: PipelineAPIType) -> None: ...
        def _output_nodes(self) -> list[Any]: ...

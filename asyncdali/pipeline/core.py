"""The core of a pipeline: options, definition, session, worker processes. The public class is a front to it.

Plugins and tools get the core with :func:`~asyncdali.pipeline.front.core_of`. Other rooms do not know pipelines: a session is built from a
``runtime.blueprint.Blueprint``, and operators are added to a ``graph.node.Definition``.

The core refers to its pipeline weakly, because dropping the last reference closes a pipeline. A build registers what it opens in
``Processes.unfinished`` before it opens it, so ``close()`` knows everything even after an interrupt. ``Session.closed`` is set before
anything is torn down, and an error that a caller meets afterwards is chained to PipelineClosed. Closing itself is not interrupted.
"""

from __future__ import annotations

import threading
import weakref
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Protocol

from .. import checkpoint as checkpoints
from ..access import EVERYTHING, Access
from ..dali_files import checkpoints as dali_checkpoints
from ..data_node import DataNode
from ..errors import PipelineClosed
from ..graph.node import Definition
from ..options import PipelineOptions
from .closing import close_at_exit
from .front import Front
from .processes import Processes

if TYPE_CHECKING:
    from ..runtime.blueprint import Blueprint, Calling
    from ..runtime.engine_protocol import Engines
    from ..runtime.parts import Part
    from ..runtime.session import Session
    from ..types import PipelineAPIType


class Overridden(Protocol):
    """The methods of a pipeline that its core calls. Programs and debug mode override them."""

    def define_graph(self) -> Any: ...
    def iter_setup(self) -> None: ...
    def build(self) -> None: ...
    def _calling(self, seed: int | None) -> Calling: ...
    @staticmethod
    def _calling_elsewhere(options: PipelineOptions, seed: int) -> Calling: ...
    def __enter__(self) -> Any: ...
    def __exit__(self, *exc: object) -> None: ...


class Core:
    """The parts of one pipeline, and the operations on it.

    Attributes:
        options: the pipeline's options.
        reported: options that were set after :meth:`build`; only what the pipeline reports changes then.
        definition: the operators that were made under the pipeline.
        access: which files the pipeline may open.
        outputs: the outputs as they were set, constants among them.
        session: what runs; None before :meth:`build`.
        processes: worker processes of parallel sources, and engines.
        building: held while the pipeline is built. Threads that use an unbuilt pipeline at the same time must not build it twice.
        shared: outputs that the scheduled calls have returned and not released.
        part: the samples of each iteration that are made; None: all (asyncdali.fleet).
        elsewhere: makes the engines, if they are on other machines (asyncdali.fleet).
        declared_part: the part of a regrouping that this core makes (``regrouping.regrouping.DeclaredPart``); None: it is a user's.
        beside: iterations are planned beside each other.
        front: keeps the stand-in for a pipeline alive, in the core of a part.
        in_engine: whether this process is an engine of the pipeline.
    """

    def __init__(self, pipeline: Overridden, options: PipelineOptions, definition: Definition | None = None):
        self._pipeline = weakref.ref(pipeline)  # weak, because the pipeline owns its core and is closed when its last reference is dropped
        self.options = options
        self.reported: dict[str, Any] = {}
        self.definition = Definition(options) if definition is None else definition
        self.access = EVERYTHING
        self.outputs: list[Any] | None = None
        self._nodes: list[DataNode] | None = None
        self.session: Session | None = None
        self.processes = Processes()
        self.building = threading.RLock()
        self.closed = False
        self.api_type: PipelineAPIType | None = None
        self.api_check = True
        self.shared: deque[Any] = deque()
        self.in_engine = False
        self.part: Part | None = None
        self.elsewhere: Callable[[Core], Engines] | None = None
        self.declared_part: Any = None
        self.beside = False
        self.front: Any = None

    @property
    def pipeline(self) -> Overridden:
        """The pipeline of this core. It has the methods that programs override."""
        pipeline = self._pipeline()
        assert pipeline is not None, "the core is used by calls of the pipeline only"
        return pipeline

    @property
    def is_built(self) -> bool:
        """Whether the pipeline was built."""
        return self.session is not None

    @property
    def seed(self) -> int | None:
        """See :attr:`Pipeline.seed`."""
        return self.options.seed if self.session is None or self.options.seed is not None else self.session.seed

    # --- definition

    def set_outputs(self, outputs: list[Any]) -> None:
        """Set the outputs, unless the pipeline is built."""
        if not self.is_built:
            self.outputs, self._nodes = outputs, None

    def output_nodes(self) -> list[DataNode]:
        """The outputs as nodes: constants become constant operators."""
        if self._nodes is not None:
            return self._nodes
        pipeline = self.pipeline
        if not self.outputs:
            with pipeline:
                made = pipeline.define_graph()
            self.outputs = list(made) if isinstance(made, (tuple, list)) else [made]
        if all(isinstance(output, DataNode) for output in self.outputs):
            self._nodes = list(self.outputs)
            return self._nodes
        from ..graph.constants import constant_node, output_constant

        nodes = []
        with pipeline:
            for index, output in enumerate(self.outputs):
                if isinstance(output, DataNode):
                    nodes.append(output)
                else:
                    values, dtype = output_constant(output, index)
                    nodes.append(constant_node(values, dtype))
        self._nodes = nodes
        return nodes

    def adopt(self, document: dict[str, Any], access: Access) -> None:
        """Take the graph of a stored pipeline, which may open what `access` allows."""
        from .. import fn  # noqa: F401  registers the operators
        from ..graph import serialize

        self.outputs, self.definition.instances = serialize.rebuild(document, self.definition)
        self.access = access

    # --- building

    def check_open(self) -> None:
        """Raise PipelineClosed after :meth:`close`."""
        if self.closed:
            raise PipelineClosed("the pipeline was closed")

    def build(self, define_graph: Callable[[], Any] | None = None) -> None:
        """See :meth:`Pipeline.build`."""
        self.check_open()
        self.refuse_in_callbacks("build()")
        with self.building:
            if self.session is None:
                if define_graph is not None:
                    self.pipeline.define_graph = define_graph  # type: ignore[method-assign]
                self._build()

    def _build(self) -> None:
        self.options.check_for_build()
        from ..provenance.explain import Explanations
        from ..runtime.session import Session  # brings in asyncio and threads: only pipelines that are built need them

        close_at_exit(self)
        processes = self.processes
        processes.release(self.is_built)
        try:
            processes.start(self)  # first, because processes cannot be forked once the GPU is in use
            processes.streams.build()
            self.session = Session(self._blueprint(), processes.parallel, processes.unfinished.append, processes.engines)
            self.session.delivery.explain = Explanations(self.session)
            from ..runtime.counting.serving import offer, report_of_session

            self.session.withdraw = offer(self.session, report_of_session)
        finally:
            processes.release(self.is_built)

    def report(self) -> None:
        """See :meth:`Pipeline.serve_metrics`."""
        from ..runtime.counting.serving import report_of_session, serve

        session = self.built()
        session.withdraw = serve(session, report_of_session)

    def _blueprint(self) -> Blueprint:
        from ..runtime.blueprint import Blueprint

        nodes, regrouped = self.output_nodes(), self.processes.streams.puller
        return Blueprint(self.options, nodes, self.definition, self.access, self.calling, self.part, regrouped, beside=self.beside)

    def start_workers(self) -> None:
        """See :meth:`Pipeline.start_py_workers`."""
        self.check_open()
        self.refuse_in_callbacks("start_py_workers()")
        with self.building:
            self.options.check_for_build()
            self.processes.release(self.is_built)
            self.processes.start(self)
            self.processes.unfinished.clear()

    def built(self) -> Session:
        """The session. Builds the pipeline if necessary. PipelineClosed after :meth:`close`, RuntimeError in a forked process."""
        self.check_open()
        session = self.session
        if session is None:
            self.pipeline.build()  # programs override it
            session = self.session
            assert session is not None
        session.executor.check_process()
        return session

    def rebuild(self, options: PipelineOptions) -> None:
        """Build again with other options; the pipeline keeps its own options. Iterations in flight are dropped, processes are restarted."""
        old = self.built()
        with self.building:
            old.close()
            for puller in old.producer.sources.pullers:
                puller.group.start_over()
            own, self.options = self.options, options
            self.session = None
            self.processes.forget()
            self.shared.clear()
            try:
                self._build()
            finally:
                self.options = own

    def saved_positions(self) -> dict[str, Any]:
        """The positions in the checkpoint to be restored, by operator."""
        data = self.options.checkpoint
        if data is None or dali_checkpoints.is_checkpoint(data):  # DALI saves no positions of sources
            return {}
        positions: dict[str, Any] = checkpoints.decode(data).get("operators", {})
        return positions

    def calling(self, seed: int | None) -> Calling:
        """The context in which the runtime calls user functions: the current pipeline is a stand-in with this pipeline's properties."""
        return self.pipeline._calling(seed)

    # --- running

    def enter(self, name: str, kind: PipelineAPIType) -> Session:
        """The session, for a call of the user that runs iterations. Raises what `refuse_in_callbacks`, `use_api` and `built` raise."""
        session = self.session
        if session is None or self.closed or self.in_engine or self.api_type is not kind or session.calls_here(True):
            self.refuse_in_callbacks(name)
            self.use_api(kind)
            return self.built()
        session.executor.check_process()
        return session

    def refuse_in_callbacks(self, name: str, hook: bool = True) -> None:
        """Raise RuntimeError if the caller is a function that this pipeline calls: it would wait for itself, or change unfinished work.

        `hook`: also for the legacy hook ``iter_setup``.
        """
        session = self.session
        if self.in_engine:
            raise RuntimeError(
                f"{name} was called from a function that the same pipeline calls, in one of its engines. Call it from outside; other "
                "pipelines can be used here."
            )
        if self.building._is_owned() if session is None else session.calls_here(hook):  # type: ignore[attr-defined]
            raise RuntimeError(
                f"{name} was called from a function that the same pipeline calls (a source, the function of an operator, or the graph "
                "function while building). Call it from outside, when the pipeline's call has returned; other pipelines can be used here."
            )

    def enter_engine(self) -> None:
        """This process was forked as an engine: user functions in it must not build or run the pipeline."""
        self.in_engine = True

    def use_api(self, kind: PipelineAPIType) -> None:
        """Raise RuntimeError if the pipeline was used with calls of another kind."""
        if not self.api_check:
            return
        if self.api_type is None:
            self.api_type = kind
        elif self.api_type is not kind:
            raise RuntimeError(
                f"Mixing pipeline API type. Currently used: {self.api_type}, but trying to use: {kind}. "
                "Use either `run`, or `schedule_run` and `outputs`/`share_outputs`, or an iterator."
            )

    def hook(self) -> Callable[[], None] | None:
        """The program's ``iter_setup``. None: it has none."""
        method = self.pipeline.iter_setup
        return None if getattr(method, "__func__", None) is Front.iter_setup else method

    def fill_awaited(self, session: Session) -> None:
        """:meth:`fill` for a caller that then waits for the iteration."""
        self.fill(session, True)

    def fill(self, session: Session, awaited: bool = False) -> None:
        """Queue what is missing for the calls that wait. `awaited`: the caller then waits for the iteration."""
        session.producer.fill(self.hook(), awaited)
        self._queued(session)

    def schedule(self, session: Session) -> None:
        """Queue one iteration; on the first call, as many as the queue holds."""
        session.producer.schedule(self.hook())
        self._queued(session)

    def _queued(self, session: Session) -> None:
        if not self.options.exec_async:
            session.wait_all()
        session.check_open()

    # --- the end

    def close(self) -> None:
        """Close the pipeline. Interrupts are delayed, because an interrupted close could not be repeated."""
        if self.closed:
            return
        if self.session is None and self.processes.empty:
            self.closed = True
            return
        from asyncdali_workers.interrupts import uninterrupted

        with uninterrupted():
            self.closed = True
            self.processes.release(self.is_built)
            if self.session is not None:
                self.session.close()
            else:
                self.processes.close()

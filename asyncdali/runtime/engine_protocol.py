"""The interface between a session and engines, which are processes that make a part of each iteration (docs/engines.md)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from ..device.buffers import BufferPool
    from ..graph.plan import Plan
    from ..sources.group import Group
    from ..sources.ports import Port
    from ..sources.pullers import Puller
    from .order.executor import Executor
    from .order.placement import Placement
    from .work.segments import BuiltSegment


class Engines(Protocol):
    """The engines of one pipeline, as its session sees them."""

    seed: int
    """The pipeline's seed. It was drawn before the engines started, if none was given."""

    pool: BufferPool | None
    """The pool for batches from outside. None: the pool that sessions without engines use."""

    closed: bool
    """Whether :meth:`close` was called."""

    reports: bool
    """Whether, beside a GPU, the thread that receives answers also reports the ends of jobs (``Stages.reports``)."""

    def cut(self, plan: Plan, fuse_device: bool, on_cuda: bool) -> None:
        """Replace the plan's segments by those that remain in this process, and one that engines make."""

    def puller(self, group: Group, ports: dict[str, Port], batch_size: int) -> Puller | None:
        """The puller of a source that engines call. None: this process calls the source."""

    def place(self, executor: Executor, segments: list[BuiltSegment]) -> Placement:
        """Where the executor's work happens beside the engines."""

    def attach(self, executor: Executor, segment: BuiltSegment) -> None:
        """Wait until all engines are ready, then let them make the segment. Raises the error that prevents an engine from being built."""

    def statistics(self) -> list[dict[str, object]]:
        """The work of each engine."""

    def close(self) -> None:
        """End the engines. Idempotent."""

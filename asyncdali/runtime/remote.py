"""What a session asks of engines: processes that make a part of each iteration. They are given to it (docs/engines.md)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from ..device.buffers import BufferPool
    from ..graph.plan import Plan
    from .executor import Executor
    from .segments import BuiltSegment, SegmentRun


class Remote(Protocol):
    """Makes one segment elsewhere."""

    def begin(self, run: SegmentRun) -> None:
        """Make the segment for an iteration; :meth:`Executor.finish_remote` is called when that is done. On the loop's thread."""


class Engines(Protocol):
    """The engines of one pipeline, as its session sees them."""

    seed: int
    """The pipeline's seed: drawn before the engines started, if none was given."""

    pool: BufferPool | None
    """Where batches from outside get their memory; None: where they get it without engines."""

    def cut(self, plan: Plan, fuse_device: bool, on_cuda: bool) -> None:
        """Give the plan the segments that remain for this process, and one that engines make."""

    def attach(self, executor: Executor, segment: BuiltSegment) -> None:
        """Wait until all engines are ready, and make the segment from now on. Raises what stops an engine from being built."""

    def statistics(self) -> list[dict[str, Any]]:
        """What each engine has done."""

    def close(self) -> None:
        """End the engines. Idempotent."""

"""The interface between a session and engines, which are processes that make a part of each iteration (docs/engines.md)."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from ..device.buffers import BufferPool
    from ..graph.plan import Plan
    from ..sources.group import Group
    from ..sources.ports import Port
    from ..sources.pullers import Puller
    from ..tensors import TensorListCPU, TensorListGPU
    from .executor import Executor
    from .record import Record
    from .segments import BuiltSegment, SegmentRun
    from .session import Session


    Outputs = tuple[TensorListCPU | TensorListGPU, ...]


class Remote(Protocol):
    """Makes one segment in another process."""

    def begin(self, run: SegmentRun) -> None:
        """Make the segment for an iteration and call :meth:`Executor.finish_segment` when it is done. Runs on the loop's thread."""


class Here(Protocol):
    """Decides on the threads that call the pipeline, one at a time, in place of the loop's thread."""

    def decide(self, function: Callable[..., None], *args: Any) -> bool:
        """Call ``executor.guarded(function, *args)``. False, and nothing is called, if the loop's thread decides."""

    def drive(self, record: Record) -> bool:
        """Receive what finishes an iteration, until it is finished. False if the loop's thread receives. Signals interrupt the call."""

    def leave_to_loop(self) -> None:
        """From now on the loop's thread receives and decides. Idempotent; may be called from any thread."""


class FastPath(Protocol):
    """A fast path for calls that run an iteration which engines make as a whole. While it works, it has the iterations in flight."""

    def enter(self) -> bool:
        """Begin to work, if nothing unusual is going on. False: the call must go the usual way."""

    def next(self, usual: Callable[[], Outputs]) -> Outputs:
        """The outputs of the next iteration. `usual` is called, in the end, if the call must go the usual way."""

    def settle(self) -> None:
        """Hand the iterations in flight back to the producer and the executor. Idempotent; may be called from any thread."""

    @property
    def iteration(self) -> int:
        """Number of iterations of this epoch that were returned to the user. -1 while it does not work."""


class Engines(Protocol):
    """The engines of one pipeline, as its session sees them."""

    seed: int
    """The pipeline's seed. It was drawn before the engines started, if none was given."""

    pool: BufferPool | None
    """The pool for batches from outside. None: the pool that sessions without engines use."""

    closed: bool
    """Whether :meth:`close` was called."""

    reports: bool
    """Whether, beside a GPU, the thread that receives answers also reports the ends of jobs (``Executor.reports``)."""

    def cut(self, plan: Plan, fuse_device: bool, on_cuda: bool) -> None:
        """Replace the plan's segments by those that remain in this process, and one that engines make."""

    def puller(self, group: Group, ports: dict[str, Port], batch_size: int) -> Puller | None:
        """The puller of a source that engines call. None: this process calls the source."""

    def attach(self, executor: Executor, segment: BuiltSegment) -> None:
        """Wait until all engines are ready, then let them make the segment. Raises the error that prevents an engine from being built."""

    def fast_path(self, session: Session) -> FastPath | None:
        """A fast path for calls of ``run()``. None: there is none."""

    def statistics(self) -> list[dict[str, Any]]:
        """The work of each engine."""

    def close(self) -> None:
        """End the engines. Idempotent."""

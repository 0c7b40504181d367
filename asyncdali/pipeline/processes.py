"""Processes of a pipeline: the workers of its parallel sources, and its engines."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from .streams import Streams

if TYPE_CHECKING:
    from ..engines.wire.program import Program
    from ..runtime.engine_protocol import Engines
    from ..sources.parallel import Parallel
    from .core import Core


class Processes:
    """Processes that are started before the session is built, and passed to it.

    Attributes:
        parallel: the workers; None without parallel sources, or before the start.
        engines: the engines; None without engines, or before the start.
        program: what forked engines make; kept for engines that are forked later.
        unfinished: functions that close the resources of an unfinished build. After an interrupt some may be left.
        streams: the pipelines behind select, mix, batch_by and ready.
    """

    def __init__(self) -> None:
        self.parallel: Parallel | None = None
        self.engines: Engines | None = None
        self.program: Program | None = None
        self.unfinished: list[Callable[[], None]] = []
        self.streams = Streams()

    @property
    def empty(self) -> bool:
        """Whether there is nothing to close."""
        return self.parallel is None and self.engines is None and not self.unfinished and not self.streams

    def start(self, core: Core) -> None:
        """Start the missing processes of `core`. RuntimeError if a process cannot be forked any more, or does not start."""
        from asyncdali_workers.processes.greenlets import refuse_greenlets
        from asyncdali_workers.processes.python import keep_standard_descriptors

        refuse_greenlets(bool(core.options.engines or core.elsewhere))
        keep_standard_descriptors()
        self.streams.start(core)
        if self.parallel is None:
            self._start_parallel(core)
        if self.engines is None and core.elsewhere is not None:
            self.engines = core.elsewhere(core)
        elif self.engines is None and core.options.engines and self.streams.leave_work(core):
            from .engines import start_engines

            self.engines = start_engines(core, self.unfinished.append)

    def _start_parallel(self, core: Core) -> None:
        from ..graph.plan import reachable
        from ..sources.group import parallel_groups
        from ..tooling.quick_checks import at_build

        order = reachable(core.output_nodes(), core.definition.instances).order
        groups = parallel_groups(order)
        at_build(core.options, {instance.schema.name for instance in order}, bool(groups))
        if groups:
            from ..sources.parallel import Parallel

            parallel = Parallel(groups, core.options, core.saved_positions())
            self.unfinished.append(parallel.close)
            try:
                parallel.start()
                self.parallel = parallel
            except BaseException:
                self.release(core.is_built)
                raise

    def release(self, built: bool) -> None:
        """Close what a failed or interrupted build has opened. `built`: the build was finished.

        If another interrupt stops this, the next build or :meth:`Core.close` does the rest.
        """
        if not self.unfinished:
            return
        from asyncdali_workers.interrupts import uninterrupted

        with uninterrupted():
            if not built:
                for close in reversed(self.unfinished):
                    close()
                if self.parallel is not None and self.parallel.pool.closed:
                    self.parallel = None
                if self.engines is not None and self.engines.closed:
                    self.engines = None
            self.unfinished.clear()

    def forget(self) -> None:
        """The session has closed the processes."""
        self.parallel = self.engines = self.program = None
        self.streams.close()

    def close(self) -> None:
        """End the processes."""
        for pool in (self.parallel, self.engines):
            if pool is not None:
                pool.close()
        self.streams.close()

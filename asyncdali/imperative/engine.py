"""Memory and threads of a context: where the bricks of a call run."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ..device.buffers import BufferPool
from ..device.threads import WorkerState, WorkerThreads
from ..operators.base import Environment, Schema
from ..runtime.work.call_placement import share
from .bricks import Brick, Bricks, graph_of_call
from .brief import BriefCalls

if TYPE_CHECKING:
    from ..runtime.work.jobs import CompiledSamples


class _ThreadState(threading.local):
    """The calling thread's scratch memory."""

    def __init__(self) -> None:
        self.state = WorkerState()


_thread = _ThreadState()


def thread_state() -> WorkerState:
    """The calling thread's memory for compiled code. It is one object for the life of the thread."""
    return _thread.state


class ThreadCrew:
    """Worker threads, which start at the first shared job. Contexts may share a crew; a forked child makes another one."""

    def __init__(self, num_threads: int, name: str = "asyncdali-dynamic"):
        self.num_threads = num_threads
        self._name = name
        self._engines: dict[int | None, CallEngine] = {}
        self._workers: WorkerThreads | None = None
        self._lock = threading.Lock()

    def engine(self, device_id: int | None) -> CallEngine:
        """The engine that works with these threads for a device. Contexts with one crew share it, so that bricks are built once."""
        found = self._engines.get(device_id)
        if found is None:
            found = self._engines.setdefault(device_id, CallEngine(self, device_id))
        return found

    def workers(self) -> WorkerThreads:
        """The threads: as many as compute at a time if no caller takes part."""
        if self._workers is None:
            with self._lock:
                if self._workers is None:
                    self._workers = WorkerThreads(max(self.num_threads, 1), self._name)
        return self._workers

    def __del__(self) -> None:
        if self._workers is not None:
            self._workers.close()


class CallEngine:
    """Memory, threads and a table of bricks for calls on one device.

    Args:
        crew: the threads.
        device_id: the GPU's number; None: the CPU, and the host device for GPU operators.
    """

    def __init__(self, crew: ThreadCrew, device_id: int | None = None):
        from ..compiled import driver, places

        driver.run_job.compile()
        driver.run_copy.compile()
        places.lay_out.compile()
        self.crew = crew
        self.device_id = device_id
        self._pool = BufferPool()
        self.allocate = self._pool.allocate
        self.bricks = Bricks()
        self.brief = BriefCalls(self.allocate)
        self.environment = Environment(1, self.num_threads, device_id, False, self.allocate)

    @property
    def num_threads(self) -> int:
        return max(self.crew.num_threads, 1)

    def brick(
        self, schema: Schema, device: str | None, constants: dict[str, Any], named: Sequence[str], places: Sequence[str], seed: int = 0
    ) -> Brick:
        """See :class:`bricks.Brick`."""
        return Brick(self, graph_of_call(schema, device, constants, named, places), seed)

    def state(self) -> WorkerState:
        """The calling thread's memory for compiled code."""
        return thread_state()

    def share(self, job: CompiledSamples) -> None:
        """Do a job with the worker threads; it is over when this returns. Its error is not raised."""
        others = self.num_threads - 1
        share(job, self.crew.workers() if others else None, self.state(), others)


def new_array(engine: CallEngine, shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
    """An uninitialised array in memory of the pool."""
    size = dtype.itemsize
    for extent in shape:
        size *= extent
    memory = engine.allocate(size)
    return memory[:size].view(dtype).reshape(shape)

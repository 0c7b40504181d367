"""Jobs of several crews that are reported together: the thread that ends last enters the interpreter, the others do not.

The GPU's decoders and the worker threads decode a batch together. Nothing can be planned before both have finished. If each of
them reported on its own while another thread runs pure Python, each report could wait for a switch interval (5 ms).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ..compiled.addresses import address_of

if TYPE_CHECKING:
    from .threads import CompiledWork


class Joint:
    """Counts the jobs that have not ended. The thread that creates this object counts as a job until :meth:`replace` or :meth:`leave`."""

    def __init__(self) -> None:
        from ..compiled import crew

        self._change = crew.change  # compiled by the crews that the jobs belong to
        self._left = np.array([1], np.int64)
        self.address = address_of(self._left)
        self._jobs: list[CompiledWork] = []

    def add(self, job: CompiledWork) -> None:
        """Add a job that is not submitted yet."""
        self._change(self.address, 1)
        self.replace(job)

    def replace(self, job: CompiledWork) -> None:
        """Count a job, not submitted yet, in place of the calling thread."""
        job.join(self)
        self._jobs.append(job)

    def leave(self) -> None:
        """Count one job less: it ended on the calling thread, or the thread that created this object has no job."""
        if self._change(self.address, -1) == 0:
            self.finish()

    def finish(self) -> None:
        """Report all jobs, in the order in which they were added. Called once, after the last has ended."""
        jobs, self._jobs = self._jobs, []
        for job in jobs:
            if job.crew is not None:
                job.crew.forget(job)
            job.finished()

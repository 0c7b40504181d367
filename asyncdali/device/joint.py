"""Jobs of several crews that are reported together: the thread that ends last enters the interpreter, the others do not.

The GPU's decoders and the worker threads decode a batch together. Nothing can be planned before both have finished. If each of
them reported on its own while another thread runs pure Python, each report could wait for a switch interval (5 ms).

Commands that only need the jobs' results are recorded while the jobs run. The thread that ends last executes them before it enters the
interpreter (:mod:`..compiled.joint`), so the GPU does not wait for the interpreter.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ..compiled.addresses import address_of
from ..compiled.job_tables import JOINT

if TYPE_CHECKING:
    from .threads import CompiledWork


class Joint:
    """Counts the jobs that have not ended. The thread that creates this object counts as a job until :meth:`replace` or :meth:`leave`."""

    def __init__(self) -> None:
        from ..compiled import crew, joint

        joint.end_here.compile()
        self._change, self._end = crew.change, joint.end_here  # compiled by the crews that the jobs belong to
        self.table = np.zeros(JOINT.words, np.int64)
        self._left = self.table[JOINT.word.left :]
        self._left[0] = 1
        self.address = address_of(self.table)
        self.zeros: list[int] = []
        """Places and bytes that are 0 if the jobs have succeeded, in turn."""
        self.keep: object = None
        """Keeps arrays alive that the last thread to end reads."""
        self.brief = True
        """Whether the commands neither wait nor take long."""
        self._jobs: list[CompiledWork] = []
        self._unreported = [self._jobs]

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
            (self._end.held if self.brief else self._end)(self.address)
            self.finish()

    def finish(self) -> None:
        """Report all jobs, unless that is done. Called once, by the thread that ended last."""
        jobs, self._jobs = self._jobs, []
        for job in jobs:
            if job.crew is not None:
                job.crew.forget(job)
        self.report()

    def report(self) -> None:
        """Report all jobs, in the order in which they were added. Called after the last has ended, on any thread, also several times.

        The thread that ended last still knows the jobs' addresses until :meth:`finish`, so the crews keep the jobs."""
        try:
            jobs = self._unreported.pop()
        except IndexError:
            return
        for job in jobs:
            job.finished()

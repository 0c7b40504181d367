"""Brief calls: a template's job is copied to the thread's scratch memory and done there, in one compiled call.

Nothing of the job remains: outputs are dense, so their addresses are computed when they are read.
"""

from __future__ import annotations

import ctypes
import functools
import struct
from collections.abc import Callable, Sequence

import numpy as np

from ...batch import Batch
from ...compiled.addresses import address_of
from ...compiled.job_tables import COPY
from ...device.threads import WorkerState
from ...operators.base import Arguments
from ..work.built import Built
from .views import Now, Uncovered
from .whole import JobCopy, SegmentTemplate

_HELD_NS = 20_000
"""The interpreter lock is kept during calls that take less: taking it again from a busy thread lasts up to 5 ms."""


@functools.cache
def _run(held: bool) -> Callable[[int, bytes, int], int]:
    """The compiled call. The bases are a bytes object, which ctypes keeps until the call is over. `held`: it keeps the interpreter lock."""
    from ...compiled.driver import run_copy

    function = ctypes.PYFUNCTYPE if held else ctypes.CFUNCTYPE
    return function(ctypes.c_int64, ctypes.c_int64, ctypes.c_char_p, ctypes.c_int64)(run_copy.address)


class BriefTemplate:
    """The job of one operator's template, for inputs whose samples are dense."""

    __slots__ = ("_address", "_inputs", "_kept", "_outputs", "_packed", "_run", "_scratch")

    def __init__(self, template: SegmentTemplate, job: JobCopy, edges: Sequence[int]):
        """`job`: of the template;  edges: of the inputs, in the order in which :meth:`run` gets them."""
        from ...compiled.driver import run_job

        self._inputs = [edges.index(edge) for edge in job.inputs]
        self._outputs = [
            (of, extents, None if output.origins is None else edges.index(output.origins)) for output, of, extents in job.outputs
        ]
        words, begin = len(job.source), -(-job.scratch_bytes // 64) * 64
        self._scratch = begin + 8 * (words + job.text_words)
        table, kept = COPY.make(
            length=words, source=job.source, places=job.places, count=len(job.places), begin=begin, run=run_job.address
        )  # fmt: skip
        self._address, self._run = address_of(table), _run(template.took < _HELD_NS)
        self._packed = struct.Struct(f"{len(self._inputs) + len(self._outputs)}q").pack
        self._kept = template, table, kept

    def run(self, inputs: Sequence[Batch], allocate: Callable[[int], np.ndarray], thread: WorkerState) -> list[Batch] | None:
        """The outputs. None if a sample has failed: the call is to be made in the usual way, which tells the error."""
        bases = [inputs[k].first_address for k in self._inputs]
        outputs = []
        for of, extents, origins in self._outputs:
            memory = allocate(extents.total)
            address = address_of(memory)
            bases.append(address)
            made = Batch(of.shapes, of.dtype, of.layout, device=of.device)
            made.place_dense(memory, address, extents)
            if origins is not None:
                made.source_info = inputs[origins].source_info
            outputs.append(made)
        if self._run(self._address, self._packed(*bases), thread.record_for(self._scratch)):
            return None
        return outputs


class BriefView:
    """An operator that gives its input other shapes, or another type or layout."""

    __slots__ = ("_view",)

    def __init__(self, view: Batch):
        self._view = view

    @classmethod
    def of(cls, built: Built, source: Batch, batch_size: int) -> BriefView | None:
        """The view of one input that the operator plans. None if the plan is more than that."""
        shown = Batch(source.shapes, source.dtype, source.layout, device=source.device)
        try:
            planned = built.operator.plan([shown], Arguments(built.planned.spec, {}, len(source)), Now(batch_size, None))
        except Uncovered:
            return None
        (view,) = planned.outputs
        return None if planned.steps or view.alias_of is not shown else cls(view)

    def run(self, inputs: Sequence[Batch], allocate: object, thread: object) -> list[Batch] | None:
        """The output. None if its memory may be the user's: then it is a copy."""
        (source,) = inputs
        if source.reused_memory is not False:
            return None
        view = self._view
        return [Batch.alias(source, view.shapes, view.dtype, view.layout)]

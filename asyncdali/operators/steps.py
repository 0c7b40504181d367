"""The results of `plan` and `prepare`: compiled steps, output batches, and jobs before planning."""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol, TypeAlias

import numpy as np

from ..batch import Batch
from ..compiled.tables import laid_out
from ..device.launch import Launch


class DecoderShare(Protocol):
    """The samples of a batch that decoders of a GPU take, as ``decode.image_decoder_lanes.GpuImages`` describes them."""

    lanes: list[Any]


@dataclass
class Step:
    """A compiled step: address of the function, its context table, its scratch memory, and the objects that must stay alive.

    ``explain(code, text, sample)`` turns a non-zero status into a message.
    """

    function: int
    context: Any
    """The table, int64[words]."""
    explain: Callable[[int, str, int], str]
    scratch_bytes: int = 0
    scratch_field: int | None = None
    """Index in `context` of the word that receives the offset of this step's own scratch memory in the thread's."""
    keep: Sequence[Any] = ()
    inner: Step | None = None
    """The step that this one calls, if it replaces another step."""
    launches: Callable[[], list[Launch]] | None = None
    """The same step for a GPU, over the same tables; called when the addresses are known. None: there is no kernel."""
    hardware: DecoderShare | None = None
    """The samples that a GPU's decoders take instead."""
    afterwards: Callable[[], None] | None = None
    """Work of the host when the launches have completed, on the thread that waits for them: reads what kernels have written to pinned
    memory. May raise SampleError."""

    def place_scratch(self, offset: int) -> None:
        """Set the offset of the step's scratch memory within the thread's scratch memory."""
        if self.inner is not None:
            self.inner.place_scratch(offset)
        elif self.scratch_field is not None:
            self.context[self.scratch_field] = offset


class TableStep(Step):
    """A step over a table that is laid out when the host first needs it: launches have tables of their own.

    `context` is given as a tuple, the entries of the table.
    """

    _table: Any
    _keep: Sequence[Any]

    def _lay_out(self) -> None:
        if isinstance(self._table, tuple):
            self._table, made = laid_out(self._table)
            self._keep = [made, *self._keep] if self._keep else made

    @property
    def context(self) -> np.ndarray:
        self._lay_out()
        table: np.ndarray = self._table
        return table

    @context.setter
    def context(self, table: np.ndarray | tuple[object, ...]) -> None:
        self._table = table

    @property
    def keep(self) -> Sequence[object]:
        self._lay_out()
        return self._keep

    @keep.setter
    def keep(self, things: Sequence[object]) -> None:
        self._keep = things


class HeadScan(NamedTuple):
    """A compiled function at `address` that scans an encoded file, ``(file, bytes, record) -> marks``. A record has `words` int64."""

    address: int
    words: int


@dataclass
class Planned:
    """Result of :meth:`Operator.plan`: output batches, and the steps that compute those without contents."""

    outputs: list[Batch]
    steps: list[Step] = field(default_factory=list)


@dataclass
class PythonJob:
    """Python work: ``work(sample)`` for each of `samples`. The first error is raised with its sample."""

    samples: Sequence[int]
    work: Callable[[int], None]


@dataclass
class CompiledJob:
    """Compiled steps over samples 0..count-1, outside of a segment's own pixels (for example reading files).

    `brief`: the job takes microseconds. The planning thread does it alone, because waking others would take longer.
    """

    count: int
    steps: list[Step]
    brief: bool = False


Preparation: TypeAlias = "Generator[PythonJob | CompiledJob, None, Any] | tuple[()]"
"""The result of :meth:`Operator.prepare`: a generator of jobs, or nothing."""

NOTHING: Preparation = ()
"""The result for an operator without such jobs."""


def no_explanation(code: int, text: str, sample: int) -> str:
    """Default explanation of a step's status."""
    return text or f"status {code}"

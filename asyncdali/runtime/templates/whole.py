"""Templates of whole segments of the host: the job and the tables of all its steps are one block of words.

A copied plan still costs 15 to 30 us per operator in the interpreter: gate, arguments, memory of outputs, entries in the job. If every
operator of a segment has a template, all of this is equal in every iteration except for addresses and positions. So the job's own table is
in the block, and the address tables of outputs and of contiguous inputs, too.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Any, NamedTuple

import numpy as np
from asyncdali_workers.limits import TooLarge

from ...batch import Batch, Extents
from ...compiled.addresses import address_of
from ...compiled.job_tables import JOB
from ...compiled.tables import Handle
from ...operators.base import Step
from ..work.built import Built
from ..work.jobs import CompiledSamples, Timed
from .outlines import Outline, PlannedOutput, WordBlock

_MOST_WORDS = 1 << 14
"""Segments with larger blocks are planned in every iteration: copying the block would take longer."""
_TIMES = JOB.word.times


class TooLargeOutput(Exception):
    """There is no memory for an output of the operator `built`."""

    def __init__(self, built: Built, error: MemoryError):
        super().__init__(str(error))
        self.built, self.error = built, error


class JobCopy(NamedTuple):
    """A job with its tables, as words to be copied.

    source, places  words, and (word, number of the base that is added to it): the copy itself, the first samples of `inputs` (edges), and
                    the memory of `outputs`
    outputs         output, batch without memory, extents
    text_words      of the error texts behind the words;  scratch_bytes  of its steps
    """

    source: np.ndarray
    places: np.ndarray
    text_words: int
    inputs: list[int]
    outputs: list[tuple[PlannedOutput, Batch, Extents]]
    scratch_bytes: int


class SegmentTemplate:
    """The job of a segment for inputs with one key.

    The bases of addresses are the block, address tables of inputs, the first samples of contiguous inputs, positions, and the memory of
    outputs, in this order. `produced`: numbers of samples that the operators make, by the operators' ids.
    """

    __slots__ = (
        "_firsts", "_inputs", "_kept", "_outputs", "_places", "_positions", "_relocate", "_source", "_texts", "_timed", "_whole", "_words",
        "job", "produced", "took",
    )  # fmt: skip

    def __init__(self, outline: Outline, kept: Collection[int], most_scratch: int, timed: Timed):
        """`kept`: edges that other segments read;  timed: how later jobs measure time. TypeError if the tables cannot be copied."""
        from ...compiled.relocation import relocate

        self._relocate, self._timed = relocate.entry, timed is not Timed.NO
        self.took = 0
        """Nanoseconds of its last call in dynamic mode."""
        block = WordBlock(outline)
        contexts = [block.step(step) for _, step in outline.steps]
        places: list[tuple[int, Any]] = [(word, base) for word, base in block.places if base is None or not _is_dense(base, outline)]
        pointed = self._place_inputs(block, outline, places)
        self._firsts = list(pointed)
        self._inputs = list({id(base): base for _, base in places if isinstance(base, Handle) and isinstance(base.of, int)}.values())
        self._positions = list({base.of: None for _, base in places if isinstance(base, Handle) and not isinstance(base.of, int)})
        words = block.words()
        for first, pointers in pointed.values():
            words[pointers] = 8 * first
        slots, scratch, outputs = self._place_outputs(block, outline, kept, most_scratch, words, places)
        steps = [
            (built, Step(step.function, words[context], step.explain, step.scratch_bytes, step.scratch_field))
            for (built, step), context in zip(outline.steps, contexts, strict=True)
        ]
        count = max(len(output.batch) for output in outline.outputs)
        self.job = CompiledSamples(count, steps, slots, scratch, timed)
        head, source, moving = self.job.movable(words)
        first = len(head)
        source[[first + word for word, base in places if base is None]] += 8 * first
        numbers = {base: 1 + k for k, base in enumerate([*map(id, self._inputs), *self._firsts, *self._positions])}
        for output, _, memory in outputs:
            if memory:
                numbers["memory", output.edge] = 1 + len(numbers)
        every = moving + [(first + word, 0 if base is None else numbers[_name(base)]) for word, base in places]
        self._source, self._places = source, np.array(every, np.int64).reshape(-1, 2)
        self._words, self._texts, self._kept = len(source), self.job.texts_words, block.kept
        if self._words > _MOST_WORDS:
            raise TypeError("the tables are large")
        self._whole = address_of(source), address_of(self._places)
        self._outputs = []
        for output, table, memory in outputs:
            batch = output.batch
            table = slice(first + table.start, first + table.stop)
            self._outputs.append((output, batch, Extents.of(batch.shapes, batch.dtype), table, memory))
        self.produced = {id(output.built.operator): len(output.batch) for output in reversed(outline.outputs)}

    @staticmethod
    def _place_inputs(block: WordBlock, outline: Outline, places: list[tuple[int, object]]) -> dict[tuple[str, int], tuple[int, list[int]]]:
        """Put the address tables of contiguous inputs into the block. By the name of their bases: the first word of a table, and the words
        that point to it."""
        found: dict[tuple[str, int], tuple[int, list[int]]] = {}
        for word, base in block.places:
            if base is not None and _is_dense(base, outline):
                name, view = ("first", base.of), outline.inputs[base.of]
                if name not in found:
                    first = block.copied(Extents.of(view.shapes, view.dtype).offsets)
                    found[name] = first, []
                    places += [(first + k, name) for k in range(len(view))]
                found[name][1].append(word)
                places.append((word, None))
        return found

    @staticmethod
    def _place_outputs(
        block: WordBlock, outline: Outline, kept: Collection[int], most_scratch: int, words: np.ndarray, places: list[tuple[int, object]]
    ) -> tuple[list[tuple[int, int]], int, list[tuple[PlannedOutput, slice, bool]]]:  # fmt: skip
        """The slots in scratch memory, their bytes, and (output, its address table, whether it has memory of its own)."""
        slots: list[tuple[int, int]] = []
        scratch, found = 0, []
        for output in outline.outputs:
            batch = output.batch
            extents = Extents.of(batch.shapes, batch.dtype)
            first = block.addresses(outline.handles[id(batch.addresses)])
            assert first is not None
            memory = output.edge in kept or scratch + extents.largest > most_scratch
            if memory:
                words[first : first + len(batch)] = extents.offsets
                places += [(first + k, ("memory", output.edge)) for k in range(len(batch))]
            else:
                slots.append((8 * first, scratch))
                scratch += -(-extents.largest // 64) * 64
            found.append((output, slice(first, first + len(batch)), memory))
        return slots, scratch, found

    def job_for(
        self, edges: list[Any], positions: Mapping[Any, int], allocate: Callable[[int], np.ndarray], timed: bool
    ) -> CompiledSamples:
        """Make the outputs of an iteration in `edges`, with memory. Returns the job that computes them, and measures its times if `timed`.

        TooLargeOutput if there is no memory for an output."""
        block = np.empty(self._words + self._texts, np.int64)
        at = address_of(block)
        tables = [
            edges[base.of].addresses if base.samples is None else edges[base.of].addresses[base.samples] for base in self._inputs
        ]
        bases = [at, *map(address_of, tables)]
        for _, edge in self._firsts:
            bases.append(edges[edge].first_address)
        for name in self._positions:
            bases.append(positions[name])
        for output, of, extents, table, memory in self._outputs:
            batch = Batch(of.shapes, of.dtype, of.layout, block[table], device=of.device)
            batch.extents = extents
            if output.origins is not None:
                batch.source_info = edges[output.origins].source_info
            if memory:
                try:
                    batch.owner = owner = allocate(extents.total)
                except TooLarge:
                    raise self._too_large(output, batch, allocate) from None
                batch.contiguous = True
                bases.append(address_of(owner))
            edges[output.edge] = batch
        source, places = self._whole
        words = np.array(bases, np.int64)  # named, because another thread may get the memory of a temporary array before it is read
        self._relocate(at, self._words, source, places, address_of(words), len(self._places))
        if self._timed and not timed:
            block[_TIMES] = 0
        return self.job.moved(block, at, self._words, (self, tables))

    def as_copy(self) -> JobCopy | None:
        """The job for threads that do all of it in memory of their own; None if it needs more than dense inputs and outputs."""
        dense = not self._inputs and not self._positions and all(memory for *_, memory in self._outputs)
        if self._timed or not dense:
            return None
        outputs = [(output, of, extents) for output, of, extents, _, _ in self._outputs]
        return JobCopy(self._source, self._places, self._texts, [edge for _, edge in self._firsts], outputs, self.job.scratch_bytes)

    @staticmethod
    def _too_large(output: PlannedOutput, batch: Batch, allocate: Callable[[int], np.ndarray]) -> TooLargeOutput:
        """The error that names the largest sample."""
        extents = batch.extents
        assert extents is not None
        try:
            batch.granted(allocate, extents.total, extents.sizes)
        except TooLarge as error:
            return TooLargeOutput(output.built, error)
        return TooLargeOutput(output.built, TooLarge("there was no memory for an output"))


def _is_dense(base: Handle, outline: Outline) -> bool:
    """Whether the base is an input whose samples lie one behind the other."""
    view = outline.inputs.get(base.of) if isinstance(base.of, int) else None
    return view is not None and view.contiguous and base.samples is None and len(view) > 0


def _name(base: Any) -> Any:
    """How the numbers of bases name a base."""
    if isinstance(base, Handle):
        return id(base) if isinstance(base.of, int) else base.of
    return base

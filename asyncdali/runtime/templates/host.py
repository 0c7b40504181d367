"""Templates of the steps of one operator: a block of words is copied, and addresses are added to it, in one compiled call."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ...batch import Batch, Extents
from ...compiled.addresses import address_of
from ...operators.base import Planned, Step
from .outlines import Outline, WordBlock

_MOST_WORDS = 1 << 14
"""Larger blocks are planned again: copying them would take longer."""


class HostTemplate:
    """The plan of an operator for inputs with one key."""

    __slots__ = ("_block", "_inputs", "_kept", "_outputs", "_places", "_positions", "_relocate", "_steps", "_whole")

    def __init__(self, outline: Outline):
        """TypeError if a step has words that no table declares, or too many."""
        from ...compiled.relocation import relocate

        self._relocate = relocate
        block = WordBlock(outline)
        self._steps = [(step, block.step(step)) for _, step in outline.steps]
        self._outputs: list[tuple[Batch, Extents, slice, int | None]] = []
        for output in outline.outputs:
            batch = output.batch
            first = block.addresses(outline.handles[id(batch.addresses)])
            assert first is not None
            table = slice(first, first + len(batch))
            self._outputs.append((batch, Extents.of(batch.shapes, batch.dtype), table, output.origins))
        bases = {id(base): base for _, base in block.places if base is not None}
        inputs = [base for base in bases.values() if isinstance(base.of, int)]
        positions = [base for base in bases.values() if not isinstance(base.of, int)]
        self._inputs, self._positions = [(base.of, base.samples) for base in inputs], [base.of for base in positions]
        numbers = {id(base): 1 + k for k, base in enumerate((*inputs, *positions))}
        places = [(word, 0 if base is None else numbers[id(base)]) for word, base in block.places]
        self._block, self._kept = block.words(), block.kept
        if len(self._block) > _MOST_WORDS:
            raise TypeError("the tables are large")
        self._places = np.array(places, np.int64).reshape(-1, 2)
        self._whole = len(self._block), address_of(self._block), address_of(self._places), len(places)

    def planned(self, edges: Sequence[Any], positions: Mapping[Any, int]) -> Planned:
        """The plan for the batches on `edges`. `positions`: the moving words, by what their handles name."""
        words, source, places, count = self._whole
        block = np.empty(words, np.int64)
        at = address_of(block)
        tables = [edges[edge].addresses if samples is None else edges[edge].addresses[samples] for edge, samples in self._inputs]
        bases = np.array([at, *map(address_of, tables), *[positions[of] for of in self._positions]], np.int64)
        self._relocate(at, words, source, places, address_of(bases), count)
        outputs = []
        for of, extents, table, origins in self._outputs:
            batch = Batch(of.shapes, of.dtype, of.layout, block[table], device=of.device)
            batch.extents = extents
            if origins is not None:
                batch.source_info = edges[origins].source_info
            outputs.append(batch)
        keep = block, tables, self._kept
        steps = [
            Step(step.function, block[context], step.explain, step.scratch_bytes, step.scratch_field, keep)
            for step, context in self._steps
        ]
        return Planned(outputs, steps)

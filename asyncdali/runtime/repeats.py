"""Repeated segments: if every plan of a segment would be copied (:mod:`.replays`), the whole segment is copied at once.

A copied plan still costs 20 to 30 us per operator in the interpreter: gate, arguments, tables, memory of outputs, entries in the job.
All of this is equal in every iteration except for addresses and positions of random streams. So the tables of all operators, the address
tables of their outputs and the job's own table are one block of words. One compiled call copies the block and adds the addresses of
inputs and of the memory of outputs, and the positions. The address tables of contiguous inputs lie in the block, too.

A segment is repeated for inputs for which all its operators have copied their plans in an iteration before. Operators without inputs
(fed batches, draws) are planned as usual, and first.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from asyncdali_workers.limits import TooLarge

from ..batch import Batch, Extents
from ..compiled.addresses import address_of
from ..compiled.job_tables import JOB
from ..operators.base import Step
from .jobs import CompiledSamples, Timed
from .replays import is_plain_word, key_of

if TYPE_CHECKING:
    from .segments import BuiltOperator

_MOST_SEGMENTS = 4
"""Number of blocks that are kept per segment; see ``replays._MOST_PLANS``."""
_MOST_WORDS = 1 << 14
"""Segments with larger blocks are planned in every iteration: copying the block would take longer."""
_TIMES = JOB.word.times


def repeats_of(operators: Sequence[BuiltOperator], kept: set[int]) -> Repeats | None:
    """The repeats of a segment. None if one of its operators must be planned in every iteration. `kept`: edges that other segments read."""
    heads = [built for built in operators if not built.sources and built.operator.instant]
    rest = [built for built in operators if built not in heads]
    if not rest or any(built.replays is None for built in rest):
        return None
    return Repeats(heads, rest, kept)


class Repeats:
    """The repeats of one segment. One thread at a time plans a segment, so there is no lock.

    heads   operators without inputs, which are planned in every iteration
    rest    the other operators
    """

    __slots__ = ("_contents", "_edges", "_kept", "_moving", "_plans", "heads", "rest")

    def __init__(self, heads: list[BuiltOperator], rest: list[BuiltOperator], kept: set[int]):
        self.heads, self.rest, self._kept = heads, rest, kept
        made = {edge for built in rest for edge in built.outputs}
        self._edges = list(dict.fromkeys(edge for built in rest for edge in _read(built) if edge not in made))
        places = {edge: k for k, edge in enumerate(self._edges)}
        read = (_read(built)[k] for built in rest for k in built.replays.contents)  # type: ignore[union-attr]
        self._contents = sorted({places[edge] for edge in read if edge in places})
        self._moving = [built for built in rest if built.operator.stateful]
        self._plans: dict[Any, Repeat] = {}

    def find(self, edges: Sequence[Any], batch_size: int) -> Repeat | None:
        """The repeat for the inputs of an iteration of `batch_size` samples."""
        return self._plans.get(self._key(edges, batch_size)) if self._plans else None

    def learn(self, edges: Sequence[Any], batch_size: int, most_scratch: int, timed: Timed) -> None:
        """Keep a repeat of a planned iteration, if all its plans were copies. `timed`: how later jobs measure time."""
        if len(self._plans) >= _MOST_SEGMENTS or any(built.replays.last is None for built in self.rest):  # type: ignore[union-attr]
            return
        key = self._key(edges, batch_size)
        if key is None or key in self._plans:
            return
        made = Repeat(self.rest, {edge: edges[edge] for edge in self._edges}, self._kept, most_scratch, timed)
        if made.words <= _MOST_WORDS:
            self._plans[key] = made

    def _key(self, edges: Sequence[Any], batch_size: int) -> Any:
        key = key_of([edges[edge] for edge in self._edges], self._contents)
        for built in self._moving:
            constant, word = built.operator.split(built.position)
            key = None if key is None or not is_plain_word(word) else (key, constant)
        return None if key is None else (key, batch_size)


class TooLargeOutput(Exception):
    """There is no memory for an output of the operator `built`."""

    def __init__(self, built: BuiltOperator, error: MemoryError):
        super().__init__(str(error))
        self.built, self.error = built, error


def _read(built: BuiltOperator) -> list[int]:
    """The edges of the inputs and then of the argument inputs, as copied plans number them."""
    return [*built.inputs, *built.planned.arguments.values()]


class Repeat:
    """A segment that is copied for inputs of certain shapes. `words`: size of the copied block."""

    __slots__ = (
        "_firsts", "_inputs", "_kept_arrays", "_memories", "_moving", "_outputs", "_places", "_relocate", "_sampled", "_template",
        "_texts", "job", "kept", "produced", "words",
    )  # fmt: skip

    def __init__(self, operators: Sequence[BuiltOperator], inputs: dict[int, Batch], kept: set[int], most_scratch: int, timed: Timed):
        from ..compiled.relocation import relocate

        self._relocate = relocate
        made = _Made(operators, inputs, kept, most_scratch)
        job = CompiledSamples(made.count, made.steps, made.slots, made.scratch, timed)
        head, source, places = job.movable(made.block)
        first = len(head)
        places += [(first + word, base) for word, base in made.places]
        source[[first + word for word, base in made.places if base == 0]] += 8 * first
        self._kept_arrays = source, np.array(places, np.int64).reshape(-1, 2)
        self._template = (len(source), *map(address_of, self._kept_arrays))
        self._places = len(places)
        self.words = len(source)
        self.job, self.kept = job, made.kept
        self._texts = job.texts_words
        self._firsts = made.firsts
        self._inputs, self._sampled, self._memories, self._moving = made.tables, made.sampled, made.memories, made.moving
        self.produced = {id(built.operator): made.produced[id(built)] for built in made.moving}
        """The numbers of samples by which positions move, by the operators' ids."""
        self._outputs = [
            (edge, built, shapes, dtype, layout, extents, slice(first + table, first + table + len(shapes)), memory, info)
            for edge, built, (shapes, dtype, layout, extents), table, memory, info in made.outputs
        ]

    def job_for(self, edges: list[Any], allocate: Any, timed: bool) -> CompiledSamples:
        """Make the outputs of an iteration in `edges`, with memory. Returns the job that computes them, and measures its times if `timed`.

        TooLargeOutput if there is no memory for an output."""
        block = np.empty(self.words + self._texts, np.int64)
        at = address_of(block)
        tables = [edges[edge].addresses for edge in self._inputs]
        bases = [at, *map(address_of, tables)]
        for edge in self._firsts:
            bases.append(edges[edge].first_address)
        for edge, built, shapes, dtype, layout, extents, table, memory, info in self._outputs:
            batch = Batch(shapes, dtype, layout, block[table], device=built.output_device)
            batch.extents = extents
            if info is not None:
                batch.source_info = edges[info].source_info
            if memory:
                try:
                    batch.owner = owner = batch.granted(allocate, extents.total, extents.sizes)
                except TooLarge as error:
                    raise TooLargeOutput(built, error) from None
                batch.contiguous = True
                bases.append(address_of(owner))
            edges[edge] = batch
        for built in self._moving:
            bases.append(built.operator.split(built.position)[1])
        found = np.array(bases, np.int64)
        if self._sampled:
            found = np.concatenate([found, *[edges[edge].addresses for edge in self._sampled]])
        self._relocate(at, *self._template, address_of(found), self._places)
        if not timed:
            block[_TIMES] = 0
        return self.job.moved(block, at, self.words, (self, tables))


class _Made:
    """The block of the operators, before the job's table is put in front of it. Addresses in it are offsets from a base.

    places    (word, base): base 0 is the block; then the address tables of `tables`, the first samples of `firsts`, the memory of
              outputs, the positions of `moving`, samples of `sampled`
    produced  numbers of samples that operators make, by the id of the BuiltOperator
    """

    def __init__(self, operators: Sequence[BuiltOperator], inputs: dict[int, Batch], kept: set[int], most_scratch: int):
        replays: list[Any] = [built.replays.last for built in operators]  # type: ignore[union-attr]
        begins = np.cumsum([0, *[len(replay.block) for replay in replays]]).tolist()
        self.block = np.concatenate([replay.block for replay in replays])
        self.steps: list[tuple[Any, Step]] = []
        self.kept = [replay.kept for replay in replays]
        self.tables: list[int] = []
        self.sampled: list[int] = []
        self.outputs: list[Any] = []
        self.slots: list[tuple[int, int]] = []
        self.moving: list[BuiltOperator] = []
        self.produced: dict[int, int] = {}
        self.scratch = self.memories = self.count = 0
        own: dict[int, int] = {}  # edge -> word of its address table in the block
        origins: dict[int, int | None] = {}  # edge -> the input whose source info it has
        lengths = {edge: len(batch) for edge, batch in inputs.items()}
        places: list[tuple[int, tuple[str, int, int]]] = []
        looked_up = dict.fromkeys(_read(built)[number] for built, replay in zip(operators, replays) for number in replay.tables)
        self.firsts = [edge for edge in looked_up if edge in inputs and inputs[edge].contiguous and lengths[edge]]
        for k, edge in enumerate(self.firsts):
            own[edge] = len(self.block)
            places += [(len(self.block) + sample, ("first", k, 0)) for sample in range(lengths[edge])]
            self.block = np.concatenate([self.block, Extents.of(inputs[edge].shapes, inputs[edge].dtype).offsets])
        for built, replay, begin in zip(operators, replays, begins):
            read = _read(built)
            if replay.moves:
                self.moving.append(built)
            for word, base in replay.places.tolist():
                kind = self._base(replay, read, base, lengths)
                if kind[0] == "own":
                    self.block[begin + word] += 8 * begin
                elif kind[0] == "table" and kind[1] in own:
                    self.block[begin + word] += 8 * own[kind[1]]
                    kind = ("own", 0, 0)
                places.append((begin + word, kind))
            origin = origins.get(read[0], read[0])
            self.produced[id(built)] = len(replay.outputs[0][0])
            for edge, (shapes, dtype, layout, _, named, extents, table) in zip(built.outputs, replay.outputs, strict=True):
                own[edge] = begin + table.start
                lengths[edge] = len(shapes)
                origins[edge] = origin if named or len(shapes) == lengths[read[0]] else None
                self.count = max(self.count, len(shapes))
                memory = edge in kept or self.scratch + extents.largest > most_scratch
                if memory:
                    self.block[own[edge] : own[edge] + len(shapes)] = extents.offsets
                    places += [(own[edge] + k, ("memory", self.memories, 0)) for k in range(len(shapes))]
                    self.memories += 1
                else:
                    self.slots.append((8 * own[edge], self.scratch))
                    self.scratch += -(-extents.largest // 64) * 64
                self.outputs.append((edge, built, (shapes, dtype, layout, extents), own[edge], memory, origins[edge]))
            for (function, explain, scratch_bytes, field), context in zip(replay.steps, replay.contexts, strict=True):
                table = self.block[begin + context.start : begin + context.stop]
                self.steps.append((built, Step(function, table, explain, scratch_bytes, field)))
        self.places = self._numbered(places, lengths)

    def _base(self, replay: Any, read: list[int], base: int, lengths: dict[int, int]) -> tuple[str, int, int]:
        """The kind, edge and sample of a base in the copied plan of an operator."""
        if base == 0:
            return "own", 0, 0
        if base <= len(replay.tables):
            return "table", read[replay.tables[base - 1]], 0
        if replay.moves and base == 1 + len(replay.tables):
            return "position", len(self.moving) - 1, 0
        sample = base - 1 - len(replay.tables) - replay.moves
        for number in replay.sampled:
            if sample < lengths[read[number]]:
                return "sample", read[number], sample
            sample -= lengths[read[number]]
        raise IndexError(f"a copied plan has no base {base}")

    def _numbered(self, places: list[tuple[int, tuple[str, int, int]]], lengths: dict[int, int]) -> list[tuple[int, int]]:
        self.tables = list(dict.fromkeys(edge for _, (kind, edge, _) in places if kind == "table"))
        self.sampled = list(dict.fromkeys(edge for _, (kind, edge, _) in places if kind == "sample"))
        tables = {edge: 1 + k for k, edge in enumerate(self.tables)}
        memories = 1 + len(self.tables) + len(self.firsts)
        positions = memories + self.memories
        first = positions + len(self.moving)
        samples: dict[int, int] = {}
        for edge in self.sampled:
            samples[edge] = first
            first += lengths[edge]

        def number(kind: str, edge: int, sample: int) -> int:
            if kind == "own":
                return 0
            if kind == "table":
                return tables[edge]
            if kind == "position":
                return positions + edge
            if kind == "first":
                return 1 + len(self.tables) + edge
            return memories + edge if kind == "memory" else samples[edge] + sample

        return [(word, number(*base)) for word, base in places]

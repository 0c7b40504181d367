"""Repeated plans: a plan that depends only on the shapes of its inputs is made three times, compared, and then copied.

Planning an operator takes 20 to 400 us in the interpreter, however small the batch is. A pipeline whose samples have one size (behind a
resize, for example) makes the same plan in every iteration; only the addresses differ. A copy takes 6 to 10 us.

A plan may also depend on contents: of argument inputs, and of inputs that the operator reads. Such a plan is copied for equal contents,
which are constants in most pipelines. Contents that are new in each of the first iterations (draws) are no longer compared.

A random stream is a position that moves by the batch in every iteration. An operator that only writes the position into its tables
(``Operator.places_position``) is copied, too: the copy gets the position of its iteration.

An operator asks for copies with ``repeatable = True`` (:func:`is_repeatable`). Before a plan is copied, :mod:`.watched` verifies that
`plan` reads nothing that the key does not cover.

A plan is copied only if two plans for the same shapes were equal word by word. Addresses may differ if both plans have them in the same
places: address tables of inputs and outputs, samples of inputs that have their memory, and arrays that the plan made. Both plans are
alive while they are compared, so equal addresses belong to memory that the operator keeps. Tables and arrays are compared and copied as
they were before any step ran, because steps may write to them.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from typing import TypeAlias

import numpy as np

from ..batch import Batch, Extents
from ..compiled.addresses import address_of
from ..graph.plan import PlannedOperator
from ..operators.base import Arguments, Iteration, Operator, Planned, Step, Trait
from .watched import read_outside_of_key

_MOST_PLANS = 4
"""Number of plans that are kept per operator: one for whole batches, one for a smaller last batch."""
_MOST_BYTES = 1 << 16
"""Larger tables are planned again: copying them would take longer."""
_MOST_CONTENTS = 1 << 12
"""Larger contents are not compared: that would take as long as small plans."""
_TRIALS = 64
"""Number of iterations after which contents that were new each time are no longer compared."""
_LEAST_ADDRESS = 1 << 32
_LINE = 64

_INPUT, _OUTPUT, _OWN, _SAMPLE, _POSITION = range(5)
Place: TypeAlias = "tuple[int, int, int]"
"""The target of a word: kind, number of the array or sample, offset in bytes. The samples of all inputs are numbered one after another."""
AMBIGUOUS: Place = (-1, -1, -1)
"""The place of an address in memory that several samples share."""


def replays_of(planned: PlannedOperator, operator: Operator) -> Replays | None:
    """The repeated plans of an operator. None if a plan may depend on more than constants, and shapes and contents of inputs."""
    spec, kind = operator.spec, type(operator)
    known = operator.eager or operator.passes_on or operator.barrier or Trait.HANDS_OUT_SAMPLES in operator.traits
    known = known or (operator.stateful and not operator.places_position) or not is_repeatable(kind)
    if known or spec.device != "cpu" or not planned.inputs or kind.prepares(spec) or operator.environment.gpu is not None:
        return None
    count = len(planned.inputs)
    read = [k for k in kind.inputs_read(spec, False) if k < count and k not in kind.waits_for]
    return Replays(operator, tuple(planned.arguments), (*read, *range(count, count + len(planned.arguments))), operator.stateful)


def is_repeatable(kind: type[Operator]) -> bool:
    """Whether the class declares that its `plan` may be copied. A class that defines another `plan` must declare it again."""
    for base in kind.__mro__:
        if "repeatable" in vars(base):
            return kind.repeatable
        if "plan" in vars(base):
            return False
    return False


class Replays:
    """The repeated plans of one operator. Segments plan one iteration at a time, so there is no lock."""

    __slots__ = ("_before", "_moves", "_names", "_operator", "_pending", "_plans", "_trials", "contents", "last")

    def __init__(self, operator: Operator, names: tuple[str, ...] = (), contents: tuple[int, ...] = (), moves: bool = False):
        """`names`: of the argument inputs, which follow the inputs. `contents`: numbers of the inputs whose contents decide. `moves`:
        whether the operator has a position."""
        from ..compiled.relocation import relocate

        relocate.compile()  # in build(), not in an iteration
        self._operator = operator
        self._names, self.contents = names, contents
        self.last: _Replay | None = None
        """The plan of which the last iteration has a copy. None: it was planned."""
        self._trials = _TRIALS
        self._plans: dict[Hashable, _Replay | None] = {}
        self._moves = moves
        self._before: Hashable = None  # the key of the last plan
        self._pending: _Seen | None = None  # the last plan, if its key occurred twice in a row

    def plan(self, inputs: list[Batch], arguments: Arguments, iteration: Iteration) -> Planned:
        """:meth:`Operator.plan`, or a copy of an earlier plan."""
        every = [*inputs, *map(arguments.batch, self._names)] if self._names else inputs
        key = key_of(every, self.contents) if self._trials else None
        word = None
        if self._moves:
            constant, word = self._operator.split(iteration.position)
            key = None if key is None or not is_plain_word(word) else (key, constant)
        key = None if key is None else (key, iteration.batch_size)
        if key is None:
            self.last = None
            return self._operator.plan(inputs, arguments, iteration)
        self.last = replay = self._plans.get(key)
        if replay is not None:
            return replay.planned(every, word)
        planned = self._operator.plan(inputs, arguments, iteration)
        if self.contents and not self._plans:
            self._trials -= 1
        if len(self._plans) < _MOST_PLANS and key not in self._plans:
            self._learn(key, every, planned, word, lambda: self._may_copy(inputs, arguments, iteration))
        return planned

    def _may_copy(self, inputs: list[Batch], arguments: Arguments, iteration: Iteration) -> bool:
        """Whether the plan depends on its key alone."""
        named = {name: arguments.batch(name) for name in self._names}
        return not read_outside_of_key(self._operator, inputs, named, self.contents, iteration, arguments.count)

    def _learn(
        self, key: Hashable, inputs: list[Batch], planned: Planned, word: int | None, may_copy: Callable[[], bool]
    ) -> None:  # fmt: skip
        pending, self._pending = self._pending, None
        if key != self._before:
            self._before = key
            return
        seen = _Seen(inputs, planned, word)
        if pending is None:
            self._pending = seen
            return
        made = _compared(pending, seen)
        self._plans[key] = made if made is not None and may_copy() else None
        self._before = None


def key_of(inputs: Sequence[Batch], contents: Sequence[int]) -> Hashable:
    """The data on which a plan depends. None for inputs that a plan may treat differently, and for large `contents`."""
    parts: list[object] = []
    for batch in inputs:
        if batch.rows is not None or batch.feed is not None or batch.links:
            return None
        shapes = batch.shapes
        named = batch.source_info is None
        parts.append((shapes.shape, shapes.tobytes(), batch.dtype, batch.layout, batch.contiguous, batch.values is None, named))
    for k in contents:
        values = inputs[k].values
        if values is None or values.nbytes > _MOST_CONTENTS:
            return None
        parts.append(values.tobytes())
    return tuple(parts)


def is_plain_word(word: int) -> bool:
    """Whether the word of a position that moves cannot be mistaken for an address."""
    return 0 <= word < _LEAST_ADDRESS


def _flat(objects: Iterable[object]) -> Iterator[object]:
    for item in objects:
        if isinstance(item, (list, tuple)):
            yield from _flat(item)
        else:
            yield item


class _Seen:
    """A plan, and the arrays of its steps as they were before any step ran. It keeps no memory of samples unless a step's `keep` does.

    `word`: the word of the operator's position that moves; None: the operator has no position."""

    def __init__(self, inputs: list[Batch], planned: Planned, word: int | None):
        outputs, steps = planned.outputs, planned.steps
        self.word = word
        self.samples = _Samples(inputs)
        self.tables = [[batch.addresses for batch in inputs], [batch.addresses for batch in outputs]]
        self.outputs = [(batch.shapes, batch.dtype, batch.layout, batch.device, batch.source_info is not None) for batch in outputs]
        self.steps = [(step.function, step.explain, step.scratch_bytes, step.scratch_field) for step in steps]
        self.contexts = [step.context for step in steps]
        self.kept = [step.keep for step in steps]
        plain_steps = all(step.inner is None and step.hardware is None and step.afterwards is None for step in steps)
        # This must be decided before the outputs get memory.
        self.plain = bool(steps) and plain_steps and all(_is_plain(batch, inputs) for batch in outputs)
        self.arrays: list[np.ndarray] = []
        self.objects: list[object] = []
        met = {id(table) for tables in self.tables for table in tables} | {id(batch) for batch in (*inputs, *outputs)}
        for item in (*self.contexts, *_flat(self.kept)):
            if id(item) in met:
                continue
            met.add(id(item))
            if isinstance(item, np.ndarray):
                self.arrays.append(item)
            else:
                self.objects.append(item)
        # Large arrays are not copied. A plan with large arrays can be replayed only if the operator keeps these arrays.
        self.copies = [array.copy() if array.nbytes <= _MOST_BYTES else None for array in self.arrays]

    def moved(self, word: int) -> Place | None:
        """The place of a word that follows the position."""
        return None if self.word is None or not is_plain_word(word - self.word) else (_POSITION, 0, word - self.word)

    def ranges(self, own: Sequence[int]) -> list[tuple[int, int, int, int]]:
        """(first byte, past the last byte, kind, number) of the arrays that words may point to; `own`: numbers of arrays to copy."""
        found = [(kind, k, table) for kind, tables in enumerate(self.tables) for k, table in enumerate(tables)]
        found += [(_OWN, k, self.arrays[k]) for k in own]
        return [(at := address_of(array), at + array.nbytes, kind, k) for kind, k, array in found if array.nbytes]


class _Samples:
    """The memory of the samples of inputs, as far as it exists."""

    def __init__(self, inputs: Sequence[Batch]):
        counts = [len(batch) for batch in inputs]
        known = [batch.is_placed for batch in inputs]
        starts = [batch.addresses if there else np.zeros(len(batch), np.int64) for batch, there in zip(inputs, known, strict=True)]
        self._starts = np.concatenate(starts)
        self._sizes = np.concatenate([batch.sizes() for batch in inputs]) * np.repeat(known, counts)
        self.counts = counts

    def place(self, address: int) -> Place | None:
        """The sample that contains an address. `AMBIGUOUS`: several samples do."""
        found = np.flatnonzero((self._starts <= address) & (address < self._starts + self._sizes))
        if len(found) > 1:
            return AMBIGUOUS
        return (_SAMPLE, int(found[0]), address - int(self._starts[found[0]])) if len(found) else None


def _place(ranges: Sequence[tuple[int, int, int, int]], samples: _Samples, address: int) -> Place | None:
    if address < _LEAST_ADDRESS:
        return None
    found = next(((kind, k, address - begin) for begin, end, kind, k in ranges if begin <= address < end), None)
    return samples.place(address) if found is None else found


def _is_plain(batch: Batch, inputs: Sequence[Batch]) -> bool:
    """Whether an output is a new batch that has shapes only."""
    if batch.owner is not None or batch.values is not None or batch.alias_of is not None or batch.links or batch.feed is not None:
        return False
    if batch.rows is not None or batch.reused is not False or any(batch is source for source in inputs):
        return False
    return batch.source_info is None or batch.source_info is inputs[0].source_info


def _alike(a: _Seen, b: _Seen) -> bool:
    """Whether two plans have the same steps and outputs, and keep the same objects."""
    if not (a.plain and b.plain) or a.steps != b.steps or [output[1:] for output in a.outputs] != [output[1:] for output in b.outputs]:
        return False
    if not all(np.array_equal(output[0], other[0]) for output, other in zip(a.outputs, b.outputs, strict=True)):
        return False
    return len(a.objects) == len(b.objects) and all(map(_is, a.objects, b.objects))


def _is(one: object, other: object) -> bool:
    return one is other


def _compared(a: _Seen, b: _Seen) -> _Replay | None:
    """The plan that both are copies of. None if they differ in more than addresses."""
    if not _alike(a, b) or len(a.copies) != len(b.copies):
        return None
    kinds = [(array.dtype, array.shape, array.flags.c_contiguous) for array in a.arrays]
    if kinds != [(array.dtype, array.shape, array.flags.c_contiguous) for array in b.arrays]:
        return None
    own = [k for k, array in enumerate(a.arrays) if array is not b.arrays[k]]
    if not all(a.arrays[k].flags.c_contiguous for k in own) or any(map(_is, a.contexts, b.contexts)):
        return None
    begins: dict[int, int] = {}
    size = 0
    for k in own:
        begins[k] = size
        size += -(-max(a.arrays[k].nbytes, 1) // _LINE) * _LINE
    if size > _MOST_BYTES:
        return None
    block = np.zeros(size // 8, np.int64)
    a_ranges, b_ranges = a.ranges(own), b.ranges(own)
    if any(behind[0] < before[1] for before, behind in itertools.pairwise(sorted(a_ranges))):
        return None  # two arrays overlap; their copies would not
    pointers: dict[tuple[int, int], list[int]] = {}
    for k in own:
        one, other, begin = a.copies[k], b.copies[k], begins[k]
        if one is None or other is None:
            return None
        if one.dtype != np.int64:
            if one.tobytes() != other.tobytes():
                return None
            block.view(np.uint8)[begin : begin + one.nbytes] = np.frombuffer(one.tobytes(), np.uint8)
            continue
        words, theirs = one.reshape(-1), other.reshape(-1)
        block[begin // 8 : begin // 8 + len(words)] = words
        for i in np.flatnonzero((words != theirs) | (words >= _LEAST_ADDRESS)).tolist():
            place, their = _place(a_ranges, a.samples, int(words[i])), _place(b_ranges, b.samples, int(theirs[i]))
            if place is None and words[i] != theirs[i]:
                place, their = a.moved(int(words[i])), b.moved(int(theirs[i]))
            if place != their or place is AMBIGUOUS or (place is None and words[i] != theirs[i]):
                return None  # samples that share memory now may lie apart in a later batch
            if place is None:
                continue  # a number, or the address of memory that the operator keeps
            kind, number, offset = place
            word = begin // 8 + i
            block[word] = offset + (begins[number] if kind == _OWN else 0)
            pointers.setdefault((kind, 0 if kind == _OWN else number), []).append(word)
    if a.word is not None and (_POSITION, 0) not in pointers:
        return None  # the plan uses its position in another way
    return _Replay(a, block, begins, pointers)


class _Replay:
    """A plan that is copied. `block`: its arrays, one behind the other; addresses in it are offsets from what they point to.

    The address tables of the outputs lie in the block, too: behind the arrays. The bases of addresses are the block, the address tables
    `tables`, the position (if the operator has one: `moves`) and the samples of the inputs `sampled`.
    """

    __slots__ = ("_relocate", "_words", "block", "contexts", "kept", "moves", "outputs", "places", "sampled", "steps", "tables")

    def __init__(self, a: _Seen, block: np.ndarray, begins: dict[int, int], pointers: dict[tuple[int, int], list[int]]):
        from ..compiled.relocation import relocate

        self._relocate = relocate
        tables: list[slice] = []
        words = len(block)
        for shapes, *_ in a.outputs:
            tables.append(slice(words, words + len(shapes)))
            words += len(shapes)
        self.block = np.zeros(words, np.int64)
        self.block[: len(block)] = block
        self.tables: list[int] = []  # inputs whose address tables are pointed to
        self.sampled: list[int] = []  # inputs whose samples are pointed to
        places: list[tuple[int, int]] = [(word, 0) for word in pointers.pop((_OWN, 0), [])]
        samples = {number: targets for (kind, number), targets in pointers.items() if kind == _SAMPLE}
        moving = pointers.pop((_POSITION, 0), [])
        self.moves = bool(moving)
        for (kind, number), targets in pointers.items():
            if kind == _SAMPLE:
                continue
            if kind == _OUTPUT:
                self.block[targets] += 8 * tables[number].start
                places += [(word, 0) for word in targets]
            else:
                self.tables.append(number)
                places += [(word, len(self.tables)) for word in targets]
        places += [(word, 1 + len(self.tables)) for word in moving]
        base, first = 1 + len(self.tables) + self.moves, 0
        for k, count in enumerate(a.samples.counts):
            if any(first <= number < first + count for number in samples):
                self.sampled.append(k)
                places += [(word, base + number - first) for number in range(first, first + count) for word in samples.get(number, ())]
                base += count
            first += count
        self.places = np.array(places, np.int64).reshape(-1, 2)
        self._words = words, address_of(self.block), address_of(self.places), len(places)
        self.steps = a.steps
        self.outputs = [
            (shapes, dtype, layout, device, named, Extents.of(shapes, dtype), table)
            for (shapes, dtype, layout, device, named), table in zip(a.outputs, tables, strict=True)
        ]
        numbers = {id(array): k for k, array in enumerate(a.arrays)}
        self.contexts = []
        for context in a.contexts:
            first = begins[numbers[id(context)]] // 8
            self.contexts.append(slice(first, first + len(context)))
        self.kept = [array for k, array in enumerate(a.arrays) if k not in begins], a.objects

    def planned(self, inputs: list[Batch], word: int | None) -> Planned:
        """A copy for the batches `inputs` (the inputs, and then the argument inputs), and the word of the position that moves."""
        words, source, places, count = self._words
        block = np.empty(words, np.int64)
        at = address_of(block)
        tables = [inputs[number].addresses for number in self.tables]
        bases = np.array([at, *map(address_of, tables), *([word] if self.moves else [])], np.int64)
        if self.sampled:
            bases = np.concatenate([bases, *[inputs[number].addresses for number in self.sampled]])
        self._relocate(at, words, source, places, address_of(bases), count)
        outputs = []
        for shapes, dtype, layout, device, named, extents, table in self.outputs:
            batch = Batch(shapes, dtype, layout, block[table], device=device)
            batch.extents = extents
            if named:
                batch.source_info = inputs[0].source_info
            outputs.append(batch)
        keep = [block, self.kept, tables]
        steps = [
            Step(function, block[context], explain, scratch_bytes, scratch_field, keep)
            for (function, explain, scratch_bytes, scratch_field), context in zip(self.steps, self.contexts, strict=True)
        ]
        return Planned(outputs, steps)

"""Plans that are made as templates: the operators are planned over views, and their tables declare which words are addresses of what."""

from __future__ import annotations

import itertools
import logging
from collections.abc import Collection, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from ...batch import Batch
from ...compiled.addresses import Within, address_of
from ...compiled.tables import Declared, Handle, Kept
from ...operators.base import Arguments, Planned, Step, no_explanation
from ..work.built import Built
from .keys import edges_of, edges_read
from .views import Now, OriginsOf, Uncovered, View, is_plain, overlaps

log = logging.getLogger("asyncdali")


class PlannedOutput(NamedTuple):
    """An output of the operators. `origins`: the edge whose samples' origins it has; None: it has none."""

    edge: int
    built: Built
    batch: Batch
    origins: int | None


class Outline(NamedTuple):
    """The plans of some operators over views.

    outputs  of all operators;  handles  by the id of an output's address array: the handle that stands for it
    steps    of all operators;  inputs  views of the batches that the operators get from outside, by edge
    """

    outputs: list[PlannedOutput]
    handles: dict[int, Handle]
    steps: list[tuple[Built, Step]]
    inputs: dict[int, View]


def outlined(
    operators: Sequence[Built], edges: Sequence[Any], batch_size: int, positions: Mapping[int, Any], on_gpu: bool,
    copies: Collection[int] = (),
) -> Outline | None:  # fmt: skip
    """The outline for the batches on `edges`; None if a plan needs more than views.

    positions: by the operator's id;  copies: outputs of operators that view their input, which become copies instead
    """
    made = Outline([], {}, [], {})
    views: dict[int, View] = {}
    for built in operators:
        read = edges_read(built, on_gpu)
        for edge in edges_of(built):
            if edge not in views:
                made.inputs[edge] = views[edge] = View(edges[edge], edge, edge in read)
        try:
            _plan(built, views, batch_size, positions.get(id(built)), made, on_gpu, built.outputs[0] in copies)
        except Uncovered as error:
            log.debug("plans of %s are not copied, because it reads %s", built.planned.spec.name, error)
            return None
        except Exception as error:
            log.debug("plans of %s are not copied: %s", built.planned.spec.name, error)
            return None
    return made


def _plan(built: Built, views: dict[int, View], batch_size: int, position: object, made: Outline, placed: bool, copies: bool) -> None:
    """Plan one operator. TypeError if its outputs or steps cannot be copied. `placed`: outputs get their memory after each plan."""
    inputs, named = [views[edge] for edge in built.inputs], {name: views[edge] for name, edge in built.arguments}
    arguments, now = Arguments(built.planned.spec, dict(named), len(inputs[0])), Now(batch_size, position)
    planned = _copy_planned(built, inputs, arguments, now) if copies else built.operator.plan(list(inputs), arguments, now)
    if not planned.steps or not all(map(is_plain, planned.outputs)):
        raise TypeError("the outputs are no new batches")
    for step in planned.steps:
        if step.inner is not None or step.hardware is not None or step.afterwards is not None:
            raise TypeError("a step does more than compute outputs")
    for edge, batch in zip(built.outputs, planned.outputs, strict=True):
        if batch.source_info is None and len(batch) == len(inputs[0]):
            batch.source_info = inputs[0].source_info
        batch.device = built.output_device
        origins = batch.source_info
        made.outputs.append(PlannedOutput(edge, built, batch, origins.edge if isinstance(origins, OriginsOf) else None))
        view = views[edge] = View(batch, edge, False)
        made.handles[id(batch.addresses)] = view.addresses  # type: ignore[assignment]
        view.contiguous = placed
    made.steps.extend((built, step) for step in planned.steps)


def _copy_planned(built: Built, inputs: list[View], arguments: Arguments, now: Now) -> Planned:
    """The plan of an operator that views its input, with a copy in place of the view. For a GPU. TypeError if the operator does more."""
    from ...device.cuda.gather import copy_launch

    source = inputs[0]
    shown = Batch(source.shapes, source.dtype, source.layout, device=source.device, source_info=source.source_info)
    planned = built.operator.plan([shown, *inputs[1:]], arguments, now)
    if planned.steps or len(planned.outputs) != 1 or planned.outputs[0].alias_of is not shown:
        raise TypeError("the operator does more than view its input")
    view = planned.outputs[0]
    output = Batch(view.shapes, view.dtype, view.layout, source_info=view.source_info)
    sources, targets, sizes = source.addresses, output.addresses, output.sizes()
    step = Step(0, np.empty(0, np.int64), no_explanation, launches=lambda: [copy_launch(sources, targets, sizes)])
    return Planned([output], [step])


class WordBlock:
    """Tables and arrays one behind the other, as words that are copied.

    places    (word, base): the word is an offset to which the address, or the number, of `base` is added. Base None is the block itself
    """

    def __init__(self, outline: Outline):
        self.places: list[tuple[int, Handle | None]] = []
        self.kept: list[Any] = []
        self._handles = outline.handles
        self._parts: list[np.ndarray] = []
        self._words = 0
        self._made = {output.edge for output in outline.outputs}
        self._known: dict[int, int] = {}  # by id: first words of arrays
        self._declared: dict[int, Kept] = {}  # by the ids of tables that are laid out
        tables = [output.batch.addresses for output in outline.outputs]
        self._tables = {id(outline.handles[id(table)]): self.room(len(table)) for table in tables}
        self._own = [_range(table) for table in tables]
        """Memory of the arrays that the block replaces."""
        self._foreign: list[tuple[int, int]] = []
        """Memory of other arrays of the plan. An address of either must be declared."""

    def room(self, words: int) -> int:
        """The first word of `words` new ones, which are 0."""
        first = self._words
        self._parts.append(np.zeros(words, np.int64))
        self._words += words
        return first

    def words(self) -> np.ndarray:
        """All words. TypeError if one is an address that is not declared."""
        own = sorted(self._own)
        if any(behind[0] < before[1] for before, behind in itertools.pairwise(own)):
            raise TypeError("arrays of tables overlap")  # their copies would not
        block = np.concatenate(self._parts)
        places = [word for word, _ in self.places]
        if overlaps(np.delete(block, places), np.array([*self._foreign, *own], np.int64).reshape(-1, 2)):
            raise TypeError("a word is an address that no table declares")
        return block

    def addresses(self, edge: Handle) -> int | None:
        """The first word of the address array of an output; None for inputs."""
        found = self._tables.get(id(edge))
        if found is None and edge.samples is not None and edge.of in self._made:
            raise TypeError("a table picks samples that have no memory yet")
        return found

    def step(self, step: Step) -> slice:
        """Add the table of a step, and all that it declares. Returns its words."""
        context = step.context
        for item in _flat([step.keep]):
            if isinstance(item, Kept):
                self._declared[id(item.table)] = item
            elif isinstance(item, np.ndarray):
                self._foreign.append(_range(item))
                self.kept.append(item)
            elif isinstance(item, Batch):
                raise TypeError("a step keeps a batch")
            else:
                self.kept.append(item)
        entries = self._entries(context)
        if entries is None:
            raise TypeError("a table does not declare its words")
        first = self.table(entries)
        return slice(first, first + len(entries))

    def _entries(self, table: Any) -> Sequence[Any] | None:
        """The values of a table. None if `table` is none, or has changed since it was laid out."""
        if isinstance(table, Declared):
            return table.entries
        kept = self._declared.get(id(table))
        return kept.entries if kept is not None and kept.words == table.tolist() else None

    def table(self, entries: Sequence[object]) -> int:
        """Add a table, and all that it declares. Returns its first word."""
        first = self.room(len(entries))
        words = self._parts[-1]
        for k, value in enumerate(entries):
            handle = value if isinstance(value, Handle) else self._handles.get(id(value))
            if handle is not None:
                found = self.addresses(handle)
                words[k] = 0 if found is None else 8 * found
                self.places.append((first + k, handle if found is None else None))
            elif isinstance(value, Within):
                base = self._array(value.base)
                if base is None:
                    words[k] = 8 * self.copied(value.placed(address_of(value.base)))
                else:
                    words[k] = 8 * self._placed(value, base)
                self.places.append((first + k, None))
            elif (table := value if isinstance(value, tuple) else self._entries(value)) is not None:
                words[k] = 8 * self.table(table)
                self.places.append((first + k, None))
            elif isinstance(value, np.ndarray):
                at = self._array(value)
                words[k] = address_of(value) if at is None else 8 * at
                if at is not None:
                    self.places.append((first + k, None))
            else:
                words[k] = value
        return first

    def _array(self, array: np.ndarray) -> int | None:
        """The first word of an array's copy. None for a read-only array, which the copies share."""
        if array.dtype.hasobject or not array.flags.c_contiguous:
            raise TypeError("an array of a table is not contiguous")
        self.kept.append(array)
        if _is_frozen(array):
            return None
        found = self._known.get(id(array))
        if found is None:
            found = self._known[id(array)] = self.copied(array)
            self._own.append(_range(array))
        return found

    def copied(self, array: np.ndarray) -> int:
        """The first word of a copy of an array."""
        first = self.room(-(-array.nbytes // 8))
        self._parts[-1].view(np.uint8)[: array.nbytes] = array.reshape(-1).view(np.uint8)
        return first

    def _placed(self, within: Within, base: int) -> int:
        """The first word of an array of addresses in the array that begins at word `base`."""
        placed = within.placed(8 * base)
        first = self.copied(placed)
        marks = np.zeros(placed.shape, bool)
        marks[..., within.words] = True
        self.places += [(first + k, None) for k in np.flatnonzero(marks).tolist()]
        return first


def _is_frozen(array: np.ndarray) -> bool:
    """Whether the array and the arrays whose memory it views are read-only."""
    base = array.base
    return not array.flags.writeable and (base is None or (isinstance(base, np.ndarray) and _is_frozen(base)))


def _range(array: np.ndarray) -> tuple[int, int]:
    at = address_of(array) if array.flags.c_contiguous else int(array.ctypes.data)
    return at, at + max(array.nbytes, 1)


def _flat(objects: Any) -> Any:
    for item in objects:
        if isinstance(item, Kept):
            yield item
        if isinstance(item, (list, tuple)):
            yield from _flat(item)
        else:
            yield item

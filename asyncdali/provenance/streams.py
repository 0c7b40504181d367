"""The first step at which two streams differ.

The samples of many steps are drawn as indices, which takes 10 us per step, and their identities are compared. No file is opened. Positions
of random operators that are equal once are equal forever, because all move by the same number of samples.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from ..readers.base import Origin, ReaderOperator
    from ..runtime.session import Session
    from ..sampling.order import OrderPosition

MOST_STEPS = 200_000
"""The search ends here."""
_BLOCK = 64


class Stream(NamedTuple):
    """The iterations of a built pipeline from the position before `step` on."""

    session: Session
    positions: Mapping[str, Any]
    step: int


class StepSearch(NamedTuple):
    """The first step that differs, None if there is none; the number of steps that were compared; whether the rest is equal, too."""

    step: int | None
    compared: int
    complete: bool


class Change(NamedTuple):
    """The first difference of two data sets: a text, and for each sample of the second one its number in the first, or -1 for a sample that
    the first one has not at this number; int64[samples]."""

    text: str
    numbers: np.ndarray


def with_contents(
    first: ReaderOperator, second: ReaderOperator, labels: tuple[str, str], change: Change | None
) -> tuple[Change | None, str]:
    """The difference of two data sets with that of the contents of their files, and a note about files that are not compared.

    `change`: the difference of their names.
    """
    from .contents import other_contents

    count = second.order.count
    numbers = np.arange(count) if change is None else change.numbers.copy()
    found = other_contents(first, second, np.flatnonzero(numbers == np.arange(count)), labels)
    numbers[found.samples] = -1
    texts = [] if change is None else [change.text]
    if len(found.samples):
        texts.append(f"{len(found.samples)} samples of the same names have other contents; the first is {found.first}")
    note = f"{found.remote} samples in remote files are not compared" if found.remote else ""
    return (Change("; ".join([*texts, *found.arguments]), numbers) if texts or found.arguments else None), note


def data_change(first: ReaderOperator, second: ReaderOperator, labels: tuple[str, str]) -> Change | None:
    """How the data set of the reader `second` differs from that of `first`. None: they are equal."""
    one, two = first.order.count, second.order.count
    if one == two and first.digest() == second.digest() is not None:
        return None
    numbers = np.full(two, -1, np.int64)
    place = None
    for k in range(min(one, two)):
        if first.origin_of(k) == second.origin_of(k):
            numbers[k] = k
        elif place is None:
            place = k
    if place is None and one == two:
        return None
    place = min(one, two) if place is None else place
    sizes = "" if one == two else f"; {one} samples in {labels[0]}, {two} in {labels[1]}"
    return Change(f"{_place_text(first, second, place, labels)}{sizes}", numbers)


def _place_text(first: ReaderOperator, second: ReaderOperator, place: int, labels: tuple[str, str]) -> str:
    """The difference at the first sample that differs: one side has a sample more, or the samples differ."""

    def at(reader: ReaderOperator, k: int) -> Origin | None:
        return reader.origin_of(k) if k < reader.order.count else None

    one, two = at(first, place), at(second, place)
    for here, other, reader, label in ((one, two, second, labels[1]), (two, one, first, labels[0])):
        if other is not None and here == at(reader, place + 1):
            return f"{label} has one more: sample {place} is {_named(other)}"
    return f"sample {place} is {_named(one)} in {labels[0]}, {_named(two)} in {labels[1]}"


def _named(origin: Origin | None) -> str:
    if origin is None:
        return "missing"
    where = "" if origin.offset is None else f" at byte {origin.offset}, {origin.size} bytes"
    return f"{origin.file}{where}{f' ({origin.part})' if origin.part else ''}"


def first_difference(first: Stream, second: Stream, changes: Mapping[str, Change | None]) -> StepSearch:
    """The first step at which the streams differ. Both begin at the same step, and have readers of the same names.

    `changes`: of the readers' data sets, by name.
    """
    step = first.step
    size, other_size = (int(stream.session.options.batch_size) for stream in (first, second))
    if size != other_size:
        return StepSearch(step, 0, True)
    readers = {name: (reader, second.session.readers()[name]) for name, reader in first.session.readers().items()}
    for name, position in first.positions.items():
        if name not in readers and name in second.positions and position != second.positions[name]:
            return StepSearch(step, 0, True)
    places = [(first.positions[name], second.positions[name]) for name in readers]
    steps = min(MOST_STEPS, max((2 * _steps_of_epoch(reader, size) + 2 for pair in readers.values() for reader in pair), default=0))
    for done in range(0, steps, _BLOCK):
        earliest = None
        for k, (name, (one, two)) in enumerate(readers.items()):
            mine, left = _drawn(one, places[k][0], size)
            others, right = _drawn(two, places[k][1], size)
            change = changes.get(name)
            places[k] = left, right
            differ = np.flatnonzero((mine != (others if change is None else change.numbers[others])).any(axis=1))
            if len(differ):
                earliest = min(int(differ[0]), _BLOCK if earliest is None else earliest)
        if earliest is not None:
            return StepSearch(step + done + earliest, done + earliest, True)
    same = all(left == right for left, right in places) and not any(changes.values())
    alike = all(_rules(one) == _rules(two) for one, two in readers.values())
    return StepSearch(None, steps, same and alike)


def _steps_of_epoch(reader: ReaderOperator, size: int) -> int:
    return -(-int(reader.order.padded_shard_size) * int(reader.order.num_shards) // size) + int(reader.order.num_shards)


def _rules(reader: ReaderOperator) -> list[object]:
    """Everything besides the position that the order of a reader depends on."""
    return [reader.spec.constant(arg.name) for arg in reader.schema.args if arg.stream]


def _drawn(reader: ReaderOperator, position: OrderPosition, size: int) -> tuple[np.ndarray, OrderPosition]:
    """The indices of the next steps, int64[_BLOCK, size], and the position after them."""
    found = np.empty((_BLOCK, size), np.int64)
    for row in found:
        row[:], position = reader.order.take(position, size)
    return found, position

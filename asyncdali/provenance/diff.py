"""Differences of two checkpoints, stored graphs or pipelines, and the first step at which their streams differ."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from difflib import SequenceMatcher
from typing import TYPE_CHECKING, Any, TypeVar

from .. import checkpoint as checkpoints
from .positions import EpochHasNoStep, counted_by_data, positions_at
from .sides import Side, readers
from .streams import Change, Stream, data_change, first_difference, with_contents

if TYPE_CHECKING:
    from .report import Provenance

Kind = TypeVar("Kind")

_AUTOMATIC = "seed (automatic)"
_MOST_CODE = 20
"""Functions and values that are named."""
_MOST_RUNS = 16
"""Steps that are run to find the first one that differs."""
_MOST_TOLD = 2000
"""Steps behind select, mix and batch_by whose samples are compared."""


@dataclass
class Difference:
    """The result of a comparison.

    Attributes:
        texts: one line per difference; empty: there is none.
        step: the first step at which the streams differ; None: they do not, or it is unknown.
        note: what is known about the streams, as a sentence.
    """

    texts: list[str] = field(default_factory=list)
    step: int | None = None
    note: str = ""

    def __bool__(self) -> bool:
        return bool(self.texts)

    def __str__(self) -> str:
        return "\n".join([*(self.texts or ["no difference"]), *([self.note] if self.note else [])])


def diff(first: Side, second: Side, contents: bool = False) -> Difference:
    """All differences between two sides. The second side is compared with the first.

    `contents`: read the files that both sides name, and compare them. OSError if one cannot be read.
    """
    labels = first.label, second.label
    found = Difference()
    _compare_options(first, second, found)
    both = first.whole is not None and second.whole is not None
    one = _plain(first.whole if both else first.graph)
    two = _plain(second.whole if both else second.graph)
    if both:  # a checkpoint does not have the order of operators
        two = _aligned(one, two, labels, found)
    seeds = _take_automatic_seeds(one, two)
    if both and first.options["seed"] != second.options["seed"]:
        seeds = []  # the pipelines' seeds explain them
    changes, uncompared = _data_changes(first, second, contents)
    for name, change in changes.items():
        if change is not None:
            found.texts.append(f"{name}: {change.text}")
            mine, theirs = one["operators"][name], two["operators"][name]
            theirs.update({key: mine[key] for key in ("samples", "names") if key in mine})
    found.texts += checkpoints.differences(one, two, *labels)
    if seeds:
        why = "a seeded operator before was added or removed, or was given a seed"
        found.texts.append(f"automatic seeds of {', '.join(seeds)} differ: {why}")
    code = _code_differences(first, second)
    found.texts += code
    _compare_positions(first, second, found)
    _find_step(first, second, one, two, changes, bool(code or seeds), found)
    if not uncompared and found.texts and found.step is None and "same samples" in found.note:
        found.note += "" if contents else " Contents of files are not compared."
    found.note = " ".join([found.note, *(f"{text[0].upper()}{text[1:]}." for text in uncompared)]).strip()
    return found


def _code_differences(first: Side, second: Side) -> list[str]:
    """Functions and objects that differ. Those about which nothing is known are equal on both sides."""
    if first.session is None or second.session is None:
        return []
    texts: list[str] = []
    differing: set[str] = set()
    for path in [*first.code, *(path for path in second.code if path not in first.code)]:
        was, now = (side.code.get(path, "not there") for side in (first, second))
        one_sided = path not in first.code or path not in second.code
        if was != now and not (one_sided and _begins(path) in differing):
            differing.add(_begins(path))
            texts.append(f"{path.rstrip(':')} is {was} in {first.label}, {now} in {second.label}")
    return texts if len(texts) <= _MOST_CODE else [*texts[:_MOST_CODE], f"and {len(texts) - _MOST_CODE} further functions and values"]


def _plain(graph: Any) -> dict[str, Any]:
    result: dict[str, Any] = json.loads(json.dumps(graph))
    return result


def _compare_options(first: Side, second: Side, found: Difference) -> None:
    for name in first.options:
        if name in second.options and first.options[name] != second.options[name]:
            was, now = first.options[name], second.options[name]
            found.texts.append(f"pipeline: {name} is {was} in {first.label}, {now} in {second.label}")


def _begins(path: str) -> str:
    """The argument that a path begins with. Whatever a replaced function reaches is replaced, too."""
    return ":".join(path.split(":")[:2])


def _aligned(one: dict[str, Any], two: dict[str, Any], labels: tuple[str, str], found: Difference) -> dict[str, Any]:
    """`two` with the names of `one`. Automatic names depend on the order and the number of operators."""
    kinds, others = ([entry["op"] for entry in graph["operators"].values()] for graph in (one, two))
    if kinds != others and sorted(kinds) == sorted(others):
        place = next(k for k, (kind, other) in enumerate(zip(kinds, others, strict=True)) if kind != other)
        text = f"order of operators: {', '.join(kinds[place:])} in {labels[0]}, {', '.join(others[place:])} in {labels[1]}"
        found.texts.append(text)
    if one["operators"].keys() == two["operators"].keys():
        return two
    names: dict[str, str] = {}
    if sorted(kinds) == sorted(others):
        for kind in set(kinds):
            mine = [name for name, entry in one["operators"].items() if entry["op"] == kind]
            theirs = [name for name, entry in two["operators"].items() if entry["op"] == kind]
            names.update(zip(theirs, mine, strict=True))
    else:
        names = _matched(one["operators"], two["operators"], labels[1])
    if kinds == others:
        given = [pair for pair in names.items() if pair[0] != pair[1] and not (pair[0].startswith("__") and pair[1].startswith("__"))]
        found.texts += [f"{mine}: this operator is called {theirs} in {labels[1]}" for theirs, mine in given]

    def renamed(text: str) -> str:
        argument, equals, source = text.rpartition("=")
        name, bracket, rest = source.partition("[")
        return f"{argument}{equals}{names.get(name, name)}{bracket}{rest}"

    operators = {
        names.get(name, name): {**entry, **({"in": list(map(renamed, entry["in"]))} if "in" in entry else {})}
        for name, entry in two["operators"].items()
    }
    return {"operators": operators, "outputs": list(map(renamed, two["outputs"]))}


def _matched(mine: Mapping[str, Mapping[str, object]], theirs: Mapping[str, Mapping[str, object]], label: str) -> dict[str, str]:
    """The operators of `mine` that those of `theirs` are, by the name in `theirs`. Either side has operators that the other one has not."""
    left, right = ([(entry["op"], "" if name.startswith("__") else name) for name, entry in side.items()] for side in (mine, theirs))
    blocks = SequenceMatcher(None, left, right, autojunk=False).get_matching_blocks()
    ours, others = list(mine), list(theirs)
    found = {others[block.b + k]: ours[block.a + k] for block in blocks for k in range(block.size)}
    taken = set(found.values())
    found.update((name, f"{name} of {label}") for name in theirs if name not in found and name in taken)
    return found


def _take_automatic_seeds(one: dict[str, Any], two: dict[str, Any]) -> list[str]:
    """Take the automatic seeds out of both descriptions. Returns the operators whose seeds differ."""
    mine, theirs = ({name: entry.get("args", {}).pop(_AUTOMATIC, None) for name, entry in side["operators"].items()} for side in (one, two))
    return [name for name, seed in mine.items() if seed is not None and theirs.get(name) not in (None, seed)]


def _data_changes(first: Side, second: Side, contents: bool) -> tuple[dict[str, Change | None], list[str]]:
    """The differences of the data sets of readers that both sides have, and notes about contents that are not compared."""
    if first.session is None or second.session is None:
        without = next(side for side in (first, second) if side.session is None)
        return {}, [f"contents of files are not compared, because {without.label} has none"] if contents else []
    labels = first.label, second.label
    mine, theirs = readers(first.session), readers(second.session)
    changes = {name: data_change(mine[name], theirs[name], labels) for name in mine if name in theirs}
    notes = []
    for name, change in changes.items() if contents else ():
        changes[name], note = with_contents(mine[name], theirs[name], labels, change)
        notes += [f"{name}: {note}"] if note else []
    return changes, notes


def _compare_positions(first: Side, second: Side, found: Difference) -> None:
    """Two checkpoints, or a checkpoint and a pipeline at the step of the checkpoint."""
    if first.positions is not None and second.positions is not None:
        for name in ("epoch", "step"):
            was, now = getattr(first, name), getattr(second, name)
            if was != now:
                found.texts.append(f"{name}: {was} in {first.label}, {now} in {second.label}")
        mine, theirs = first.positions, second.positions
    elif first.positions is not None and second.session is not None:
        mine, theirs = first.positions, _saved_at(second, first)
    elif second.positions is not None and first.session is not None:
        mine, theirs = _saved_at(first, second), second.positions
    else:
        return
    for name in mine:
        if name in theirs and mine[name] != theirs[name]:
            found.texts.append(f"{name}: position {mine[name]} in {first.label}, {theirs[name]} in {second.label}")


def _saved_at(side: Side, saved: Side) -> dict[str, Any]:
    """Positions of a pipeline at the step of a checkpoint, as checkpoints have them. Those that are unknown are left out."""
    assert side.session is not None
    if side.told is not None:
        try:
            return _plain(side.told(saved.step).positions) if saved.epoch == side.session.began.place.epoch else {}
        except (RuntimeError, EpochHasNoStep):  # the step is too far away, or has no samples in this epoch
            return {}
    positions = positions_at(side.session, saved.step).operators
    return {name: _plain(side.session.stateful[name].save(position)) for name, position in positions.items()}


def _find_step(
    first: Side, second: Side, one: dict[str, Any], two: dict[str, Any], changes: dict[str, Change | None], at_once: bool, found: Difference
) -> None:
    """Set the first step that differs, or the reason why it is unknown."""
    streams = _streams(first, second)
    if isinstance(streams, str):
        found.note = f"The first step that differs is unknown: {streams}." if found.texts else ""
        return
    left, right = streams
    if at_once or _differ_at_once(one, two, set(readers(left.session)), set(readers(right.session))):
        _run_steps(first, second, left.step, found)
        return
    if first.told is not None and second.told is not None:
        _compare_told(first.told, second.told, left.step, changes, found)
        return
    if first.told is not None or second.told is not None:
        unknown = "a checkpoint has no samples of select, mix and batch_by"
        found.note = f"The first step that differs is unknown: {unknown}." if found.texts else ""
        return
    result = first_difference(left, right, changes)
    found.step = result.step
    if result.step is not None:
        found.note = f"Streams differ from step {result.step} on."
    elif result.complete and not counted_by_data(left.session.plan):
        found.note = "The streams have the same samples at all steps." if found.texts else ""
    else:
        found.note = f"The streams are equal in the {result.compared} steps that were compared."


def _run_steps(first: Side, second: Side, step: int, found: Difference) -> None:
    """Find the first step whose outputs differ by running some steps of both pipelines, whose graphs differ."""
    found.step, found.note = step, f"Streams differ from step {step} on: the graphs or the arguments of operators differ."
    if first.digest is None or second.digest is None:
        return
    try:
        for tried in range(step, step + _MOST_RUNS):
            mine, others = (_unless_over(side, tried) for side in (first.digest, second.digest))
            if mine is None and others is None:
                found.step, found.note = None, f"The outputs of steps {step} to {tried - 1}, where the epoch ends, are equal."
                return
            if mine != others:
                found.step, found.note = tried, found.note.replace(f"step {step} ", f"step {tried} ")
                return
    except (RuntimeError, ValueError, TypeError, OSError):  # a step that cannot be made may differ
        return
    found.step = None
    found.note = f"The outputs of steps {step} to {step + _MOST_RUNS - 1} are equal. Whether later ones differ is unknown."


def _unless_over(make: Callable[[int], Kind], step: int) -> Kind | None:
    """A fact about a step; None: the epoch ends before."""
    try:
        return make(step)
    except EpochHasNoStep:
        return None


def _compare_told(
    first: Callable[[int], Provenance], second: Callable[[int], Provenance], step: int, changes: dict[str, Change | None], found: Difference
) -> None:
    """Find the first step whose samples differ, behind select, mix and batch_by, where each batch depends on all batches before."""
    tried = step
    try:
        for tried in range(step, step + _MOST_TOLD):
            mine, others = (_unless_over(told, tried) for told in (first, second))
            if mine is None and others is None:
                found.note = "The streams have the same samples to the end of the epoch." if found.texts else ""
                return
            if mine is None or others is None or _samples_of(mine, {}) != _samples_of(others, changes):
                found.step, found.note = tried, f"Streams differ from step {tried} on."
                return
    except (RuntimeError, ValueError, TypeError, OSError) as error:
        found.note = f"The streams are equal in the {tried - step} steps that were compared; the next one is unknown: {error}."
        return
    found.note = f"The streams are equal in the {_MOST_TOLD} steps that were compared."


def _samples_of(told: Provenance, changes: dict[str, Change | None], places: Any = slice(None)) -> list[object]:
    """The identity of the samples of a step: numbers in the data sets of the first side, and positions of random operators."""
    known: list[Any] = [told.samples if told.sources else 0]
    for name, taken in told.readers.items():
        numbers, change = taken.numbers[places], changes.get(name)
        known.append((name, (numbers if change is None else change.numbers[numbers]).tolist()))
    known.append({name: position for name, position in told.positions.items() if name not in told.readers})
    for name, origins in told.regrouped.items():
        pieces: list[tuple[int, Any, Any]] = [(part, moment.provenance(), rows) for part, moment, rows in origins.pieces]
        for part, raw, rows in pieces:
            draws = raw.sources or raw.positions.keys() - raw.readers.keys()  # then the place in the raw batch decides, too
            known.append((name, part, rows.tolist() if draws else len(rows), _samples_of(raw, changes, rows)))
    return known


def _streams(first: Side, second: Side) -> tuple[Stream, Stream] | str:
    """Both streams from one step on, or the reason why there are none."""
    for side in (first, second):
        if side.session is None and (side.positions is None or first.session is second.session):
            return f"{side.label}: {side.reason}"
    sessions = [side.session for side in (first, second) if side.session is not None]
    step = max(side.step if side.session is None else side.session.began.place.iteration for side in (first, second))
    made = []
    for side in (first, second):
        session = sessions[0] if side.session is None else side.session
        if side.positions is None:
            made.append(Stream(session, positions_at(session, step).operators, step))
            continue
        loaded = {name: session.stateful[name].load(data) for name, data in side.positions.items() if name in session.stateful}
        if set(loaded) != set(session.stateful) or side.step != step:
            return f"{side.label} does not fit the pipeline"
        made.append(Stream(session, loaded, step))
    return made[0], made[1]


def _differ_at_once(one: dict[str, Any], two: dict[str, Any], mine: set[str], theirs: set[str]) -> bool:
    """Whether the graphs differ in more than the arguments and data of readers, whose effect begins at a later step."""
    if mine != theirs:
        return True

    def rest(graph: dict[str, Any]) -> Any:
        entries = {}
        for name, entry in graph["operators"].items():
            kept = {key: value for key, value in entry.items() if key not in ("args", "samples", "names")} if name in mine else dict(entry)
            if "parts" in kept:
                kept["parts"] = [rest(part) for part in kept["parts"]]
            entries[name] = kept
        return [entries, graph["outputs"]]

    return bool(rest(one) != rest(two))

"""Differences of two checkpoints, stored graphs or pipelines, and the first step at which their streams differ."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any

from .. import checkpoint as checkpoints
from .positions import counted_by_data, positions_at
from .sides import Side
from .streams import Change, Stream, data_change, first_difference


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


def diff(first: Side, second: Side) -> Difference:
    """All differences between two sides. The second side is compared with the first."""
    labels = first.label, second.label
    found = Difference()
    _compare_options(first, second, found)
    both = first.whole is not None and second.whole is not None
    one = _plain(first.whole if both else first.graph)
    two = _plain(second.whole if both else second.graph)
    if both:  # a checkpoint does not have the order of operators
        two = _aligned(one, two, labels, found)
    if both and first.options["seed"] != second.options["seed"]:
        _without_automatic_seeds(one, two)  # the pipelines' seeds explain them
    changes = _data_changes(first, second, found)
    for name, change in changes.items():
        if change is not None:
            found.texts.append(f"{name}: {change.text}")
            mine, theirs = one["operators"][name], two["operators"][name]
            theirs.update({key: mine[key] for key in ("samples", "names") if key in mine})
    found.texts += checkpoints.differences(one, two, *labels)
    _compare_positions(first, second, found)
    _find_step(first, second, one, two, changes, found)
    return found


def _plain(graph: Any) -> dict[str, Any]:
    result: dict[str, Any] = json.loads(json.dumps(graph))
    return result


def _compare_options(first: Side, second: Side, found: Difference) -> None:
    for name in first.options:
        if name in second.options and first.options[name] != second.options[name]:
            was, now = first.options[name], second.options[name]
            found.texts.append(f"pipeline: {name} is {was} in {first.label}, {now} in {second.label}")


def _aligned(one: dict[str, Any], two: dict[str, Any], labels: tuple[str, str], found: Difference) -> dict[str, Any]:
    """`two` with the names of `one`, if both have the same operators in another order. Automatic names depend on the order."""
    kinds, others = ([entry["op"] for entry in graph["operators"].values()] for graph in (one, two))
    if kinds != others and sorted(kinds) == sorted(others):
        place = next(k for k, (kind, other) in enumerate(zip(kinds, others, strict=True)) if kind != other)
        text = f"order of operators: {', '.join(kinds[place:])} in {labels[0]}, {', '.join(others[place:])} in {labels[1]}"
        found.texts.append(text)
    if one["operators"].keys() == two["operators"].keys() or sorted(kinds) != sorted(others):
        return two
    names: dict[str, str] = {}
    for kind in set(kinds):
        mine = [name for name, entry in one["operators"].items() if entry["op"] == kind]
        theirs = [name for name, entry in two["operators"].items() if entry["op"] == kind]
        names.update(zip(theirs, mine, strict=True))
    if kinds == others:
        given = [pair for pair in names.items() if pair[0] != pair[1] and not (pair[0].startswith("__") and pair[1].startswith("__"))]
        found.texts += [f"{mine}: this operator is called {theirs} in {labels[1]}" for theirs, mine in given]

    def renamed(text: str) -> str:
        argument, equals, source = text.rpartition("=")
        name, bracket, rest = source.partition("[")
        return f"{argument}{equals}{names.get(name, name)}{bracket}{rest}"

    operators = {
        names[name]: {**entry, **({"in": list(map(renamed, entry["in"]))} if "in" in entry else {})}
        for name, entry in two["operators"].items()
    }
    return {"operators": operators, "outputs": list(map(renamed, two["outputs"]))}


def _without_automatic_seeds(*graphs: dict[str, Any]) -> None:
    for graph in graphs:
        for entry in graph["operators"].values():
            entry.get("args", {}).pop("seed (automatic)", None)


def _data_changes(first: Side, second: Side, found: Difference) -> dict[str, Change | None]:
    """The differences of the data sets of readers that both sides have."""
    if first.session is None or second.session is None:
        return {}
    mine, theirs = first.session.readers(), second.session.readers()
    return {name: data_change(mine[name], theirs[name], (first.label, second.label)) for name in mine if name in theirs}


def _compare_positions(first: Side, second: Side, found: Difference) -> None:
    """Two checkpoints, or a checkpoint and a pipeline at the step of the checkpoint."""
    if first.positions is not None and second.positions is not None:
        for name in ("epoch", "step"):
            was, now = getattr(first, name), getattr(second, name)
            if was != now:
                found.texts.append(f"{name}: {was} in {first.label}, {now} in {second.label}")
        mine, theirs = first.positions, second.positions
    elif first.positions is not None and second.session is not None:
        mine, theirs = first.positions, _saved_at(second, first.step)
    elif second.positions is not None and first.session is not None:
        mine, theirs = _saved_at(first, second.step), second.positions
    else:
        return
    for name in mine:
        if name in theirs and mine[name] != theirs[name]:
            found.texts.append(f"{name}: position {mine[name]} in {first.label}, {theirs[name]} in {second.label}")


def _saved_at(side: Side, step: int) -> dict[str, Any]:
    assert side.session is not None
    positions = positions_at(side.session, step).operators
    return {name: _plain(side.session.stateful[name].save(position)) for name, position in positions.items()}


def _find_step(
    first: Side, second: Side, one: dict[str, Any], two: dict[str, Any], changes: dict[str, Change | None], found: Difference
) -> None:
    """Set the first step that differs, or the reason why it is unknown."""
    streams = _streams(first, second)
    if isinstance(streams, str):
        found.note = f"The first step that differs is unknown: {streams}." if found.texts else ""
        return
    left, right = streams
    if _differ_at_once(one, two, set(left.session.readers()), set(right.session.readers())):
        found.step = left.step
        found.note = f"Streams differ from step {found.step} on: the graphs or the arguments of operators differ."
        return
    result = first_difference(left, right, changes)
    found.step = result.step
    if result.step is not None:
        found.note = f"Streams differ from step {result.step} on."
    elif result.complete and not counted_by_data(left.session.plan):
        found.note = "The streams are equal at all steps." if found.texts else ""
    else:
        found.note = f"The streams are equal in the {result.compared} steps that were compared."


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
            kept = {key: value for key, value in entry.items() if key not in ("args", "samples", "names")} if name in mine else entry
            entries[name] = kept
        return [entries, graph["outputs"]]

    return bool(rest(one) != rest(two))

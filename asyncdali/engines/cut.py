"""The cut: which operators of a plan run in engines, and which batches engines send back."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass

from ..errors import OperatorValueError
from ..graph.peephole import enabled
from ..graph.peephole.narrow import widens
from ..graph.plan import Plan, PlannedOperator, Segment, cut_segments
from ..operators.base import Operator, Role, Schema, Spec
from ..sources.group import Group

_IN_BOTH = (Role.INPUT, Role.CONSTANT)
"""Operators whose outputs exist without an engine, because fed data is in the training process. Inputs that engines fill are excluded."""


@dataclass
class Cut:
    """The operators before and behind the cut, and the edges whose batches engines send back."""

    before: list[PlannedOperator]
    behind: list[PlannedOperator]
    crossing: list[int]
    groups: list[Group]
    """Sources that engines call (``sources``)."""

    @functools.cached_property
    def inputs(self) -> list[str]:
        """Names of the external inputs whose batches engines get."""
        return [planned.spec.name for planned in self.before if planned.spec.schema.role is Role.INPUT and not self.called(planned)]

    def called(self, planned: PlannedOperator) -> bool:
        """Whether engines call the source of an external input."""
        return any(planned.attachment is group for group in self.groups)

    @property
    def depends_on_branches(self) -> bool:
        """Whether the position of some operator before the cut is unknown until the iteration is planned.

        In a branch of a conditional, an operator draws only for the samples that take the branch.
        """
        branched: set[int] = set()
        for planned in self.before:
            edges = [*planned.inputs, *planned.arguments.values()]
            inside = planned.spec.schema.role is Role.SPLIT or not branched.isdisjoint(edges)
            if inside:
                branched.update(planned.outputs)
                if planned.kind.stateful:
                    return True
        return False


def make_cut(plan: Plan, behind_nodes: Sequence[str] | None = None, sources: bool = False) -> Cut:
    """Cut a plan. With `sources` engines call the sources that need nothing but a position.

    By default engines run every CPU operator that needs nothing from mixed or GPU operators. With `behind_nodes` engines run only the named
    operators and everything that these operators need. Inputs that no operator before the cut reads stay in the training process.

    OperatorValueError for a name that is not in the plan, or for an operator that needs a GPU.
    """
    able = _on_cpu(plan)
    chosen = able if behind_nodes is None else _needed_by(plan, behind_nodes, able)
    groups = _called(plan, chosen) if sources else []
    called = {id(planned) for planned in plan.operators if any(planned.attachment is group for group in groups)}
    chosen = chosen | called  # all outputs of a source come from the same calls

    def in_both(planned: PlannedOperator) -> bool:
        return planned.spec.schema.role in _IN_BOTH and id(planned) not in called

    before = [planned for planned in plan.operators if id(planned) in chosen]
    read = {edge for planned in before if not in_both(planned) for edge in _edges(planned)}
    before = [planned for planned in before if not in_both(planned) or not read.isdisjoint(planned.outputs)]
    inside = {id(planned) for planned in before}
    if all(map(in_both, before)):
        before, inside = [], set()
    made = {edge for planned in before for edge in planned.outputs}
    wanted = set(plan.outputs)
    for planned in plan.operators:
        if id(planned) not in inside:
            wanted.update(_edges(planned))
    both = [planned for planned in before if in_both(planned) and not wanted.isdisjoint(planned.outputs)]
    again = {id(planned) for planned in both}
    behind = [planned for planned in plan.operators if id(planned) not in inside or id(planned) in again]
    there = {edge for planned in both for edge in planned.outputs}
    return Cut(before, behind, sorted(wanted & made - there), groups)


def _called(plan: Plan, chosen: set[int]) -> list[Group]:
    """The sources of chosen inputs that any process can call: callables of a position, which declare no state. In order of the plan."""
    found: dict[int, Group] = {}
    for planned in plan.operators:
        group = planned.attachment
        if id(planned) in chosen and isinstance(group, Group) and by_position(group):
            found[id(group)] = group
    homes = {id(planned.attachment) for planned in plan.operators if planned.backend != "cpu"}
    return [group for key, group in found.items() if key not in homes]


def by_position(group: Group) -> bool:
    """Whether a source needs nothing but the position that it is asked for."""
    what = group.description
    return what.has_inputs and not (group.parallel or what.is_async or what.snapshots)


def narrow_cut(plan: Plan) -> list[str]:
    """Operator names for :func:`make_cut` that keep batches at the cut small: they are sent as bytes, before they become floats.

    An operator that widens its input stays behind the cut, if no operator before the cut reads its output. The names are the
    other operators before the default cut, without inputs and constants.
    """
    before = make_cut(plan).before
    read: set[int] = set()
    names = []
    for planned in reversed(before):
        if enabled("narrow") and widens(planned) and read.isdisjoint(planned.outputs):
            continue
        read.update(_edges(planned))
        if planned.spec.schema.role not in _IN_BOTH:
            names.append(planned.spec.name)
    return names[::-1] or [planned.spec.name for planned in before]


def _edges(planned: PlannedOperator) -> list[int]:
    return [*planned.inputs, *planned.arguments.values()]


def _on_cpu(plan: Plan) -> set[int]:
    """CPU operators whose sources are all CPU operators, by id."""
    found: set[int] = set()
    edges: set[int] = set()
    for planned in plan.operators:
        if planned.backend == "cpu" and edges.issuperset(_edges(planned)):
            found.add(id(planned))
            edges.update(planned.outputs)
    return found


def _needed_by(plan: Plan, names: Sequence[str], able: set[int]) -> set[int]:
    by_name = {planned.spec.name: planned for planned in plan.operators}
    home = {edge: planned for planned in plan.operators for edge in planned.outputs}
    found: set[int] = set()
    todo: list[PlannedOperator] = []
    for name in names:
        if name not in by_name:
            known = ", ".join(map(repr, by_name))
            raise OperatorValueError(f"engine_cut names {name!r}, which is no operator of the plan. There are: {known}.")
        if id(by_name[name]) not in able:
            raise OperatorValueError(
                f"engine_cut names {name!r}, which does not run in engines: it is, or needs, a mixed or gpu operator. Name a CPU operator."
            )
        todo.append(by_name[name])
    while todo:
        planned = todo.pop()
        if id(planned) not in found:
            found.add(id(planned))
            todo.extend(home[edge] for edge in _edges(planned))
    return found


class _Answers(Operator):
    """Placeholder for everything that runs in engines, while the segments behind the cut are made."""

    schema = Schema(name="_engines", doc="The outputs that engines answer with.", inputs=(0, 0))
    barrier = True
    eager = True


def segments_behind(cut: Cut, outputs: Sequence[int], fuse_device: bool, on_cuda: bool) -> list[Segment]:
    """The segments of the training process: first the segment that engines make, then the segments behind the cut."""
    spec = Spec(_Answers.schema, "__engines", "cpu", {}, (), 0, len(cut.crossing))
    stand_in = PlannedOperator(spec, _Answers, [], {}, cut.crossing, "")
    for planned in (*cut.before, *cut.behind):
        planned.stage = 0
    segments = cut_segments([stand_in, *cut.behind], outputs, fuse_device, on_cuda)
    first = next(segment for segment in segments if segment.operators[0] is stand_in)
    first.operators, first.in_engines = list(cut.before), True
    return segments


def segments_before(cut: Cut) -> list[Segment]:
    """The segments that an engine runs."""
    for planned in cut.before:
        planned.stage = 0
    return cut_segments(cut.before, cut.crossing)

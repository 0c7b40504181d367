"""Walks of built and of replayed pipelines, from where they begin."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ...errors import CheckpointError
from ...regrouping.part_streams import PartStream
from ...regrouping.puller import RegroupPosition, RegroupPositions
from ...regrouping.regrouping import Regrouping
from ..streams import ready_name
from .beginnings import start_of
from .planned_parts import PlannedPart
from .run_parts import RunPart
from .walked_groups import WalkedGroup
from .walking import StepWalk

if TYPE_CHECKING:
    from ...runtime.session import Session


def walk_of(
    session: Session, groups: Sequence[Regrouping], planned: Mapping[str, Sequence[Session]], regroupers: Mapping[str, Any],
    run_part: Callable[[Regrouping, int, Session], RunPart], fresh: bool = False,
) -> StepWalk:  # fmt: skip
    """A walk from where `session` and the `planned` sessions of its parts begin.

    `regroupers`: the rules by the name of the regrouping. `run_part` makes a part whose condition has to be computed. `fresh`: the walk
    begins at the beginning of a fresh pipeline.
    """
    timed = ready_name(groups)
    if timed:
        raise CheckpointError(
            f"steps behind {timed!r} cannot be computed: fn.experimental.ready gives batches as they are finished. batch.provenance() "
            "tells the origins of a batch that was returned."
        )
    begin = start_of(session) if fresh else session.began
    found = []
    for group in groups:
        parts: list[PartStream] = []
        for number, one in enumerate(planned[group.name]):
            part = PlannedPart(number, one, start_of(one) if fresh else one.began, group.parts[number], group.operator)
            parts.append(part if not part.why_not() else run_part(group, number, one))
        saved = begin.positions.get(group.name)
        if saved is not None and not isinstance(saved, RegroupPosition):
            saved = RegroupPositions(group.name, regroupers[group.name], parts).load(saved)
        found.append(WalkedGroup.begin(group, regroupers[group.name], parts, int(session.options.batch_size), saved))
    return StepWalk(session, begin, found)

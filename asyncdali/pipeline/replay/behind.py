"""The provenance of a step behind regroupings of a built pipeline. A walk is kept for the next question."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from ...errors import CheckpointError
from ...provenance.positions import EpochHasNoStep
from .beginnings import options_of_step
from .replaying import replayed_core
from .walking import StepWalk, told_of
from .walks import walk_of

if TYPE_CHECKING:
    from ...provenance.report import Provenance
    from ...runtime.session import Session
    from ..core import Core


def provenance_behind(core: Core, step: int, epoch: int | None = None) -> Provenance:
    """The provenance of a step of a built pipeline with regroupings. ``Streams.walk`` keeps how far the walk has come.

    ValueError: a negative step, or one behind the end of the epoch. CheckpointError: the step is too far away, or is before a checkpoint
    to which a fresh pipeline does not lead.
    """
    if step < 0:
        raise ValueError(f"the step is {step}; steps are counted from 0")
    session, streams = core.built(), core.processes.streams
    began = session.began.place
    wanted = (began.epoch if epoch is None else epoch, step)
    with streams.walking:
        walk, streams.walk = streams.walk, None
        if walk is None or wanted < (walk.epoch, walk.step):
            if walk is not None:
                walk.close()
            fresh = wanted < (began.epoch, began.iteration)
            if fresh:
                _check_start(core, session)
            walk = _built_walk(core, session, fresh)
        try:
            walked = walk.to(step, wanted[0])
        except BaseException:
            walk.close()
            raise
        streams.walk = walk
        if core.closed:
            streams.walk = None
            walk.close()
    return told_of(session, walked)


def _check_start(core: Core, session: Session) -> None:
    """CheckpointError if a fresh pipeline does not lead to the restored checkpoint."""
    first, epoch = session.began.place.iteration, session.began.place.epoch
    walks = [_built_walk(core, session, fresh) for fresh in (True, False)]
    try:
        if not _meet(walks, first, epoch):
            raise CheckpointError(
                f"steps before step {first} of epoch {epoch} of the restored checkpoint cannot be computed from it: a fresh pipeline would "
                "come to another place there. Restore an earlier checkpoint, or make the pipeline with the seed of the run."
            )
    finally:
        for walk in walks:
            walk.close()


def _meet(walks: Sequence[StepWalk], step: int, epoch: int) -> bool:
    """Whether two walks come to the same place."""
    try:
        known = [walk.to(step, epoch) for walk in walks]
    except EpochHasNoStep:  # at the end of an epoch the place is compared
        pass
    else:
        if known[0].at != known[1].at:
            return False
    return walks[0].place() == walks[1].place()


def _built_walk(core: Core, session: Session, fresh: bool) -> StepWalk:
    """A walk of a built pipeline, from where it began, or from the beginning of a fresh one."""
    pullers: dict[str, Any] = {puller.group.name: puller for puller in session.producer.sources.pullers if puller.kind == "regrouped"}
    groups = [puller.group for puller in pullers.values()]
    planned = {group.name: [part.built() for part in core.processes.streams.of(group)] for group in groups}
    rules = {name: puller.regrouper for name, puller in pullers.items()}
    checkpoint = None if fresh else core.options.checkpoint
    replayed = functools.cache(lambda: replayed_core(core, options_of_step(core, checkpoint), checkpoint))
    walk = walk_of(session, groups, planned, rules, lambda *about: replayed().run_part(*about), fresh)
    if walk.runs:
        walk.close = replayed().close
    return walk

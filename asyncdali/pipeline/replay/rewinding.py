"""Moves a built pipeline to another position: that of a checkpoint, or an iteration counted from the beginning."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING

from ... import checkpoint as checkpoints
from ...errors import CheckpointError
from ...operators.base import Role
from ...runtime.order.claims import take_next
from ..front import core_of

if TYPE_CHECKING:
    from ...options import PipelineOptions
    from ..core import Core
    from ..pipeline import Pipeline


def rewind(pipeline: Pipeline, checkpoint: bytes) -> None:
    """Restore `checkpoint` in a built pipeline. Iterations in flight are dropped; returned outputs stay valid.

    Operators are made again, and worker processes are restarted. Raises CheckpointError if the checkpoint does not fit (the pipeline is
    then unchanged), and RuntimeError if workers cannot be forked any more, or in debug mode.
    """
    core = core_of(pipeline)
    options = _options(core, checkpoint)
    _check(core, checkpoint)
    core.rebuild(options)


def seek(pipeline: Pipeline, iterations: int) -> None:
    """Go to the position that a fresh pipeline with this seed has after `iterations` runs.

    Positions are computed without running iterations, unless conditionals decide how many samples an operator gets.

    RuntimeError for pipelines with sources that end epochs by themselves; use their checkpoints.
    """
    core = core_of(pipeline)
    if core.built().producer.sources.ports:
        raise RuntimeError("a pipeline with external sources cannot skip to an iteration: restore a checkpoint of that iteration")
    core.rebuild(_options(core, None))
    session = core.built()
    if any(operator.spec.schema.role is Role.SPLIT for operator in session.plan.operators):
        for _ in range(iterations):
            take_next(session, core.fill, None)
        return
    session.skip(iterations)


def restart(pipeline: Pipeline) -> None:
    """Return to the state after :meth:`Pipeline.build`. Sources without a state keep their position."""
    core = core_of(pipeline)
    core.rebuild(_options(core, core.options.checkpoint))


def _options(core: Core, checkpoint: bytes | None) -> PipelineOptions:
    """The pipeline's options with another checkpoint. A drawn seed is kept."""
    options = copy.copy(core.options)
    options.checkpoint = checkpoint
    if options.seed is None:
        options.seed = core.built().seed
    return options


def _check(core: Core, checkpoint: bytes) -> None:
    """Refuse a checkpoint that does not fit, before anything is torn down."""
    found = checkpoints.differences(checkpoints.decode(checkpoint).get("graph", {}), core.built().saving.describe())
    if found and core.options.strict:
        raise CheckpointError("The checkpoint does not fit this pipeline:\n  " + "\n  ".join(found))

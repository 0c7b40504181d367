"""Moves a built pipeline to another position: that of a checkpoint, or an iteration counted from the beginning."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any

from ..operators.base import Role

if TYPE_CHECKING:
    from ..options import PipelineOptions
    from .pipeline import Pipeline


def rewind(pipeline: Pipeline, checkpoint: bytes) -> None:
    """Restore `checkpoint` in a built pipeline. Iterations in flight are dropped; returned outputs stay valid.

    Operators are made anew, and worker processes are restarted. Raises CheckpointError if the checkpoint does not fit (the pipeline is then
    unchanged), and RuntimeError if workers cannot be forked any more, or in debug mode.
    """
    options = _options(pipeline, checkpoint)
    _check(pipeline, checkpoint)
    _rebuild(pipeline, options)


def seek(pipeline: Pipeline, iterations: int) -> None:
    """Go to the position that a fresh pipeline with this seed has after `iterations` runs. Positions are computed. Only if conditionals
    decide how many samples an operator gets, the iterations are run.

    RuntimeError for pipelines with sources that end epochs by themselves; use their checkpoints.
    """
    if pipeline._built_session().producer.sources.ports:
        raise RuntimeError("a pipeline with external sources cannot be sent to an iteration: use a checkpoint of that place")
    _rebuild(pipeline, _options(pipeline, None))
    session = pipeline._built_session()
    if any(operator.spec.schema.role is Role.SPLIT for operator in session.plan.operators):
        for _ in range(iterations):
            session.producer.schedule(pipeline.iter_setup)
            session.fetch()
        return
    session.skip(iterations)


def restart(pipeline: Pipeline) -> None:
    """Return to the state after :meth:`Pipeline.build`. Sources without a state keep their position."""
    _rebuild(pipeline, _options(pipeline, pipeline._options.checkpoint))


def _options(pipeline: Pipeline, checkpoint: bytes | None) -> PipelineOptions:
    """The pipeline's options with another checkpoint. A drawn seed is kept."""
    options = copy.copy(pipeline._options)
    options.checkpoint = checkpoint
    if options.seed is None:
        options.seed = pipeline._built_session().seed
    return options


def _check(pipeline: Pipeline, checkpoint: bytes) -> None:
    """Refuse a checkpoint that does not fit, before anything is torn down."""
    from .. import checkpoint as checkpoints

    found = checkpoints.differences(checkpoints.decode(checkpoint).get("graph", {}), pipeline._built_session()._describe())
    if found and pipeline._options.strict:
        raise checkpoints.CheckpointError("The checkpoint does not fit this pipeline:\n  " + "\n  ".join(found))


def _rebuild(pipeline: Pipeline, options: Any) -> None:
    old = pipeline._built_session()
    with pipeline._building:
        old.close()
        for puller in old.producer.sources.pullers:
            puller.group.start_over()
        own, pipeline._options = pipeline._options, options
        pipeline._session = pipeline._parallel = pipeline._engines = None
        pipeline._shared.clear()
        try:
            pipeline._build(None)
        finally:
            pipeline._options = own

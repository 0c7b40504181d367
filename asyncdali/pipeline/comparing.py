"""Pipelines, stored graphs and checkpoints as the sides of a comparison."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from .. import checkpoint as checkpoints
from ..errors import CheckpointError
from .front import Front, core_of

if TYPE_CHECKING:
    from ..provenance.sides import Side
    from .core import Core


def side_of(label: str, what: Any, deserialize: Callable[[bytes], Front]) -> Side:
    """The side of a pipeline, a checkpoint (bytes) or a stored graph (bytes, which `deserialize` makes a pipeline). Pipelines are built.

    RuntimeError for bytes of another kind.
    """
    from ..provenance.sides import checkpoint_side

    if isinstance(what, Front):
        return _pipeline_side(label, core_of(what))
    try:
        checkpoints.decode(what)
    except CheckpointError as not_a_checkpoint:
        try:
            stored = deserialize(what)
        except RuntimeError as error:
            raise RuntimeError(f"{label} is neither a checkpoint nor a serialized pipeline: {not_a_checkpoint}; {error}") from error
        return _pipeline_side(label, core_of(stored))
    return checkpoint_side(label, what)


def _pipeline_side(label: str, core: Core) -> Side:
    from ..graph.plan import build_plan
    from ..provenance.sides import plan_side, session_side

    instances = core.definition.instances
    try:
        session = core.built()
    except (RuntimeError, OSError, ValueError, TypeError) as error:
        plan = build_plan(core.output_nodes(), instances, core.definition, lambda k: 0)
        return plan_side(label, plan, instances, core.options, f"it cannot be built ({error})")
    return session_side(label, session, instances)

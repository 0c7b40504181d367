"""Checkpoints: the states of readers and random generators."""

from ..imperative.checkpoints import Checkpoint as Checkpoint
from ..imperative.contexts import EvalContext as _EvalContext


def current() -> Checkpoint:
    """The checkpoint of the calling thread's current context."""
    return _EvalContext.current().checkpoint

"""The common base of the parts of :class:`~asyncdali.Pipeline`: it holds the core, which does the work."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .core import Core


class Front:
    """Base class of the parts of :class:`~asyncdali.Pipeline`."""

    _core: Core

    def iter_setup(self) -> None:
        """Legacy hook, called once before each scheduled iteration, after the sources were asked. It may feed inputs, or raise
        StopIteration to end the epoch. If it raises, what it has fed is dropped, and the next run calls it again."""


def core_of(pipeline: Front) -> Core:
    """The core of a pipeline, for plugins and tools that need more than its public methods."""
    return pipeline._core

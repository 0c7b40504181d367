"""What the parts of :class:`~asyncdali.Pipeline` have in common: the core that does the work."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .core import Core


class Front:
    """Base of the classes that :class:`~asyncdali.Pipeline` is made of."""

    _core: Core


def core_of(pipeline: Front) -> Core:
    """The core of a pipeline: what plugins and tools use of it, besides its public methods."""
    return pipeline._core

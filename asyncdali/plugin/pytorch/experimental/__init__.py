"""The experimental part of the PyTorch plugin.

    proxy/    a pipeline inside a torch DataLoader

May import what `plugin` may.
"""

from __future__ import annotations

from . import proxy

__all__ = ["proxy"]

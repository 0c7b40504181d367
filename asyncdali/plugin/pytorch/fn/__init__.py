"""Functions of the PyTorch plugin.

May import the same rooms as `plugin`.
"""

from __future__ import annotations

from ..function import torch_python_function

__all__ = ["torch_python_function"]

"""Functions of the JAX plugin.

May import what `plugin` may.
"""

from __future__ import annotations

from ..function import jax_function

__all__ = ["jax_function"]

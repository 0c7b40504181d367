"""Nested modules by path."""

from .compat.internal import *  # noqa: F403
from .compat.internal import __all__ as __all__

"""Pickling of functions by value, for worker processes."""

from .compat.reducers import *  # noqa: F403
from .compat.reducers import __all__ as __all__
from .compat.reducers import __getattr__ as __getattr__

"""Functions for callbacks of ``fn.python_function``: their stream, and DLPack capsules."""

from .compat.python_function_plugin import *  # noqa: F403
from .compat.python_function_plugin import __all__ as __all__

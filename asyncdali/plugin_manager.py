"""DALI's loader of C++ operators. There are none here: an error says what to use instead."""

from .compat.plugin_manager import *  # noqa: F403
from .compat.plugin_manager import __all__ as __all__

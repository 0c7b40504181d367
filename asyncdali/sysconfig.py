"""DALI's flags for building C++ operators. There are none here: an error says what to use instead."""

from .compat.sysconfig import *  # noqa: F403
from .compat.sysconfig import __all__ as __all__

"""Operators as functions: ``fn.resize(images, size=[224, 224])``. Made from the operators' declarations at their first use.

May import `graph.calls`.
"""

import sys

from ..graph.calls import access as _access
from ..graph.calls import populate as _populate

_populate(sys.modules[__name__])
__getattr__, __dir__ = _access(sys.modules[__name__])

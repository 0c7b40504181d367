"""Operators as functions: ``fn.resize(images, size=[224, 224])``. Generated from the operators' declarations.

May import `graph.calls`, `external_source`, `regrouping.calls` and the list of operators.
"""

import sys

from ..external_source import external_source as external_source
from ..graph.calls import finder as _finder
from ..graph.calls import populate
from ..operators import load_registry
from ..regrouping.calls import WRITTEN as _WRITTEN

populate(sys.modules[__name__], [operator.schema for operator in load_registry().values()], "fn", _WRITTEN)
__getattr__ = _finder(sys.modules[__name__])

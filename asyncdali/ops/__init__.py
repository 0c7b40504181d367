"""Operators as classes: ``ops.Resize(size=[224, 224])(images)``. Generated from the operators' declarations."""

import sys

from ..external_source import ExternalSource as ExternalSource
from ..graph.calls import Compose as Compose
from ..graph.calls import populate
from ..operators import load_registry

populate(sys.modules[__name__], [operator.schema for operator in load_registry().values()], "ops")

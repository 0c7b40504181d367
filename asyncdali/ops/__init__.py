"""Operators as classes: ``ops.Resize(size=[224, 224])(images)``. Made from the operators' declarations at their first use.

May import `graph.calls`, `external_source` and the list of operators.
"""

import sys

from ..external_source import ExternalSource as ExternalSource
from ..graph.calls import Compose as Compose
from ..graph.calls import access as _access
from ..graph.calls import populate as _populate
from ..messages.absent import NO_LIBRARIES as _NO_LIBRARIES
from ..messages.absent import refuser as _refuser
from ..operators import load_registry

_populate(sys.modules[__name__])


def _by_device(device: str) -> set[str]:
    from ..graph.calls import schema_name

    return {
        schema_name(name)
        for operator in load_registry().values() if device in operator.schema.devices
        for name in (operator.schema.name, *operator.schema.aliases)
    }  # fmt: skip


def cpu_ops() -> set[str]:
    """DALI's names of the operators that run on the CPU: "Resize", "readers__File"."""
    return _by_device("cpu")


def gpu_ops() -> set[str]:
    """DALI's names of the operators that run on a GPU."""
    return _by_device("gpu")


def mixed_ops() -> set[str]:
    """DALI's names of the operators that take CPU data to a GPU."""
    return _by_device("mixed")


def Reload() -> None:
    """Nothing: there are no libraries of operators that could have been loaded since the import."""


_REFUSED = dict.fromkeys(("python_op_factory", "register_cpu_op", "register_gpu_op"), _NO_LIBRARIES)
_refuse = _refuser(__name__, _REFUSED)
_find, __dir__ = _access(sys.modules[__name__])


def __getattr__(name: str) -> object:
    return _refuse(name) if name in _REFUSED else _find(name)

"""asyncdali: a data-loading runtime with NVIDIA DALI's Python API.

    from asyncdali import pipeline_def, fn, types

Names are imported at their first use. Importing the package is cheap and starts nothing.
It sets CUDA_DEVICE_MAX_CONNECTIONS, if the variable is not set and CUDA is not in use (`system/connections.py`).

May import any room.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from ._version import __version__
from .system import connections as _connections

if TYPE_CHECKING:
    from . import backend as backend
    from . import backend_impl as backend_impl
    from . import data_node as data_node
    from . import experimental as experimental
    from . import external_source as external_source
    from . import fn as fn
    from . import internal as internal
    from . import math as math
    from . import ops as ops
    from . import pickling as pickling
    from . import plugin_manager as plugin_manager
    from . import python_function_plugin as python_function_plugin
    from . import reducers as reducers
    from . import sysconfig as sysconfig
    from . import tensors as tensors
    from . import tfrecord as tfrecord
    from . import types as types
    from .data_node import DataNode as DataNode
    from .data_node import newaxis as newaxis
    from .pipeline import Pipeline as Pipeline
    from .pipeline import pipeline_def as pipeline_def
    from .types import OperatorConcurrency as OperatorConcurrency
    from .types import StreamPolicy as StreamPolicy

_NAMES = {
    "Pipeline": "pipeline",
    "pipeline_def": "pipeline",
    "DataNode": "data_node",
    "newaxis": "data_node",
    "OperatorConcurrency": "types",
    "StreamPolicy": "types",
}
_MODULES = (
    "backend", "backend_impl", "data_node", "experimental", "external_source", "fn", "internal", "math", "ops", "pickling", "pipeline",
    "plugin_manager", "python_function_plugin", "reducers", "sysconfig", "tensors", "tfrecord", "types",
)  # fmt: skip

__all__ = ["__version__", *_NAMES, *_MODULES]  # noqa: PLE0604


_connections.request()


def __getattr__(name: str) -> Any:
    if name in _NAMES:
        value = getattr(importlib.import_module(f".{_NAMES[name]}", __name__), name)
    elif name in _MODULES:
        value = importlib.import_module(f".{name}", __name__)
    else:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)

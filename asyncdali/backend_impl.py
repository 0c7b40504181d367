"""Another name of ``asyncdali.backend``, with the submodules ``types`` and ``tfrecord`` of DALI's module of this name."""

from __future__ import annotations

import sys

from . import backend, tfrecord, types
from .backend import *  # noqa: F403
from .backend import __all__ as __all__

__getattr__ = backend.__getattr__

sys.modules[f"{__name__}.types"] = types
sys.modules[f"{__name__}.tfrecord"] = tfrecord

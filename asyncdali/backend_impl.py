"""Another name of ``asyncdali.backend``, with the submodules ``types`` and ``tfrecord`` of DALI's module of this name."""

from __future__ import annotations

import sys

from . import tfrecord, types
from .compat.backend import *  # noqa: F403
from .compat.backend import __all__ as __all__
from .compat.backend import __getattr__ as __getattr__

sys.modules[f"{__name__}.types"] = types
sys.modules[f"{__name__}.tfrecord"] = tfrecord

"""Names that programs import from DALI's backend: tensors, memory, versions, operators."""

from .compat.backend import *  # noqa: F403
from .compat.backend import __all__ as __all__
from .compat.backend import __getattr__ as __getattr__

"""DALI's Numba plugin. The operator itself is in ``asyncdali.fn.experimental`` and ``asyncdali.ops.experimental``.

    fn/              `numba_function`, at the same place as in DALI
    experimental.py  NumbaFunction

May import what `plugin` may.
"""

from __future__ import annotations

from ...messages.absent import refuser
from . import fn as fn
from .experimental import NumbaFunction

__all__ = ["NumbaFunction", "fn"]

__getattr__ = refuser(__name__, {
    "Pipeline": "use asyncdali.Pipeline",
    "address_as_void_pointer": "see numba.carray, which makes an array of an address",
    "minimal_numba_version": "see the dependencies of the package: importlib.metadata.requires('asyncdali')",
})  # fmt: skip

"""Numba's cache on disk for functions that factories make.

Numba recognises a closure in its cache by pickling what it closes over, and compiled helpers never pickle the same way twice: every process
would compile again. Here the factory names the variant instead. The key also covers the text of the helpers that all kernels share, as
Numba looks only at the file of the outermost function.
"""

from __future__ import annotations

import functools
import hashlib
from pathlib import Path
from typing import Any

from numba.core.caching import FunctionCache

_PACKAGE = Path(__file__).parent.parent


_SHARED = ("compiled/intrinsics.py", "compiled/step.py", "operators/convert_kernels.py")


@functools.cache
def shared_digest() -> str:
    """A digest of the sources whose code is compiled into other modules' functions."""
    digest = hashlib.sha256()
    for name in _SHARED:
        digest.update((_PACKAGE / name).read_bytes())
    return digest.hexdigest()


class VariantCache(FunctionCache):
    """The cache entry of one variant of a function."""

    def __init__(self, function: Any, variant: tuple[Any, ...]):
        self._variant = variant
        super().__init__(function)

    def _index_key(self, sig: Any, codegen: Any) -> Any:
        return (sig, codegen.magic_tuple(), self._variant, shared_digest())

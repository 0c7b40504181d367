"""Numba's cache on disk for functions that factories make.

Numba recognises a closure in its cache by pickling what it closes over, and compiled helpers never pickle the same way twice: every process
would compile again. Here the factory names the variant instead. The key also covers the text of all kernel modules, as Numba looks only
at the file of the outermost function.
"""

from __future__ import annotations

import functools
import hashlib
from pathlib import Path
from typing import Any

from numba.core.caching import FunctionCache

_PACKAGE = Path(__file__).parent.parent


@functools.cache
def kernel_digest() -> str:
    """A digest of the sources that compiled code may be made of."""
    digest = hashlib.sha256()
    for path in sorted([*_PACKAGE.glob("compiled/*.py"), *_PACKAGE.rglob("*_kernels.py")]):
        digest.update(path.name.encode() + path.read_bytes())
    return digest.hexdigest()


class VariantCache(FunctionCache):
    """The cache entry of one variant of a function."""

    def __init__(self, function: Any, variant: tuple[Any, ...]):
        self._variant = variant
        super().__init__(function)

    def _index_key(self, sig: Any, codegen: Any) -> Any:
        return (sig, codegen.magic_tuple(), self._variant, kernel_digest())

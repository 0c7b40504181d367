"""Numba's cache on disk for functions that factories make.

Numba recognises a closure in its cache by pickling what it closes over, and compiled helpers never pickle the same way twice: every process
would compile again. Here the factory names the variant instead. The key also covers the text of the helpers that all kernels share, as
Numba looks only at the file of the outermost function.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

from numba.core.caching import FunctionCache

from .._notices import warn

_PACKAGE = Path(__file__).parent.parent

_SHARED = (
    "compiled/compiler.py", "compiled/intrinsics.py", "compiled/step.py", "compiled/vectors.py", "compiled/byte_vectors.py",
    "compiled/c_library.py", "operators/audio/real_fourier_kernels.py", "operators/audio/logarithm_kernels.py",
    "operators/random/philox_vectors.py", "operators/random/random_streams_kernels.py", "operators/random/random_distributions_kernels.py",
    "operators/statistics/reduction_vectors.py",
    "operators/arrays/convert_kernels.py", "readers/wire_kernels.py", "readers/crc_kernels.py", "readers/record_kernels.py",
)  # fmt: skip


@functools.cache
def shared_digest() -> str:
    """A digest of the sources whose code is compiled into other modules' functions."""
    digest = hashlib.sha256()
    for name in _SHARED:
        digest.update((_PACKAGE / name).read_bytes())
    return digest.hexdigest()


missed: list[Callable[[], None]] = []
"""Called when a function is not in the cache and will be compiled."""


class VariantCache(FunctionCache):
    """The cache entry of a function, or of one named variant of it."""

    def __init__(self, function: Any, variant: tuple[Any, ...] | None):
        self._variant = variant
        super().__init__(function)

    def _index_key(self, sig: Any, codegen: Any) -> Any:
        if self._variant is None:
            return (*super()._index_key(sig, codegen), shared_digest())
        return (sig, codegen.magic_tuple(), self._variant, shared_digest())

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        found = None
        try:
            found = super().load_overload(sig, target_context)
        except Exception:  # a damaged file, pickles fail in every way: compile again and write it anew
            with contextlib.suppress(OSError):
                self.flush()
        if found is None:
            for call in missed:
                call()
        return found

    def save_overload(self, sig: Any, data: Any) -> None:
        try:
            super().save_overload(sig, data)
        except OSError as error:  # a full disk, say
            _without_cache(str(error))


def enable_cache(compilable: Any, function: Any, variant: tuple[Any, ...] | None) -> None:
    """Give Numba's `compilable` a cache on disk; where no folder can be written every process compiles anew, with one warning."""
    try:
        compilable._cache = VariantCache(function, variant)
    except RuntimeError as error:  # no folder is writable
        _without_cache(str(error))


_warned = False


def _without_cache(reason: str) -> None:
    global _warned
    if not _warned:
        _warned = True
        warn(
            f"compiled kernels cannot be kept on disk, every process compiles them anew (some seconds): {reason}. "
            "Set NUMBA_CACHE_DIR to a folder that can be written.",
            RuntimeWarning,
        )

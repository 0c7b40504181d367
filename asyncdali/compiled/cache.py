"""The disk cache of functions that Numba compiled.

Numba's own cache has four problems here. It stores its files beside the sources. It notices changes of the outermost function's file only.
It unpickles any file that it finds. And it identifies a closure by pickling its contents, but compiled helpers pickle differently each
time, so every process would compile again.

Here one file holds one function for one signature. Its key has three parts: the environment (versions, processor), the digest of all code
of the function (:mod:`.kernel_keys`), and the variant that a factory names. :mod:`.kernel_store` decides where the files are and which
files are trusted.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import os
import pickle
import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import llvmlite
import numba
import numpy as np
from numba.core import config
from numba.core.caching import _Cache
from numba.core.compiler import CompileResult
from numba.core.serialize import dumps

from .._notices import warn
from .._version import __version__
from . import kernel_store, progress, waiting
from .kernel_keys import kernel_digest, text_of

missed: list[Callable[[], None]] = []
"""Called when a function is not in the cache and will be compiled."""


@functools.cache
def environment_name(target: tuple[str, ...]) -> str:
    """The sub-folder of kernels for a target (LLVM's triple, processor and features) and the versions that code depends on."""
    settings = [str(getattr(config, name, "")) for name in ("OPT", "DEBUGINFO_DEFAULT", "LOOP_VECTORIZE", "SLP_VECTORIZE")]
    python = f"{sys.implementation.cache_tag}{getattr(sys, 'abiflags', '')}"
    digest = hashlib.sha256(repr((target, np.__version__, settings)).encode()).hexdigest()
    name = f"{__version__}-{python}-numba{numba.__version__}-llvmlite{llvmlite.__version__}-{target[1]}-{digest[:16]}"
    return re.sub(r"[^\w.+-]", "_", name)


class KernelCache(_Cache):
    """The cache entry of a function, or of one named variant of it."""

    def __init__(self, function: Any, variant: tuple[Any, ...] | None, store: kernel_store.Store):
        self._function = function
        self._variant = variant
        self._store = store
        self._claim: kernel_store.Claim | None = None
        self._compiling = contextlib.ExitStack()

    @functools.cached_property
    def _identity(self) -> bytes:
        """The digest of the code and the variant."""
        names = (self._function.__module__, self._function.__qualname__, text_of(self._variant))
        return kernel_digest(self._function) + "\0".join(names).encode()

    def _place(self, sig: Any, codegen: Any) -> tuple[str, str, bytes]:
        """Folder, name and key of the file."""
        environment = environment_name(codegen.magic_tuple())
        key = hashlib.sha256(b"\0".join([environment.encode(), str(sig).encode(), self._identity])).digest()
        module = self._function.__module__.rpartition(".")[2]
        readable = re.sub(r"[^\w.]", "", f"{module}.{self._function.__qualname__.rpartition('.')[2]}")[:80]
        return environment, f"{readable}-{key.hex()[:32]}", key

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        """The compiled function for a signature. None: the caller compiles, then calls :meth:`save_overload` and :meth:`release`.

        NotCompiled as the thread's policy says (:mod:`.waiting`).
        """
        target_context.refresh()
        place = self._place(sig, target_context.codegen())
        found = self._load(place, target_context)
        if found is None:
            for call in missed:
                call()
            self._claim = waiting.claim(lambda: self._store.claim(*place[:2]))
            self._compiling.enter_context(progress.of_one(str(self._store.folder)))
            found = self._load(place, target_context)  # another process may have compiled it
        return found

    def release(self) -> None:
        """The function is stored, or its compilation failed: other processes that need it go on."""
        claim, self._claim = self._claim, None
        if claim is not None:
            claim.release()
        self._compiling.close()

    def _load(self, place: tuple[str, str, bytes], target_context: Any) -> Any:
        contents = self._store.load(*place)
        found = None
        if contents is not None:
            try:
                found = CompileResult._rebuild(target_context, *pickle.loads(contents))  # the store has verified owner, mode and digest
            except Exception:  # a valid file that this process cannot load: compile again and replace it
                self._store.remove(*place[:2])
        return found

    def save_overload(self, sig: Any, data: Any) -> None:
        """Store the compiled function for a signature. If that fails, warn once per process."""
        if data.library.has_dynamic_globals or any(not part.can_cache for part in data.lifted):
            name = self._function.__qualname__
            warn(f"{name} is compiled again in every process, because its code contains addresses of this process", RuntimeWarning)
            return
        try:
            self._store.save(*self._place(sig, data.codegen), dumps(CompileResult._reduce(data)))
        except (OSError, kernel_store.Refused) as error:  # a full disk, or a folder that has become read-only
            kernel_store.notify(str(error))

    @property
    def cache_path(self) -> str:
        """The folder of all kernels."""
        return str(self._store.folder)

    def enable(self) -> None:
        """Numba's interface: caching is on."""

    def disable(self) -> None:
        """Numba's interface: this cache is never off."""

    def flush(self) -> None:
        """Numba's interface: files are written immediately."""


def folder() -> tuple[Path, kernel_store.Store]:
    """The cache folder of this process, and its store. OSError if not even a temporary folder can be made."""
    return kernel_store.usable(config.CACHE_DIR)


def folder_name() -> str:
    """The folder of kernels, for people."""
    try:
        return str(folder()[1].folder)
    except OSError:
        return "this process only"


def for_child() -> dict[str, str]:
    """Environment variables for a child process, so that it uses the same cache."""
    try:
        root = folder()[0]
    except OSError:
        return dict(os.environ)
    return {**os.environ, "NUMBA_CACHE_DIR": str(root)}


def enable_cache(compilable: Any, function: Any, variant: tuple[Any, ...] | None) -> None:
    """Give Numba's `compilable` a disk cache. If no folder is writable, every process compiles again, with one warning."""
    try:
        compilable._cache = KernelCache(function, variant, folder()[1])
    except OSError as error:  # not even a temporary folder is writable
        kernel_store.notify(str(error))

"""The disk cache of functions that Numba compiled.

Numba's own cache does not fit. It stores its files beside the sources. It notices changes of the outermost function's file only. It
unpickles any file that it finds. It identifies a closure by pickling its contents, but compiled helpers pickle differently each time, so
every process would compile again. And loading goes through Numba's contexts, which takes 10 ms per kernel.

Here one file holds the object code of one function (:mod:`.machine_code`). Its key has three parts: the environment (versions,
processor), the digest of all code of the function (:mod:`.kernel_keys`), and the variant that a factory names. :mod:`.kernel_store` decides
where the files are and which files are trusted.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import importlib.util
import os
import re
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from .._version import __version__
from . import kernel_store, progress, waiting
from .kernel_keys import kernel_digest, text_of
from .machine_code import MachineCode, link
from .shipped import shipped
from .target import chosen_level, setting, target

missed: list[Callable[[], None]] = []
"""Called when a function is not in the cache and will be compiled."""
_FORMAT = 4
"""The version of the format of files. Files of other versions are not read."""


_SETTINGS = ("NUMBA_OPT", "NUMBA_DEBUGINFO", "NUMBA_LOOP_VECTORIZE", "NUMBA_SLP_VECTORIZE", "NUMBA_ENABLE_AVX")
_SETTINGS_FILE = Path(".numba_config.yaml")
"""Numba reads more settings from this file of the working directory."""


@functools.cache
def environment_name() -> str:
    """The sub-folder of kernels for the target and the versions that code depends on."""
    settings = [os.environ.get(name) for name in _SETTINGS]
    with contextlib.suppress(OSError):
        settings.append(_SETTINGS_FILE.read_text())
    python = f"{sys.implementation.cache_tag}{getattr(sys, 'abiflags', '')}"
    digest = hashlib.sha256(repr((_FORMAT, tuple(target()), np.__version__, settings)).encode()).hexdigest()
    compilers = f"numba{_installed('numba')}-llvmlite{_installed('llvmlite')}"
    return re.sub(r"[^\w.+-]", "_", f"{__version__}-{python}-{compilers}-{chosen_level() or target().processor}-{digest[:16]}")


def _installed(package: str) -> str:
    """The version of an installed package, which is not imported: the name of the folder of its metadata says it."""
    found = importlib.util.find_spec(package)
    if found is None or found.origin is None:
        return "none"
    beside = list(Path(found.origin).parent.parent.glob(f"{package}-*.dist-info"))
    if len(beside) == 1:
        return beside[0].name.removeprefix(f"{package}-").removesuffix(".dist-info")
    from importlib.metadata import version

    return version(package)


class Entry:
    """A file of code. `readable`: the begin of its name; `identity`: all that the code depends on, except for the environment."""

    def __init__(self, readable: str, identity: bytes, store: kernel_store.Store):
        release = f"{__version__} {sys.implementation.cache_tag}"
        self.shipped_key = hashlib.sha256(b"\0".join([release.encode(), identity])).hexdigest()
        """Without the versions of compilers, because the kernel is already compiled."""
        environment = environment_name()
        key = hashlib.sha256(b"\0".join([environment.encode(), identity])).digest()
        shown = re.sub(r"[^\w.]", "", readable)[:80]
        self._place = environment, f"{shown}-{key.hex()[:32]}", key
        self._store = store

    def load(self) -> int:
        """The address of the function's code, linked into this process; 0 if there is no usable file."""
        came = shipped()
        contents = came.load(self.shipped_key) if came is not None else None
        if contents is not None and (address := _linked(contents)):
            return address
        kept = self.kept()
        if kept is None:
            return 0
        address = _linked(kept)
        if not address:
            self._store.remove(*self._place[:2])  # a valid file that this process cannot load: compile again and replace it
        return address

    def kept(self) -> memoryview | None:
        """The verified contents of the function's file in the cache; None if there is none."""
        return self._store.load(*self._place)

    @contextlib.contextmanager
    def claimed(self) -> Iterator[None]:
        """The block compiles and saves the function; other processes that need it wait. NotCompiled: not now (:mod:`.waiting`)."""
        for call in missed:
            call()
        claim = waiting.claim(lambda: self._store.claim(*self._place[:2]))
        try:
            with progress.of_one(str(self._store.folder)):
                yield
        finally:
            if claim is not None:
                claim.release()

    def save(self, code: MachineCode) -> None:
        """Store the function. If that fails, warn once per process."""
        try:
            self._store.save(*self._place, code.to_bytes())
        except (OSError, kernel_store.RefusedFolder) as error:  # a full disk, or a folder that has become read-only
            kernel_store.notify(str(error))


def _linked(contents: bytes | memoryview) -> int:
    """The address of a function's code; 0 if this process cannot load it. Owner, mode and digest of the file are verified."""
    with contextlib.suppress(ValueError, RuntimeError):
        return link(MachineCode.from_bytes(contents))
    return 0


def entry(function: Any, signature: str, variant: tuple[Any, ...] | None) -> Entry | None:
    """The entry of a function, or of one named variant of it. `signature`: Numba's, as text. None: see :func:`entry_of`."""
    names = (function.__module__, function.__qualname__, text_of(variant))
    identity = b"\0".join([signature.encode(), kernel_digest(function), "\0".join(names).encode()])
    module = function.__module__.rpartition(".")[2]
    return entry_of(f"{module}.{function.__qualname__.rpartition('.')[2]}", identity)


def entry_of(readable: str, identity: bytes) -> Entry | None:
    """The entry of any code. None, with one warning: no folder can be used, and every process compiles again."""
    try:
        return Entry(readable, identity, folder()[1])
    except OSError as error:  # not even a temporary folder is writable
        kernel_store.notify(str(error))
        return None


def folder() -> tuple[Path, kernel_store.Store]:
    """The cache folder of this process, and its store. OSError if not even a temporary folder can be made."""
    return kernel_store.usable(setting("CACHE_DIR"))


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

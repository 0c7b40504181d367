"""DALI's loader of C++ operators. There are none here: an error says what to use instead."""

from __future__ import annotations

import os

from ..messages.absent import NO_LIBRARIES

__all__ = ["load_directory", "load_library"]


def load_library(library_path: str, global_symbols: bool = False) -> None:
    """Raises RuntimeError, whether the file exists or not. TypeError unless `library_path` is a path."""
    path = os.fspath(library_path)
    if not os.path.isfile(path):
        raise RuntimeError(f"Failed to load library {path!r}: there is no such file, and {NO_LIBRARIES}")
    raise RuntimeError(f"Failed to load library {path!r}: {NO_LIBRARIES}")


def load_directory(path: str, global_symbols: bool = False) -> None:
    """Raises RuntimeError for a folder in which DALI would find ``{path}/{name}/libdali_{name}.so``. Without such files nothing happens."""
    folder = os.fspath(path)
    if not os.path.isdir(folder):
        return
    for name in sorted(os.listdir(folder)):
        library = os.path.join(folder, name, f"libdali_{name}.so")
        if os.path.isfile(library):
            load_library(library, global_symbols)

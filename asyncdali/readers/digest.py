"""A digest of the names of a data set. With it a checkpoint detects another data set.

The names are relative to their common folder. So a data set may be moved, but not renamed or reordered. The digest is computed at the first
checkpoint (0.3 s for a million files with names of 50 bytes).
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable, Sequence

import numpy as np

from .files.file_table import FileTable


def digest(parts: Iterable[bytes | np.ndarray]) -> str:
    """Hexadecimal digest of `parts`, each with its length."""
    state = hashlib.blake2b(digest_size=16)
    for part in parts:
        data = part if isinstance(part, bytes) else np.ascontiguousarray(part).view(np.uint8).data
        state.update(len(data).to_bytes(8, "little"))
        state.update(data)
    return state.hexdigest()


def names_of(table: FileTable) -> bytes:
    """The paths of a table in order, without their common folder, because a data set may be moved as a whole."""
    if not len(table):
        return b""
    block = table.paths.tobytes()
    ordered = bool((np.diff(table.starts) > 0).all()) and block.count(b"\0") == len(table)
    if not ordered:
        block = b"".join(block[start : block.index(b"\0", start) + 1] for start in table.starts.tolist())
    return _without_folder(block, len(table))


def names_of_paths(paths: Sequence[str]) -> bytes:
    """Like :func:`names_of`."""
    return _without_folder(b"".join(os.fsencode(path) + b"\0" for path in paths), len(paths))


def _without_folder(block: bytes, count: int) -> bytes:
    """NUL-terminated paths without their common folder. It searches the whole block: 10 ms per search for a million paths of 40 bytes."""
    marked = b"\0" + block
    folder = block[: block.index(b"\0")]
    while (cut := folder.rfind(b"/")) >= 0:
        folder = folder[:cut]
        start = b"\0" + folder + b"/"
        if marked.count(start) == count:
            return marked.replace(start, b"\0")
    return marked

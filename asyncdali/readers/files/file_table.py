"""Finds the samples of file-based readers: directories with one class each, and lists of files."""

from __future__ import annotations

import fnmatch
import functools
import os
import re
import sys
from collections.abc import Callable, Sequence

import numpy as np

from ...batch import encoded_origins
from ...compiled.addresses import address_of
from ..containers.indices import read_lines
from ..remote.remote import RemoteEntry, entries, is_remote
from .listing import list_files


class FileTable:
    """Paths and labels of a data set in compact form: one block of bytes instead of millions of Python strings.

    ``paths`` uint8, NUL-terminated full paths one after another; ``paths_at`` their address; ``starts`` int64[count]; ``labels``
    int32[count]. ``name(i)`` is the path as listed. ``remote``: some of the paths are URLs.
    """

    def __init__(self, paths: np.ndarray, starts: np.ndarray, labels: np.ndarray, listed: FileTable | None = None, skip: int = 0):
        """`listed`: the names, if they are not the paths without their first `skip` bytes."""
        self.paths, self.starts, self.labels = paths, starts, labels
        self.paths_at = paths.ctypes.data
        self._listed, self._skip = listed, skip
        self.remote = _has_urls(paths)

    @classmethod
    def of(cls, names: Sequence[str], labels: Sequence[int] | np.ndarray, root: str = "") -> FileTable:
        """Make a table of the files `names`, relative to `root` if it is given. ValueError for impossible file names."""
        encoded = [os.fsencode(name) for name in names]
        broken = next((k for k, name in enumerate(encoded) if b"\0" in name), None)
        if broken is not None:
            raise ValueError(f"file {broken} of the list has a NUL character in its name: {names[broken]!r}")
        kinds = np.array(labels)
        wrong = np.flatnonzero(kinds != kinds.astype(np.int32))
        if len(wrong):
            raise ValueError(f"label {wrong[0]} is {kinds[wrong[0]]}; labels are 32-bit integers")
        kinds = kinds.astype(np.int32)
        if not root:
            return cls(*_block(encoded), kinds)
        prefix = os.path.join(os.fsencode(root), b"")
        plain = is_remote(root)  # in URLs "." is an ordinary name
        full = [_joined(prefix, _without_dots(name) if plain else name) for name in encoded]
        if all(len(path) == len(prefix) + len(name) for path, name in zip(full, encoded, strict=True)):
            return cls(*_block(full), kinds, skip=len(prefix))
        return cls(*_block(full), kinds, cls(*_block(encoded), kinds))

    def chosen(self, indices: np.ndarray) -> FileTable:
        """A table of only these files. The paths of all files stay in memory."""
        listed = None if self._listed is None else self._listed.chosen(indices)
        return FileTable(self.paths, self.starts[indices], self.labels[indices], listed, self._skip)

    def __len__(self) -> int:
        return len(self.starts)

    def name(self, index: int) -> str:
        """The path as listed."""
        return self._listed.path(index) if self._listed is not None else _text(self.paths, int(self.starts[index]) + self._skip)

    def names(self, indices: Sequence[int]) -> list[str]:
        """:meth:`name` for several files."""
        block, skip = (self.paths, self._skip) if self._listed is None else (self._listed.paths, 0)
        starts = (self.starts if self._listed is None else self._listed.starts)[indices]
        return _texts(block, (starts + skip).tolist())

    def encoded_names(self, indices: np.ndarray) -> bytes:
        """The names of several files in UTF-8, with NULs between them.

        Engines send the names of every batch. Joining 64 names in Python took 150 us between two batches.
        """
        if self._listed is not None:
            return self._listed.encoded_names(indices)
        if not _UTF_8:
            return encoded_origins([self.name(index) for index in indices.tolist()])
        starts, count, join = self.starts[indices], len(indices), _join_texts()
        room, size = 0, _USUAL * count
        while size > room:
            out, room = np.empty(size, np.uint8), size
            size = join(self.paths_at + self._skip, address_of(starts), count, address_of(out), room)
        return out[: size - 1].tobytes() if count else b""

    def path(self, index: int) -> str:
        """The full path."""
        return _text(self.paths, int(self.starts[index]))


_ENCODING, _ERRORS = sys.getfilesystemencoding(), sys.getfilesystemencodeerrors()
_UTF_8 = _ENCODING == "utf-8"
_USUAL = 256
"""Most paths are shorter."""


@functools.cache
def _join_texts() -> Callable[[int, int, int, int, int], int]:
    """The compiled function. It needs Numba, so it is imported late."""
    from .file_kernels import join_texts

    join: Callable[[int, int, int, int, int], int] = join_texts
    return join


def _block(texts: Sequence[bytes]) -> tuple[np.ndarray, np.ndarray]:
    """NUL-terminated texts one after another, and their start offsets."""
    lengths = np.fromiter((len(text) + 1 for text in texts), np.int64, len(texts))
    return np.frombuffer(b"\0".join(texts) + b"\0", np.uint8), np.cumsum(lengths) - lengths


def _without_dots(name: bytes) -> bytes:
    """``.//a`` becomes ``a``. Removing only ``./`` would leave ``/a``, an absolute path of this machine."""
    while name.startswith(b"./"):
        name = name[2:].lstrip(b"/")
    return name


def _joined(prefix: bytes, name: bytes) -> bytes:
    return name if is_remote(os.fsdecode(name)) else os.path.join(prefix, name)


def _has_urls(paths: np.ndarray) -> bool:
    """Whether some of these NUL-terminated texts are URLs. Most data sets contain no colon, which one search shows."""
    if not (paths == ord(":")).any():
        return False
    texts = paths.tobytes().split(b"\0")
    return any(b"://" in text and is_remote(os.fsdecode(text)) for text in texts)


def _text(block: np.ndarray, start: int) -> str:
    return _texts(block, [start])[0]


def _texts(block: np.ndarray, starts: Sequence[int]) -> list[str]:
    """The NUL-terminated texts of a block that begin here, as names of files."""
    data, found = block.data, []
    for start in starts:
        size = _USUAL
        while (stop := (text := data[start : start + size].tobytes()).find(0)) < 0:
            size *= 2
        found.append(text[:stop].decode(_ENCODING, _ERRORS))
    return found


def _python_pattern(pattern: str) -> str:
    """A shell pattern as Python's fnmatch pattern, which has no escapes and no ``[^...]``."""
    escaped = re.sub(r"\\(.)", lambda match: f"[{match[1]}]" if match[1] in "*?[" else match[1], pattern)
    return escaped.replace("[^", "[!") if "\\" not in pattern else escaped


_NOTHING = re.compile(r"(?!)")


def matcher(patterns: Sequence[str], case_sensitive: bool) -> re.Pattern[str]:
    """One regular expression that matches any of several shell patterns; without patterns, nothing."""
    if not patterns:
        return _NOTHING
    joined = "|".join(f"(?:{fnmatch.translate(_python_pattern(pattern))})" for pattern in patterns)
    return re.compile(joined, 0 if case_sensitive else re.IGNORECASE)


def sorted_entries(folder: str) -> list[os.DirEntry[str]] | list[RemoteEntry]:
    """The entries of a directory in byte order of their names; RuntimeError if it cannot be read."""
    if is_remote(folder):
        return sorted(entries(folder), key=lambda entry: os.fsencode(entry.name))
    try:
        with os.scandir(folder) as found:
            return sorted(found, key=lambda entry: os.fsencode(entry.name))
    except OSError as error:
        raise RuntimeError(f"Failed to open {folder}: {error.strerror or error}") from error


def scan_classes(root: str, file_filters: Sequence[str], dir_filters: Sequence[str] | None, case_sensitive: bool) -> FileTable:
    """Files one level below `root`, names relative to it; the label is the rank of the sub-directory in byte order.

    Directories without a matching file use up a label; hidden files count; symbolic links are followed. As in a shell, a hidden directory
    counts only if a filter begins with a dot: programs make such folders (``.ipynb_checkpoints``), which would move all labels.
    RuntimeError if `root` can't be read.
    """
    given = ["*"] if dir_filters is None else dir_filters
    matches, hidden = matcher(given, case_sensitive).match, matcher([item for item in given if item.startswith(".")], case_sensitive).match
    folders = [e.name for e in sorted_entries(root) if e.is_dir() and (hidden if e.name.startswith(".") else matches)(e.name)]
    pattern = matcher(file_filters, case_sensitive)
    if is_remote(root):
        files = [(f"{folder}/{entry.name}", label) for label, folder in enumerate(folders)
                 for entry in sorted_entries(f"{root}/{folder}") if pattern.match(entry.name) and not entry.is_dir()]  # fmt: skip
        return FileTable.of([name for name, _ in files], [label for _, label in files], root)
    suffixes = _suffixes(file_filters, case_sensitive)
    found = list_files([os.path.join(root, folder) for folder in folders], suffixes or [], not case_sensitive)
    table = FileTable(found.paths, found.starts, found.folders, skip=len(os.path.join(os.fsencode(root), b"")))
    if suffixes is not None:
        return table
    kept = [index for index in range(len(table)) if pattern.match(os.path.basename(table.path(index)))]
    return table.chosen(np.array(kept, np.int64))


def _suffixes(patterns: Sequence[str], case_sensitive: bool) -> list[str] | None:
    """The suffixes of matching names, if the patterns are pure suffixes; else None."""
    endings = [pattern[1:] for pattern in patterns]
    plain = all(
        pattern.startswith("*") and not set("*?[\\") & set(ending) and (case_sensitive or ending.isascii())
        for pattern, ending in zip(patterns, endings, strict=True)
    )
    return endings if plain else None


_LIST_LINE = re.compile(rb"(?s)(.*\S)\s+(\d+)\s*\Z")
_MAX_LINE = 16 * 1024
_INT32_MAX, _DIGITS = 2**31 - 1, 10
"""The largest label, and its number of digits."""


def parse_file_list(path: str) -> tuple[list[str], list[int]]:
    """A text file of lines ``name label``. Lines are split from the right, because names may contain blanks.

    RuntimeError for an unreadable file or a line without a non-negative label (the message gives path and line number).
    """
    names: list[str] = []
    labels: list[int] = []
    try:
        lines = read_lines(path)
    except RuntimeError as error:
        raise RuntimeError(f"Cannot open: {path}: {error}") from error
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        match = _LIST_LINE.match(line) if len(line) <= _MAX_LINE else None
        label = b"" if match is None else match[2].lstrip(b"0")[: _DIGITS + 1] or b"0"
        if match is None or int(label) > _INT32_MAX:
            shown = line[:100].decode("utf-8", "replace")
            raise RuntimeError(
                f'Incorrect format of the list file "{path}":{number} expected file name followed by a label '
                f"(0 to {_INT32_MAX}); got: {shown}"
            )
        names.append(os.fsdecode(match[1]))
        labels.append(int(label))
    return names, labels

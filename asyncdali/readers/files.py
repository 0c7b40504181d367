"""Finding the samples of file-based readers: directories with one class each, lists of files."""

from __future__ import annotations

import fnmatch
import os
import re
from collections.abc import Iterable, Sequence

import numpy as np

from .remote import Entry, entries, is_remote, open_file


class FileTable:
    """Paths and labels of a data set, compactly: one block of bytes instead of millions of Python strings.

    ``paths`` uint8, NUL-terminated full paths one after another; ``paths_at`` their address; ``starts`` int64[count]; ``labels``
    int32[count]. ``name(i)`` is the path as listed. ``remote``: some of the paths are URLs.
    """

    def __init__(self, names: Sequence[str], labels: Sequence[int] | np.ndarray, root: str = ""):
        encoded = [os.fsencode(name) for name in names]
        broken = next((k for k, name in enumerate(encoded) if b"\0" in name), None)
        if broken is not None:
            raise ValueError(f"file {broken} of the list has a NUL character in its name: {names[broken]!r}")
        self._names = np.frombuffer(b"\0".join(encoded) + b"\0", np.uint8)
        full = encoded
        if root:
            prefix = os.fsencode(root)
            plain = is_remote(root)  # there "." is a name like any other
            full = [name if b"://" in name else os.path.join(prefix, name.removeprefix(b"./") if plain else name) for name in encoded]
        block = b"\0".join(full) + b"\0"
        self.paths = self._names if full is encoded else np.frombuffer(block, np.uint8)
        self.remote = b"://" in block and any(is_remote(os.fsdecode(name)) for name in full)
        self.paths_at = self.paths.ctypes.data
        self.starts = _starts(full)
        self._name_starts = self.starts if full is encoded else _starts(encoded)
        self.labels = np.array(labels, np.int32)

    def __len__(self) -> int:
        return len(self.starts)

    def name(self, index: int) -> str:
        """The path as listed."""
        return _text(self._names, int(self._name_starts[index]))

    def path(self, index: int) -> str:
        """The full path."""
        return _text(self.paths, int(self.starts[index]))


def _starts(texts: Sequence[bytes]) -> np.ndarray:
    lengths = np.fromiter((len(text) + 1 for text in texts), np.int64, len(texts))
    return np.cumsum(lengths) - lengths


def _text(block: np.ndarray, start: int) -> str:
    stop = start
    while block[stop]:
        stop += 1
    return os.fsdecode(block[start:stop].tobytes())


def _python_pattern(pattern: str) -> str:
    """A shell pattern in Python's dialect, which has no escapes and no ``[^...]``."""
    escaped = re.sub(r"\\(.)", lambda match: f"[{match[1]}]" if match[1] in "*?[" else match[1], pattern)
    return escaped.replace("[^", "[!") if "\\" not in pattern else escaped


def matcher(patterns: Iterable[str], case_sensitive: bool) -> re.Pattern[str]:
    """One regular expression for shell patterns, any of which suffices."""
    joined = "|".join(f"(?:{fnmatch.translate(_python_pattern(pattern))})" for pattern in patterns)
    return re.compile(joined, 0 if case_sensitive else re.IGNORECASE)


def sorted_entries(folder: str) -> list[os.DirEntry[str]] | list[Entry]:
    """The entries of a directory in byte order of their names; RuntimeError if it cannot be read."""
    if is_remote(folder):
        return sorted(entries(folder), key=lambda entry: os.fsencode(entry.name))
    try:
        with os.scandir(folder) as found:
            return sorted(found, key=lambda entry: os.fsencode(entry.name))
    except OSError as error:
        raise RuntimeError(f"Failed to open {folder}: {error.strerror}") from error


def scan_classes(
    root: str, file_filters: Sequence[str], dir_filters: Sequence[str] | None, case_sensitive: bool
) -> tuple[list[str], list[int]]:
    """Files one level below `root`, names relative to it; the label is the rank of the sub-directory in byte order.

    Directories without a matching file use up a label; hidden entries count; symbolic links are followed. RuntimeError if `root` can't
    be read.
    """
    file_matches = matcher(file_filters, case_sensitive).match
    dir_matches = None if dir_filters is None else matcher(dir_filters, case_sensitive).match
    names: list[str] = []
    labels: list[int] = []
    folders = [e.name for e in sorted_entries(root) if e.is_dir() and (dir_matches is None or dir_matches(e.name))]
    for label, folder in enumerate(folders):
        for entry in sorted_entries(os.path.join(root, folder)):
            if file_matches(entry.name) and not entry.is_dir():
                names.append(f"{folder}/{entry.name}")
                labels.append(label)
    return names, labels


_LIST_LINE = re.compile(rb"(?s)(.*\S)\s+(\d+)\s*\Z")
_MAX_LINE = 16 * 1024
_INT32_MAX = 2**31 - 1


def parse_file_list(path: str) -> tuple[list[str], list[int]]:
    """A text file of lines ``name label``, read from the right: names may contain blanks.

    RuntimeError for an unreadable file or a line without a non-negative label (the message gives path and line number).
    """
    try:
        with open_file(path) as file:
            lines = file.read().split(b"\n")
    except OSError as error:
        raise RuntimeError(f"Cannot open: {path}: {error.strerror}") from error
    names: list[str] = []
    labels: list[int] = []
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        match = _LIST_LINE.match(line) if len(line) <= _MAX_LINE else None
        if match is None or int(match[2]) > _INT32_MAX:
            shown = line[:100].decode("utf-8", "replace")
            raise RuntimeError(
                f'Incorrect format of the list file "{path}":{number} expected file name followed by a label '
                f"(0 to {_INT32_MAX}); got: {shown}"
            )
        names.append(os.fsdecode(match[1]))
        labels.append(int(match[2]))
    return names, labels

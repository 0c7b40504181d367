"""The files of many directories as one compact table. Compiled code lists the directories on several threads."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np
from asyncdali_workers.shared.calls import processors

from .listing_tables import LISTING, SUFFIX

word = LISTING.word

_MOST_THREADS = 8
_FOLDERS = 64
"""Number of directories that a thread takes at a time."""
_ENTRIES, _BYTES = 1 << 16, 1 << 22


@dataclass
class Listing:
    """Files: ``paths`` uint8, NUL-terminated, one after another; ``starts`` int64 and ``folders`` int32, one per file."""

    paths: np.ndarray
    starts: np.ndarray
    folders: np.ndarray

    @classmethod
    def joined(cls, parts: Sequence[Listing]) -> Listing:
        """One after another."""
        sizes = np.array([len(part.paths) for part in parts], np.int64)
        shifts = np.cumsum(sizes) - sizes
        starts = [part.starts + shift for part, shift in zip(parts, shifts, strict=True)]
        return cls(
            np.concatenate([np.empty(0, np.uint8), *(part.paths for part in parts)]), np.concatenate([np.empty(0, np.int64), *starts]),
            np.concatenate([np.empty(0, np.int32), *(part.folders for part in parts)]),
        )  # fmt: skip


class _Room:
    """Memory for the results of one call of the kernel."""

    def __init__(self, entries: int, size: int):
        self.entries, self.size = entries, size
        self.paths, self.scratch = np.empty(size, np.uint8), np.empty(size, np.uint8)
        self.starts, self.order, self.other = (np.empty(entries, np.int64) for _ in range(3))
        self.folders = np.empty(entries, np.int32)


def list_files(folders: Sequence[str], suffixes: Sequence[str], fold: bool) -> Listing:
    """The files in these directories, in byte order within each. Links are followed, sub-directories are skipped.

    `suffixes`: names must end in one of them; without any, all files count. `fold`: ASCII letters of either case are equal. RuntimeError
    names a directory that cannot be read.
    """
    from . import listing_kernels

    listing_kernels.list_folders.compile()
    encoded = [os.fsencode(folder) for folder in folders]
    block = np.frombuffer(b"\0".join(encoded) + b"\0", np.uint8)
    lengths = np.array([len(folder) + 1 for folder in encoded], np.int64)
    starts = np.cumsum(lengths) - lengths
    endings = [np.frombuffer(os.fsencode(suffix.lower() if fold else suffix) + b"\0", np.uint8) for suffix in suffixes]
    ends = [SUFFIX.entries(address=ending.ctypes.data, length=len(ending) - 1) for ending in endings]
    table = np.array(ends, np.int64).reshape(-1, SUFFIX.words)
    fixed = {"folders": block, "folder_starts": starts, "suffixes": table, "suffix_count": len(ends), "fold": int(fold)}

    def some(first: int) -> list[Listing]:
        return list(_some(folders, fixed, first, min(first + _FOLDERS, len(folders))))

    threads = min(len(processors()), _MOST_THREADS)
    with ThreadPoolExecutor(threads, "asyncdali-listing") as pool:
        return Listing.joined([part for parts in pool.map(some, range(0, len(folders), _FOLDERS)) for part in parts])


def _some(folders: Sequence[str], fixed: dict[str, object], first: int, stop: int) -> Iterator[Listing]:
    from . import listing_kernels as kernels

    room = _Room(_ENTRIES, _BYTES)
    while first < stop:
        table, keep = LISTING.make(
            first=first, end=stop, paths=room.paths, paths_bytes=room.size, starts=room.starts, numbers=room.folders, entries=room.entries,
            scratch=room.scratch, scratch_bytes=room.size, order=room.order, other=room.other, written=0, used=0, names_bytes=0, **fixed,
        )  # fmt: skip
        status = kernels.list_folders(table.ctypes.data)
        del keep
        first, written, used = int(table[word.first]), int(table[word.written]), int(table[word.used])
        if status == kernels.GROW:
            room = _Room(room.entries * 4, room.size * 4)
        elif status:
            error = OSError(status, os.strerror(status), str(folders[first]))
            raise RuntimeError(f"Failed to open {folders[first]}: {error.strerror}") from error
        if written:
            yield Listing(room.paths[:used].copy(), room.starts[:written].copy(), room.folders[:written].copy())

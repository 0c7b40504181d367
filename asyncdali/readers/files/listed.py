"""Readers of one file per sample without labels: the files come from a directory, a list or names."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np

from ...batch import Batch
from ...operators.base import Arg, Arguments, Iteration, Planned, Preparation, SampleError
from ..base import Draw, Reading
from ..containers.indices import read_lines
from ..remote.remote import RemoteError, StandIns, folder_of, is_remote, read_files
from .entries import ENTRY_ARGS, EntryRules
from .file_table import FileTable, matcher, sorted_entries
from .table_reader import TableReader


def listing_args(file_filter: str) -> tuple[Arg, ...]:
    """The arguments that name files."""
    return (
        Arg(
            "file_root", "str", None, path="read",
            doc="Directory of the files, and base of relative paths in `files` and `file_list`.",
        ),
        Arg(
            "file_list", "str", None, path="read",
            doc="Text file of paths, one per line; relative to `file_root`, or else to the list's directory.",
        ),
        Arg("files", "str_list", None, "The paths.", path="read"),
        Arg("file_filter", "str", file_filter, "Shell pattern of file names in directory mode, case-sensitive."),
        *ENTRY_ARGS,
    )


def scan_tree(root: str, pattern: str) -> list[str]:
    """Files of `root` itself, then files one level below, in byte order. Names are relative to `root`.

    Hidden folders are skipped: programs keep copies of the files there (``.ipynb_checkpoints``).
    """
    matches = matcher([pattern], True).match
    top = sorted_entries(root)
    names = [f"./{entry.name}" for entry in top if matches(entry.name) and not entry.is_dir()]
    for folder in top:
        if folder.is_dir() and not folder.name.startswith("."):
            inside = sorted_entries(os.path.join(root, folder.name))
            names += [f"{folder.name}/{entry.name}" for entry in inside if matches(entry.name) and not entry.is_dir()]
    return names


def read_name_list(path: str) -> list[str]:
    """One name per line, which may begin or end with blanks. Blank lines are skipped."""
    return [os.fsdecode(line) for line in read_lines(path) if line.strip()]


class ListedReader(TableReader):
    """Base class of readers whose samples are files named by :func:`listing_args`."""

    pre_permute = True

    def discover(self) -> int:
        root, file_list, files = (self.spec.constant(name) for name in ("file_root", "file_list", "files"))
        if root is None and file_list is None and files is None:
            raise RuntimeError("`file_root` argument is required when not using `files` or `file_list`.")
        if files is not None and file_list is not None:
            raise RuntimeError("File paths can be provided through `files` or `file_list` but not both.")
        if files is not None:
            names = list(files)
        elif file_list is not None:
            names = read_name_list(file_list)
            rules = EntryRules.of(self.spec, self.environment.access, file_list, root, folder_of(file_list))
            rules.check(names)
            root = rules.root
        else:
            names = scan_tree(root, self.spec.constant("file_filter"))
        if not names:
            raise RuntimeError(f"No files found. {f'The list {file_list!r} contains no files.' if file_list else f'Looked in {root!r}.'}")
        self._table = FileTable.of(names, np.zeros(len(names), np.int32), root or "")
        return len(names)

    @property
    def in_order(self) -> bool:
        return self.may_wait

    @contextmanager
    def local_paths(self, draw: Draw) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """Paths that the system can open, as (block of NUL-terminated paths, their starts). Remote files are fetched together."""
        table, indices = self.table, draw.indices
        if not table.remote:
            yield table.paths, np.ascontiguousarray(table.starts[indices])
            return
        paths = [table.path(int(index)) for index in indices]
        stand_ins = StandIns()
        try:
            for sample, data in self.fetched(draw, self._fetch).items():
                paths[sample] = f"/proc/self/fd/{stand_ins.add([(0, data)])}"
            shown = FileTable.of(paths, np.zeros(len(paths), np.int32))
            yield shown.paths, shown.starts
        finally:
            stand_ins.close()

    def _fetch(self, indices: np.ndarray) -> dict[int, bytes]:
        """The remote ones of these files, by sample."""
        paths = [self.table.path(int(index)) for index in indices]
        remote = [sample for sample, path in enumerate(paths) if is_remote(path)]
        try:
            files = read_files([paths[sample] for sample in remote])
        except RemoteError as error:
            raise SampleError(remote[error.index], f"Failed to read file: {error}") from error
        return dict(zip(remote, files, strict=True))

    def prepare(self, inputs: list[Batch], arguments: Arguments, iteration: Iteration) -> Preparation:
        return (yield from self.read(self.draw(iteration, arguments.count), arguments))

    def read(self, draw: Draw, arguments: Arguments) -> Reading:
        """Jobs that read these files. Returns the outputs."""
        raise TypeError("abstract")

    def plan(self, inputs: list[Batch], arguments: Arguments, iteration: Iteration) -> Planned:
        return Planned(iteration.prepared)

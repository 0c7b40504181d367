"""readers.file: encoded files and labels from directories or lists."""

from __future__ import annotations

import numpy as np

from ...batch import Batch
from ...operators.base import Arg, Arguments, Iteration, Planned, Preparation, Schema, register
from ...types import DALIDataType
from ..base import SHUFFLE_AFTER_EPOCH_ARGS, reader_args
from ..remote.remote import folder_of
from .contents import FileContentsReader
from .entries import ENTRY_ARGS, EntryRules
from .file_table import FileTable, parse_file_list, scan_classes

_FILTERS = [
    "*.jpg", "*.jpeg", "*.png", "*.bmp", "*.tif", "*.tiff", "*.pnm", "*.ppm", "*.pgm", "*.pbm", "*.jp2", "*.webp",
    "*.flac", "*.ogg", "*.wav",
]  # fmt: skip


@register
class FileReader(FileContentsReader):
    schema = Schema(
        name="readers.file",
        doc="""Reads (contents, label) pairs from files.

        With `file_root` alone, every immediate sub-directory is a class: directories are sorted by byte value and numbered, files in
        them that match `file_filters` are its samples. Hidden directories are classes only if an entry of `dir_filters` begins with a
        dot. With `files` the paths are given, labels are their positions or `labels`.
        With `file_list` both come from a text file, one ``path label`` per line.

        Outputs: the file's bytes (1-D UINT8) and the label (INT32, shape (1,)).""",
        inputs=(0, 0),
        outputs=2,
        seeded=True,
        aliases=("file_reader",),
        args=(
            Arg("file_root", "str", None, "Directory of the classes, or base directory of relative paths in `files` and `file_list`.",
                path="read"),
            Arg("file_list", "str", None, "Text file of paths and labels; relative to `file_root`, or else to the list's directory.",
                path="read"),
            Arg("files", "str_list", None, "The paths.", path="read"),
            Arg("labels", "int_list", None, "Labels of `files`."),
            Arg("file_filters", "str_list", _FILTERS, "Shell patterns of file names in directory mode; any suffices."),
            Arg("dir_filters", "str_list", None, "Shell patterns of directory names; other directories get no label."),
            Arg("case_sensitive_filter", "bool", False, "Whether patterns are case-sensitive."),
            *ENTRY_ARGS,
            *SHUFFLE_AFTER_EPOCH_ARGS,
            *reader_args("Return empty samples for files that all image decoders of the pipeline have in their cache (`cache_size`)."),
        ),
    )

    # --- discovery

    def discover(self) -> int:
        self._table = self._list_files()
        if len(self._table) == 0:
            raise RuntimeError(f"No files found. {self._looked_for()}")
        return len(self._table)

    def _looked_for(self) -> str:
        spec = self.spec
        if spec.given("file_list"):
            return f"The list {spec.constant('file_list')!r} contains no files."
        return f"Looked in the sub-directories of {spec.constant('file_root')!r} for {' '.join(spec.constant('file_filters'))}."

    def _list_files(self) -> FileTable:
        spec = self.spec
        root, file_list, files, labels = (spec.constant(name) for name in ("file_root", "file_list", "files", "labels"))
        self._check_choice(root, file_list, files, labels)
        if files is not None:
            return FileTable.of(files, range(len(files)) if labels is None else labels, root or "")
        if file_list is not None:
            names, numbers = parse_file_list(file_list)
            rules = EntryRules.of(spec, self.environment.access, file_list, root, folder_of(file_list))
            rules.check(names)
            return FileTable.of(names, numbers, rules.root)
        return scan_classes(root, spec.constant("file_filters"), spec.constant("dir_filters"), spec.constant("case_sensitive_filter"))

    def _check_choice(self, root: str | None, file_list: str | None, files: list[str] | None, labels: list[int] | None) -> None:
        if root is None and file_list is None and files is None:
            raise RuntimeError("`file_root` argument is required when not using `files` or `file_list`.")
        if files is not None and file_list is not None:
            raise RuntimeError("File paths can be provided through `files` or `file_list` but not both.")
        if labels is not None and files is None:
            raise RuntimeError("The argument `labels` is valid only when file paths are provided as `files` argument.")
        if files is not None and not files:
            raise RuntimeError("`files` specified an empty list.")
        if labels is not None and files is not None and len(labels) != len(files):
            raise RuntimeError(f"Provided {len(labels)} labels for {len(files)} files.")
        for name in ("file_filters", "dir_filters"):
            if self.spec.constant(name) == []:
                raise RuntimeError(f"`{name}` list cannot be empty.")
        if file_list == "":
            raise RuntimeError("`file_list` argument cannot be empty")

    # --- one iteration

    def infer(self, dtypes: list[DALIDataType | None]) -> list[DALIDataType | None]:
        return [DALIDataType.UINT8, DALIDataType.INT32]

    def prepare(self, inputs: list[Batch], arguments: Arguments, iteration: Iteration) -> Preparation:
        draw = self.draw(iteration, arguments.count)
        return draw.indices, (yield from self.read_contents(draw))

    def known(self, indices: np.ndarray) -> dict[int, Batch]:
        return {1: Batch.from_values(self.table.labels[indices].reshape(-1, 1))}

    def plan(self, inputs: list[Batch], arguments: Arguments, iteration: Iteration) -> Planned:
        indices, contents = iteration.prepared
        labels = self.known(indices)[1]
        labels.source_info = contents.source_info
        return Planned([contents, labels])

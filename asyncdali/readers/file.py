"""readers.file: encoded files and labels from directories or lists."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence

import numpy as np

from ..batch import Batch
from ..operators.base import (
    Arg,
    Arguments,
    CompiledJob,
    Environment,
    Iteration,
    Planned,
    PythonJob,
    Schema,
    Spec,
    Step,
    context_table,
    no_explanation,
    register,
)
from ..types import DALIDataType
from .base import READER_ARGS, SHUFFLE_AFTER_EPOCH_ARGS, ReaderOperator
from .files import FileTable, parse_file_list, scan_classes

_FILTERS = [
    "*.jpg", "*.jpeg", "*.png", "*.bmp", "*.tif", "*.tiff", "*.pnm", "*.ppm", "*.pgm", "*.pbm", "*.jp2", "*.webp",
    "*.flac", "*.ogg", "*.wav",
]  # fmt: skip


class SampleNames(Sequence):
    """The listed paths of a batch's samples; text is made only for those asked for."""

    def __init__(self, table: FileTable, indices: np.ndarray):
        self._table = table
        self._indices = indices

    def __len__(self) -> int:
        return len(self._indices)

    def __getitem__(self, index):  # type: ignore[no-untyped-def, override]
        return self._table.name(int(self._indices[index]))


MAX_OPEN = 256
"""Files of a batch kept open between finding their sizes and reading them; a process may commonly have 1024 open."""


@register
class FileReader(ReaderOperator):
    """See the schema."""

    schema = Schema(
        name="readers.file",
        doc="""Reads (contents, label) pairs from files.

        With `file_root` alone, every immediate sub-directory is a class: directories are sorted by byte value and numbered, files in
        them that match `file_filters` are its samples. With `files` the paths are given, labels are their positions or `labels`.
        With `file_list` both come from a text file, one ``path label`` per line.

        Outputs: the file's bytes (1-D UINT8) and the label (INT32, shape (1,)).""",
        inputs=(0, 0),
        outputs=2,
        seeded=True,
        aliases=("file_reader",),
        args=(
            Arg("file_root", "str", None, "Directory of the classes, or what relative paths of `files` and `file_list` are relative to."),
            Arg("file_list", "str", None, "Text file of paths and labels; relative to `file_root`, or else to the list's directory."),
            Arg("files", "str_list", None, "The paths."),
            Arg("labels", "int_list", None, "Labels of `files`."),
            Arg("file_filters", "str_list", _FILTERS, "Shell patterns of file names in directory mode; any suffices."),
            Arg("dir_filters", "str_list", None, "Shell patterns of directory names; others are not numbered."),
            Arg("case_sensitive_filter", "bool", False, "Whether patterns mind upper and lower case."),
            *SHUFFLE_AFTER_EPOCH_ARGS,
            *READER_ARGS,
        ),
    )

    def __init__(self, spec: Spec, environment: Environment):
        self._table: FileTable | None = None
        super().__init__(spec, environment)
        from ..compiled.step import compile_all
        from . import file_kernels

        self._kernels = file_kernels
        self._read_ahead = int(spec.constant("read_ahead"))
        compile_all(file_kernels)
        hint = max([*spec.constant("bytes_per_sample_hint"), 0])
        if hint:
            environment.allocate(hint * environment.batch_size)

    # --- discovery

    def discover(self) -> int:
        self._table = self._list_files()
        if len(self._table) == 0:
            raise RuntimeError(f"No files found. {self._looked_for()}")
        self._paths_at = self._table.paths.ctypes.data
        return len(self._table)

    def _looked_for(self) -> str:
        spec = self.spec
        if spec.given("file_list"):
            return f"The list {spec.constant('file_list')!r} names none."
        return f"Looked in the sub-directories of {spec.constant('file_root')!r} for {' '.join(spec.constant('file_filters'))}."

    def _list_files(self) -> FileTable:
        spec = self.spec
        root, file_list, files, labels = (spec.constant(name) for name in ("file_root", "file_list", "files", "labels"))
        self._check_choice(root, file_list, files, labels)
        if files is not None:
            return FileTable(files, range(len(files)) if labels is None else labels, root or "")
        if file_list is not None:
            names, numbers = parse_file_list(file_list)
            return FileTable(names, numbers, root or os.path.dirname(file_list))
        names, numbers = scan_classes(
            root, spec.constant("file_filters"), spec.constant("dir_filters"), spec.constant("case_sensitive_filter")
        )
        return FileTable(names, numbers, root)

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

    def prepare(self, inputs: list[Batch], arguments: Arguments, iteration: Iteration) -> Iterable[PythonJob | CompiledJob]:
        count = arguments.count
        indices = self.draw(count)
        table = self._table
        assert table is not None
        files = np.zeros((3, count), np.int64)
        starts, descriptors, sizes = files
        table.starts.take(indices, out=starts)
        descriptors.fill(-1)
        at = files.ctypes.data
        starts_at, descriptors_at, sizes_at = at, at + 8 * count, at + 16 * count
        paths_at = self._paths_at
        keep = [files, table]
        context = np.array([paths_at, starts_at, descriptors_at, sizes_at, self._read_ahead, MAX_OPEN], np.int64)
        explain = self._explain(indices)
        ahead = self._ahead(count)
        try:
            yield CompiledJob(count, [Step(self._kernels.open_step.address, context, explain, keep=keep)])
            self._refuse_empty(sizes, indices)
            contents = Batch(sizes.reshape(count, 1), DALIDataType.UINT8, source_info=SampleNames(table, indices))
            contents.place(self.environment.allocate(int(sizes.sum())))
            context = np.array([descriptors_at, sizes_at, contents.addresses.ctypes.data, paths_at, starts_at], np.int64)
            yield CompiledJob(count, [Step(self._kernels.read_step.address, context, explain, keep=[*keep, contents])])
            if ahead is not None:
                yield self._advise(ahead)
        finally:
            self._kernels.close_all(descriptors_at, count)
        self._contents = contents
        self._indices = indices

    def _advise(self, indices: np.ndarray) -> CompiledJob:
        """Have the system read the files of coming batches into its cache."""
        assert self._table is not None
        starts = np.ascontiguousarray(self._table.starts[indices])
        context, keep = context_table([self._table.paths, starts])
        return CompiledJob(len(indices), [Step(self._kernels.advise_step.address, context, no_explanation, keep=keep)])

    def _refuse_empty(self, sizes: np.ndarray, indices: np.ndarray) -> None:
        if self.spec.constant("dont_use_mmap") or sizes.all():
            return
        from ..operators.base import SampleError

        sample = int(np.flatnonzero(sizes == 0)[0])
        assert self._table is not None
        raise SampleError(sample, f"File mapping failed: {self._table.path(int(indices[sample]))}: the file is empty")

    def _explain(self, indices: np.ndarray):  # type: ignore[no-untyped-def]
        def explain(code: int, text: str, sample: int) -> str:
            assert self._table is not None
            path = self._table.path(int(indices[sample]))
            if code == self._kernels.SHORT_READ:
                return f"File mapping failed: {path}: it became shorter while it was read"
            return f"File mapping failed: {path}: {os.strerror(code)}"

        return explain

    def plan(self, inputs: list[Batch], arguments: Arguments, iteration: Iteration) -> Planned:
        contents, indices = self._contents, self._indices
        del self._contents, self._indices
        assert self._table is not None
        labels = Batch.from_values(self._table.labels[indices].reshape(-1, 1))
        labels.source_info = contents.source_info
        return Planned([contents, labels])

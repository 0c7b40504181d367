"""Reads the files of a batch whole. Shared by readers of one encoded file per sample."""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Callable, Generator, Iterable, Sequence
from functools import cache
from types import ModuleType
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from ...batch import Batch, Heads, Origins
from ...compiled.addresses import address_of
from ...compiled.tables import WORD, table_of
from ...errors import explained
from ...operators.base import CompiledJob, Environment, HeadScan, PythonJob, SampleError, Spec, Step, Trait, no_explanation
from ...sampling.order import OrderPosition
from ...types import DALIDataType
from ..base import Draw, place_aligned
from ..remote.remote import RemoteError, read_files
from .file_table import FileTable
from .file_tables import ADVISE_FILES, OPEN_FILES, READ_FILES
from .reserved_memory import ExpectedSizes
from .table_reader import TableReader

if TYPE_CHECKING:
    from ...compiled.step import Compiled

log = logging.getLogger("asyncdali")


class SampleNames(Origins):
    """The listed paths of a batch's samples."""

    def __init__(self, table: FileTable, indices: np.ndarray):
        self._table = table
        self._indices = indices

    def __len__(self) -> int:
        return len(self._indices)

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, slice):
            return SampleNames(self._table, self._indices[index])
        return self._table.name(int(self._indices[index]))

    def encoded(self) -> bytes:
        return self._table.encoded_names(self._indices)


class StampedName(str):
    """A path with the `stamp` of the file's contents, for the cache of decoded pictures."""

    stamp: tuple[int, ...]


class StampedNames(SampleNames):
    """Like :class:`SampleNames`, with stamps."""

    def __init__(self, table: FileTable, indices: np.ndarray, stamps: Sequence[tuple[int, ...]]):
        super().__init__(table, indices)
        self._stamps = stamps

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, slice):
            return StampedNames(self._table, self._indices[index], self._stamps[index])
        name = StampedName(super().__getitem__(index))
        name.stamp = self._stamps[index]
        return name


def file_stamp(path: str) -> tuple[int, ...]:
    """Device, inode, size and times of a file. As in make and rsync, other contents have another stamp. () if it is unknown."""
    try:
        found = os.stat(path)
    except OSError:
        return ()  # opening the file will report the error
    return found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns


_SETTLED = 1_000_000_000
"""Nanoseconds after which a change of a file must show in its times: file systems count them in ticks of up to 10 ms."""


def settled_stamp(path: str) -> tuple[int, ...]:
    """As :func:`file_stamp`, of a file that is opened, so that a network file system asks its server; () also for one changed just now."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    except OSError:
        return ()
    try:
        found = os.fstat(descriptor)
    finally:
        os.close(descriptor)
    if max(found.st_mtime_ns, found.st_ctime_ns) + _SETTLED > time.time_ns():
        return ()
    return found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns


def fetched_batch(paths: Sequence[str], allocate: Callable[[int], np.ndarray]) -> Batch:
    """Whole files as a batch of bytes, requested together. SampleError names a file that cannot be read."""
    try:
        files = read_files(paths)
    except RemoteError as error:
        raise SampleError(error.index, f"File mapping failed: {error}") from error
    batch = Batch(np.array([[len(data)] for data in files], np.int64).reshape(-1, 1), DALIDataType.UINT8)
    place_aligned(batch, allocate)
    for sample, data in enumerate(files):
        batch.sample(sample)[:] = np.frombuffer(data, np.uint8)
    return batch


def advise(table: FileTable, files: np.ndarray) -> Iterable[CompiledJob]:
    """The job that asks the system to read these files into its cache. Errors are left to the real read, remote files to the network."""
    from . import file_kernels

    if len(files) and not table.remote:
        context, keep = ADVISE_FILES.make(paths=table.paths, starts=np.ascontiguousarray(table.starts[files]))
        yield CompiledJob(len(files), [Step(file_kernels.advise_step.address, context, no_explanation, keep=keep)])


MAX_OPEN = 256
"""Files of a batch that stay open between finding their sizes and reading them. A process may commonly have 1024 open files."""


_FOUND = OPEN_FILES.columns("found")


@cache
def _kernels() -> tuple[ModuleType, Compiled]:
    """The steps that open and read files, and the function that closes files. They are imported late, by programs that read files."""
    from ..containers import record_kernels
    from . import file_kernels

    return file_kernels, record_kernels.close_all


class PathTexts(NamedTuple):
    """NUL-terminated paths at ``at + starts[i]``. `owner` keeps their memory alive."""

    at: int
    starts: np.ndarray
    owner: object


def whole_files(
    paths: PathTexts,
    expected: ExpectedSizes,
    allocate: Callable[[int], np.ndarray],
    explain: Callable[[int, str, int], str],
    refuse_empty: Callable[[np.ndarray], None],
    read_ahead: int,
    scan: HeadScan | None = None,
) -> Generator[PythonJob | CompiledJob, None, Batch]:
    """Jobs that read local files. Returns their contents.

    `expected` predicts the memory. `refuse_empty` gets the sizes if a file is empty. `scan` is called for each file when it has been read;
    the result has no heads if a file did not fit into the memory reserved for the batch.
    """
    kernels, close_all = _kernels()
    paths_at, starts, owner = paths
    count = len(starts)
    files, descriptors = np.empty(3 * count, np.int64), np.frombuffer(bytearray(b"\xff") * (WORD * count), np.int64)  # -1: not open
    at, descriptors_at, starts_at, stride = address_of(files), address_of(descriptors), address_of(starts), WORD * count
    sizes_at, addresses_at, marks_at = at, at + stride, at + 2 * stride
    heads, scan_at, heads_at, head_bytes = None, 0, 0, 0
    if scan is not None:
        heads = np.empty((count, scan.words), np.int64)
        scan_at, heads_at, head_bytes = scan.address, address_of(heads), WORD * scan.words
    memory = expected.aside(count, allocate)
    entries = OPEN_FILES.entries(
        paths=paths_at, starts=starts_at, descriptors=descriptors_at, sizes=sizes_at, read_ahead=read_ahead,
        may_stay_open=MAX_OPEN, block=memory.start, capacity=memory.capacity, expected=memory.expected, used=0,
        addresses=addresses_at, scan=scan_at, heads=heads_at, head_bytes=head_bytes, marks=marks_at,
        found_left=0, found_empty=0, found_bytes=0, found_equal=0, found_marks=0,
    )  # fmt: skip
    opening = table_of(entries)
    keep = [files, descriptors, starts, owner, memory.block, heads]
    try:
        yield CompiledJob(count, [Step(kernels.open_step.address, opening, explain, keep=keep)])
        kernels.look_back(address_of(opening), count)
        left, empty, taken, equal, common = opening[_FOUND].tolist()
        sizes = files[:count]
        if empty:
            refuse_empty(sizes)
        contents = Batch(sizes.reshape(count, 1), DALIDataType.UINT8, "", files[count : 2 * count])
        if left:
            memory.place_rest(contents, descriptors != kernels.DONE, allocate)
            context, _ = READ_FILES.make(
                descriptors=descriptors_at, sizes=sizes_at, addresses=addresses_at, paths=paths_at, starts=starts_at
            )
            yield CompiledJob(count, [Step(kernels.read_step.address, context, explain, keep=[*keep, contents])])
        else:
            contents.owner, contents.contiguous = memory.block, memory.in_order
            if scan is not None and heads is not None:
                contents.heads = Heads(scan.address, heads, files[2 * count :], common)
    except BaseException:  # close files that are still open; the last step has closed all
        close_all(descriptors_at, count)
        raise
    expected.learn(count, taken, equal)
    return contents


_MOST_BYTES_TOGETHER = 128 << 20
"""Most bytes of files that are read together. All of these bytes stay in memory until the last batch is dropped."""


class FileContentsReader(TableReader):
    """Base class of readers whose first output is the bytes of a file. `discover` sets ``_table``."""

    traits = TableReader.traits | Trait.READS_TOGETHER | Trait.SCANS_HEADS

    def __init__(self, spec: Spec, environment: Environment):
        super().__init__(spec, environment)
        from ...compiled.step import compile_all
        from ..containers import record_kernels
        from . import file_kernels

        self._kernels = file_kernels
        self._read_ahead = int(spec.constant("read_ahead"))
        self._expected = ExpectedSizes()
        self._before: dict[tuple[OrderPosition, int], tuple[np.ndarray, Batch]] = {}
        """Indices and contents that were read together with those of an earlier iteration, by the position of their iteration."""
        self._skipped = 0
        self._skips = bool(spec.constant("skip_cached_images"))
        compile_all(file_kernels)
        record_kernels.lay_out.compile()
        record_kernels.close_all.compile()

    @property
    def in_order(self) -> bool:
        return self.may_wait or self._skips

    def read_contents(self, draw: Draw) -> Generator[PythonJob | CompiledJob, None, Batch]:
        """Jobs that read these files. Returns the output.

        Usually one job is enough: memory is reserved by the sizes of earlier batches, and each file is read when it has been opened. Files
        that do not fit (all files of the first batch) take a second job.
        """
        if self.table.remote:
            return self._fetched(draw)
        if self._skips or self._may_skip():
            return (yield from self._read_new(draw))
        found = self._before.pop((draw.begin, len(draw.indices)), None)
        if found is not None and (self.replacing is None or np.array_equal(found[0], draw.indices)):
            return found[1]
        self._before.clear()
        ahead = self.ahead(draw)
        draws = [draw] if ahead is not None else self._due(draw)
        if len(draws) > 1:
            try:
                return (yield from self._read_together(draws))
            except Exception as error:  # a file is missing, for example: its own iteration will meet the error
                log.debug("files of %d iterations are read one batch at a time: %s", len(draws), error)
        return (yield from self._read(draw.indices, ahead))

    def _due(self, draw: Draw) -> list[Draw]:
        """The samples of this iteration and of those that will follow, as far as their files should be read together.

        If others follow (after a smaller batch), these contents are dropped and the right files are read.
        """
        samples, draws = len(draw.indices), [draw]
        expected = self._expected.bytes_of(samples)
        most = min(1 + draw.following, _MOST_BYTES_TOGETHER // expected) if expected else 1
        while len(draws) < most:
            begin = draws[-1].behind
            indices, behind = self.taken(begin, samples)
            draws.append(Draw(begin, indices, behind))
        return draws

    def _read_together(self, draws: Sequence[Draw]) -> Generator[PythonJob | CompiledJob, None, Batch]:
        """Jobs that read the files of several iterations. Returns the contents for the first one, and keeps the others."""
        table, samples = self.table, len(draws[0].indices)
        starts = np.empty(samples * len(draws), np.int64)
        parts = [slice(k, k + samples) for k in range(0, len(starts), samples)]
        for draw, part in zip(draws, parts):
            starts[part] = table.starts[draw.indices]  # batch by batch: for more than 500 numbers numpy releases the interpreter lock

        def refuse_empty(sizes: np.ndarray) -> None:
            self._refuse_empty(sizes, np.concatenate([draw.indices for draw in draws]))

        whole = yield from whole_files(
            PathTexts(table.paths_at, starts, table), self._expected, self.environment.allocate, no_explanation, refuse_empty,
            self._read_ahead, self.neighbours.head_scan,
        )  # fmt: skip
        read, heads = [], whole.heads
        for draw, part in zip(draws, parts):
            batch = whole.part(part.start, part.stop)
            if heads is not None:
                batch.heads = heads._replace(records=heads.records[part], marks=heads.marks[part])
            batch.source_info = SampleNames(table, draw.indices)
            read.append(batch)
        self._before.update({(draw.begin, samples): (draw.indices, batch) for draw, batch in zip(draws[1:], read[1:])})
        return read[0]

    def _may_skip(self) -> bool:
        """Whether the bytes of a file whose picture is cached are not needed: only decoders of this process with a cache read them."""
        return 0 < self.neighbours.kept_by <= len(self.environment.pictures)

    def _read_new(self, draw: Draw) -> Generator[PythonJob | CompiledJob, None, Batch]:
        """Like :meth:`read_contents`, but samples are empty if every image decoder of the pipeline has the picture of their file.

        Cached pictures are never removed, so the decoders will find them.
        """
        indices, caches = draw.indices, self.environment.pictures
        stamp_of = file_stamp if self._skips else settled_stamp
        stamps = [stamp_of(self.table.path(int(index))) for index in indices]
        known = bool(caches) and None not in caches
        new = np.array([not known or not stamp or not all(cache.holds(stamp) for cache in caches) for stamp in stamps], bool)
        self._skipped += len(indices) - int(new.sum())
        ahead = self.ahead(draw)
        sizes, addresses = np.zeros(len(indices), np.int64), np.zeros(len(indices), np.int64)
        owner: object = ()
        if new.any():
            contents = yield from self._read(indices[new], ahead)
            sizes[new], addresses[new], owner = contents.sizes(), contents.addresses, contents.memory_owner
        names = StampedNames(self.table, indices, stamps)
        return Batch(sizes.reshape(-1, 1), DALIDataType.UINT8, "", addresses, owner, source_info=names)

    def _read(self, indices: np.ndarray, ahead: np.ndarray | None) -> Generator[PythonJob | CompiledJob, None, Batch]:
        """Jobs that read local files. Returns their contents. `ahead`: files for which the system gets a hint."""
        table = self.table
        contents = yield from whole_files(
            PathTexts(table.paths_at, table.starts[indices], table), self._expected, self.environment.allocate, self._explain(indices),
            lambda sizes: self._refuse_empty(sizes, indices), self._read_ahead, self.neighbours.head_scan,
        )  # fmt: skip
        contents.source_info = SampleNames(table, indices)
        if ahead is not None:
            yield from advise(table, ahead)
        return contents

    def _fetched(self, draw: Draw) -> Batch:
        """The contents of files, some of them remote. The worker threads are free in the meantime."""
        contents: Batch = self.fetched(draw, self._fetch)
        self._refuse_empty(contents.sizes(), draw.indices)
        contents.source_info = SampleNames(self.table, draw.indices)
        return contents

    def _fetch(self, indices: np.ndarray) -> Batch:
        return fetched_batch([self.table.path(int(index)) for index in indices], self.environment.allocate)

    def counted(self) -> tuple[tuple[str, int], ...]:
        return (("files left out for the cache", self._skipped),) if self._skips or self.neighbours.kept_by else ()

    def _refuse_empty(self, sizes: np.ndarray, indices: np.ndarray) -> None:
        if self.spec.constant("dont_use_mmap") or sizes.all():
            return
        sample = int(np.flatnonzero(sizes == 0)[0])
        raise SampleError(sample, f"File mapping failed: {self.table.path(int(indices[sample]))}: the file is empty")

    def _explain(self, indices: np.ndarray) -> Callable[[int, str, int], str]:
        def explain(code: int, text: str, sample: int) -> str:
            path = self.table.path(int(indices[sample]))
            if code == self._kernels.SHORT_READ:
                return f"File mapping failed: {path}: the file became shorter while it was read"
            return explained(code, f"File mapping failed: {path}: {os.strerror(code)}")

        return explain

"""Container files and the places of their records, shared by the tfrecord, LMDB, RecordIO and tar readers.

Records are found once, as arrays of offsets and sizes. An iteration then gathers 64 numbers. Local containers are mapped, and records are
used in the page cache if it has all records of the batch. Other batches, small batches, remote files, and files that must not be mapped are
read into a block, with one ``pread`` per record.
"""

from __future__ import annotations

import contextlib
import os
import stat
import weakref
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from ...batch import Batch, ReadOnlyMemory
from ...compiled.addresses import address_of
from ...errors import explained
from ...operators.base import (
    Arguments,
    CompiledJob,
    Environment,
    Iteration,
    Planned,
    Preparation,
    PythonJob,
    SampleError,
    Spec,
    Step,
    no_explanation,
)
from ..base import Draw, Origin, ReaderOperator, Reading
from ..digest import names_of_paths
from ..remote.remote import Range, RemoteError, StandIns, file_size, is_remote, local_copy, read_ranges
from .mapping import MappedFile
from .record_tables import ADVISE_RECORDS, MAPPED_RECORDS, READ_RECORDS

MAX_OPEN = 256
"""Container files that are open at a time, unless a batch needs more. A process may commonly have 1024 open files."""

BLOCK = 4096
"""Alignment that O_DIRECT requires of offsets, lengths and addresses."""

WORTH_MAPPING = 64 * 1024
"""Smaller batches (bytes) are copied into one block, which costs less than one page per record."""

_SLOT = 64


class Containers:
    """The container files of a reader. A file is opened for its first record; the least recently used files are closed."""

    def __init__(self, paths: Sequence[str], direct: bool = False, read_ahead: bool = False):
        self.paths = list(paths)
        self.sizes = np.array([_file_size(path) for path in self.paths], np.int64)
        self.direct = direct
        self._read_ahead = read_ahead
        self._open: OrderedDict[int, int] = OrderedDict()
        self._table = np.full(len(self.paths), -1, np.int64)  # file number -> descriptor, as in `_open`; -1: not open
        self._maps: dict[int, MappedFile] = {}
        self._bases = np.zeros(len(self.paths), np.int64)  # file number -> address of the map, as in `_maps`; 0: not mapped
        self._few = len(self.paths) <= MAX_OPEN
        self.remote = np.array([is_remote(path) for path in self.paths], bool)
        self.any_remote = bool(self.remote.any())
        self._finalizer = weakref.finalize(self, _close_all, self._open)

    def descriptors(self, files: np.ndarray) -> np.ndarray:
        """Descriptors of the files with these numbers, int64, valid until the next call. SampleError for a file that cannot be opened."""
        found: np.ndarray = self._table[files]
        if self._few and found.min(initial=0) >= 0:  # all are open, and files are never closed for others
            return found
        wanted = np.unique(files).tolist()
        if self.any_remote:
            wanted = [number for number in wanted if not self.remote[number]]
        missing = []
        for number in wanted:
            if number in self._open:
                self._open.move_to_end(number)
            else:
                missing.append(number)
        while self._open and len(self._open) + len(missing) > max(MAX_OPEN, len(wanted)):  # before opening others
            number, descriptor = self._open.popitem(last=False)
            self._table[number] = -1
            self._maps.pop(number, None)
            os.close(descriptor)
        for number in missing:
            try:
                self._table[number] = self._open[number] = self._opened(self.paths[number])
            except OSError as error:
                sample = int(np.argmax(files == number))
                raise SampleError(sample, f"Error reading from a file {self.paths[number]}: {error.strerror}") from error
        result: np.ndarray = self._table[files]
        return result

    def mapped(self, files: np.ndarray) -> tuple[np.ndarray, ReadOnlyMemory]:
        """The addresses (int64) at which these open files are mapped, and the objects that keep the maps alive. OSError if mapping fails.

        A map is as long as the file was when the reader was built, so no address is beyond the map.
        """
        numbers = set(files.tolist())
        for number in numbers - self._maps.keys():
            made = self._maps[number] = MappedFile(self._open[number], int(self.sizes[number]))
            self._bases[number] = made.address
        return self._bases[files], ReadOnlyMemory(*(self._maps[number] for number in numbers))

    def _opened(self, path: str) -> int:
        flags = os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK
        descriptor = -1
        if self.direct:
            with contextlib.suppress(OSError):  # some file systems do not support it
                descriptor = os.open(path, flags | os.O_DIRECT)
        if descriptor < 0:
            descriptor = os.open(path, flags)
        if self._read_ahead:
            os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_WILLNEED)
        return descriptor

    def fetch(self, files: np.ndarray, offsets: np.ndarray, sizes: np.ndarray) -> dict[int, list[tuple[int, bytes]]]:
        """The parts of these records in remote containers, as (offset, bytes) by container. RemoteError names what cannot be read."""
        places = np.flatnonzero(self.remote[files] & (sizes > 0)).tolist()
        try:
            found = read_ranges([Range(self.paths[files[k]], int(offsets[k]), int(offsets[k] + sizes[k])) for k in places])
        except RemoteError as error:
            raise error.at(places[error.index]) from error
        pieces: dict[int, list[tuple[int, bytes]]] = {number: [] for number in np.unique(files[self.remote[files]]).tolist()}
        for place, data in zip(places, found, strict=True):
            pieces[int(files[place])].append((int(offsets[place]), data))
        return pieces

    @contextlib.contextmanager
    def standing_in(self, pieces: dict[int, list[tuple[int, bytes]]]) -> Iterator[None]:
        """While the block runs, containers with only these parts present have descriptors."""
        stand_ins = StandIns()
        try:
            for number, parts in pieces.items():
                self._table[number] = stand_ins.add(parts)
            yield
        finally:
            self._table[list(pieces)] = -1
            stand_ins.close()

    def close(self) -> None:
        """Close the open files. They can be used again afterwards."""
        self._table[:] = -1
        self._maps.clear()
        _close_all(self._open)


def _close_all(descriptors: OrderedDict[int, int]) -> None:
    while descriptors:
        os.close(descriptors.popitem()[1])


@contextlib.contextmanager
def open_descriptor(path: str) -> Iterator[tuple[int, int]]:
    """(descriptor, size) of a whole container that is to be searched. A remote container is fetched. RuntimeError names the file."""
    with local_copy(path) as local:
        try:
            descriptor = os.open(local, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
        except OSError as error:
            raise RuntimeError(f"Could not open file {path}: {error.strerror}") from error
        try:
            yield descriptor, os.fstat(descriptor).st_size
        finally:
            os.close(descriptor)


def _file_size(path: str) -> int:
    if is_remote(path):
        return file_size(path)
    try:
        found = os.stat(path)
    except OSError as error:
        raise RuntimeError(f"Could not open file {path}: {error.strerror}") from error
    if not stat.S_ISREG(found.st_mode):
        raise RuntimeError(f"Could not open file {path}: not a regular file")
    if not os.access(path, os.R_OK):
        raise RuntimeError(f"Could not open file {path}: Permission denied")
    return found.st_size


@dataclass
class Records:
    """The places of the records: container `c` has `counts[c]` of them, one container after another. All arrays are int64."""

    counts: np.ndarray
    offsets: np.ndarray
    sizes: np.ndarray

    def __post_init__(self) -> None:
        self._ends = np.cumsum(self.counts)

    def __len__(self) -> int:
        return len(self.offsets)

    def files(self, indices: np.ndarray) -> np.ndarray:
        """Number of the container of each record."""
        return np.searchsorted(self._ends, indices, side="right")

    @classmethod
    def joined(cls, parts: Iterable[tuple[np.ndarray, np.ndarray]]) -> Records:
        """Make an index from (offsets, sizes) per container."""
        parts = list(parts)
        offsets = np.concatenate([part[0] for part in parts] or [np.empty(0)]).astype(np.int64)
        sizes = np.concatenate([part[1] for part in parts] or [np.empty(0)]).astype(np.int64)
        return cls(np.array([len(part[0]) for part in parts], np.int64), offsets, sizes)

    def first_outside(self, limits: np.ndarray) -> int | None:
        """The first record that is not inside its container, whose size is `limits[c]`."""
        limit = np.repeat(limits, self.counts)
        # `offset + size > limit` would overflow with a hostile index.
        wrong = (self.offsets < 0) | (self.sizes < 0) | (self.offsets > limit) | (self.sizes > limit - self.offsets)
        return int(np.argmax(wrong)) if wrong.any() else None


@dataclass
class Fetched:
    """The records of one batch in memory: `addresses` and `sizes`, int64[samples], in memory that `owner` keeps alive.

    `in_place`: the memory is that of mapped files.
    """

    indices: np.ndarray
    addresses: np.ndarray
    sizes: np.ndarray
    owner: np.ndarray | ReadOnlyMemory

    @property
    def in_place(self) -> bool:
        return isinstance(self.owner, ReadOnlyMemory)


class RecordNames(Sequence[str]):
    """Origins of a batch's samples. Text is made on demand."""

    def __init__(self, name: Callable[[int], str], indices: np.ndarray):
        self._name = name
        self._indices = indices

    def __len__(self) -> int:
        return len(self._indices)

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, slice):
            return RecordNames(self._name, self._indices[index])
        return self._name(int(self._indices[index]))


class ContainerReader(ReaderOperator):
    """Base class of readers whose samples are records in container files."""

    pre_permute = False
    stays_together: ClassVar[bool] = True
    """Whether `shuffle_after_epoch` permutes files and not records. It may then be combined with `random_shuffle`."""

    def __init__(self, spec: Spec, environment: Environment):
        self._containers: Containers | None = None
        self._records: Records | None = None
        self._touched: np.ndarray | None = None  # uint8[records]: records whose pages are already in the maps
        from ...compiled.step import compile_all
        from . import record_kernels

        self._reading = record_kernels
        self._maps = not spec.constant("dont_use_mmap")
        compile_all(record_kernels)
        if self._reads_directly(spec) and not spec.constant("dont_use_mmap"):
            raise RuntimeError("Cannot use use_o_direct with `dont_use_mmap=False`.")
        super().__init__(spec, environment)

    @staticmethod
    def _reads_directly(spec: Spec) -> bool:
        return "use_o_direct" in spec.schema.by_name and bool(spec.constant("use_o_direct"))

    # --- implemented by each reader

    def locate(self, containers: Containers) -> Records:
        """Find the records of all containers."""
        raise TypeError("abstract")

    def origin(self, index: int) -> str:
        """The origin of a record, for the user."""
        return f"{self.container_path(index)} at index {int(self.records.offsets[index])}"

    def origin_of(self, index: int) -> Origin:
        return Origin(self.container_path(index), int(self.records.offsets[index]), int(self.records.sizes[index]))

    def container_paths(self) -> list[str]:
        """The container files."""
        return list(self.spec.constant("path"))

    # --- discovery

    def identity(self) -> list[bytes | np.ndarray]:
        # Without offsets, because a copy of a database may have its pages at other offsets.
        assert self._containers is not None
        return [names_of_paths(self._containers.paths), self.records.counts, self.records.sizes]

    @property
    def records(self) -> Records:
        assert self._records is not None
        return self._records

    def container_path(self, index: int) -> str:
        """The file that holds a record."""
        assert self._containers is not None
        return self._containers.paths[int(self.records.files(np.array([index]))[0])]

    def discover(self) -> int:
        direct = self._reads_directly(self.spec)
        containers = Containers(self.container_paths(), direct, self.spec.constant("read_ahead"))
        self._containers = containers
        records = self._records = self.locate(containers)
        outside = records.first_outside(containers.sizes)
        if outside is not None:
            size = int(containers.sizes[records.files(np.array([outside]))[0]])
            raise RuntimeError(
                f"Error reading from a file {self.container_path(outside)}: record {outside} at offset {records.offsets[outside]} of "
                f"{records.sizes[outside]} bytes is not within the file's {size} bytes"
            )
        if self.stays_together:
            self.containers = [int(count) for count in records.counts]
        return len(records)

    # --- one iteration

    def fetch(
        self,
        indices: np.ndarray,
        then: Callable[[Fetched], list[Step]] = lambda fetched: [],
        room: np.ndarray | int = 0,
        in_place: bool = True,
        brief: bool = True,
        only: np.ndarray | None = None,
    ) -> tuple[Fetched, CompiledJob]:
        """The records in memory after the job, which also runs the steps of `then` on each record while it is in the cache.

        Records are used `in_place` if possible. Otherwise they begin on multiples of 64, with `room` bytes behind each. `brief`: the steps
        look at a few bytes of each record. `only`, bool[samples]: other records are not read.
        """
        records, containers = self.records, self._containers
        assert containers is not None
        files = records.files(indices)
        offsets, sizes, descriptors = records.offsets[indices], records.sizes[indices], containers.descriptors(files)
        if only is not None:
            sizes = np.where(only, sizes, 0)
        found = self.mapped(indices, files, descriptors, offsets, sizes) if in_place else None
        if found is not None:
            fetched = Fetched(indices, *found)
            steps = then(fetched)
        else:
            fetched, (context, keep) = self._copied(indices, descriptors, offsets, sizes, room)
            steps = [Step(self._reading.read_record.address, context, self._explain_read(indices), keep=keep), *then(fetched)]
        for one in steps:
            one.keep = [*one.keep, fetched.owner]
        return fetched, CompiledJob(len(indices), steps, brief and found is not None)

    @staticmethod
    def is_small(sizes: np.ndarray) -> bool:
        """Whether records of these sizes are copied and not mapped; see WORTH_MAPPING."""
        return bool(sizes.sum() < WORTH_MAPPING)

    def mapped(
        self, indices: np.ndarray, files: np.ndarray, descriptors: np.ndarray, offsets: np.ndarray, sizes: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray, ReadOnlyMemory] | None:
        """(addresses, sizes, owner) of records in mapped files; None if the records must be copied.

        They must be copied, too, if some are not in memory or are cut off. Only reading waits for the disk on several threads with the
        system's read-ahead, and gives an error where touching a page would be a signal.
        """
        containers = self._containers
        assert containers is not None
        if not self._maps or self.is_small(sizes) or (containers.any_remote and containers.remote[files].any()):
            return None
        try:
            bases, owner = containers.mapped(files)
        except OSError:  # a file system that cannot map
            self._maps = False
            return None
        if self._touched is None:
            self._touched = np.zeros(len(self.records), np.uint8)
        addresses = bases + offsets
        context, _ = MAPPED_RECORDS.make(
            descriptors=descriptors, offsets=offsets, sizes=sizes, one_byte=self._reading.spare_iovec, addresses=addresses, indices=indices,
            touched=self._touched,
        )  # fmt: skip
        if self._reading.count_waiting(address_of(context), len(files)):
            return None
        return addresses, sizes, owner

    def _copied(
        self, indices: np.ndarray, descriptors: np.ndarray, offsets: np.ndarray, sizes: np.ndarray, room: np.ndarray | int
    ) -> tuple[Fetched, tuple[np.ndarray, list[Any]]]:
        """A block for the records, the table of the step that reads them into it, and the objects that the table needs."""
        assert self._containers is not None
        direct = self._containers.direct
        alignment = BLOCK if direct else _SLOT
        before = offsets % BLOCK if direct else np.int64(0)
        starts = offsets - before
        slots = -(-(before + sizes + room) // alignment) * alignment
        block = self.environment.allocate(int(slots.sum()) + alignment)
        first = -(-address_of(block) // alignment) * alignment
        slot = np.cumsum(slots) - slots + first
        addresses = slot + before
        fetched = Fetched(indices, addresses, sizes, block)
        if direct:
            return fetched, READ_RECORDS.make(descriptors=descriptors, offsets=starts, lengths=slots, needed=before + sizes, addresses=slot)
        return fetched, READ_RECORDS.make(descriptors=descriptors, offsets=starts, lengths=sizes, needed=sizes, addresses=addresses)

    def announce(self, draw: Draw) -> Iterable[PythonJob | CompiledJob]:
        """Ask the system to read the records of later batches into its cache, if `prefetch_queue_depth` allows it."""
        ahead = self.ahead(draw)
        if ahead is not None and len(ahead):
            assert self._containers is not None
            ahead = ahead[~self._containers.remote[self.records.files(ahead)]]
            try:
                descriptors = self._containers.descriptors(self.records.files(ahead))
            except SampleError:
                return  # the batch that needs the file reports the error
            context, keep = ADVISE_RECORDS.make(
                descriptors=descriptors, offsets=self.records.offsets[ahead], sizes=self.records.sizes[ahead]
            )
            yield CompiledJob(len(ahead), [Step(self._reading.advise_record.address, context, no_explanation, keep=keep)])

    def view(self, fetched: Fetched, addresses: np.ndarray, shapes: np.ndarray, dtype: Any, info: Sequence[str] | None = None) -> Batch:
        """An output that views the records' own memory."""
        return Batch(shapes, dtype, "", addresses, fetched.owner, source_info=info or self.names(fetched.indices))

    def names(self, indices: np.ndarray) -> RecordNames:
        """Origins of a batch's samples."""
        return RecordNames(self.origin, indices)

    def _explain_read(self, indices: np.ndarray) -> Callable[[int, str, int], str]:
        def explain(code: int, text: str, sample: int) -> str:
            index = int(indices[sample])
            what = f"Error reading from a file {self.container_path(index)}: {self.origin(index)}"
            if code == self._reading.SHORT_READ:
                return f"{what}: the file ends before the record does"
            return explained(code, f"{what}: {os.strerror(code)}")

        return explain

    @property
    def any_remote(self) -> bool:
        return self._containers is None or self._containers.any_remote

    def prepare(self, inputs: list[Batch], arguments: Arguments, iteration: Iteration) -> Preparation:
        draw = self.draw(iteration, arguments.count)
        with self._at_hand(draw):
            outputs = yield from self.read(draw.indices)
        yield from self.announce(draw)
        return outputs

    def parts(self, indices: np.ndarray) -> np.ndarray:
        """The records of each sample; all samples have the same number of records."""
        return indices

    @contextlib.contextmanager
    def _at_hand(self, draw: Draw) -> Iterator[None]:
        """Remote containers: fetch all parts of the samples together."""
        containers = self._containers
        if containers is None or not containers.any_remote:
            yield
            return
        with containers.standing_in(self.fetched(draw, self._pieces)):
            yield

    def _pieces(self, indices: np.ndarray) -> dict[int, list[tuple[int, bytes]]]:
        """The remote parts of the samples; see :meth:`Containers.fetch`."""
        assert self._containers is not None
        parts, records = self.parts(indices), self.records
        try:
            return self._containers.fetch(records.files(parts), records.offsets[parts], records.sizes[parts])
        except RemoteError as error:
            sample = error.index * len(indices) // len(parts)
            raise SampleError(sample, f"Error reading from a file: {self.origin(int(parts[error.index]))}: {error}") from error

    def read(self, indices: np.ndarray) -> Reading:
        """Jobs that read these records. Returns the outputs."""
        raise TypeError("abstract")

    def plan(self, inputs: list[Batch], arguments: Arguments, iteration: Iteration) -> Planned:
        return Planned(iteration.prepared)

    def close(self) -> None:
        super().close()
        if self._containers is not None:
            self._containers.close()

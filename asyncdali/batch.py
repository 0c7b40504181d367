"""A batch: the samples on one edge of the graph in one iteration, as addresses and shapes.

A batch has shapes before it has memory. An operator's *plan* makes the output batches (shapes, dtype, layout, and an address array that is
still empty). The segment then places them in pooled memory or in a thread's scratch memory, and compiled steps read the addresses. Tensor
lists are views of a placed batch.
"""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from asyncdali_workers import limits

from .compiled.addresses import address_of, products
from .types import DALIDataType, to_dali_type
from .types.conversions import FROM_DTYPE, STORAGE

_BYTES = np.dtype(np.uint8)
_SMALL = 1 << 16
"""numpy copies so many bytes faster than it makes tables of addresses."""
_HELD = 500
"""For more elements numpy releases the interpreter lock, and a busy thread keeps it for 5 ms."""


def storage_dtype(dtype: DALIDataType) -> np.dtype:
    """The numpy dtype that stores one element of `dtype` (int32 for enumerations, uint8 for NO_TYPE)."""
    return STORAGE.get(dtype, _BYTES)


@functools.cache
def storage_name(dtype: DALIDataType) -> str:
    """The name of :func:`storage_dtype`. numpy composes a name in Python, in 2 us, each time."""
    return str(storage_dtype(dtype).name)


def from_numpy_dtype(dtype: Any) -> DALIDataType:
    """DALIDataType of a numpy dtype. TypeError if there is none (complex, strings, objects, foreign byte order)."""
    found = FROM_DTYPE.get(dtype)  # a dictionary first, because this runs for every batch
    return to_dali_type(np.dtype(dtype)) if found is None else found


@functools.lru_cache(256)
def dense_shapes(count: int, extents: tuple[int, ...]) -> np.ndarray:
    """The shapes array of `count` equal samples, int64[count, ndim]. It is shared, so it is read-only."""
    shapes = np.empty((count, len(extents)), np.int64)
    shapes[:] = extents
    shapes.flags.writeable = False
    return shapes


@functools.lru_cache(256)
def _offsets(count: int, stride: int) -> np.ndarray:
    """Offsets of `count` samples that are `stride` bytes apart, int64[count]; read-only like :func:`dense_shapes`."""
    offsets = np.arange(count, dtype=np.int64) * stride
    offsets.flags.writeable = False
    return offsets


def _plain(size: int) -> np.ndarray:
    return np.empty(size, np.uint8)


@functools.cache
def _kernel() -> Callable[..., int]:
    """The kernel that lays out samples. It needs Numba, so it is imported late."""
    from .compiled.places import lay_out

    return lay_out


Move: TypeAlias = "Callable[[np.ndarray, np.ndarray, np.ndarray], None]"
"""``move(targets, sources, sizes)`` copies bytes from addresses to addresses; int64[samples] each. Samples of 0 bytes have no memory."""


def move_by_c(targets: np.ndarray, sources: np.ndarray, sizes: np.ndarray) -> None:
    """A :data:`Move` without code that has to be compiled first."""
    for target, source, size in zip(targets.tolist(), sources.tolist(), sizes.tolist(), strict=True):
        if size:
            ctypes.memmove(target, source, size)


class ReadOnlyMemory:
    """Owner of read-only memory, for example a mapped file: views of it are read-only. It keeps `kept` alive."""

    __slots__ = ("kept",)

    def __init__(self, *kept: object):
        self.kept = kept


def _is_read_only(owner: object) -> bool:
    """Whether one of the owners of a batch has read-only memory."""
    return any(map(_is_read_only, owner)) if isinstance(owner, (list, tuple)) else isinstance(owner, ReadOnlyMemory)


largest = np.maximum.reduce
"""The largest element, without the Python function that ``ndarray.max`` calls. Every batch asks three times."""
_accumulate = np.add.accumulate


class AddressView:
    """Array interface over memory at `address`; keeps `owner` alive as long as any numpy view of it lives."""

    __slots__ = ("__array_interface__", "owner")

    def __init__(self, address: int, shape: Sequence[int], dtype: np.dtype, owner: object, read_only: bool = False):
        self.owner = owner
        self.__array_interface__ = {
            "data": (address, read_only),
            "shape": tuple(map(int, shape)),
            "typestr": dtype.str,
            "version": 3,
        }


class _View:
    """The memory from a batch's first byte to its last as one array. Slicing it takes a fifth of the time of making an array per sample.

    Memory between the samples is never touched, and need not exist.
    """

    __slots__ = ("dtype", "owner", "starts", "stops", "whole")

    def __init__(self, batch: Batch, owner: object):
        self.owner = owner
        self.dtype = storage_dtype(batch.dtype)
        first, self.starts, self.stops = _extent_of_one(batch) if len(batch.shapes) == 1 else _extent(batch)
        size = max(self.stops, default=0)
        view = AddressView(first, (size,), np.dtype(np.uint8), batch.memory_owner, batch.read_only)
        self.whole = np.asarray(view) if size else np.empty(0, np.uint8)


def _extent(batch: Batch) -> tuple[int, list[int], list[int]]:
    """The first address, and where each sample starts and stops behind it. The address of an empty sample may be 0."""
    sizes = batch.sizes()
    starts = np.where(sizes, batch.addresses, 0)
    first = int(starts[sizes > 0].min(initial=2**63 - 1))
    starts = np.where(sizes, starts - first, 0)
    return first, starts.tolist(), (starts + sizes).tolist()


def _extent_of_one(batch: Batch) -> tuple[int, list[int], list[int]]:
    """The same for one sample: the result of a call on one tensor is read in 7 us instead of 14."""
    return int(batch.addresses[0]), [0], [int(batch.sizes()[0])]


class _InfoPart(Sequence[str]):
    """The origins of the samples with these numbers. Each text is made when it is read: names of 64 files take 0.1 ms."""

    def __init__(self, info: Sequence[str], rows: range | np.ndarray):
        self._info, self._rows = info, rows

    def __len__(self) -> int:
        return len(self._rows)

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, slice):
            return [self[k] for k in range(*index.indices(len(self)))]
        if not 0 <= index < len(self):
            raise IndexError(index)
        return self._info[int(self._rows[index])]


class Extents(NamedTuple):
    """The sizes of samples that lie one after another, in bytes: each size and its place, int64[samples] each, the largest, and their sum.

    They are known for batches whose shapes occurred before (``runtime/templates``), and where compiled code has computed them.
    """

    sizes: np.ndarray
    offsets: np.ndarray
    largest: int
    total: int

    @classmethod
    def of(cls, shapes: np.ndarray, dtype: DALIDataType) -> Extents:
        """The extents of samples of `shapes`. TooLarge as in :meth:`Batch.checked_sizes`."""
        sizes = Batch(shapes, dtype).checked_sizes()
        return cls(sizes, np.cumsum(sizes) - sizes, int(sizes.max(initial=0)), int(sizes.sum()))


class Heads(NamedTuple):
    """The result of scanning the heads of encoded files when they were read.

    scan     address of the function that scanned them
    records  int64[samples, words], which it filled;  marks  int64[samples], which it returned
    common   the bits that all marks have
    """

    scan: int
    records: np.ndarray
    marks: np.ndarray
    common: int


class Origins(Sequence[str]):
    """The files or records of a batch's samples. Text is made on demand."""

    def encoded(self) -> bytes:
        """All texts in UTF-8, with NULs between them."""
        return encoded_origins(self)


def encoded_origins(origins: Sequence[str]) -> bytes:
    """As :meth:`Origins.encoded`, for any texts."""
    return "\0".join(map(str, origins)).encode("utf-8", "surrogateescape")


class Batch:
    """A batch: `shapes` int64[samples, ndim], `addresses` int64[samples], element type, layout.

    `owner` keeps the memory alive (the pooled array, or a list of arrays); None while the batch has no memory. `values` is set if the whole
    batch is one dense C-contiguous array [samples, ...] known at plan time (labels, draws, constants). `contiguous`: samples follow each
    other without gaps. `alias_of` is the batch whose memory this batch views. `reused` (True, False or bool[samples]) marks samples whose
    memory is used again in other iterations or belongs to the user (constants, sources that are not copied); outputs get copies of these
    samples. `read_only`: the memory (records of mapped files) and views of it cannot be written to.

    In a branch of a conditional a batch is a partial batch: `rows` int64[samples of the iteration] gives each sample's index in it, or -1.
    `links` are the batches that contain its samples (after splits and merges of data without memory): addresses are passed on sample by
    sample while the pixels are computed.
    `feed` (operators/row_feeds.py) passes rows or windows to the only operator that reads the batch. Such samples are never stored
    whole. `extents` is set if the sizes of the samples were computed before, `heads` if a reader has scanned the files for the decoder.
    """

    __slots__ = (
        "_addresses", "_first", "_view", "alias_of", "contiguous", "device", "dtype", "extents", "feed", "heads", "layout", "links",
        "owner", "reused", "rows", "shapes", "source_info", "values",
    )  # fmt: skip

    def __init__(
        self,
        shapes: np.ndarray,
        dtype: DALIDataType,
        layout: str = "",
        addresses: np.ndarray | None = None,
        owner: Any = None,
        *,
        contiguous: bool = False,
        device: str = "cpu",
        source_info: Sequence[str] | None = None,
    ):
        self.shapes = shapes
        self.dtype = dtype
        self.layout = layout
        self._addresses = addresses
        self._first = 0  # address of the first sample, see place_dense
        self.owner = owner
        self.contiguous = contiguous
        self.device = device
        self.source_info = source_info
        self.values: np.ndarray | None = None
        self.alias_of: Batch | None = None
        self.reused: bool | np.ndarray = False
        self.rows: np.ndarray | None = None
        self.links: tuple[Batch, ...] = ()
        self.feed: Any = None
        self._view: _View | None = None
        self.extents: Extents | None = None
        self.heads: Heads | None = None

    @classmethod
    def from_values(cls, values: np.ndarray, layout: str = "", dtype: DALIDataType | None = None) -> Batch:
        """A batch over a dense array [samples, ...]; shares its memory."""
        values = np.ascontiguousarray(values) if values.ndim else values.reshape(1)
        kind = from_numpy_dtype(values.dtype) if dtype is None else dtype
        batch = cls(dense_shapes(len(values), values.shape[1:]), kind, layout, None, values, contiguous=True)
        batch.values = values
        return batch

    @classmethod
    def alias(cls, source: Batch, shapes: np.ndarray, dtype: DALIDataType, layout: str) -> Batch:
        """A batch over the same memory as `source`, with other shapes, type or layout of equal size."""
        batch = cls(
            shapes, dtype, layout, source._addresses if source._first else source.addresses, source.owner, contiguous=source.contiguous,
            device=source.device, source_info=source.source_info,
        )  # fmt: skip
        batch._first, batch.extents = source._first, source.extents if source._first else None
        batch.alias_of = source if source.alias_of is None else source.alias_of
        batch.rows = source.rows
        if source.values is not None and len(shapes) and (shapes == shapes[0]).all():
            batch.values = source.values.reshape(len(shapes), *shapes[0]).view(storage_dtype(dtype))
        return batch

    def move_to(self, values: np.ndarray) -> None:
        """Use the known contents `values` as memory, in place of the memory of other batches."""
        self.values, self.owner, self._addresses, self._first, self.links, self.contiguous = values, values, None, 0, (), True

    @property
    def addresses(self) -> np.ndarray:
        """int64[samples]; one array for the life of the batch. It is made at first use, because many dense batches never need it."""
        found = self._addresses
        if found is None and self._first:
            if self.extents is None:
                found = np.arange(len(self.shapes), dtype=np.int64)
                found *= self.sizes()[:1]
                found += self._first
            else:
                found = self.extents.offsets + self._first
            self._addresses = found
        elif found is None and self.values is not None:
            stride = self.values.strides[0] if self.values.ndim else 0
            found = self._addresses = _offsets(len(self.shapes), stride) + address_of(self.values)
        elif found is None:
            found = self._addresses = np.empty(len(self.shapes), np.int64)
        return found

    @property
    def first_address(self) -> int:
        """Address of the first sample of a batch with memory."""
        if self._addresses is not None:
            return int(self._addresses[0])
        return address_of(self.values) if self.values is not None else self._first

    def __len__(self) -> int:
        return len(self.shapes)

    def has_small_values(self, most: int) -> bool:
        """Whether its contents are known while planning, and have at most `most` elements."""
        return self.values is not None and self.values.size <= most

    @property
    def ndim(self) -> int:
        """Number of dimensions of a sample."""
        ndim: int = self.shapes.shape[1]
        return ndim

    @property
    def itemsize(self) -> int:
        """Bytes of an element."""
        return storage_dtype(self.dtype).itemsize

    def counts(self) -> np.ndarray:
        """Elements of each sample, int64[samples]."""
        return np.ascontiguousarray(products(self.shapes), np.int64)

    def sizes(self) -> np.ndarray:
        """Bytes of each sample, int64[samples]."""
        shapes, itemsize = self.shapes, self.itemsize
        if len(shapes) <= _HELD < shapes.size:  # short loops: numpy does not release the interpreter lock
            sizes: np.ndarray = shapes[:, 0] * itemsize
            for axis in range(1, shapes.shape[1]):
                sizes *= shapes[:, axis]
            return sizes
        sizes = np.multiply.reduce(shapes, 1) * itemsize  # runs for every batch; takes half of the time of `prod`
        return sizes

    def checked_sizes(self, on_gpu: bool = False) -> np.ndarray:
        """Like :meth:`sizes`. TooLarge (a MemoryError) names a sample that has more bytes than allowed.

        `on_gpu`: the batch is for a GPU's memory.
        """
        sizes = self.sizes()
        shapes = self.shapes
        if len(sizes):
            bits = int(largest(shapes, None, initial=0)).bit_length() * shapes.shape[1]  # 64-bit products overflow
            if bits > 58 or largest(sizes) >= limits.CHECKED:
                for k, shape in enumerate(shapes.tolist()):
                    limits.check_cap(shape, self.itemsize, f"sample {k}", k, on_gpu)
        return sizes

    def reserve(self, allocate: Callable[[int], Any]) -> None:
        """Take memory from `allocate` and :meth:`place` the samples in it. TooLarge as in :meth:`checked_sizes`, or for lack of memory.

        Compiled code lays out small samples in a tenth of numpy's 12 us. This needs a kernel; without a pipeline use
        :meth:`reserve_by_numpy`.
        """
        shapes, addresses = np.ascontiguousarray(self.shapes, np.int64), self.addresses
        given = address_of(shapes), len(shapes), shapes.shape[1], self.itemsize
        total = _kernel()(*given, limits.CHECKED, address_of(addresses))
        try:
            memory = allocate(total) if 0 <= total < limits.CHECKED else None
        except limits.TooLarge:
            memory = None
        if memory is None:
            self.reserve_by_numpy(allocate)  # its errors name the largest sample
            return
        addresses += address_of(memory)
        self.owner, self.contiguous = memory, True

    def reserve_by_numpy(self, allocate: Callable[[int], Any]) -> None:
        """The same for samples of any size, and without compiled code."""
        sizes = self.checked_sizes()
        self.place(self.granted(allocate, int(sizes.sum()), sizes), sizes=sizes)

    def granted(self, allocate: Callable[[int], Any], total: int, sizes: np.ndarray) -> Any:
        """``allocate(total)``. TooLarge names the largest sample."""
        try:
            return allocate(total)
        except limits.TooLarge as error:
            k = int(sizes.argmax())
            shape = tuple(self.shapes[k].tolist())
            most, whole = int(sizes[k]), int(sizes.sum())
            text = f"sample {k}, the largest, of shape {shape} has {most:,} bytes, the batch of {len(sizes)} has {whole:,}"
            raise limits.TooLarge(f"{text}: {error}", k) from None

    def check_memory(self) -> None:
        """Raise TooLarge that names the largest sample, unless there is memory for the batch. Small batches are not checked."""
        sizes = self.checked_sizes()
        total = int(sizes.sum())
        if total >= limits.CHECKED:
            self.granted(lambda size: limits.check(size, "the batch"), total, sizes)

    def place(self, memory: object, address: int | None = None, sizes: np.ndarray | None = None) -> None:
        """Place the samples one after another in `memory`: a uint8 array of at least ``sizes().sum()`` bytes, or any owner of that many
        bytes at `address`. `sizes`: if they are already known."""
        if sizes is None:
            sizes = self.sizes()
        addresses = self.addresses
        _accumulate(sizes, 0, None, addresses)  # a third of the time of `cumsum`; runs for every batch
        addresses -= sizes
        addresses += address_of(memory) if address is None else address
        self.owner = memory
        self.contiguous = True

    def place_dense(self, owner: object, address: int, extents: Extents | None = None) -> None:
        """Like :meth:`place`, for samples of one shape, or with known extents. The addresses are computed at first use."""
        self._first, self.owner, self.contiguous, self.extents = address, owner, True, extents

    def hold(self, values: np.ndarray) -> None:
        """Take the contents, a dense C-contiguous array [samples, ...] of the batch's type and shapes."""
        self.owner = self.values = values
        self.contiguous = True

    def place_known(self, memory: np.ndarray, extents: Extents) -> None:
        """Like :meth:`place`, if the sizes and offsets of the samples are known."""
        np.add(extents.offsets, address_of(memory), self.addresses)
        self.owner = memory
        self.contiguous = True

    def sample(self, index: int) -> np.ndarray:
        """A numpy view of one sample without a copy, writable unless the batch is `read_only`. The view keeps the memory alive."""
        if self.values is not None:
            return self.values[index, ...]  # the ellipsis makes it a view for scalars too
        seen = self._looked_at()
        return seen.whole[seen.starts[index] : seen.stops[index]].view(seen.dtype).reshape(self.shapes[index].tolist())

    def dense(self) -> np.ndarray:
        """A numpy view [samples, ...] of all samples of a contiguous batch whose samples have one shape."""
        if self.values is not None:
            return self.values
        seen = self._looked_at()
        return seen.whole[seen.starts[0] : seen.stops[-1]].view(seen.dtype).reshape(len(self.shapes), *self.shapes[0].tolist())

    def part(self, first: int, stop: int) -> Batch:
        """The samples from `first` to `stop`, over the same memory; not for a sub-batch in a branch."""
        if self.values is not None:
            part = Batch.from_values(self.values[first:stop], self.layout, self.dtype)
        else:
            part = Batch(self.shapes[first:stop], self.dtype, self.layout, self.addresses[first:stop], self.memory_owner)
            part.contiguous = self.contiguous
        reused = self.reused_memory
        part.reused = reused if isinstance(reused, bool) else reused[first:stop]
        part.device = self.device
        if self.source_info:
            part.source_info = _InfoPart(self.source_info, range(first, stop))
        return part

    def handed(self, first: int, count: int) -> Batch:
        """The `count` samples from `first` on of the batch of a whole iteration; this batch if it has only these."""
        return self.part(first, first + count) if len(self.shapes) > count else self

    def chosen(self, rows: np.ndarray) -> Batch:
        """The samples with these numbers (int64), in this order, over the same memory; not for a sub-batch in a branch."""
        if self.values is not None:
            chosen = Batch.from_values(self.values[rows], self.layout, self.dtype)
        else:
            chosen = Batch(self.shapes[rows], self.dtype, self.layout, self.addresses[rows], self.memory_owner)
        reused = self.reused_memory
        chosen.reused = reused if isinstance(reused, bool) else reused[rows]
        chosen.device = self.device
        if self.source_info:
            chosen.source_info = _InfoPart(self.source_info, rows)
        return chosen

    @property
    def read_only(self) -> bool:
        """Whether its memory is read-only; see the class."""
        return self.values is None and _is_read_only(self.memory_owner)

    def _looked_at(self) -> _View:
        root = self.alias_of or self
        owner = root.links or root.owner
        if self._view is None or self._view.owner is not owner:
            self._view = _View(self, owner)
        return self._view

    def writable(self) -> Batch:
        """This batch if its memory is writable, else a copy: for user code that cannot be kept from writing."""
        return self._copied(None) if self.read_only else self

    @property
    def reused_memory(self) -> bool | np.ndarray:
        """`reused` of the batch whose memory this one views."""
        return (self if self.alias_of is None else self.alias_of).reused

    def reused_samples(self) -> np.ndarray:
        """Whether the memory of each sample is used again elsewhere, bool[samples]; see the class."""
        return np.broadcast_to(self.reused_memory, len(self))

    def private(self, move: Move = move_by_c, allocate: Callable[[int], np.ndarray] = _plain) -> Batch:
        """This batch if it owns its memory, else a copy of the samples whose memory it does not own, in memory of ``allocate(bytes)``."""
        reused = self.reused_memory
        if reused is False:  # the usual case
            return self
        if reused is True:
            return self._copied(None, move, allocate)
        reused = self.reused_samples()
        return self._copied(reused, move, allocate) if reused.any() else self

    def _copied(self, chosen: np.ndarray | None, move: Move = move_by_c, allocate: Callable[[int], np.ndarray] = _plain) -> Batch:
        """A batch that owns the memory of the `chosen` samples (bool[samples]; None: of all samples)."""
        if self.values is not None:
            return self._copied_whole(self.values, move, allocate)
        copy = Batch(self.shapes, self.dtype, self.layout)
        sizes = self.sizes() if chosen is None else np.where(chosen, self.sizes(), 0)
        copy.place(allocate(int(sizes.sum())), sizes=sizes)
        move(copy.addresses, np.ascontiguousarray(self.addresses), sizes)
        if chosen is not None and not chosen.all():
            copy.addresses[~chosen] = self.addresses[~chosen]
            copy.owner, copy.contiguous = [copy.owner, self.memory_owner], False
        copy.device, copy.source_info = self.device, self.source_info
        return copy

    def _copied_whole(self, values: np.ndarray, move: Move, allocate: Callable[[int], np.ndarray]) -> Batch:
        """A copy of a batch whose contents are known."""
        size = values.nbytes
        to = allocate(size).view(values.dtype).reshape(values.shape)
        if size <= _SMALL or not values.flags.c_contiguous:
            np.copyto(to, values)
        else:
            move(*(np.array([word], np.int64) for word in (address_of(to), address_of(values), size)))
        copy = Batch.from_values(to, self.layout, self.dtype)
        copy.device, copy.source_info = self.device, self.source_info
        return copy

    @property
    def memory_owner(self) -> Any:
        """The object that keeps the memory alive: its own owner, or the owner of the batch whose memory it views."""
        root = self.alias_of or self
        return [root.owner, *(source.memory_owner for source in root.links)] if root.links else root.owner

    def settle(self) -> None:
        """The batch's addresses were passed to another batch. They must not change any more, like the addresses of a batch with memory."""
        self.owner, self.links = self.memory_owner, ()

    @property
    def is_placed(self) -> bool:
        """Whether the addresses are final: the memory exists, and they are not passed on sample by sample."""
        root = self.alias_of or self
        return root.owner is not None and not root.links

"""Batches as data: the content of requests and answers besides numbers.

A batch is an entry of the header and parts of the frame. Small contents are in the frame. Large contents are in a block of shared memory
and are used without a copy (:class:`Packer`), or are payloads of a connection (:class:`PayloadPacker`).
"""

from __future__ import annotations

import ctypes
import math
from collections.abc import Callable, Sequence
from enum import IntEnum
from typing import Any, NamedTuple, Protocol

import numpy as np

from ...batch import AddressView, Batch, Origins, dense_shapes, encoded_origins, storage_dtype
from ...compiled.addresses import address_of
from ...device.buffers import SMALL
from ...types import DALIDataType
from .blocks import Lease, OwnBlocks

INLINE = SMALL - 1
"""Contents up to this size (bytes) are copied into the frame, because the pool has no block for them."""


class Form(IntEnum):
    """Form of the contents: a dense array in the frame; samples one after another in the frame; the same in a block; samples at offsets of
    a block; a dense array in a block."""

    VALUES, BYTES, PLACED, SCATTERED, PLACED_VALUES = range(5)


_VALUES, _BYTES, _PLACED, _SCATTERED, _PLACED_VALUES = map(int, Form)

_FORM, _LEASE = 8, 11
"""Indices of the form of the contents, and of the lease of a block, in an entry (:meth:`Entries.pack`)."""


class Frame:
    """The parts of a message, in order."""

    def __init__(self) -> None:
        self._parts: list[bytes] = []
        self._infos: dict[int, tuple[Sequence[str], list[int]]] = {}
        self.size = 0

    def add(self, data: bytes) -> list[int]:
        """Append a part and return its place for the header."""
        place = [self.size, len(data)]
        self._parts.append(data)
        self.size += len(data)
        return place

    def add_info(self, info: Sequence[str]) -> list[int]:
        """Append the origins of samples, once for all batches that share them."""
        found = self._infos.get(id(info))
        if found is None:
            found = self._infos[id(info)] = info, self.add(info.encoded() if isinstance(info, Origins) else encoded_origins(info))
        return found[1]

    def joined(self) -> bytes:
        return b"".join(self._parts)


class Entries:
    """Makes entries of batches. Subclasses decide where the contents are."""

    def pack(self, batch: Batch, frame: Frame) -> list[Any]:
        """The entry of a batch. Contents outside of blocks are copied."""
        shapes = batch.shapes
        count, ndim = shapes.shape
        extents = shapes[0].tolist() if count and (batch.values is not None or _all_equal(shapes)) else None
        places = None if extents is not None else frame.add(np.ascontiguousarray(shapes, np.int64).tobytes())
        info = None if not batch.source_info else frame.add_info(batch.source_info)
        rows = None if batch.rows is None else frame.add(np.ascontiguousarray(batch.rows, np.int64).tobytes())
        return [int(batch.dtype), batch.layout, count, ndim, extents, places, info, rows, *self._contents(batch, frame, extents)]

    def _contents(self, batch: Batch, frame: Frame, extents: list[int] | None) -> list[object]:
        """The form of the contents, and where they are. `extents`: of every sample, if they are equal."""
        raise NotImplementedError


class Packer(Entries):
    """Large contents are in blocks. `allocate` gives memory of blocks. `lend` keeps an owner alive and returns its lease number."""

    def __init__(self, blocks: OwnBlocks, allocate: Callable[[int], np.ndarray], lend: Callable[[Any], int]):
        self._blocks, self._allocate, self._lend = blocks, allocate, lend
        self.used: dict[int, int] = {}
        """Blocks of the entries made since the last clear: number -> descriptor."""

    def place(self, data: bytes) -> list[int]:
        """Copy bytes into a block and return [block, offset, size, lease]."""
        memory = self._allocate(max(len(data), SMALL))
        memory[: len(data)] = np.frombuffer(data, np.uint8)
        _, number, offset, lease = self._placed(_BYTES, address_of(memory), memory)
        return [number, offset, len(data), lease]

    def _contents(self, batch: Batch, frame: Frame, extents: list[int] | None) -> list[Any]:
        if batch.values is not None:
            values = np.ascontiguousarray(batch.values)
            if values.nbytes <= INLINE:
                return [_VALUES, *frame.add(values.tobytes())]
            memory = self._allocate(values.nbytes)
            memory[...] = values.reshape(-1).view(np.uint8)
            return self._placed(_PLACED_VALUES, address_of(memory), memory)
        sizes = batch.sizes()
        total = int(sizes.sum())
        if batch.reused_memory is False and total > INLINE and not batch.read_only:
            found = self._in_block(batch, sizes, frame)
            if found is not None:
                return found
        if total <= INLINE:
            return [_BYTES, *frame.add(_gathered(batch, sizes, total))]
        memory = self._allocate(total)
        _gather_into(batch, sizes, memory)
        return self._placed(_PLACED, address_of(memory), memory)

    def _placed(self, kind: int, address: int, owner: object) -> list[int]:
        found = self._blocks.find(address, address + 1)
        if found is None:
            raise ValueError("the memory is in no block")
        number, descriptor, start = found
        self.used[number] = descriptor
        return [kind, number, address - start, self._lend(owner)]

    def _in_block(self, batch: Batch, sizes: np.ndarray, frame: Frame) -> list[Any] | None:
        """The entry of samples that are in one block already."""
        addresses = batch.addresses
        filled = addresses if sizes.all() else addresses[sizes > 0]
        first = int(filled.min())
        found = self._blocks.find(first, int((addresses + sizes).max()))
        if found is None:
            return None
        if batch.contiguous:
            return self._placed(_PLACED, first, batch.memory_owner)
        return [*self._placed(_SCATTERED, first, batch.memory_owner), frame.add(np.where(sizes, addresses - first, 0).tobytes())]


class PayloadPacker(Entries):
    """Large contents are payloads, which a connection sends from where they are.

    Attributes:
        payloads: pieces of memory, by payload. :attr:`keep` keeps them alive.
    """

    def __init__(self) -> None:
        self.payloads: list[list[memoryview]] = []
        self.keep: list[Any] = []

    def _contents(self, batch: Batch, frame: Frame, extents: list[int] | None) -> list[object]:
        batch = batch.private()  # a user's array may change before it is sent
        if batch.values is not None:
            values = np.ascontiguousarray(batch.values)
            if values.nbytes <= INLINE:
                return [_VALUES, *frame.add(values.tobytes())]
            return self._payload(_PLACED_VALUES, [values.reshape(-1).view(np.uint8).data], values)
        if extents is not None and batch.contiguous:
            total = len(batch) * math.prod(extents) * batch.itemsize
            if total > INLINE:
                return self._payload(_PLACED, [_view(int(batch.addresses[0]), total)], (batch, batch.memory_owner))
        sizes = batch.sizes()
        total = int(sizes.sum())
        if total <= INLINE:
            return [_BYTES, *frame.add(_gathered(batch, sizes, total))]
        if batch.contiguous:
            pieces = [_view(int(batch.addresses[sizes > 0][0]), total)]
        elif total < _SMALL_PIECE * len(batch):
            pieces = [memoryview(_gathered(batch, sizes, total))]
        else:
            pieces = [_view(address, size) for address, size in zip(batch.addresses.tolist(), sizes.tolist()) if size]
        return self._payload(_PLACED, pieces, (batch, batch.memory_owner))

    def _payload(self, kind: int, pieces: list[memoryview], owner: object) -> list[object]:
        self.payloads.append(pieces)
        self.keep.append(owner)
        return [kind, len(self.payloads) - 1, 0, 0]


_SMALL_PIECE = 4096
"""Samples below this size (bytes, on average) are copied together: an entry of a system call costs as much."""


_from_memory = ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.c_void_p, ctypes.c_ssize_t, ctypes.c_int)(
    ("PyMemoryView_FromMemory", ctypes.pythonapi)
)
_FOR_READING = 0x100  # PyBUF_READ


def _view(address: int, size: int) -> memoryview:
    view: memoryview = _from_memory(address, size, _FOR_READING)  # an array of ctypes would need a new type for each size
    return view


def _all_equal(shapes: np.ndarray) -> bool:
    """Whether all samples have one shape. Bytes are compared, because numpy's functions are slow when the caches are cold."""
    data = shapes.tobytes()
    return data == data[: len(data) // len(shapes)] * len(shapes)


class Payloads:
    """The payloads of a received frame, each with memory of its own."""

    def __init__(self, memory: Sequence[np.ndarray]):
        self._memory = memory

    def at(self, number: int, offset: int, size: int) -> tuple[int, object]:
        """The address of a piece, and the object that keeps it alive. ValueError if the piece is not inside the payload."""
        if not 0 <= number < len(self._memory) or offset < 0 or size < 0 or offset + size > len(self._memory[number]):
            raise ValueError(f"payload {number} does not hold {size} bytes at {offset}")
        memory = self._memory[number]
        return address_of(memory) + offset, memory


class Places(Protocol):
    """Where large contents are."""

    def at(self, number: int, offset: int, size: int) -> tuple[int, object]:
        """The address of a piece, and the object that keeps it alive."""


def _gathered(batch: Batch, sizes: np.ndarray, total: int) -> bytes:
    if total and batch.contiguous:
        return ctypes.string_at(int(batch.addresses[sizes > 0][0]), total)
    return b"".join(ctypes.string_at(address, size) for address, size in zip(batch.addresses.tolist(), sizes.tolist()) if size)


def _gather_into(batch: Batch, sizes: np.ndarray, memory: np.ndarray) -> None:
    at, address = 0, address_of(memory)
    if batch.contiguous:
        ctypes.memmove(address, int(batch.addresses[sizes > 0][0]), int(sizes.sum()))
        return
    for source, size in zip(batch.addresses.tolist(), sizes.tolist()):
        if size:
            ctypes.memmove(address + at, source, size)
            at += size


def lease_of(entry: list[Any]) -> int:
    """The lease of an entry, or 0."""
    lease: int = entry[_LEASE] if entry[_FORM] not in (_VALUES, _BYTES) else 0
    return lease


class SourceInfo(Origins):
    """The origins of samples in their encoded form."""

    def __init__(self, data: bytes, count: int):
        self._data, self._count = data, count
        self._names: list[str] | None = None

    def __len__(self) -> int:
        return self._count

    def encoded(self) -> bytes:
        return self._data

    def __getitem__(self, index: Any) -> Any:
        if self._names is None:
            self._names = self._data.decode("utf-8", "surrogateescape").split("\0")
        return self._names[index]


def unpack(entry: list[Any], frame: memoryview, blocks: Places, lease: Callable[[Any, int, int], Lease] | None) -> Batch:
    """The batch of an entry. `lease` makes owners of (mapping, number, bytes). None: the mapping itself is the owner.

    ValueError for an entry that does not fit its frame or its blocks.
    """
    dtype, layout, count, ndim, extents, places, info, rows, kind, first, second, *more = entry
    if extents is not None:
        shapes = dense_shapes(count, tuple(extents))
    else:
        shapes = np.frombuffer(_part(frame, places), np.int64).reshape(count, ndim).copy()
    kept = DALIDataType(dtype), layout
    if extents is not None and kind == _VALUES:
        batch = _dense_values(shapes, *kept, extents, _part(frame, (first, second)))
    elif extents is not None and kind == _PLACED:
        batch = Batch(shapes, *kept)
        address, owner = _Space(blocks, lease, first, second, more[0]).taken(count * math.prod(map(int, extents)) * batch.itemsize)
        batch.place_dense(owner, address)
    elif kind in (_VALUES, _BYTES):
        batch = _copied(shapes, *kept, kind, _part(frame, (first, second)))
    else:
        offsets = _part(frame, more[1]) if kind == _SCATTERED else None
        batch = _placed(shapes, *kept, kind, _Space(blocks, lease, first, second, more[0]), offsets)
    if info is not None:
        batch.source_info = SourceInfo(bytes(_part(frame, info)), count)
    if rows is not None:
        batch.rows = np.frombuffer(_part(frame, rows), np.int64).copy()
    return batch


def _part(frame: memoryview, place: Sequence[int]) -> memoryview:
    at, size = place
    part = frame[at : at + size]
    if at < 0 or len(part) != size:
        raise ValueError(f"a frame of {len(frame)} bytes does not hold {size} at {at}")
    return part


def _dense_values(shapes: np.ndarray, dtype: DALIDataType, layout: str, extents: list[int], data: memoryview) -> Batch:
    """A batch of equal samples whose contents are in the frame, as one array."""
    batch, storage = Batch(shapes, dtype, layout), storage_dtype(dtype)
    total = len(shapes) * math.prod(extents) * storage.itemsize
    if len(data) != total:
        raise ValueError(f"a batch of {total} bytes came with {len(data)}")
    batch.hold(np.ndarray((len(shapes), *extents), storage, data).copy())
    return batch


def _copied(shapes: np.ndarray, dtype: DALIDataType, layout: str, kind: int, data: memoryview) -> Batch:
    """A batch whose contents are in the frame."""
    if kind == _VALUES:
        values = np.frombuffer(data, storage_dtype(dtype)).reshape(len(shapes), *_extents(shapes)).copy()
        return Batch.from_values(values, layout, dtype)
    batch = Batch(shapes, dtype, layout)
    sizes = batch.sizes()
    total = int(sizes.sum())
    if len(data) != total:
        raise ValueError(f"a batch of {total} bytes came with {len(data)}")
    batch.place(np.frombuffer(data, np.uint8).copy(), sizes=sizes)
    return batch


class _Space(NamedTuple):
    """Where the contents of a batch begin in a block, and who owns them."""

    blocks: Places
    lease: Callable[[Any, int, int], Lease] | None
    block: int
    begin: int
    number: int
    """Number of the lease."""

    def taken(self, size: int) -> tuple[int, object]:
        """The address of `size` bytes, and their owner."""
        address, mapping = self.blocks.at(self.block, self.begin, size)
        return address, mapping if self.lease is None else self.lease(mapping, self.number, size)


def _placed(shapes: np.ndarray, dtype: DALIDataType, layout: str, kind: int, space: _Space, places: memoryview | None) -> Batch:
    """A batch whose contents are in a block. `places` are the offsets of the samples; None: one sample follows another."""
    batch = Batch(shapes, dtype, layout)
    sizes = batch.sizes()
    if places is not None:
        offsets = np.frombuffer(places, np.int64)
        if len(offsets) != len(shapes) or (len(offsets) and int(offsets.min()) < 0):
            raise ValueError("samples have an offset each")
        address, batch.owner = space.taken(int((offsets + sizes).max(initial=0)))
        np.add(offsets, address, out=batch.addresses)
        return batch
    address, owner = space.taken(int(sizes.sum()))
    if kind == _PLACED_VALUES:
        values = np.asarray(AddressView(address, (len(shapes), *_extents(shapes)), storage_dtype(dtype), owner))
        return Batch.from_values(values, layout, dtype)
    batch.place(owner, address, sizes)
    return batch


def _extents(shapes: np.ndarray) -> list[int]:
    """The shape that all samples have."""
    found: list[int] = shapes[0].tolist() if len(shapes) else [0] * shapes.shape[1]
    return found

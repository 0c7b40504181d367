"""What travels along an edge of the graph in one iteration: a batch of samples as addresses and shapes.

A batch knows its shapes before its memory: an operator's *plan* makes the output batches (shapes, dtype, layout, and an
address array that is still empty), the segment then places them in pooled memory or in a thread's scratch, and compiled steps read the
addresses. User-facing tensor lists are views of a placed batch.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

import numpy as np

from .compiled.memory import address_of
from .types import DALIDataType, to_dali_type
from .types.conversions import FROM_DTYPE, STORAGE

_BYTES = np.dtype(np.uint8)


def storage_dtype(dtype: DALIDataType) -> np.dtype:
    """The numpy dtype that holds one element of `dtype` (int32 for enumerations, uint8 for NO_TYPE)."""
    return STORAGE.get(dtype, _BYTES)


def from_numpy_dtype(dtype: Any) -> DALIDataType:
    """DALIDataType of a numpy dtype; raises TypeError for what has no counterpart (complex, strings, objects, foreign byte order)."""
    found = FROM_DTYPE.get(dtype)  # asked for every batch
    return to_dali_type(np.dtype(dtype)) if found is None else found


@functools.lru_cache(256)
def dense_shapes(count: int, extents: tuple[int, ...]) -> np.ndarray:
    """The shapes array of `count` equal samples, int64[count, ndim]; shared, so read-only."""
    shapes = np.empty((count, len(extents)), np.int64)
    shapes[:] = extents
    shapes.flags.writeable = False
    return shapes


class AddressView:
    """Array interface over memory at `address`; keeps `owner` alive as long as any numpy view of it lives."""

    __slots__ = ("__array_interface__", "owner")

    def __init__(self, address: int, shape: Sequence[int], dtype: np.dtype, owner: Any):
        self.owner = owner
        self.__array_interface__ = {
            "data": (address, False),
            "shape": tuple(map(int, shape)),
            "typestr": dtype.str,
            "version": 3,
        }


class Batch:
    """A batch: `shapes` int64[samples, ndim], `addresses` int64[samples], element type, layout.

    `owner` is what keeps the memory alive (the pooled array, or a list of arrays), None while the batch has no memory.
    `values` is set when the whole batch is one dense C-contiguous array [samples, ...] known at plan time (labels, draws,
    constants); `contiguous` when samples follow each other without gaps. `alias_of` names the batch whose memory this one views.
    `reused` says of which samples (of all or none, or bool[samples]) the memory is used again in other iterations or belongs to the
    user (constants, sources that are not copied): outputs get a copy.

    In a branch of a conditional a batch is a sub-batch: `rows` int64[samples of the iteration] gives each sample's place in it, or -1.
    `links` are batches whose samples it consists of (what splits and merges make of data that has no memory yet): addresses are
    handed over sample by sample, while the pixels are made.
    """

    __slots__ = (
        "_addresses", "alias_of", "contiguous", "device", "dtype", "layout", "links", "owner", "reused", "rows", "shapes", "source_info",
        "values",
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
        self.owner = owner
        self.contiguous = contiguous
        self.device = device
        self.source_info = source_info
        self.values: np.ndarray | None = None
        self.alias_of: Batch | None = None
        self.reused: bool | np.ndarray = False
        self.rows: np.ndarray | None = None
        self.links: tuple[Batch, ...] = ()

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
            shapes, dtype, layout, source.addresses, source.owner, contiguous=source.contiguous,
            device=source.device, source_info=source.source_info,
        )  # fmt: skip
        batch.alias_of = source if source.alias_of is None else source.alias_of
        batch.rows = source.rows
        if source.values is not None and (len(shapes) == 0 or (shapes == shapes[0]).all()):
            extents = tuple(shapes[0]) if len(shapes) else ()
            batch.values = source.values.reshape(len(shapes), *extents).view(storage_dtype(dtype))
        return batch

    @property
    def addresses(self) -> np.ndarray:
        """int64[samples]; one array for the life of the batch, made when first asked for (many dense batches never are)."""
        found = self._addresses
        if found is None:
            found = self._addresses = np.empty(len(self.shapes), np.int64)
            if self.values is not None:
                stride = self.values.strides[0] if self.values.ndim else 0
                np.multiply(np.arange(len(found)), stride, out=found)
                found += address_of(self.values)
        return found

    def __len__(self) -> int:
        return len(self.shapes)

    @property
    def ndim(self) -> int:
        return self.shapes.shape[1]

    @property
    def itemsize(self) -> int:
        return storage_dtype(self.dtype).itemsize

    def sizes(self) -> np.ndarray:
        """Bytes of each sample, int64[samples]."""
        return np.multiply.reduce(self.shapes, 1) * self.itemsize  # every batch asks: half of the time that `prod` takes

    def place(self, memory: Any, address: int | None = None, sizes: np.ndarray | None = None) -> None:
        """Lay the samples out one after another in `memory`: a uint8 array of at least ``sizes().sum()`` bytes, or any owner of that
        many bytes at `address`. `sizes`: if they are known already."""
        if sizes is None:
            sizes = self.sizes()
        addresses = self.addresses
        np.cumsum(sizes, out=addresses)
        addresses -= sizes
        addresses += address_of(memory) if address is None else address
        self.owner = memory
        self.contiguous = True

    def sample(self, index: int) -> np.ndarray:
        """A writable numpy view of one sample (no copy); it keeps the memory alive."""
        if self.values is not None:
            return self.values[index, ...]  # the ellipsis makes it a view for scalars too
        view = AddressView(int(self.addresses[index]), self.shapes[index], storage_dtype(self.dtype), self.memory_owner)
        return np.asarray(view)

    def reused_samples(self) -> np.ndarray:
        """Whether the memory of each sample is used again elsewhere, bool[samples]; see the class."""
        return np.broadcast_to((self.alias_of or self).reused, len(self))

    def private(self) -> Batch:
        """This batch if its memory is its own, else a copy of the samples of which it is not."""
        if (self if self.alias_of is None else self.alias_of).reused is False:  # nearly always
            return self
        reused = self.reused_samples()
        if not reused.any():
            return self
        if self.values is not None:
            copy = Batch.from_values(self.values.copy(), self.layout, self.dtype)
        else:
            copy = Batch(self.shapes, self.dtype, self.layout)
            sizes = np.where(reused, self.sizes(), 0)
            copy.place(np.empty(int(sizes.sum()), np.uint8), sizes=sizes)
            for k in np.flatnonzero(reused).tolist():
                copy.sample(k)[...] = self.sample(k)
            if not reused.all():
                copy.addresses[~reused] = self.addresses[~reused]
                copy.owner, copy.contiguous = [copy.owner, self.memory_owner], False
        copy.device, copy.source_info = self.device, self.source_info
        return copy

    @property
    def memory_owner(self) -> Any:
        """What keeps the memory alive: its own owner, or that of the batch it aliases."""
        root = self.alias_of or self
        return [root.owner, *(source.memory_owner for source in root.links)] if root.links else root.owner

    @property
    def is_placed(self) -> bool:
        """Whether the addresses are final: the memory is there, and not handed over sample by sample."""
        root = self.alias_of or self
        return root.owner is not None and not root.links

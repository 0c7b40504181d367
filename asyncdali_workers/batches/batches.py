"""Assembles a batch from the answers of its slices: arrays over shared memory, without touching a sample."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from ..errors import combined
from ..shared.schema import BatchSchema, Expected, dense_shapes
from ..shared.system import Memory
from ..worker.writing import OutputTable
from .prediction import EqualSamples
from .slots import SlotLease

GATHERED = 64 * 1024
"""Equal but scattered samples of an output up to this size (a source's first batches) are gathered with one small copy."""


class PoolOutput:
    """One output of a batch.

    dtype: element type.
    values: a dense array [n, ...] over the shared memory if all samples have one shape and are contiguous; otherwise None.
    shapes: int64[n, ndim].
    addresses: int64[n].
    layout: the layout of the tensors, if they have one; otherwise None.
    owner: keeps the memory alive; it returns to the pool when the last view is dropped.
    """

    __slots__ = ("_addresses", "dtype", "layout", "owner", "shapes", "values")

    def __init__(
        self, dtype: np.dtype, shapes: np.ndarray, values: np.ndarray | None, addresses: np.ndarray | None, layout: str | None, owner: Any
    ):
        self.dtype, self.shapes, self.values, self.layout, self.owner = dtype, shapes, values, layout, owner
        self._addresses = addresses

    @property
    def addresses(self) -> np.ndarray:
        """Address of each sample, int64[samples]."""
        found = self._addresses
        if found is None:
            values = self.values
            assert values is not None
            found = self._addresses = np.arange(len(values)) * values.strides[0] + values.ctypes.data
        return found

    def __len__(self) -> int:
        return len(self.shapes)

    def sample(self, index: int) -> np.ndarray:
        """A view of sample number `index` of the batch."""
        if self.values is not None:
            return self.values[index, ...]
        shape = tuple(self.shapes[index].tolist())
        if 0 in shape:
            return np.empty(shape, self.dtype)
        size = math.prod(shape) * self.dtype.itemsize
        return np.asarray(Memory(int(self.addresses[index]), size, self.owner)).view(self.dtype).reshape(shape)


class PoolBatch:
    """A batch: its outputs, its number of samples; for streams also the snapshot taken after it, and the pulls so far.

    `workers`: who computed it, as stretches: (number of the first sample, number of the worker, its process id), in order.
    """

    __slots__ = ("count", "outputs", "pulls", "snapshot", "workers")

    def __init__(
        self, outputs: list[PoolOutput], count: int, workers: list[tuple[int, int, int]], snapshot: bytes | None = None, pulls: int = 0
    ):
        self.outputs, self.count, self.workers, self.snapshot, self.pulls = outputs, count, workers, snapshot, pulls

    def __len__(self) -> int:
        return self.count


def expected_outputs(schema: BatchSchema, count: int, lease: SlotLease) -> list[PoolOutput]:
    """Whether all outputs are where the schema placed them."""
    base = lease.extent.mapping.address
    found = []
    for expected in schema.outputs:
        assert expected is not None
        values = dense_array(base + expected.start, (count, *expected.shape), expected.dtype, lease)
        found.append(PoolOutput(expected.dtype, dense_shapes(count, expected.shape), values, None, None, lease))
    return found


def dense_array(address: int, shape: tuple[int, ...], dtype: np.dtype, owner: Any) -> np.ndarray:
    if 0 in shape:
        return np.empty(shape, dtype)
    return np.asarray(_DenseMemory(address, shape, dtype.str, owner))


class _DenseMemory:
    """Array interface over shared memory; keeps `owner` alive."""

    __slots__ = ("__array_interface__", "owner")

    def __init__(self, address: int, shape: tuple[int, ...], typestr: str, owner: Any):
        self.owner = owner
        self.__array_interface__ = {"data": (address, False), "shape": shape, "typestr": typestr, "version": 3}


class OutputPart:
    """One slice's part of an output."""

    __slots__ = ("addresses", "dtype", "first", "layout", "shape", "shapes")

    def __init__(self, first: int, dtype: np.dtype, layout: str | None, shape: Any, shapes: np.ndarray, addresses: np.ndarray):
        self.first, self.dtype, self.layout, self.shape = first, dtype, layout, shape
        self.shapes, self.addresses = shapes, addresses


def expected_part(expected: Expected, first: int, count: int, base: int) -> OutputPart:
    start = base + expected.start + first * expected.sample_bytes
    addresses = start + np.arange(count) * expected.sample_bytes
    return OutputPart(first, expected.dtype, None, expected.shape, dense_shapes(count, expected.shape), addresses)


def table_part(table: OutputTable, first: int, leases: Sequence[SlotLease]) -> OutputPart:
    return OutputPart(first, table.dtype, table.layout, table.shape, table.shapes, to_addresses(table.offsets, leases))


def to_addresses(offsets: np.ndarray, leases: Sequence[SlotLease]) -> np.ndarray:
    """Converts offsets in the shared file to addresses in this process."""
    addresses = np.zeros(len(offsets), np.int64)
    for lease in leases:
        extent = lease.extent
        inside = (offsets >= extent.offset) & (offsets < extent.offset + extent.size)
        addresses[inside] = offsets[inside] + (extent.mapping.address - extent.offset)
    return addresses


def joined(parts: list[OutputPart], number: int, count: int, owner: Any, what: str) -> tuple[PoolOutput, EqualSamples | None]:
    """One output assembled from its slices' parts, and (dtype, shape) of its samples if they are equal, else None."""
    first = parts[0]
    for part in parts[1:]:
        _check_agreement(first, part, number, what)
    shapes = first.shapes if len(parts) == 1 else np.concatenate([part.shapes for part in parts])
    addresses = first.addresses if len(parts) == 1 else np.concatenate([part.addresses for part in parts])
    shape = _common_shape(parts, shapes)
    values = None
    if count == 0:
        values = np.empty((0, *([0] * shapes.shape[1] if shape is None else shape)), first.dtype)
    elif shape is not None:
        size = math.prod(shape) * first.dtype.itemsize
        if size == 0 or count == 1 or np.all(np.diff(addresses) == size):
            values = dense_array(int(addresses[0]), (count, *shape), first.dtype, owner)
        elif size * count <= GATHERED:
            owner = values = _gathered(addresses, shape, first.dtype, owner)
    output = PoolOutput(first.dtype, shapes, values, addresses if values is None else None, first.layout, owner)
    return output, None if shape is None else (first.dtype, shape)


def _gathered(addresses: np.ndarray, shape: tuple[int, ...], dtype: np.dtype, owner: Any) -> np.ndarray:
    values = np.empty((len(addresses), *shape), dtype)
    for index, address in enumerate(addresses.tolist()):
        values[index] = dense_array(address, shape, dtype, owner)
    return values


def _common_shape(parts: list[OutputPart], shapes: np.ndarray) -> tuple[int, ...] | None:
    shape: tuple[int, ...] | None = parts[0].shape
    if shape is not None and all(part.shape == shape for part in parts):
        return shape
    if len(shapes) and (shapes == shapes[0]).all():
        return tuple(shapes[0].tolist())
    return None


def _check_agreement(one: OutputPart, other: OutputPart, number: int, what: str) -> None:
    pairs = (
        ("dtype", one.dtype, other.dtype),
        ("dimensions", one.shapes.shape[1], other.shapes.shape[1]),
        ("layout", one.layout, other.layout),
    )
    for name, has, had in pairs:
        if has != had:
            message = (
                f"{what}: the samples of a batch must agree in {name}: sample {one.first} has {has!s}, sample {other.first} has {had!s} "
                f"(output {number})"
            )
            raise combined(TypeError, message)


"""A worker's side of a slot: expected samples go to their place, everything else into the slice's area or into new memory.

The *table* of a slice says where its samples are, if not all are where the schema placed them. It starts with the overflow extents of the
worker, then describes each output. All offsets count from the start of the shared file.
"""

from __future__ import annotations

import math
import struct
from typing import Any

import numpy as np

from ..limits import CHECKED, check, check_cap
from ..shared.control import END, END_LOCK, EXTENTS, NOTED_EXTENTS, Block, Control
from ..shared.records import Task
from ..shared.schema import ALIGNMENT, Expected
from ..shared.system import PAGE, Mapping, commit, locked, punch, up
from .accept import Refused, WholeBatch, layout_of, sample_array

LARGE = 16 * 1024
"""Samples of this size or more are copied one by one, while they are in the cache; smaller ones together."""

OUTPUT_HEADER = struct.Struct("<16s32sqqq")  # dtype, layout, dimensions, 1 if equal and dense, samples
EXTENT = struct.Struct("<qq")
COUNT = struct.Struct("<q")
_LARGEST_GUESS = 16 << 20


class Arena:
    """The shared file in a worker. Pieces are mapped at first use, and the oldest are unmapped."""

    MAPPINGS = 256

    def __init__(self, control: Control):
        self._control = control
        self._mapped: dict[tuple[int, int], Mapping] = {}
        self.extents: list[tuple[int, int]] = []  # allocated for the running task

    def at(self, offset: int, size: int) -> Mapping:
        found = self._mapped.get((offset, size))
        if found is None:
            while len(self._mapped) >= self.MAPPINGS:
                del self._mapped[next(iter(self._mapped))]
            found = self._mapped[offset, size] = Mapping(self._control.descriptor, offset, size)
        return found

    def grow(self, size: int, claim: Block, what: str = "") -> Mapping:
        """New memory for `what`, at the end of the file. The claim block records it first: if this worker dies now, the parent takes it."""
        control = self._control
        size = up(size, PAGE)
        if size >= CHECKED:
            check(size, f"{what or 'a batch'} needs new shared memory")
        with locked(control.descriptor, END_LOCK):
            offset = control.header[END]
            control.header[END] = offset + size
        if len(self.extents) < NOTED_EXTENTS:
            word = EXTENTS + 2 * len(self.extents)
            claim[word + 1] = size
            claim[word] = offset
        self.extents.append((offset, size))
        try:
            commit(control.descriptor, offset, size)
        except BaseException:
            self._undo(offset, size)
            raise
        return Mapping(control.descriptor, offset, size)  # not cached, because overflow memory is rarely used again


    def _undo(self, offset: int, size: int) -> None:
        """There was no memory: the end of the file is as before, or the parent learns of a range without memory."""
        control = self._control
        punch(control.descriptor, offset, size)
        self.extents.pop()
        with locked(control.descriptor, END_LOCK):
            if control.header[END] == offset + size:
                control.header[END] = offset
                return
        self.extents.append((offset, -size))


class Area:
    """Memory for data that the schema has no place for: first the slice's part of the slot, then overflow extents."""

    def __init__(self, arena: Arena, claim: Block, slot: Mapping, start: int, size: int, samples: int):
        self._arena, self._claim = arena, claim
        self._mapping, self._at, self._end = slot, up(start, ALIGNMENT), start + size
        self._left = samples
        self.used = 0

    def place(self, size: int, more: bool = True, what: str = "") -> tuple[Mapping, int]:
        """Room for `size` bytes of `what`: (mapping, offset in it). `more`: others of a similar size will follow."""
        at = self._at
        if at + size > self._end:
            guess = min(size * max(self._left, 1), _LARGEST_GUESS) if more else 0
            self._overflow(max(size, guess) + ALIGNMENT, what)
            at = self._at
        self._at = up(at + size, ALIGNMENT)
        self._left -= 1
        self.used += up(size, ALIGNMENT)
        return self._mapping, at

    @property
    def extents(self) -> list[tuple[int, int]]:
        return self._arena.extents

    def _overflow(self, size: int, what: str) -> None:
        self._mapping = self._arena.grow(size, self._claim, what)
        self._at, self._end = 0, self._mapping.size


class OutputWriter:
    """One output of a slice of `count` samples."""

    def __init__(self, number: int, first: int, count: int, slot: Mapping, area: Area, expected: Expected | None):
        self.number, self.first, self.count = number, first, count
        self.area = area
        self.expected = expected
        self.dtype: np.dtype | None = None
        self.ndim = -1
        self.layout: str | None = None
        self.dense: np.ndarray | None = None  # the slice's part of the output's region, [count, ...]
        self.elsewhere: dict[int, tuple[int, tuple[int, ...]]] = {}  # sample -> offset in the file, shape
        self.together: tuple[int, tuple[int, ...]] | None = None  # all samples, dense, in the area
        self.bytes = 0
        if expected is not None:
            self.base = slot.offset + expected.start + first * expected.sample_bytes
            start = expected.start + first * expected.sample_bytes
            self.dense = np.ndarray((count, *expected.shape), expected.dtype, slot.bytes, start)

    # ------------------------------------------------------------------------------------------------------ sample by sample

    def add(self, index: int, value: object) -> None:
        """Sample `index` of the slice."""
        if type(value) is np.ndarray:
            expected = self.expected
            if expected is not None and value.dtype == expected.dtype and value.shape == expected.shape:
                if self.dtype is not expected.dtype or self.layout is not None:
                    self._agree(index, value, None)
                self.dense[index, ...] = value  # type: ignore[index]
                self.bytes += expected.sample_bytes
                return
            if value.dtype == self.dtype and value.ndim == self.ndim and self.layout is None:
                self._put_elsewhere(index, value)
                return
        self._put(index, sample_array(value), layout_of(value))

    def _put(self, index: int, array: np.ndarray, layout: str | None) -> None:
        self._agree(index, array, layout)
        expected = self.expected
        if expected is not None and array.dtype == expected.dtype and array.shape == expected.shape:
            self.bytes += array.nbytes
            self.dense[index, ...] = array  # type: ignore[index]
            return
        self._put_elsewhere(index, array)

    def _put_elsewhere(self, index: int, array: np.ndarray) -> None:
        size = array.nbytes
        self.bytes += size
        mapping, at = self.area.place(size, what=_checked(array.shape, array.dtype, size))
        shape = array.shape
        if size:
            np.ndarray(shape, array.dtype, mapping.bytes, at)[...] = array
        self.elsewhere[index] = (mapping.offset + at, shape)

    def _agree(self, index: int, array: np.ndarray, layout: str | None) -> None:
        """Raise unless all samples of a batch have one type, rank and layout."""
        if self.dtype is None:
            expected = self.expected
            # The schema's own object, so `add` can compare identities.
            self.dtype = expected.dtype if expected is not None and array.dtype == expected.dtype else array.dtype
            self.ndim, self.layout = array.ndim, layout
            return
        for what, had, has in (("dtype", self.dtype, array.dtype), ("dimensions", self.ndim, array.ndim), ("layout", self.layout, layout)):
            if had != has:
                raise disagreement(what, self.number, (self.first, had), (self.first + index, has))

    # ---------------------------------------------------------------------------------------------------------- all at once

    def add_all(self, values: list[Any]) -> None:
        if self.expected is not None and self._add_expected(values, self.expected):
            return
        arrays, layouts = [], []
        for index, value in enumerate(values):
            try:
                arrays.append(sample_array(value))
            except Refused as error:
                error.sample = self.first + index
                raise
            layouts.append(layout_of(value))
        for index, array in enumerate(arrays):
            self._agree(index, array, layouts[index])
            _checked(array.shape, array.dtype, array.nbytes, self.first + index)
        shape = arrays[0].shape if arrays else ()
        if self.expected is None and len(arrays) > 1 and all(array.shape == shape for array in arrays):
            self._put_together(arrays, shape)
        else:
            for index, array in enumerate(arrays):
                self._put(index, array, layouts[index])

    def _add_expected(self, values: list[Any], expected: Expected) -> bool:
        """Write samples that are all arrays (or all numpy scalars) as expected. Returns False if one is not."""
        kinds = set(map(type, values))
        if len(kinds) != 1:
            return False
        kind = kinds.pop()
        dense = self.dense
        assert dense is not None
        if kind is np.ndarray:
            if not expected.shape:
                return False
            if set(map(len, values)) != {expected.shape[0]}:
                return False
            try:
                np.concatenate(values, out=dense.reshape(-1, *expected.shape[1:]), casting="equiv")
            except (TypeError, ValueError):
                return False
        elif kind is expected.dtype.type and not expected.shape and kind is not np.longdouble:
            dense[:] = values
        else:
            return False
        self.dtype, self.ndim = expected.dtype, len(expected.shape)
        self.bytes += expected.sample_bytes * len(values)
        return True

    def _put_together(self, arrays: list[np.ndarray], shape: tuple[int, ...]) -> None:
        size = arrays[0].nbytes * len(arrays)
        mapping, at = self.area.place(size, more=False, what=_checked(shape, arrays[0].dtype, size))
        if size:
            target = np.ndarray((len(arrays), *shape), arrays[0].dtype, mapping.bytes, at)
            for index, array in enumerate(arrays):
                target[index, ...] = array
        self.together = (mapping.offset + at, shape)
        self.bytes += size

    # ------------------------------------------------------------------------------------------------------- the whole batch

    def add_whole(self, batch: WholeBatch) -> None:
        array = batch.array
        shape = array.shape[1:]
        self._agree(0, array[0] if len(array) else np.empty(shape, array.dtype), batch.layout)
        self.bytes += array.nbytes
        if self.expected is not None and array.dtype == self.expected.dtype and shape == self.expected.shape:
            self.dense[: len(array)] = array  # type: ignore[index]
            return
        mapping, at = self.area.place(array.nbytes, more=False, what=_checked(shape, array.dtype, array.nbytes))
        if array.nbytes:
            np.ndarray(array.shape, array.dtype, mapping.bytes, at)[...] = array
        self.together = (mapping.offset + at, shape)

    # ------------------------------------------------------------------------------------------------------------ the table

    @property
    def as_expected(self) -> bool:
        return self.expected is not None and not self.elsewhere and self.together is None and self.layout is None

    def described(self, count: int) -> list[bytes]:
        """This output's part of the table."""
        dtype = self.dtype if self.dtype is not None else np.dtype(np.uint8)
        layout = (self.layout or "").encode()[:32]
        offsets: Any
        if self.together is not None or (self.expected is not None and not self.elsewhere):
            offset, shape = self.together if self.together is not None else (self.base, self.expected.shape)  # type: ignore[union-attr]
            return [
                OUTPUT_HEADER.pack(dtype.str.encode(), layout, len(shape), 1, count),
                np.array([offset, *shape], np.int64).tobytes(),
            ]
        ndim = max(self.ndim, 0)
        offsets = np.empty(count, np.int64)
        shapes = np.empty((count, ndim), np.int64)
        if self.expected is not None and self.ndim == len(self.expected.shape):
            np.multiply(np.arange(count), self.expected.sample_bytes, out=offsets)
            offsets += self.base
            shapes[:] = self.expected.shape
        for index, (offset, shape) in self.elsewhere.items():
            offsets[index] = offset
            shapes[index] = shape
        return [OUTPUT_HEADER.pack(dtype.str.encode(), layout, ndim, 0, count), offsets.tobytes(), shapes.tobytes()]


def _checked(shape: tuple[int, ...], dtype: np.dtype, size: int, sample: int | None = None) -> str:
    """The description of samples of this shape, with `size` bytes in total, for messages. TooLarge if one sample exceeds the cap."""
    if size < CHECKED:
        return ""
    check_cap(shape, dtype.itemsize, "a sample", sample)
    return f"a sample of shape {shape} ({dtype})"


def disagreement(what: str, output: int, one: tuple[int, object], other: tuple[int, object]) -> Refused:
    error = Refused(
        f"the samples of a batch must agree in {what}: sample {one[0]} has {one[1]!s}, sample {other[0]} has {other[1]!s} (output {output})"
    )
    error.sample = other[0]
    return error


class SliceWriter:
    """All outputs of one slice."""

    def __init__(self, arena: Arena, claim: Block, task: Task, schema: list[Expected | None] | None, outputs: int):
        slot = arena.at(task.slot, task.capacity)
        self._area = Area(arena, claim, slot, task.area, task.area_size, task.count * outputs)
        self.outputs = [
            OutputWriter(number, task.first, task.count, slot, self._area, schema[number] if schema and number < len(schema) else None)
            for number in range(outputs)
        ]

    def finish(self, count: int, extra: bytes = b"") -> tuple[int, int, int, int]:
        """(offset and size of the table, bytes of samples, bytes in the area). The table is (0, 0) if all is as expected."""
        size = sum(output.bytes for output in self.outputs)
        if not extra and all(output.as_expected for output in self.outputs):
            return 0, 0, size, 0
        parts = [part for output in self.outputs for part in output.described(count)]
        offset, length = write_table(self._area, parts, extra)
        return offset, length, size, self._area.used

    def write_bytes(self, data: bytes) -> tuple[int, int]:
        return write_table(self._area, [], data)


def write_table(area: Area, parts: list[bytes], extra: bytes) -> tuple[int, int]:
    """Write a table; `extra` comes after the outputs. Returns its offset in the file."""
    body = b"".join(parts)
    # The memory of the table may itself be a new extent, so leave room for one more.
    length = 3 * 8 + (len(area.extents) + 1) * EXTENT.size + len(body) + len(extra)
    mapping, at = area.place(length, more=False)
    extents = b"".join(EXTENT.pack(*extent) for extent in area.extents)
    data = COUNT.pack(len(area.extents)) + COUNT.pack(len(body)) + COUNT.pack(len(extra)) + extents + body + extra
    mapping.bytes[at : at + len(data)] = np.frombuffer(data, np.uint8)
    return mapping.offset + at, len(data)


class OutputTable:
    """One output of one slice, read from its table."""

    __slots__ = ("dtype", "layout", "offsets", "shape", "shapes")

    def __init__(self, dtype: np.dtype, layout: str | None, shape: tuple[int, ...] | None, offsets: np.ndarray, shapes: np.ndarray):
        self.dtype, self.layout, self.shape, self.offsets, self.shapes = dtype, layout, shape, offsets, shapes


def read_table(data: bytes) -> tuple[list[tuple[int, int]], list[OutputTable], bytes]:
    """(extents, outputs, extra) of a table."""
    extents_count, body, extra = struct.unpack_from("<qqq", data)
    at = 24
    extents = [EXTENT.unpack_from(data, at + EXTENT.size * i) for i in range(extents_count)]
    at += EXTENT.size * extents_count
    end = at + body
    outputs = []
    while at < end:
        dtype_text, layout_text, ndim, dense, count = OUTPUT_HEADER.unpack_from(data, at)
        at += OUTPUT_HEADER.size
        dtype = np.dtype(dtype_text.rstrip(b"\0").decode())
        layout = layout_text.rstrip(b"\0").decode() or None
        if dense:
            numbers = np.frombuffer(data, np.int64, 1 + ndim, at)
            shape = tuple(numbers[1:].tolist())
            offsets = numbers[0] + np.arange(count) * (math.prod(shape) * dtype.itemsize)
            outputs.append(OutputTable(dtype, layout, shape, offsets, np.broadcast_to(numbers[1:], (count, ndim))))
            at += 8 * (1 + ndim)
        else:
            offsets = np.frombuffer(data, np.int64, count, at)
            shapes = np.frombuffer(data, np.int64, count * ndim, at + 8 * count).reshape(count, ndim)
            outputs.append(OutputTable(dtype, layout, None, offsets, shapes))
            at += 8 * count * (1 + ndim)
    return extents, outputs, data[end : end + extra]

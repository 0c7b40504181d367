"""Pieces of inputs and their places in the output, for a whole batch: records of the steps in ``pieces_kernels``."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from ...batch import Batch, storage_dtype
from ...compiled.addresses import address_of
from ...device.launch import LINE, LINES_AT_ONCE, Kernel, Launch, element_type, grid_of
from ...types import DALIDataType
from ..base import Step, no_explanation
from .pieces_tables import MOVE, MOVE_HEAD, MOVING, PIECE_HEAD, PIECES

_SOURCE = Path(__file__).with_name("pieces_kernels.cu")
_HEAD = PIECE_HEAD.words
_ROW = 64
"""Least bytes of a row that is moved line by line."""
_SHORT_ROW = 16
"""Most elements of a row that a thread of the kernel ``short_rows`` moves."""
_MOST_CHANNELS = 4
"""Largest number of channels of the pixels that the kernel ``planes`` divides."""
_REVERSED = 12
"""Bytes that a thread of the kernel ``reversed`` moves."""


def dense_strides(shapes: np.ndarray, itemsize: int) -> np.ndarray:
    """Strides in bytes of C-contiguous samples, int64[samples, ndim]."""
    strides = np.empty(shapes.shape, np.int64)
    strides[:, -1:] = itemsize
    for axis in range(shapes.shape[1] - 2, -1, -1):
        np.multiply(strides[:, axis + 1], shapes[:, axis + 1], out=strides[:, axis])
    return strides


class Pieces:
    """The pieces that make up the samples of `output`. Add pieces, then request the :meth:`step`. Later pieces overwrite earlier ones."""

    def __init__(self, output: Batch):
        self.output = output
        self.targets = dense_strides(output.shapes, output.itemsize)
        """Strides of the output."""
        self._inputs: list[np.ndarray] = []
        self._sources: list[Batch | np.ndarray] = []
        self._pieces: list[tuple[Any, ...]] = []

    def add(
        self,
        source: Batch | np.ndarray,
        extents: np.ndarray,
        strides: np.ndarray,
        offset: object = 0,
        targets: np.ndarray | None = None,
        target_offset: object = 0,
    ) -> None:
        """Copy `extents` elements (int64[samples, axes]; 0 copies nothing) of `source`.

        source    a batch, or one array that all samples share, in the output's type (fill values)
        strides   in `source`, in bytes, int64[samples, axes]; 0 repeats
        targets   strides in the output; by default those of its own axes
        offset, target_offset   start of the piece, in bytes: a number or int64[samples]
        """
        shared = isinstance(source, np.ndarray)
        self._inputs.append(source if isinstance(source, np.ndarray) else source.addresses)
        self._sources.append(source)
        self._pieces.append((offset, target_offset, shared, extents, strides, self.targets if targets is None else targets))

    def fill(self, values: np.ndarray, axis: int | None = None, *, where: np.ndarray | None = None, per_sample: bool = False) -> None:
        """Fill the output with `values` in its type: one value, one per index of `axis`, or one per sample.

        where   bool[samples]: the samples that need it
        """
        extents, targets = self.output.shapes, self.targets
        if not extents.shape[1]:  # Scalars get an axis of extent 1.
            extents, targets = np.ones((len(extents), 1), np.int64), np.zeros((len(extents), 1), np.int64)
        strides = np.zeros_like(extents)
        if axis is not None and len(values) > 1:
            strides[:, axis] = values.itemsize
        if where is not None:
            extents = np.where(where[:, None], extents, 0)
        self.add(values, extents, strides, np.arange(len(values)) * values.itemsize if per_sample else 0, targets)

    def step(self, function: Any) -> Step:
        """The step; `function` is one of ``pieces_kernels``."""
        records, axes = self._records()
        table, keep = PIECES.make(
            outputs=self.output.addresses, pieces=len(self._pieces), axes=axes, records=records, inputs=tuple(self._inputs),
            itemsize=self.output.itemsize,
        )  # fmt: skip
        step = Step(function.address, table, no_explanation, keep=keep)
        step.launches = lambda: [self._launch(k, records, axes) for k in range(len(self._pieces))]
        return step

    def launches(self) -> list[Launch]:
        """The work of :meth:`step` on a GPU, for a different kind of step."""
        records, axes = self._records()
        return [self._launch(k, records, axes) for k in range(len(self._pieces))]

    def _records(self) -> tuple[np.ndarray, int]:
        """The records of all pieces, and their number of axes."""
        count, axes = len(self.output), max((piece[3].shape[1] for piece in self._pieces), default=0)
        records = np.empty((count, len(self._pieces), _HEAD + 3 * axes), np.int64)
        for k, (offset, target_offset, shared, extents, strides, targets) in enumerate(self._pieces):
            record, word = records[:, k], PIECE_HEAD.word
            record[:, word.input], record[:, word.made] = k, shared
            record[:, word.offset], record[:, word.target_offset] = offset, target_offset
            used = extents.shape[1]
            record[:, _HEAD:] = 1  # Missing axes have extent 1.
            for column, values in enumerate((extents, strides, targets)):
                record[:, _HEAD + column * axes : _HEAD + column * axes + used] = values
        return records, axes

    def _launch(self, k: int, records: np.ndarray, axes: int) -> Launch:
        """One piece of all samples."""
        source = self._sources[k]
        shared = np.ascontiguousarray(source) if isinstance(source, np.ndarray) else None
        dtype = self.output.dtype if isinstance(source, np.ndarray) else source.dtype
        sizes = storage_dtype(dtype).itemsize, self.output.itemsize
        return move_launch(self._inputs[k], self.output.addresses, records, k, moved_types(dtype, self.output.dtype), sizes, shared)


_FEW_VALUES = 16
"""Largest number of fill values that are kept converted."""


def move_launch(
    inputs: np.ndarray,
    outputs: np.ndarray,
    records: np.ndarray,
    number: int,
    types: tuple[tuple[str, str], tuple[str, str]],
    sizes: tuple[int, int],
    shared: np.ndarray | None = None,
) -> Launch:
    """The launch that moves piece `number` of every sample.

    inputs, outputs   addresses of the samples, int64[samples]
    records           int64[samples, pieces, words] as declared by PIECE_HEAD
    types, sizes      macros for the element types of input and output, and their bytes
    shared            an array that replaces all inputs
    """
    from .pieces_merging_kernels import plan_moves

    count, pieces, words = records.shape
    axes = (words - _HEAD) // 3
    moves = np.empty(count * (MOVE_HEAD.words + 3 * axes), np.int64)
    table, keep = MOVING.make(
        pieces=pieces, axes=axes, records=records, samples=count, number=number, in_size=sizes[0], out_size=sizes[1], moves=moves,
        left=0, runs=0, fills=0, dense=0, elements=0, width=0,
    )  # fmt: skip
    plan_moves(address_of(table))
    del keep
    left, runs, fills, dense, elements, width = table[MOVING.word.left :].tolist()
    moves = moves[: count * (MOVE_HEAD.words + 3 * left)]
    context = MOVE.entries(
        inputs=inputs if shared is None else 0, outputs=outputs, records=moves, common=0 if shared is None else shared, samples=count
    )
    entry, lines = "elements", -(-elements * sizes[1] // LINE) + 1
    same = types[0][1] == types[1][1]
    entry_of_pixels, channels = _pixels(moves.reshape(count, -1), left, sizes[1]) if same and dense and left > 1 else ("", 0)
    if entry_of_pixels:
        entry, lines = entry_of_pixels, -(-elements * sizes[1] // (LINE * channels)) + 2
    elif same and dense and left > 1 and sizes == (1, 1) and _reversed(moves.reshape(count, -1), left):
        entry, lines = "reversed", -(-elements // _REVERSED) + 2
    elif same and (runs or fills) and width * sizes[1] >= _ROW:
        entry = "run" if runs else "fill"
        lines = -(-lines // LINES_AT_ONCE) if runs else lines
    elif not dense and left > 1 and 0 < width <= _SHORT_ROW:
        entry, lines = "short_rows", -(-elements // width)
    more = (("CHANNELS", channels),) if entry == "planes" else ()
    macros = (*types, ("AXES", left), ("DENSE", dense if entry in ("elements", "reversed") else 0), *more)
    return Launch(Kernel(_SOURCE, entry, macros), context, grid_of(lines, count))


def _pixels(moves: np.ndarray, axes: int, size: int) -> tuple[str, int]:
    """The kernel that makes planes of pixels, or pixels of planes, and its number of channels; ("", 0) if the batch needs another one."""
    extents, strides = _extents_and_strides(moves, axes)
    rows, outer, inner = extents[:, -2], strides[:, -2], strides[:, -1]
    channels = int(rows[0]) if len(rows) else 0
    if 2 * size > LINE or not (outer == size).all():
        return "", 0
    if 2 <= channels <= _MOST_CHANNELS and (rows == channels).all() and (inner == size * channels).all():
        return "planes", channels
    return ("interleaved", 3) if (extents[:, -1] == 3).all() and (inner != size).all() else ("", 0)


def _extents_and_strides(moves: np.ndarray, axes: int) -> tuple[np.ndarray, np.ndarray]:
    """The columns of MOVEs with the extents, and those with the strides. np.split would take 10 us."""
    first, last = MOVE_HEAD.words, MOVE_HEAD.words + axes
    return moves[:, first:last], moves[:, last : last + axes]


def _reversed(moves: np.ndarray, axes: int) -> bool:
    """Whether the kernel ``reversed`` moves the batch: samples are rows of three-byte pixels in reverse order, or contiguous."""
    extents, strides = _extents_and_strides(moves, axes)
    turned = (extents[:, -1] == 3) & (strides[:, -1] == 1) & (strides[:, -2] == -3)
    plain = (moves[:, MOVE_HEAD.word.rows] <= 1) & (extents[:, -1] != 3) & (strides[:, -1] <= 1)
    return bool((turned | plain).all())


def moved_types(source: DALIDataType, target: DALIDataType) -> tuple[tuple[str, str], tuple[str, str]]:
    """Macros for elements that are moved, or converted if the types differ."""
    if source == target:
        return ("IN", sized_name(source)), ("OUT", sized_name(source))
    return ("IN", element_type(storage_dtype(source))), ("OUT", element_type(storage_dtype(target)))


def fill_values(values: object, dtype: DALIDataType) -> np.ndarray:
    """Convert floats to `dtype` as C does: truncated; numbers that are too large keep their low bits."""
    numbers = np.asarray(values, np.float32)
    if numbers.size > _FEW_VALUES:
        return _converted(numbers, storage_dtype(dtype))
    return _converted_constant(numbers.tobytes(), numbers.shape, dtype)


@lru_cache(64)
def _converted_constant(content: bytes, shape: tuple[int, ...], dtype: DALIDataType) -> np.ndarray:
    """The read-only result for a constant: a batch would need 20 us for it."""
    made = _converted(np.frombuffer(content, np.float32).reshape(shape), storage_dtype(dtype))
    made.flags.writeable = False
    return made


def _converted(numbers: np.ndarray, target: np.dtype) -> np.ndarray:
    if target.kind not in "iu":
        return numbers.astype(target)
    whole = np.clip(np.trunc(np.nan_to_num(numbers.astype(np.float64))), -(2.0**63), 2.0**64 - 2048)
    low = np.minimum(whole, 2.0**63 - 1024).astype(np.int64).astype(np.uint64)
    clipped: np.ndarray = np.where(whole < 2.0**63, low, np.maximum(whole, 0).astype(np.uint64)).astype(target)
    return clipped


def sized_name(dtype: DALIDataType) -> str:
    """The unsigned integer of an element's size. Kernels that only move elements depend on sizes, not on types."""
    return f"uint{8 * storage_dtype(dtype).itemsize}"


def like(source: Batch, shapes: np.ndarray | None = None, layout: str | None = None) -> Batch:
    """A batch without memory like `source`, with other shapes or another layout."""
    return Batch(
        source.shapes if shapes is None else shapes, source.dtype, source.layout if layout is None else layout,
        device=source.device, source_info=source.source_info,
    )  # fmt: skip


def normal_axis(axis: int, ndim: int, new: int = 0) -> int:
    """A non-negative axis number; AxisError with the range if it is outside. With ``new=1`` the number of an axis to insert."""
    if not -ndim <= axis < ndim + new:
        allowed = f"{-ndim} to {ndim + new - 1}, negative ones count from the back" if ndim + new else "none"
        raise np.exceptions.AxisError(f"axis {axis} is out of range for {ndim}-D samples; allowed are {allowed}")
    return axis + ndim + new if axis < 0 else axis


def normal_axes(axes: Sequence[int], ndim: int) -> list[int]:
    """Non-negative axis numbers; ValueError for axes that do not exist or are repeated."""
    result = [normal_axis(axis, ndim) for axis in axes]
    if len(set(result)) != len(result):
        raise ValueError(f"an axis occurs more than once in the axes {list(axes)}")
    return result


def named_axes(names: str, layout: str) -> list[int]:
    """Axis numbers of the letters `names`; ValueError names a letter that the layout lacks or repeats."""
    missing = [name for name in names if name not in layout]
    if missing:
        raise ValueError(f"`axis_names` names the axis '{missing[0]}', which the input's layout \"{layout}\" does not have")
    twice = [name for name in names if layout.count(name) > 1]
    if twice:
        raise ValueError(f"`axis_names` names the axis '{twice[0]}', which the input's layout \"{layout}\" has twice")
    return normal_axes([layout.index(name) for name in names], max(len(layout), 1))

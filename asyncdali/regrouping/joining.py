"""Samples of several raw iterations as one batch, mostly without copying them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..batch import Batch, Origins, storage_dtype
from ..errors import OperatorValueError, refused
from .contract import Rows


class _ChosenOrigins(Origins):
    """The origins of some samples. Each text is made when it is read: names of 64 files take 0.1 ms.

    Sample k is number ``rows[k]`` of ``infos[which[k]]``.
    """

    def __init__(self, infos: Sequence[Sequence[str]], which: np.ndarray, rows: np.ndarray):
        self._infos, self._which, self._rows = infos, which, rows

    def __len__(self) -> int:
        return len(self._rows)

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, slice):
            return [self[k] for k in range(*index.indices(len(self)))]
        return self._infos[self._which[index]][int(self._rows[index])]


def numbers_of(batch: Batch, name: str, argument: str) -> np.ndarray:
    """The contents of a batch that has one number per sample. `name`, `argument`: of the operator, for errors."""
    sizes = batch.counts()
    wrong = np.flatnonzero(sizes != 1)
    if len(wrong):
        shape = tuple(batch.shapes[wrong[0]].tolist())
        raise refused(
            OperatorValueError, name, argument,
            f"`{argument}` must have one number per sample; sample {int(wrong[0])} has shape {shape}. Reduce it, for example with "
            "fn.reductions.max, or compare one element.",
        )  # fmt: skip
    if batch.values is not None:
        return batch.values.reshape(len(batch))
    return np.array([batch.sample(k).reshape(()) for k in range(len(batch))], storage_dtype(batch.dtype))


def condition_of(batch: Batch, name: str) -> np.ndarray:
    """Whether each sample passes, bool[samples]. The condition has one number per sample; 0 is false."""
    passed: np.ndarray = numbers_of(batch, name, "where") != 0
    return passed


def _piece(rows: Rows, output: int) -> Batch:
    batch: Batch = rows.raw.batches[output]
    whole = len(rows) == len(batch) and bool((rows.rows == np.arange(len(batch))).all())
    return batch if whole else batch.chosen(rows.rows)


def joined(found: Sequence[Rows], output: int, name: str) -> Batch:
    """Output `output` of the samples as one batch. OperatorValueError if parts have samples of other types or dimensions."""
    if len(found) == 1:
        return _piece(found[0], output)
    found, order = _by_raw(found)
    pieces = [_piece(rows, output) for rows in found]
    first = pieces[0]
    for rows, piece in zip(found, pieces, strict=True):
        if (piece.dtype, piece.ndim, piece.layout) != (first.dtype, first.ndim, first.layout):
            raise refused(
                OperatorValueError, name, None,
                f"output {output} has {_kind(first)} in part {found[0].part} and {_kind(piece)} in part {rows.part}. Samples of one batch "
                "need one type, number of dimensions and layout: convert them before (fn.cast, fn.reshape).",
            )  # fmt: skip
    values = [piece.values for piece in pieces if piece.values is not None]
    if len(values) == len(pieces) and len({known.shape[1:] for known in values}) == 1:
        made = Batch.from_values(np.concatenate(values)[order], first.layout, first.dtype)
    else:
        made = Batch(
            np.concatenate([piece.shapes for piece in pieces])[order], first.dtype, first.layout,
            np.concatenate([piece.addresses for piece in pieces])[order], [piece.memory_owner for piece in pieces], device=first.device,
        )  # fmt: skip
    made.reused = np.concatenate([piece.reused_samples() for piece in pieces])[order]
    infos = [piece.source_info for piece in pieces if piece.source_info]
    if len(infos) == len(pieces):
        sizes = [len(piece) for piece in pieces]
        which = np.repeat(np.arange(len(sizes)), sizes)[order]
        made.source_info = _ChosenOrigins(infos, which, np.concatenate([np.arange(size) for size in sizes])[order])
    return made


def _by_raw(found: Sequence[Rows]) -> tuple[list[Rows], np.ndarray]:
    """The samples raw iteration by raw iteration, and where each sample of the batch is then: parts that take turns give single samples."""
    runs: dict[int, list[Rows]] = {}
    places: dict[int, list[np.ndarray]] = {}
    first = 0
    for rows in found:
        runs.setdefault(id(rows.raw), []).append(rows)
        places.setdefault(id(rows.raw), []).append(np.arange(first, first + len(rows)))
        first += len(rows)
    order = np.argsort(np.concatenate([place for own in places.values() for place in own]))
    return [own[0].joined(own[1:]) for own in runs.values()], order


def _kind(batch: Batch) -> str:
    return f"{batch.dtype.name} of {batch.ndim} dimensions, layout {batch.layout!r}"

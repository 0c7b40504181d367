"""The shared part of full and full_like: an input is repeated along axes that it lacks, or where its extent is 1.

As in DALI, one element (or the first part with the wanted shape) of larger data is used: ``full([1, 2, 3], shape=[])`` is 1.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ...batch import Batch, storage_dtype
from ...types import DALIDataType
from ..base import Environment, Operator, Planned, Spec, refuse_where
from ..moves.pieces import Pieces, dense_strides


class Broadcast(Operator):
    """full and full_like: repeat an input along axes that the input lacks, or where its extent is 1."""

    def __init__(self, spec: Spec, environment: Environment):
        super().__init__(spec, environment)
        from ..moves import pieces_kernels

        self._kernels: Any = pieces_kernels

    def _step(self, source: DALIDataType, target: DALIDataType) -> Any:
        if source == target:
            return self._kernels.copy_step
        return self._kernels.converting_step(storage_dtype(source).name, storage_dtype(target).name, False)

    def _repeated(self, source: Batch, shapes: np.ndarray, dtype: DALIDataType, layout: str) -> Planned:
        output = Batch(shapes, dtype, layout, device=source.device)
        extents, strides = source.shapes, dense_strides(source.shapes, source.itemsize)
        surplus, ndim = extents.shape[1] - shapes.shape[1], shapes.shape[1]
        fits = np.ones(len(source), bool)
        filled = (extents > 0).all(axis=1)
        if surplus > 0:  # Leading extents of 1 may be dropped.
            fits = (extents[:, :surplus] == 1).all(axis=1)
            extents, strides = extents[:, surplus:], strides[:, surplus:]
        missing = ndim - extents.shape[1]
        extents = np.concatenate([np.ones((len(source), missing), np.int64), extents], axis=1)
        strides = np.concatenate([np.zeros((len(source), missing), np.int64), strides], axis=1)
        fits &= ((extents == shapes) | (extents == 1)).all(axis=1)
        # Behind leading extents of 1, the shape may also be that of the end of the data: then the first such part is used.
        leading = np.logical_and.accumulate(shapes == 1, axis=1)
        fits |= filled & (leading | (extents == shapes)).all(axis=1)
        refuse_where(
            ~fits,
            lambda i: f"data of shape {tuple(source.shapes[i].tolist())} cannot be broadcast to shape {tuple(shapes[i].tolist())}",
        )
        strides = np.where(extents == 1, 0, strides)
        pieces = Pieces(output)
        if ndim:
            pieces.add(source, shapes, strides)
        else:
            one = np.ones((len(source), 1), np.int64)
            pieces.add(source, one, 0 * one, targets=0 * one)
        return Planned([output], [pieces.step(self._step(source.dtype, dtype))])

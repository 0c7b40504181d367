"""The values of an operator's arguments in one iteration, per sample."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..batch import Batch
from ..errors import SampleError
from .spec import Spec


class Arguments:
    """The values of an operator's arguments in one iteration, constants and argument inputs alike, per sample."""

    __slots__ = ("_inputs", "count", "spec")

    def __init__(self, spec: Spec, inputs: dict[str, Batch], count: int):
        self.spec = spec
        self._inputs = inputs
        self.count = count

    def given(self, name: str) -> bool:
        """Whether the user gave the argument."""
        return self.spec.given(name)

    def is_input(self, name: str) -> bool:
        """Whether it is a DataNode (values per sample)."""
        return name in self._inputs

    def batch(self, name: str) -> Batch:
        """The batch of an argument input."""
        return self._inputs[name]

    def constant(self, name: str) -> Any:
        """The constant (or default) of an argument that is no argument input."""
        return self.spec.constant(name)

    def scalars(self, name: str, dtype: Any = np.float32) -> np.ndarray:
        """One value per sample: dtype[count]. ValueError if a sample has more than one element."""
        batch = self._inputs.get(name)
        if batch is None:
            value = self.spec.constant(name)
            if isinstance(value, list):
                value = value[0]
            out = np.empty(self.count, dtype)
            out.fill(value)  # a quarter of the time of np.full
            return out
        if batch.values is not None and batch.values.size == self.count:
            return batch.values.reshape(self.count).astype(dtype)
        out = np.empty(self.count, dtype)
        for i in range(self.count):
            value = batch.sample(i)
            if value.size != 1:
                raise SampleError(i, f"argument '{name}' expects one value per sample, got shape {tuple(value.shape)}")
            out[i] = value.reshape(-1)[0]
        return out

    def vectors(self, name: str, length: int | None = None, dtype: Any = np.float32) -> np.ndarray:
        """A vector per sample: dtype[count, length]. A single value is repeated `length` times.

        With ``length=None`` all samples must have the same length. SampleError for another length, and for more than one dimension. The
        rows of a constant are read-only.
        """
        batch = self._inputs.get(name)
        if batch is None:
            return self._rows_of_constant(name, length, dtype)
        if batch.ndim > 1 and self.count:
            raise SampleError(0, f"argument '{name}' expects a vector per sample, got shape {tuple(batch.shapes[0].tolist())}")
        if batch.values is not None:
            rows = batch.values.reshape(self.count, -1).astype(dtype)
            if length is None or rows.shape[1] == length:
                return rows
            if rows.shape[1] == 1:
                return np.repeat(rows, length, 1)
        samples = [np.atleast_1d(batch.sample(i)).reshape(-1).astype(dtype) for i in range(self.count)]
        want = length if length is not None or not samples else len(samples[0])
        return np.stack([self._fit(name, row, want, i) for i, row in enumerate(samples)]) if samples else np.empty((0, 0), dtype)

    def rows(self, name: str, lengths: np.ndarray, default: np.ndarray, dtype: Any = np.float32) -> np.ndarray:
        """A vector per sample, with different lengths: dtype[count, most]; ``lengths[i]`` values of row i are valid.

        A single value is repeated. A sample without values, or every sample if the argument is not given, has `default` in its row.
        ValueError (SampleError for an argument input) for another length.
        """
        out = np.array(default, dtype)
        if not self.given(name):
            return out
        batch = self._inputs.get(name)
        if batch is None:
            row = np.atleast_1d(np.asarray(self.spec.constant(name), dtype))
            if len(row) and len(lengths):
                first = int(lengths[0])
                if (lengths == first).all():
                    out[:, :first] = self._fit(name, row, first, None)
                    return out
                for length in np.unique(lengths).tolist():
                    out[lengths == length, :length] = self._fit(name, row, length, None)
            return out
        if batch.ndim > 1 and self.count:
            raise SampleError(0, f"argument '{name}' expects a vector per sample, got shape {tuple(batch.shapes[0].tolist())}")
        if batch.values is not None and (lengths == out.shape[1]).all() and batch.values.size == out.size:
            return batch.values.reshape(out.shape).astype(dtype)
        for i, length in enumerate(lengths.tolist()):
            row = np.atleast_1d(batch.sample(i)).astype(dtype)
            if len(row):
                out[i, :length] = self._fit(name, row, length, i)
        return out

    def chosen_axes(self, name: str, ndim: int) -> tuple[np.ndarray, np.ndarray]:
        """Axes named by an argument: int64[count, most] from 0 to ``ndim - 1``, and the number of valid ones per row, int64[count].

        Negative axes count from the back. A sample (or a constant) without values means all axes. ValueError (SampleError for an argument
        input) for axes that do not exist, and for repeated axes.
        """
        batch = self._inputs.get(name)
        if batch is None:
            key = "axes", name, ndim
            kept = self.spec.constant_rows.get(key)
            if kept is not None and self.count:
                return np.repeat(kept, self.count, axis=0), np.full(self.count, kept.shape[1])
            given = np.atleast_1d(np.asarray(self.spec.constant(name), np.int64))
            rows = [given if len(given) else np.arange(ndim)] * min(self.count, 1)
        else:
            rows = [np.atleast_1d(batch.sample(i)).reshape(-1).astype(np.int64) for i in range(self.count)]
            rows = [row if len(row) else np.arange(ndim) for row in rows]
        for i, row in enumerate(rows):
            wrong = (row < -ndim) | (row >= ndim)
            message = ""
            if wrong.any():
                message = f"`{name}`: {int(row[wrong][0])} is out of range for {ndim}-D samples; allowed are {-ndim} to {ndim - 1}"
            elif len(set((row % max(ndim, 1)).tolist())) != len(row):  # np.unique imports numpy.ma
                message = f"an axis occurs more than once in `{name}`, {row.tolist()}"
            if message:
                raise ValueError(message) if batch is None else SampleError(i, message)
        lengths = np.array([len(row) for row in rows], np.int64)
        axes = np.zeros((len(rows), int(lengths.max(initial=0))), np.int64)
        for row, target in zip(rows, axes, strict=True):
            target[: len(row)] = np.where(row < 0, row + ndim, row)
        if batch is None:
            if self.count:
                self.spec.constant_rows[key] = axes  # checking them takes 40 us
            return np.repeat(axes, self.count, axis=0), np.repeat(lengths, self.count)
        return axes, lengths

    def _rows_of_constant(self, name: str, length: int | None, dtype: Any) -> np.ndarray:
        """A constant as read-only dtype[count, length]. The last array of each constant is cached: making one takes 8 us, a look-up 0.3."""
        key = name, length, dtype
        kept = self.spec.constant_rows.get(key)
        if kept is None or len(kept) != self.count:
            row = self._fit(name, np.atleast_1d(np.array(self.spec.constant(name), dtype)), length, None)
            kept = self.spec.constant_rows[key] = np.broadcast_to(row, (self.count, len(row)))
        return kept

    def per_axis(self, name: str, length: int, dtype: Any = np.float32) -> np.ndarray:
        """Like :meth:`vectors`, but one number per sample is repeated by a stride of 0 instead of a copy."""
        batch = self._inputs.get(name)
        if batch is not None and batch.values is not None and batch.ndim <= 1 and batch.values.size == self.count:
            column = batch.values.reshape(self.count).astype(dtype)
            return np.ndarray((self.count, length), dtype, column, 0, (column.itemsize, 0))  # a fifth of the time of np.broadcast_to
        return self.vectors(name, length, dtype)

    def _fit(self, name: str, row: np.ndarray, length: int | None, sample: int | None) -> np.ndarray:
        if length is None or len(row) == length:
            return row
        if len(row) == 1:
            return np.repeat(row, length)
        message = f"argument '{name}' expects {length} values, got {len(row)}"
        raise ValueError(message) if sample is None else SampleError(sample, message)

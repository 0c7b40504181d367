"""Subscripts: ``tensor[...]`` by NumPy's rules for integers and slices, ``batch.slice[...]`` inside of every sample."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any

import numpy as np

from ..batch import Batch as Samples
from .values import Batch, Tensor, array_of, gathered
from .work import without_frames


def _bound(value: object, what: str) -> int | None:
    """A bound of a slice, or an index, as an integer."""
    if value is None:
        return None
    if isinstance(value, Tensor):
        return operator.index(value)
    if isinstance(value, np.ndarray) and not value.ndim:
        value = value[()]
    if isinstance(value, (bool, np.bool_)) or not hasattr(value, "__index__"):
        raise TypeError(f"{what} is an integer, a 0-d Tensor of integers or a slice of these, got {value!r}")
    return operator.index(value)


def _key(given: object) -> tuple[Any, ...]:
    """A subscript as plain integers, slices and at most one Ellipsis. TypeError for anything else."""
    items = given if isinstance(given, tuple) else (given,)
    found: list[Any] = []
    for item in items:
        if item is Ellipsis:
            if Ellipsis in found:
                raise ValueError("a subscript has at most one ellipsis ('...')")
            found.append(item)
        elif isinstance(item, slice):
            found.append(slice(*(_bound(value, "a bound of a slice") for value in (item.start, item.stop, item.step))))
        elif item is None:
            raise TypeError("None (numpy.newaxis) is no index here; use ndd.expand_dims")
        elif isinstance(item, list) or (isinstance(item, (np.ndarray, Tensor)) and item.ndim):
            raise TypeError("lists, masks and arrays are no indices here; give integers or slices")
        else:
            found.append(_bound(item, "an index"))
    return tuple(found)


def _expanded(key: tuple[Any, ...], ndim: int) -> tuple[Any, ...]:
    """One entry for each axis. ValueError for too many."""
    given = sum(item is not Ellipsis for item in key)
    if given > ndim:
        raise ValueError(f"{given} indices for {ndim} dimensions")
    if Ellipsis not in key:
        key = (*key, Ellipsis)
    at = key.index(Ellipsis)
    return (*key[:at], *[slice(None)] * (ndim - given), *key[at + 1 :])


def _checked(key: tuple[Any, ...], shape: Sequence[int], sample: int | None = None) -> None:
    """IndexError, ValueError for indices that do not exist, and a step of 0."""
    where = "" if sample is None else f" of sample {sample}"
    for axis, (item, extent) in enumerate(zip(key, shape, strict=True)):
        if isinstance(item, slice):
            if item.step == 0:
                raise ValueError("the step of a slice cannot be 0")
        elif not -extent <= item < extent:
            raise IndexError(f"index {item} does not exist: axis {axis}{where} has the extent {extent}")


def _layout_after(layout: str, key: tuple[object, ...]) -> str:
    return "".join(letter for letter, item in zip(layout, key, strict=True) if isinstance(item, slice)) if layout else ""


def selected(value: Tensor, given: object) -> Tensor:
    """``tensor[given]``: a dense copy, or the tensor itself if the subscript selects all."""
    key = _expanded(_key(given), value.ndim)
    if all(item == slice(None) for item in key):
        return value
    shape = value.shape
    _checked(key, shape)
    if value.device.device_type == "gpu":
        from .cuda import is_real, sliced_on_gpu

        if is_real(value):
            return sliced_on_gpu(value, key)
    samples = value._samples()
    array = np.array(array_of(value)[key], order="C")  # a copy, never a view
    made = Samples.from_values(array[None], _layout_after(samples.layout, key), samples.dtype)
    made.device, made.source_info = samples.device, samples.source_info
    return Tensor._of(made)


def chosen_samples(index: object, count: int) -> int | list[int] | range:
    """An index of samples as an integer, or the numbers of the chosen samples. IndexError, TypeError, ValueError."""
    if index is Ellipsis:
        return range(count)
    if isinstance(index, slice):
        return range(*index.indices(count))
    if isinstance(index, Tensor) and not index.ndim:
        index = operator.index(index)
    if isinstance(index, np.ndarray):
        if index.dtype.kind not in "iub" or index.ndim > 1:
            raise TypeError(f"samples are chosen by integers or truth values, got an array of {index.dtype} with shape {index.shape}")
        index = index.tolist()
    if isinstance(index, (list, tuple, range)):
        items = list(index)
        if items and all(isinstance(item, (bool, np.bool_)) for item in items):
            if len(items) != count:
                raise TypeError(f"a mask of samples needs {count} truth values, got {len(items)}")
            return [k for k, wanted in enumerate(items) if wanted]
        return [_sample_number(item, count) for item in items]
    return _sample_number(index, count)


def _sample_number(index: object, count: int) -> int:
    if isinstance(index, (bool, np.bool_)) or not hasattr(index, "__index__"):
        raise TypeError(f"samples are chosen by an integer, a slice, a range, or a list of integers or truth values, got {index!r}")
    number = operator.index(index)
    if not -count <= number < count:
        raise IndexError(f"sample {number} does not exist; there are {count}")
    return number % count


class BatchedSlice:
    """``batch.slice``: its subscripts select inside of every sample."""

    __slots__ = ("_batch",)

    def __init__(self, batch: Batch):
        self._batch = batch

    @without_frames
    def __getitem__(self, given: object) -> Batch:
        batch = self._batch
        items = given if isinstance(given, tuple) else (given,)
        count = batch.batch_size
        varies = _varies(items)
        if varies:
            own = range(max(count, 1))
            keys = [_expanded(_key(tuple(_of_sample(item, k, count) for item in items)), batch.ndim) for k in own]
        else:
            keys = [_expanded(_key(items), batch.ndim)] * max(count, 1)
            if all(item == slice(None) for item in keys[0]):
                return batch
        samples = batch._samples()
        if count == 0:
            return _nothing(samples, keys[0])
        if samples.device != "cpu":
            from .cuda import batch_sliced_on_gpu, is_real

            if is_real(batch):
                return batch_sliced_on_gpu(batch, keys)
        layout = _layout_after(samples.layout, keys[0])
        shapes = samples.shapes
        if not varies and samples.contiguous and (shapes == shapes[0]).all():  # one array, one selection
            _checked(keys[0], shapes[0].tolist(), 0)
            made = Samples.from_values(np.array(samples.dense()[(slice(None), *keys[0])], order="C"), layout, samples.dtype)
            made.device, made.source_info = samples.device, samples.source_info
            return Batch._of(made)
        arrays = []
        for k, key in enumerate(keys):
            _checked(key, samples.shapes[k].tolist(), k)
            arrays.append(samples.sample(k)[key])
        shapes = np.array([array.shape for array in arrays], np.int64).reshape(count, arrays[0].ndim)
        return Batch._of(gathered(shapes, samples.dtype, layout, arrays, samples.device, samples.source_info))


def _varies(items: Sequence[object]) -> bool:
    for item in items:
        if isinstance(item, slice):
            if isinstance(item.start, Batch) or isinstance(item.stop, Batch) or isinstance(item.step, Batch):
                return True
        elif isinstance(item, Batch):
            return True
    return False


def _of_sample(item: object, sample: int, count: int) -> Any:
    """The index for one sample."""
    if isinstance(item, slice):
        return slice(*(_of_sample(part, sample, count) for part in (item.start, item.stop, item.step)))
    if not isinstance(item, Batch):
        return item
    if item.batch_size != count:
        raise ValueError(f"the indices have {item.batch_size} samples, the batch has {count}")
    return operator.index(item.tensors[sample]) if count else 0


def _nothing(samples: Samples, key: tuple[object, ...]) -> Batch:
    """The result for a batch without samples."""
    ndim = sum(isinstance(item, slice) for item in key)
    made = Samples(np.empty((0, ndim), np.int64), samples.dtype, _layout_after(samples.layout, key), contiguous=True, owner=samples.owner)
    made.device = samples.device
    return Batch._of(made)

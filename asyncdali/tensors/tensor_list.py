"""The common base of tensor lists of all devices."""

from __future__ import annotations

import math
import operator
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ..batch import Batch, storage_dtype
from ..types import DALIDataType
from .batches import empty_batch, is_contiguous, is_uniform, listed_shapes, sliced
from .checks import check_readable, checked_extents, checked_layout, checked_reinterpretation
from .host_memory import HOST, pointer
from .printing import described, samples_text, shapes_text
from .tensor import Tensor

if TYPE_CHECKING:
    from typing import Self


class TensorList:
    """A batch for users. `_batch` is never changed, only replaced, because the executor and other lists may share it."""

    __slots__ = ("__weakref__", "_batch", "moment")

    _batch: Batch
    moment: Any
    """The iteration that made the list (``runtime.order.moments``). Lists that no pipeline has returned have none."""

    _device = "cpu"
    _memory: Any = HOST
    _tensor: type[Tensor]

    def _view(self, array: object, layout: str, source_info: str | tuple[Sequence[str], int] = "") -> Any:
        """A tensor over part of this list's memory."""
        raise NotImplementedError

    def _like(self, batch: Batch) -> Self:
        """A list of the same kind and place, over another batch."""
        raise NotImplementedError

    # --- contents ---

    def __len__(self) -> int:
        return len(self._batch.shapes)

    def shape(self) -> list[tuple[int, ...]]:
        """One tuple of extents per sample."""
        return list(map(tuple, self._batch.shapes.tolist()))

    def ndim(self) -> int:
        """Number of dimensions of the samples."""
        return self._batch.ndim

    @property
    def dtype(self) -> DALIDataType:
        """Element type."""
        return self._batch.dtype

    def layout(self) -> str:
        """Axis names of the samples, one character per dimension; "" if none."""
        return self._batch.layout

    def provenance(self) -> Any:
        """The origin of the samples: files, records, draws and windows; a :class:`asyncdali.provenance.report.Provenance`.

        RuntimeError for a list that a pipeline has not returned, and if the pipeline is gone. Only outputs of pipelines have a provenance;
        slices and copies have none.
        """
        moment = getattr(self, "moment", None)
        if moment is None:
            raise RuntimeError("no pipeline has returned this list, so it has no provenance; ask an output of Pipeline.run()")
        return moment.provenance()

    def set_layout(self, layout: str | None) -> None:
        """Name the axes of the samples; None or "" clears the names. Raises ValueError when the length is not `ndim`."""
        self._relabel(self._batch.dtype, checked_layout(layout, self.ndim(), "TensorList"))

    def reinterpret(self, dtype: DALIDataType) -> None:
        """Change the element type without changing the bytes, in place. RuntimeError if the element size would change."""
        self._relabel(checked_reinterpretation(dtype, self._batch.dtype), self._batch.layout)

    def reset(self) -> None:
        """Drop the data. The list is empty afterwards."""
        self._batch = empty_batch(self._device)

    def is_dense_tensor(self) -> bool:
        """Whether all samples have one shape, so that `as_tensor` works."""
        return is_uniform(self._batch)

    def _relabel(self, dtype: DALIDataType, layout: str) -> None:
        self._batch = Batch.alias(self._batch, self._batch.shapes, dtype, layout)

    # --- samples ---

    def __iter__(self) -> Iterator[Any]:
        return (self._at(index) for index in range(len(self)))

    def _getitem(self, index: Any) -> Any:
        if isinstance(index, slice):
            return self._like(sliced(self._batch, index))
        try:
            number = operator.index(index)
        except TypeError:
            raise TypeError(f"{type(self).__name__} indices are integers or slices, got {type(index).__name__}") from None
        count = len(self)
        if not -count <= number < count:
            raise IndexError(f"{type(self).__name__} index out of range")
        return self._at(number % count)

    def _at(self, index: int) -> Any:
        batch = self._batch
        names = batch.source_info
        return self._view(self._memory.sample(batch, index), batch.layout, (names, index) if names else "")

    def _checked_index(self, index: Any) -> int:
        number = operator.index(index)
        if not 0 <= number < len(self):
            raise RuntimeError(f"Index is out-of-range: {number} in a list of {len(self)} samples.")
        return number

    def _host_sample(self, index: int) -> np.ndarray:
        """A sample in host memory; without a copy if it is there."""
        result: np.ndarray = self._view(self._memory.sample(self._batch, index), "")._host()
        return result

    # --- the list as one tensor ---

    def _dense(self) -> Batch:
        """The batch as one block. If it is in several blocks, it is gathered once."""
        if not is_contiguous(self._batch):
            self._batch = self._gathered()
        return self._batch

    def _gathered(self) -> Batch:
        """A copy of the batch, sample after sample."""
        source = self._batch
        batch = Batch(source.shapes, source.dtype, source.layout, device=source.device, source_info=source.source_info)
        memory = self._memory.empty(int(source.sizes().sum()))
        batch.place(memory, self._memory.address(memory))
        self._copy_samples(int(batch.addresses[0]) if len(batch) else 0)
        return batch

    def _copy_samples(self, target: int, **how: object) -> None:
        """Copy all samples, one after another, to `target`."""
        self._memory.copy_samples(target, self._batch, **how)

    def _copy_out(self, ptr: object, **how: object) -> None:
        self._copy_samples(pointer(ptr, int(self._batch.sizes().sum())), **how)

    def _array_of(self, shape: tuple[int, ...]) -> object:
        """An array of `shape` over all samples. Their volumes are equal."""
        batch = self._dense()
        if batch.values is not None:
            return batch.values.reshape(shape)
        if 0 in shape:
            # An empty batch may have address 0. numpy would allocate memory for address 0.
            return self._memory.empty(0).view(storage_dtype(batch.dtype)).reshape(shape)
        array = self._memory.wrap(int(batch.addresses[0]), shape, storage_dtype(batch.dtype), batch.memory_owner)
        if batch.read_only:
            array.flags.writeable = False
        return array

    def _dense_shape(self) -> tuple[int, ...]:
        shapes = self._batch.shapes
        return (len(shapes), *(shapes[0].tolist() if len(shapes) else [0] * shapes.shape[1]))

    def _as_one(self) -> Any:
        """An array [samples, ...] over this memory."""
        batch = self._batch
        if batch.values is not None:
            return batch.values[...]
        if not is_uniform(batch):
            raise RuntimeError(
                f"The batch must be representable as a tensor - it must have uniform shape: {listed_shapes(batch)}. fn.pad, fn.crop and "
                "fn.resize make samples equal; at(k) gives one sample"
            )
        if batch.dtype is DALIDataType.NO_TYPE:
            raise RuntimeError("An empty list of no type cannot become a tensor.")
        return self._array_of(self._dense_shape())

    def _as_tensor(self) -> Any:
        layout = self._batch.layout
        return self._view(self._as_one(), f"N{layout}" if len(layout) == self.ndim() else "")

    def _as_reshaped_tensor(self, shape: Sequence[int]) -> Any:
        extents = checked_extents(shape)
        volume = int(self._batch.shapes.prod(axis=1).sum())
        if math.prod(extents) != volume or min(extents, default=0) < 0:
            raise RuntimeError(
                "To create a view Tensor, requested shape need to have the same volume as the batch, "
                f"requested: {extents} ({math.prod(extents)}) expected: {volume}"
            )
        layout = self._batch.layout
        named = len(extents) == len(layout) + 1
        return self._view(self._array_of(extents), f"N{layout}" if named else "")

    def data_ptr(self) -> int:
        """Address of the first element when all samples are contiguous (a list in several blocks is gathered first); 0 for an empty
        list."""
        batch = self._dense()
        return int(batch.addresses[0]) if len(batch) else 0

    def __dlpack__(self, **options: object) -> Any:
        """A DLPack capsule of `as_tensor()`. Raises RuntimeError if the samples differ in shape."""
        return self._as_tensor().__dlpack__(**options)

    def __dlpack_device__(self) -> tuple[int, int]:
        result: tuple[int, int] = self._as_tensor().__dlpack_device__()
        return result

    # --- text ---

    def _fields(self) -> list[str]:
        batch = self._batch
        layout = [f'layout="{batch.layout}"'] if batch.layout else []
        place = [f'device="{self._device}"', f"num_samples={len(self)}"]
        return [f"dtype={batch.dtype}", *layout, *place, f"shape={shapes_text(self.shape())}"]

    def __repr__(self) -> str:
        return described(type(self).__name__, self._fields())

    def _repr_html_(self) -> str:
        """For notebooks: the samples as a contact sheet."""
        from .rendering import sheet

        batch = self._batch
        facts = f"{type(self).__name__}: {len(self)} samples on {self._device}"
        return sheet(facts, len(self), self._host_sample, batch.dtype, batch.layout)

    def __str__(self) -> str:
        check_readable(self._batch.dtype)
        return described(type(self).__name__, [samples_text(self._host_sample, self._batch.shapes), *self._fields()])

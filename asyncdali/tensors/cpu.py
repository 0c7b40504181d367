"""TensorCPU and TensorListCPU."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, overload

import numpy as np

from ..batch import Batch, storage_dtype
from ..types import DALIDataType
from .batches import as_tensors, batch_of_array, batch_of_tensors, dlpack_tensors, is_contiguous, is_uniform, listed_shapes, repeated
from .checks import check_readable, checked_layout
from .dlpack import CPU_DEVICE, export, to_share
from .foreign import dense_array
from .host_memory import HOST
from .tensor import Tensor
from .tensor_list import TensorList

if TYPE_CHECKING:
    from typing import Self


class TensorCPU(Tensor):
    """A tensor in CPU memory. `numpy.asarray` and DLPack read it without a copy.

    TensorCPU(obj, layout=None, is_pinned=False) shares the memory of a C-contiguous numpy array, buffer, DLPack object or capsule, or other
    TensorCPU. `is_pinned` says that the memory is page-locked; it has no effect.

    Raises TypeError for objects without memory (Python lists) and for element types without a DALIDataType (complex, strings, objects,
    foreign byte order), RuntimeError for strided data, ValueError for a layout of the wrong length.
    """

    __slots__ = ()

    def __init__(self, object: object, layout: str | None = None, is_pinned: bool = False):
        self._array, self._dtype = dense_array(object)
        self._layout = checked_layout(layout, self._array.ndim, "Tensor")
        self._source_info = object.source_info() if isinstance(object, TensorCPU) else ""

    def as_cpu(self) -> TensorCPU:
        """This tensor."""
        return self

    def copy_to_external(self, ptr: object) -> None:
        """Copy the bytes to CPU memory at `ptr` (ctypes.c_void_p or int). Raises ValueError for a null pointer."""
        self._copy_out(ptr)

    def _host(self) -> np.ndarray:
        check_readable(self._dtype)
        result: np.ndarray = self._array
        return result

    @property
    def __array_interface__(self) -> dict[str, object]:
        """numpy's array interface (version 3), C-contiguous. Raises TypeError for enumerations."""
        interface = self._host().__array_interface__
        return {**{key: interface[key] for key in ("typestr", "shape", "data", "version")}, "strides": None}

    @property
    def __array_struct__(self) -> object:
        """The array interface as a C structure, which numpy reads in a fraction of the time. TypeError for enumerations."""
        return self._host().__array_struct__

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        array = self._host()
        return np.array(array, dtype, copy=copy)

    def __buffer__(self, flags: int) -> memoryview:
        return memoryview(self._host())  # type: ignore[arg-type]

    def __dlpack__(
        self,
        stream: int | None = None,
        max_version: tuple[int, int] | None = None,
        dl_device: tuple[int, int] | None = None,
        copy: bool | None = None,
    ) -> Any:
        """A DLPack capsule over this memory (a copy with `copy=True`); `stream` is ignored.

        Raises BufferError for a `dl_device` other than the CPU and TypeError for enumerations.
        """
        return export(self._host(), max_version, dl_device, copy)

    def __dlpack_device__(self) -> tuple[int, int]:
        return CPU_DEVICE

    def __reduce__(self) -> tuple[object, ...]:
        return _unpickle_tensor, (self._array, int(self._dtype), self._layout, self.source_info())


def _unpickle_tensor(array: np.ndarray, dtype: int, layout: str, source_info: str) -> TensorCPU:
    return TensorCPU._make(array, DALIDataType(dtype), layout, source_info)


class TensorListCPU(TensorList):
    """A batch of tensors in CPU memory: one type, rank and layout; shapes may differ.

    - TensorListCPU(array, layout=None, is_pinned=False): the first dimension of a C-contiguous numpy array, buffer, DLPack object or
      capsule, or TensorCPU counts samples; shares its memory.
    - TensorListCPU(tensors, layout=None, contiguous=True): a list of tensors or arrays, copied into one piece unless `contiguous` is
      False; [] is an empty list of NO_TYPE.
    - TensorListCPU(other, layout=None): shares the samples of another list.

    Raises TypeError for objects without memory, element types without a DALIDataType, and tensors of different type or rank; RuntimeError
    for strided data and 0-d arrays; ValueError for a layout of the wrong length.
    """

    __slots__ = ()

    _tensor = TensorCPU

    def __init__(self, object: object, layout: str | None = None, is_pinned: bool = False, contiguous: bool = True):
        if isinstance(object, TensorListCPU):
            self._batch = object._batch
        elif isinstance(object, (list, tuple)):
            self._batch = batch_of_tensors(as_tensors(object, TensorCPU), "TensorCPU", "cpu")
            if contiguous and len(object):
                self._batch = self._gathered()
        else:
            self._batch = batch_of_array(*dense_array(object), HOST, "cpu")
        if layout is not None:
            self.set_layout(layout)

    @classmethod
    def _from_batch(cls, batch: Batch) -> Self:
        """A list over a placed batch; no copy and nothing per sample."""
        tensors = cls.__new__(cls)
        tensors._batch = batch
        return tensors

    @staticmethod
    def from_dlpack_list(list_of_objects: list[Any], layout: str | None = None, contiguous: bool = False) -> TensorListCPU:
        """A list of DLPack objects of one type and rank; shares their memory unless `contiguous` asks for a copy in one piece.

        Raises TypeError for objects without DLPack and for different types, RuntimeError for different ranks and strided data.
        """
        tensors = TensorListCPU._from_batch(batch_of_tensors(dlpack_tensors(list_of_objects, TensorCPU), "TensorCPU", "cpu"))
        if contiguous:
            tensors._batch = tensors._gathered()
        if layout is not None:
            tensors.set_layout(layout)
        return tensors

    @staticmethod
    def broadcast(tensor: object, num_samples: int) -> TensorListCPU:
        """A list of `num_samples` times the same tensor (TensorCPU or array), without copies. ValueError for a negative number."""
        return TensorListCPU._from_batch(repeated(tensor if isinstance(tensor, TensorCPU) else TensorCPU(tensor), num_samples))

    def _view(self, array: object, layout: str, source_info: str | tuple[Sequence[str], int] = "") -> TensorCPU:
        return TensorCPU._make(array, self._batch.dtype, layout, source_info)

    def _like(self, batch: Batch) -> Self:
        return self._from_batch(batch)

    @overload
    def __getitem__(self, index: int) -> TensorCPU: ...
    @overload
    def __getitem__(self, index: slice) -> TensorListCPU: ...
    def __getitem__(self, index: object) -> Any:
        """Sample `index` (negative counts from the end) as a TensorCPU over this memory, or the list of a slice's samples.

        Raises IndexError out of range and TypeError for other indices.
        """
        return self._getitem(index)

    def at(self, index: int) -> np.ndarray:
        """A copy of sample `index`. Raises RuntimeError out of range (no negative numbers) and TypeError for enumerations."""
        return np.array(self._host_sample(self._checked_index(index)))

    def as_cpu(self) -> TensorListCPU:
        """This list."""
        return self

    def as_tensor(self) -> TensorCPU:
        """One tensor [samples, ...] over this memory, with "N" before the layout. Raises RuntimeError if shapes differ."""
        result: TensorCPU = self._as_tensor()
        return result

    def as_reshaped_tensor(self, shape: Sequence[int]) -> TensorCPU:
        """All samples, one after another, as a tensor of `shape`, with "N" before the layout if the rank fits it.

        Raises RuntimeError if the volume of `shape` is not that of the list.
        """
        result: TensorCPU = self._as_reshaped_tensor(shape)
        return result

    def as_array(self) -> np.ndarray:
        """A copy as an array [samples, ...]. Raises RuntimeError if shapes differ and TypeError for enumerations."""
        check_readable(self._batch.dtype)
        if self._batch.dtype is DALIDataType.NO_TYPE:
            return np.empty(0, np.float32)
        if not is_uniform(self._batch):
            raise RuntimeError(
                f"Cannot produce a numpy array: the tensors in the list do not all have the same shape: {listed_shapes(self._batch)}. "
                "Pad or crop the samples to a common shape, or check is_dense_tensor() beforehand."
            )
        return self._stacked()

    def _stacked(self) -> np.ndarray:
        array = np.empty(self._dense_shape(), storage_dtype(self._batch.dtype))
        self._copy_samples(array.ctypes.data)
        return array

    def copy_to_external(self, ptr: object) -> None:
        """Copy all samples, one after another, to CPU memory at `ptr` (ctypes.c_void_p or int). Raises ValueError for a null pointer."""
        self._copy_out(ptr)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        """An array [samples, ...], over this memory if it is contiguous. ValueError if shapes differ."""
        check_readable(self._batch.dtype)
        if not is_uniform(self._batch):
            raise ValueError(f"samples of different shapes cannot be one array: {listed_shapes(self._batch)}")
        if self._batch.dtype is DALIDataType.NO_TYPE or (copy is not False and not is_contiguous(self._batch)):
            return np.asarray(self.as_array(), dtype)
        return np.array(self._array_of(self._dense_shape()), dtype, copy=copy)

    def __dlpack__(  # type: ignore[override]
        self,
        stream: int | None = None,
        max_version: tuple[int, int] | None = None,
        dl_device: tuple[int, int] | None = None,
        copy: bool | None = None,
    ) -> Any:
        """Like that of `as_tensor()`, without making a tensor, because iterators call it in every iteration.

        RuntimeError if the shapes differ.
        """
        check_readable(self._batch.dtype)
        return export(self._as_one(), max_version, dl_device, copy)

    def _to_share(self) -> np.ndarray:
        """Like :meth:`__dlpack__`, as an array. This is quicker for libraries that accept arrays."""
        batch = self._batch
        check_readable(batch.dtype)
        return to_share(self._as_one() if batch.values is None else batch.values)

    def __dlpack_device__(self) -> tuple[int, int]:
        return CPU_DEVICE

    def __reduce__(self) -> tuple[object, ...]:
        batch = self._gathered()
        data = np.asarray(batch.owner)
        info = None if batch.source_info is None else list(batch.source_info)
        return _unpickle_list, (batch.shapes, int(batch.dtype), batch.layout, data, info)


def _unpickle_list(shapes: np.ndarray, dtype: int, layout: str, data: np.ndarray, source_info: list[str] | None) -> TensorListCPU:
    batch = Batch(shapes, DALIDataType(dtype), layout, source_info=source_info)
    batch.place(data)
    return TensorListCPU._from_batch(batch)

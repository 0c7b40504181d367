"""The common base of tensors of all devices."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ..batch import storage_dtype
from ..types import DALIDataType
from .checks import checked_layout, checked_reinterpretation
from .host_memory import HOST, pointer
from .printing import described, values_text

if TYPE_CHECKING:
    from typing import Self


class Tensor:
    """A dense tensor: an array of the storage type over shared memory, element type, layout and source."""

    __slots__ = ("__weakref__", "_array", "_dtype", "_layout", "_source_info")

    _array: Any
    _dtype: DALIDataType
    _layout: str
    _source_info: str | tuple[Sequence[str], int]
    """The text, or the object that makes it. Making it may cost more than the rest of the tensor."""

    _device = "cpu"
    _memory: Any = HOST

    @classmethod
    def _make(cls, array: object, dtype: DALIDataType, layout: str = "", source_info: str | tuple[Sequence[str], int] = "") -> Self:
        tensor = cls.__new__(cls)
        tensor._array, tensor._dtype, tensor._layout, tensor._source_info = array, dtype, layout, source_info
        return tensor

    def shape(self) -> list[int]:
        """Extents, one per dimension."""
        return list(self._array.shape)

    def ndim(self) -> int:
        """Number of dimensions."""
        return len(self._array.shape)

    @property
    def dtype(self) -> DALIDataType:
        """Element type."""
        return self._dtype

    def layout(self) -> str:
        """Axis names, one character per dimension; "" if none."""
        return self._layout

    def set_layout(self, layout: str | None) -> None:
        """Name the axes; None or "" clears the names. Raises ValueError when the length is not `ndim`."""
        self._layout = checked_layout(layout, self.ndim(), "Tensor")

    def source_info(self) -> str:
        """The origin of the data (for example a file name); "" if unknown."""
        info = self._source_info
        if not isinstance(info, str):
            names, index = info
            info = self._source_info = names[index]
        return info

    def get_property(self, name: str) -> str | None:
        """ "layout" or "source_info", None when it is not set or unknown. Raises TypeError if `name` is not a string."""
        if not isinstance(name, str):
            raise TypeError(f"the name of a property is a string, got {type(name).__name__}")
        return {"layout": self._layout, "source_info": self.source_info()}.get(name) or None

    def data_ptr(self) -> int:
        """Address of the first element."""
        return int(self._memory.address(self._array))

    def squeeze(self, dim: int | None = None) -> bool:
        """Remove dimensions of extent 1 (all, or only `dim`) and their axis names, in place. Returns whether the shape changed.

        RuntimeError if there is no dimension `dim`.
        """
        shape, ndim = self._array.shape, self.ndim()
        if dim is not None and not -ndim <= operator.index(dim) < ndim:
            raise RuntimeError(f"axis {dim} is out of bound for a tensor with {ndim} dimensions.")
        only = None if dim is None else operator.index(dim) % ndim
        kept = [axis for axis in range(ndim) if shape[axis] != 1 or only not in (None, axis)]
        if len(kept) == ndim:
            return False
        self._array = self._array.reshape([shape[axis] for axis in kept])
        self._layout = "".join(self._layout[axis] for axis in kept) if self._layout else ""
        return True

    def reinterpret(self, dtype: DALIDataType) -> None:
        """Change the element type without changing the bytes, in place. RuntimeError if the element size would change."""
        kind = checked_reinterpretation(dtype, self._dtype)
        self._array = self._array.view(storage_dtype(kind))
        self._dtype = kind

    def _copy_out(self, ptr: object, **how: object) -> None:
        size = self._array.nbytes
        address = pointer(ptr, size)
        if size:
            self._memory.copy(address, self.data_ptr(), size, **how)

    def _host(self) -> np.ndarray:
        """The values in host memory (a copy if they are elsewhere). TypeError for enumerations."""
        raise NotImplementedError

    def _fields(self) -> list[str]:
        layout = [f'layout="{self._layout}"'] if self._layout else []
        return [f"dtype={self._dtype}", *layout, f'device="{self._device}"', f"shape={tuple(self._array.shape)}"]

    def __repr__(self) -> str:
        return described(type(self).__name__, self._fields())

    def __str__(self) -> str:
        return described(type(self).__name__, [values_text(self._host()), *self._fields()])

"""Tensor and Batch: results of calls, and data from Python.

A value holds the batch of the runtime that has its samples (`asyncdali.batch.Batch`, here ``Samples``); a Tensor's has one sample. A value
of mode `deferred` holds the call that will make it. Nothing is ever written to samples by the library, so values may share memory.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any, NoReturn, Protocol, TypeVar

import numpy as np

from ..batch import Batch as Samples
from ..types import DALIDataType
from ..types.enums import ENUMERATIONS
from . import dtypes
from .devices import Device, device, gpu_number
from .dtypes import DType
from .spellings import VALUES, missing_attribute
from .work import DelayedCall, KnownOutput, without_frames

Held = TypeVar("Held", bound="DynamicValue")


def place_of(where: Device | None) -> str:
    """The device of a stored batch."""
    return "cpu" if where is None or where.device_type == "cpu" else f"gpu:{where.device_id}" if where.device_id else "gpu"


def device_at(place: str) -> Device:
    """The Device of a stored batch."""
    return Device.CPU if place == "cpu" else Device("gpu", gpu_number(place))


class ValueMethods(Protocol):
    """The functions behind the methods of values. Values are below the modules that have them, so `language.py` provides them."""

    def make_tensor(self, data: object, kind: object, where: object, layout: object, pad: bool = False, copy: bool = False) -> Tensor: ...
    def make_batch(self, data: object, kind: object, where: object, layout: object, copy: bool = False) -> Batch: ...
    def broadcast(self, sample: object, batch_size: object, where: object, kind: object) -> Batch: ...
    def converted(self, value: Held, kind: DType) -> Held: ...
    def moved(self, value: Held, wanted: Device) -> Held: ...
    def copied_on_gpu(self, samples: Samples) -> Samples | None: ...
    def described(self, value: DynamicValue) -> str: ...
    def shown(self, value: DynamicValue) -> str: ...
    def selected(self, value: Tensor, given: object) -> Tensor: ...
    def batched_slice(self, batch: Batch) -> Any: ...
    def chosen_samples(self, index: object, count: int) -> Any: ...
    def capsule(self, value: Tensor, stream: object, max_version: Any, dl_device: Any, copy: bool | None) -> Any: ...
    def dlpack_device(self, value: Tensor) -> tuple[int, int]: ...
    def cuda_interface(self, value: Tensor) -> dict[str, Any]: ...
    def torch_tensor(self, value: Tensor, copy: bool) -> Any: ...
    def torch_batch(self, batch: Batch, copy: bool | None, pad: bool) -> Any: ...


language: ValueMethods = None  # type: ignore[assignment]
"""Set when ``asyncdali.dynamic`` is imported, which is before any value exists."""


class DynamicValue:
    """The shared part of Tensor and Batch."""

    __slots__ = ("__weakref__", "_held", "_items", "_kind", "_number", "_view_layout", "_work")
    __hash__ = None  # type: ignore[assignment]

    def __init__(self) -> None:
        self._held: Samples | None = None
        self._work: DelayedCall | None = None
        self._number = 0
        self._view_layout: str | None = None
        self._kind: Any = None
        """See `brief.py`."""
        self._items: dict[int, Tensor] = {}
        """The samples of a Batch that the program has asked for."""

    @classmethod
    def _of(cls: type[Held], samples: Samples, kind: object = None) -> Held:
        made = cls.__new__(cls)
        made._held, made._work, made._view_layout, made._kind, made._items = samples, None, None, kind, {}
        return made

    @classmethod
    def _later(cls: type[Held], work: DelayedCall, number: int, layout: str | None = None) -> Held:
        """Output `number` of a call; `layout`: another layout than the call gives."""
        made = cls.__new__(cls)
        made._held, made._work, made._number, made._view_layout, made._kind, made._items = None, work, number, layout, None, {}
        return made

    def _samples(self) -> Samples:
        """The samples; waits for them."""
        held = self._held
        if held is None:
            work = self._work
            assert work is not None
            held = work.batches()[self._number]
            if work.dependents:
                work.finish_dependents(self._number)
            work.reads.bits |= 1 << self._number
            held.heads = None  # from now on the program may change the bytes of the files
            if self._view_layout is not None:
                held = relabelled(held, self._view_layout)
            self._held = held
            self._work = None
        return held

    def _declared(self, name: str) -> Any:
        """A property that is known before the samples; None if they are needed."""
        if self._held is not None or self._work is None:
            return None
        return getattr(self._work.declared[self._number], name)

    def _shapes(self) -> np.ndarray:
        """The shapes of the samples, int64[samples, ndim]."""
        held = self._held
        if held is None:
            found = self._declared("shapes")
            if isinstance(found, np.ndarray):
                return found
            held = self._samples()
        return held.shapes

    def _known(self) -> KnownOutput:
        """The facts that are known without computing."""
        held = self._held
        if held is not None:
            return KnownOutput(held.dtype, held.ndim, held.layout, held.device, count=len(held.shapes))
        assert self._work is not None
        known = self._work.declared[self._number]
        if self._view_layout is None:
            return known
        return KnownOutput(known.dtype, known.ndim, self._view_layout, known.device, count=known.count)

    @property
    def _place(self) -> str:
        """Where the samples are, as stored: "cpu", "gpu" or "gpu:<n>"."""
        held = self._held
        if held is not None:
            return held.device
        known = self._declared("device")
        return str(self._samples().device if known is None else known)

    # --- properties

    @property
    def dtype(self) -> DType:
        """The element type."""
        return dtypes.of_id(self._type_id())

    def _type_id(self) -> DALIDataType:
        """The element type, as stored."""
        known = self._declared("dtype")
        found: DALIDataType = self._samples().dtype if known is None else known
        return found

    @property
    def device(self) -> Device:
        """Where the samples are."""
        return device_at(self._place)

    @property
    def layout(self) -> str | None:
        """Names of the axes, for example "HWC"; None if they have none."""
        if self._view_layout is not None:
            return self._view_layout or None
        known = self._declared("layout")
        return (self._samples().layout if known is None else known) or None

    @property
    def ndim(self) -> int:
        """Number of dimensions of a sample."""
        known = self._declared("ndim")
        return self._samples().ndim if known is None else int(known)

    # --- devices and computing

    def cpu(self: Held) -> Held:
        """The value on the CPU: itself, or a copy."""
        return self.to_device(Device.CPU)

    def gpu(self: Held, index: int | None = None) -> Held:
        """The value on a GPU (by default the current one): itself, or a copy."""
        return self.to_device(Device("gpu", index))

    def to_device(self: Held, device: object, force_copy: bool = False) -> Held:
        """The value on a device: itself if it is there (with `force_copy` a copy), else a copy."""
        from .devices import device as as_device

        wanted = as_device(device)
        if wanted is None:
            raise TypeError("to_device() needs a device")
        if not force_copy and self.device == wanted:
            return self

        return language.moved(self, wanted)

    def evaluate(self: Held) -> Held:
        """Compute the value if it is not; returns it."""
        self._samples()
        return self

    def __repr__(self) -> str:

        return language.described(self)

    def _repr_html_(self) -> str:
        """For notebooks: pictures as a contact sheet, sound as a waveform, other data with range and histogram."""
        return language.shown(self)

    __str__ = __repr__

    def __getattr__(self, name: str) -> NoReturn:
        missing_attribute(self, name, VALUES, functions=True)

    def __copy__(self: Held) -> Held:
        return type(self)._of(self._samples())

    def __deepcopy__(self: Held, memo: object) -> Held:
        return type(self)._of(copied(self._samples()))

    def __reduce__(self) -> tuple[object, ...]:
        samples = self.cpu()._samples()
        arrays = [np.ascontiguousarray(array) for array in arrays_of(samples)]
        shapes = np.ascontiguousarray(samples.shapes)
        return _restored, (type(self), shapes, int(samples.dtype), samples.layout, self._place, arrays)

    def __pos__(self: Held) -> Held:
        return self


def _restored(kind: type[DynamicValue], shapes: np.ndarray, dtype: int, layout: str, place: str, arrays: list[np.ndarray]) -> DynamicValue:
    made = kind._of(gathered(shapes, DALIDataType(dtype), layout, arrays))
    return made if place == "cpu" else made.to_device(device_at(place))


class Tensor(DynamicValue):
    """One array with an element type, a layout and a device.

    Users make tensors with :func:`tensor` and :func:`as_tensor`; the class is for ``isinstance``.

    Args:
        data: the data; see :func:`as_tensor`.
        dtype, device, layout: of the tensor; by default those of the data.
        batch, index_in_batch: instead of `data`: a sample of a Batch.
        invocation_result: internal.
        copy: whether the memory is copied, as :func:`tensor` does.
    """

    __slots__ = ()

    def __init__(
        self, data: object = None, dtype: object = None, device: object = None, layout: str | None = None, batch: Batch | None = None,
        index_in_batch: int | None = None, invocation_result: Any = None, copy: bool = False,
    ):  # fmt: skip
        super().__init__()
        if invocation_result is not None:
            self._work, self._number = invocation_result
            return
        if batch is not None:
            found = batch.tensors[0 if index_in_batch is None else index_in_batch]
        else:

            found = language.make_tensor(data, dtype, device, layout, copy=copy)
        self._held, self._work, self._number, self._view_layout = found._held, found._work, getattr(found, "_number", 0), found._view_layout

    # --- properties

    @property
    def shape(self) -> tuple[int, ...]:
        """The extents."""
        return tuple(self._shapes()[0].tolist())

    @property
    def size(self) -> int:
        """Number of elements."""
        return math.prod(self.shape)

    @property
    def itemsize(self) -> int:
        """Bytes of an element."""
        return self.dtype.bytes

    @property
    def nbytes(self) -> int:
        """Bytes of all elements."""
        return self.size * self.itemsize

    def item(self) -> Any:
        """The only element as a Python number. ValueError if there are several, or none."""
        array = array_of(self.cpu())
        if array.size != 1:
            raise ValueError(f"item() needs a tensor with one element, this one has {array.size} (shape {array.shape})")
        return array.reshape(-1)[0].item()

    # --- Python

    def __bool__(self) -> bool:
        if self.size != 1:
            raise ValueError(f"the truth value of a tensor with {self.size} elements is ambiguous; compare one element, or use numpy")
        return bool(self.item())

    def __int__(self) -> int:
        return int(self.item())

    def __float__(self) -> float:
        return float(self.item())

    def __index__(self) -> int:
        if self.ndim or self.dtype.kind not in (DType.Kind.signed, DType.Kind.unsigned):
            raise TypeError(f"only a 0-d tensor of integers is an index, this is {self.dtype} with {self.ndim} dimensions")
        return int(self.item())

    def __iter__(self) -> Iterator[Tensor]:
        if not self.ndim:
            raise TypeError("iteration over a 0-d tensor")
        return (self[k] for k in range(self.shape[0]))

    def __contains__(self, item: object) -> bool:
        return bool(np.any(array_of(self.cpu()) == (array_of(item.cpu()) if isinstance(item, Tensor) else item)))

    @without_frames
    def __getitem__(self, key: object) -> Tensor:

        return language.selected(self, key)

    # --- other libraries

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        samples = self._samples()
        check_on_host(samples, "numpy.asarray")
        if samples.dtype in ENUMERATIONS:
            raise TypeError(f"a tensor of {self.dtype} has no numpy type; cast it to ndd.int32 first")
        array = samples.sample(0)
        if dtype is not None and np.dtype(dtype) != array.dtype:
            if copy is False:
                raise ValueError(f"a conversion from {array.dtype} to {np.dtype(dtype)} needs a copy, and copy=False forbids it")
            converted: np.ndarray = array.astype(dtype)
            return converted
        return array.copy() if copy else array

    def __dlpack__(
        self, *, stream: object = None, max_version: tuple[int, int] | None = None, dl_device: tuple[int, int] | None = None,
        copy: bool | None = None,
    ) -> Any:  # fmt: skip

        return language.capsule(self, stream, max_version, dl_device, copy)

    def __dlpack_device__(self) -> tuple[int, int]:

        return language.dlpack_device(self)

    @property
    def __cuda_array_interface__(self) -> dict[str, object]:

        return language.cuda_interface(self)

    def torch(self, copy: bool = False) -> Any:
        """A ``torch.Tensor`` over this memory, or over a copy. TypeError for enumerations."""

        return language.torch_tensor(self, copy)


class Batch(DynamicValue):
    """Samples of one element type, number of dimensions and layout; shapes may differ.

    Users make batches with :func:`batch` and :func:`as_batch`; the class is for ``isinstance``.

    Args:
        tensors: the samples; see :func:`as_batch`.
        dtype, device, layout: of the samples; by default those of the first one.
        invocation_result: internal.
        copy: whether the memory is copied, as :func:`batch` does.
    """

    __slots__ = ()
    __array_ufunc__ = None
    """NumPy leaves operators with an array to the left to the batch, which is no array."""

    def __init__(
        self, tensors: object = None, dtype: object = None, device: object = None, layout: str | None = None, invocation_result: Any = None,
        copy: bool = False,
    ):  # fmt: skip
        super().__init__()
        if invocation_result is not None:
            self._work, self._number = invocation_result
            return

        found = language.make_batch(tensors, dtype, device, layout, copy=copy)
        self._held, self._work, self._number, self._view_layout = found._held, found._work, getattr(found, "_number", 0), found._view_layout

    @staticmethod
    def broadcast(sample: object, batch_size: int, device: object = None, dtype: object = None) -> Batch:
        """A batch of `batch_size` times the same sample, without copies. ValueError if `sample` is a Batch."""

        return language.broadcast(sample, batch_size, device, dtype)

    @property
    def batch_size(self) -> int:
        """Number of samples."""
        known = self._declared("count")
        return len(self._shapes()) if known is None else int(known)

    @property
    def shape(self) -> list[tuple[int, ...]]:
        """The shape of each sample; a new list each time."""
        return list(map(tuple, self._shapes().tolist()))

    @property
    def tensors(self) -> BatchTensors:
        """The samples as a list."""
        return BatchTensors(self, None)

    @property
    def slice(self) -> Any:
        """``batch.slice[...]`` selects inside of every sample, as ``tensor[...]`` does. An index may be a Batch: one for each sample."""

        return language.batched_slice(self)

    def select(self, sample_range: object) -> Tensor:
        """One sample (an integer), or a Batch of the samples that a slice, a range, a list of indices or of truth values names."""
        found = self.tensors[sample_range]
        return found if isinstance(found, Tensor) else found.as_batch()

    def torch(self, copy: bool | None = None, pad: bool = False) -> Any:
        """One ``torch.Tensor`` [samples, ...]. `pad`: zeros fill up smaller samples. ValueError for different shapes without `pad`, and
        for ``copy=False`` where a copy is needed."""

        return language.torch_batch(self, copy, pad)

    def _item(self, index: int) -> Tensor:
        count = self.batch_size
        if not -count <= index < count:
            raise IndexError(f"sample {index} does not exist; the batch has {count}")
        index %= count
        found = self._items.get(index)
        if found is None:
            found = self._items.setdefault(index, Tensor._of(part(self._samples(), index)))
        return found

    def __iter__(self) -> Iterator[Tensor]:
        return iter(self.tensors)

    def __contains__(self, item: object) -> bool:
        return any(item is other for other in self._items.values())

    def __bool__(self) -> bool:
        raise TypeError("a Batch has no truth value; look at batch.batch_size, or compare its samples")

    def __getitem__(self, key: object) -> Any:
        raise TypeError(
            "a Batch cannot be subscripted, because batch[i] might mean samples or axes: batch.tensors[i] or batch.select(i) is a sample, "
            "batch.slice[i] selects inside of every sample"
        )

    def __len__(self) -> int:
        raise TypeError("a Batch has no len(); its number of samples is batch.batch_size")

    def __array__(self, dtype: object = None, copy: bool | None = None) -> np.ndarray:
        raise TypeError("a Batch is no array: numpy.asarray(ndd.as_tensor(batch)) stacks samples of one shape (with pad=True any samples)")


class BatchTensors(Sequence[Tensor]):
    """The samples of a batch, or some of them, as a list of Tensors."""

    def __init__(self, batch: Batch, chosen: Sequence[int] | None):
        self._batch = batch
        self._chosen = chosen

    def __len__(self) -> int:
        return self._batch.batch_size if self._chosen is None else len(self._chosen)

    def __getitem__(self, index: object) -> Any:

        found = language.chosen_samples(index, len(self))
        if isinstance(found, int):
            return self._batch._item(found if self._chosen is None else self._chosen[found])
        if index is Ellipsis or (isinstance(index, slice) and index == slice(None)):
            return self
        return BatchTensors(self._batch, found if self._chosen is None else [self._chosen[k] for k in found])

    def __iter__(self) -> Iterator[Tensor]:
        return (self[k] for k in range(len(self)))

    def select(self, sample_range: object) -> Any:
        """As indexing; ``...`` is all samples."""
        return self[sample_range]

    def tolist(self) -> list[Tensor]:
        """The samples as a plain list."""
        return list(self)

    def as_batch(self, copy: bool = False) -> Batch:
        """The samples as a Batch, over the same memory unless `copy`."""
        if self._chosen is None:
            return self._batch.__deepcopy__(None) if copy else self._batch
        samples = chosen_part(self._batch._samples(), self._chosen)
        return Batch._of(copied(samples) if copy else samples)

    def __repr__(self) -> str:
        return f"BatchTensors({self.tolist()!r})"


# ------------------------------------------------------------------------------------------------------------ samples


def check_on_host(samples: Samples, what: str) -> None:
    """TypeError for samples in a GPU's memory."""
    if samples.device != "cpu":
        raise TypeError(f"{what} needs data on the CPU, this is on {samples.device}: call cpu() first")


def array_of(value: Tensor) -> np.ndarray:
    """The only sample of a Tensor on the CPU, without a copy; enumerations as int32."""
    return value._samples().sample(0)


def arrays_of(samples: Samples) -> list[np.ndarray]:
    """The samples as arrays, without copies."""
    return [samples.sample(k) for k in range(len(samples))]


def untouched(value: DynamicValue) -> Samples:
    """The samples of a value, without noting that they were read: operators do not change them."""
    held, work = value._held, value._work
    if held is None and work is not None:
        held = work.batches()[value._number]
        if value._view_layout is not None:
            held = relabelled(held, value._view_layout)
    return value._samples() if held is None else held


def part(samples: Samples, index: int) -> Samples:
    """One sample, over the same memory."""
    return samples.part(index, index + 1)


def chosen_part(samples: Samples, chosen: Sequence[int]) -> Samples:
    """Some samples in any order, over the same memory."""
    rows = np.asarray(chosen, np.int64)
    info = samples.source_info
    made = Samples(
        samples.shapes[rows], samples.dtype, samples.layout, np.ascontiguousarray(samples.addresses[rows]), samples.memory_owner,
        device=samples.device, source_info=None if info is None else [info[k] for k in chosen],
    )  # fmt: skip
    reused = samples.reused_memory
    made.reused = reused if isinstance(reused, bool) else reused[rows]
    return made


def repeated_part(samples: Samples, count: int) -> Samples:
    """The only sample of `samples`, `count` times, over the same memory. Small contents stay known to planning."""
    if samples.values is not None:
        values = np.broadcast_to(samples.values, (count, *samples.values.shape[1:]))
        if values.nbytes <= 1 << 16:
            made = Samples.from_values(np.ascontiguousarray(values), samples.layout, samples.dtype)
            made.device = samples.device
            return made
    return chosen_part(samples, [0] * count)


def relabelled(samples: Samples, layout: str) -> Samples:
    """The same samples with another layout."""
    if samples.layout == layout:
        return samples
    made = Samples.alias(samples, samples.shapes, samples.dtype, layout)
    made.reused = samples.reused_memory
    return made


def copied(samples: Samples) -> Samples:
    """The samples in memory of their own, on the same device."""
    made = None if samples.device == "cpu" else language.copied_on_gpu(samples)
    if made is not None:
        return made
    return gathered(samples.shapes, samples.dtype, samples.layout, arrays_of(samples), samples.device, samples.source_info)


def gathered(
    shapes: np.ndarray, dtype: DALIDataType, layout: str, arrays: Sequence[np.ndarray], place: str = "cpu",
    info: Sequence[str] | None = None,
) -> Samples:  # fmt: skip
    """A batch with copies of arrays of these shapes."""
    made = Samples(np.ascontiguousarray(shapes, np.int64), dtype, layout, device=place, source_info=info)
    made.reserve_by_numpy(lambda size: np.empty(size, np.uint8))
    for k, array in enumerate(arrays):
        made.sample(k)[...] = array
    return made


@without_frames
def tensor(data: object, dtype: object = None, device: object = None, layout: str | None = None, pad: bool = False) -> Tensor:
    """A Tensor with a copy of `data`; see :func:`as_tensor`."""

    return language.make_tensor(data, dtype, device, layout, pad, copy=True)


@without_frames
def as_tensor(data: object, dtype: object = None, device: object = None, layout: str | None = None, pad: bool = False) -> Tensor:
    """A Tensor over the memory of `data`, where that is possible.

    Args:
        data: a number; lists of numbers in equal rows; an array of NumPy or of another library (DLPack, ``__array__``); a PIL picture
            (layout HWC); a Tensor; a Batch, whose samples are stacked (layout "HWC" becomes "NHWC").
        dtype: the element type. Python data is made in it (floats are cut to integers); arrays are converted by the operator `cast`.
        device: the device; by default that of the data.
        layout: names of the axes, as many letters as dimensions; by default those of the data.
        pad: a Batch of different shapes: fill up smaller samples with zeros at the ends.

    Raises:
        TypeError: data without an element type here (strings, complex, structured, objects, bfloat16), or no data at all.
        ValueError: a layout with a wrong number of letters; a Batch of different shapes without `pad`; rows of different lengths.
        OverflowError: an integer that the type cannot hold.
    """

    return language.make_tensor(data, dtype, device, layout, pad, copy=False)


@without_frames
def batch(tensors: object, dtype: object = None, device: object = None, layout: str | None = None) -> Batch:
    """A Batch with copies of its samples; see :func:`as_batch`."""

    return language.make_batch(tensors, dtype, device, layout, copy=True)


@without_frames
def as_batch(tensors: object, dtype: object = None, device: object = None, layout: str | None = None) -> Batch:
    """A Batch over the memory of its samples, where that is possible.

    Args:
        tensors: a list, tuple, range or generator of samples (each is what :func:`as_tensor` takes); an array or Tensor, which is cut
            along its first axis; a Batch or a BatchTensors of a pipeline.
        dtype: the element type; needed for an empty list.
        device: the device; by default that of the samples.
        layout: the layout of each sample; by default that of the first sample that has one.

    Raises:
        TypeError: something that is no batch, None among the samples, or samples whose types lose values in a common type.
        ValueError: an empty list without `dtype`, a 0-d array, or a layout with a wrong number of letters.
        RuntimeError: different numbers of dimensions.
    """

    return language.make_batch(tensors, dtype, device, layout, copy=False)


__all__ = ["Tensor", "Batch", "BatchTensors", "tensor", "as_tensor", "batch", "as_batch", "device"]

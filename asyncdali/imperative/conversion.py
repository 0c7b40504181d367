"""Makes Tensors and Batches of data from Python and from other libraries."""

from __future__ import annotations

import operator
from array import ArrayType
from collections.abc import Sequence
from typing import Any

import numpy as np

from ..batch import Batch as Samples
from ..batch import from_numpy_dtype
from ..compiled.addresses import address_of
from ..errors import InputError
from ..tensors import TensorCPU, TensorGPU, TensorListCPU, TensorListGPU
from ..tensors.lists import batch_of
from ..types import DALIDataType
from ..types.conversions import FROM_DTYPE
from ..types.enums import ENUM_CLASSES, ENUM_KINDS
from . import values
from .devices import Device, device
from .dtypes import DType, dtype, of_id, stored
from .values import Batch, DynamicValue, Held, Tensor, array_of, copied, gathered, relabelled, repeated_part


def make_tensor(data: object, kind: object, where: object, layout: object, pad: bool = False, copy: bool = False) -> Tensor:
    """See :func:`values.as_tensor`; `copy` as :func:`values.tensor`."""
    wanted = None if kind is None else dtype(kind)
    place = device(where)
    if isinstance(data, (Batch, TensorListCPU, TensorListGPU)):
        found = stacked(data if isinstance(data, Batch) else make_batch(data, None, None, None), pad)
    elif isinstance(data, Tensor):
        found = data
    else:
        samples = _one(data, wanted)
        if copy and samples.reused is True:
            samples = copied(samples)
        copy = False
        found = Tensor._of(samples)
    found = _as_asked(found, wanted, layout)
    if place is not None and place != found.device:
        return found.to_device(place)
    if copy and found._samples() is (data._samples() if isinstance(data, DynamicValue) else None):
        return Tensor._of(copied(found._samples()))
    if copy and isinstance(data, DynamicValue):
        return Tensor._of(copied(found._samples()))
    return found


def make_batch(data: Any, kind: object, where: object, layout: object, copy: bool = False) -> Batch:
    """See :func:`values.as_batch`; `copy` as :func:`values.batch`."""
    wanted = None if kind is None else dtype(kind)
    place = device(where)
    if isinstance(data, Batch):
        found = data
    elif isinstance(data, (TensorListCPU, TensorListGPU)):
        host = data if isinstance(data, TensorListCPU) else data.as_cpu()
        found = Batch._of(batch_of(host))
    elif isinstance(data, Tensor):
        found = Batch._of(_cut(data._samples(), data.layout or ""))
    elif data is None or (isinstance(data, (str, bytes, dict, int, float, complex)) and not isinstance(data, np.generic)):
        raise InputError(f"a batch is a list of samples, an array or a Batch, got {_kind(data)}")
    elif hasattr(data, "__array__") or hasattr(data, "__dlpack__"):
        tensor = make_tensor(data, None, None, None)
        found = Batch._of(_cut(tensor._samples(), tensor.layout or ""))
    else:
        try:
            items = list(data)
        except TypeError:
            raise InputError(f"a batch is a list of samples, an array or a Batch, got {_kind(data)}") from None
        found = _listed(items, wanted, copy)
        copy = False
    found = _as_asked(found, wanted, layout)
    if place is not None and place != found.device:
        return found.to_device(place)
    return Batch._of(copied(found._samples())) if copy else found


def _as_asked(value: Held, kind: DType | None, layout: object) -> Held:
    """The value with another type and layout."""
    if kind is not None and value.dtype != kind:
        stored(kind)
        value = values.language.converted(value, kind)
    if layout is None:
        return value
    checked = _checked_layout(layout, value)
    if value._held is None and value._work is not None:
        return type(value)._later(value._work, value._number, checked)
    return type(value)._of(relabelled(value._samples(), checked))


def _checked_layout(layout: object, value: DynamicValue) -> str:
    if not isinstance(layout, str):
        raise ValueError(f"a layout is a string, got {type(layout).__name__}")
    if layout and len(layout) != value.ndim and not _without_rank(value):
        raise ValueError(f"the layout {layout!r} has {len(layout)} letters, the data has {value.ndim} dimensions")
    return layout


def _without_rank(value: DynamicValue) -> bool:
    """Whether this is ``batch([], dtype=...)``, whose samples have no known number of dimensions."""
    return isinstance(value, Batch) and value.batch_size == 0 and value.ndim == 0


# --------------------------------------------------------------------------------------------------------- one sample


def _one(data: object, kind: DType | None) -> Samples:
    """The samples of a Tensor over the memory of `data`; marked as reused if the memory is not ours."""
    if isinstance(data, (TensorCPU, TensorGPU)):
        host = data if isinstance(data, TensorCPU) else data.as_cpu()
        samples = _shared(np.asarray(host)[None], host.layout(), host.dtype)
        info = host.source_info()
        samples.source_info = [info] if info else None
        return samples
    if isinstance(data, np.ndarray):
        return _of_array(data)
    if isinstance(data, np.generic):
        return Samples.from_values(_numbers(np.asarray(data))[None])
    if isinstance(data, (bool, int, float, list, tuple, range, ArrayType, *ENUM_CLASSES)):
        return _of_python(data, kind)
    if isinstance(data, (bytearray, memoryview)):
        return _of_array(np.asarray(data))
    picture = _of_picture(data)
    if picture is not None:
        return picture
    return _foreign(data, kind)


def _of_array(array: np.ndarray, layout: str = "") -> Samples:
    usable = _numbers(array)
    if usable is array and array.flags.c_contiguous and array.flags.writeable:
        return _shared(array[None], layout)
    own = np.array(usable, order="C", copy=True)
    return Samples.from_values(own[None], layout)


def _shared(array: np.ndarray, layout: str = "", kind: DALIDataType | None = None) -> Samples:
    samples = Samples.from_values(array, layout, kind)
    samples.reused = True
    return samples


def _numbers(array: np.ndarray) -> np.ndarray:
    """An array whose elements have a DALIDataType; foreign byte order is converted. TypeError for other elements."""
    if array.dtype in FROM_DTYPE:
        return array
    native = array.dtype.newbyteorder("=")
    if native in FROM_DTYPE:
        return array.astype(native)
    raise InputError(f"elements of numpy type {array.dtype} are not supported; supported are bool, integers and floats of up to 64 bits")


def _of_python(data: object, kind: DType | None) -> Samples:
    """Python numbers: int32 (uint32 if they need it), float32, bool; or the type `kind`, by NumPy's rules."""
    enumeration = _enumerations(data)
    if enumeration is not None:
        return enumeration
    if kind is not None:
        stored(kind)
    if isinstance(data, (list, tuple)) and any(isinstance(item, DynamicValue) for item in data):
        data = [array_of(item.cpu()) if isinstance(item, Tensor) else item for item in data]
    try:
        array = np.array(data)
    except ValueError as error:
        raise ValueError(f"nested lists must have rows of equal length: {error}") from None
    except OverflowError as error:
        raise OverflowError(str(error)) from None
    if array.size == 0 and array.dtype == np.float64:
        array = array.astype(np.float32)
    if array.dtype.kind == "O" and array.size and all(type(item) is int for item in array.reshape(-1).tolist()):
        raise OverflowError(f"an integer does not fit into 64 bits: {data!r}")
    if array.dtype.kind not in "biuf":
        raise InputError(f"expected numbers or nested lists of numbers, got {_shown(data)}")
    if kind is not None and kind.storage is not None:
        return Samples.from_values(_in_type(array, kind)[None], dtype=kind.type_id)
    if array.dtype in (np.int64, np.uint64):
        array = _narrow(array)
    elif array.dtype == np.float64:
        with np.errstate(over="ignore"):  # infinite, as in pipelines
            array = array.astype(np.float32)
    return Samples.from_values(_numbers(array)[None])


def _shown(data: object) -> str:
    text = repr(data)
    return text if len(text) <= 80 else f"{text[:77]}..."


def _in_type(array: np.ndarray, kind: DType) -> np.ndarray:
    """Python numbers in a type, by NumPy's rules: floats are cut, integers out of range raise OverflowError."""
    target = kind.storage
    assert target is not None
    if target.kind in "iu" and array.size:
        limits = np.iinfo(target)
        if array.dtype.kind == "f" and np.isnan(array).any():
            raise ValueError(f"NaN is no integer of type {kind.name}")
        low, high = array.min(), array.max()
        if not (limits.min <= low and high <= limits.max):
            raise OverflowError(f"{low if low < limits.min else high} does not fit into {kind.name} [{limits.min}, {limits.max}]")
    with np.errstate(over="ignore"):  # infinite, as in pipelines
        return array.astype(target)


def _narrow(array: np.ndarray) -> np.ndarray:
    """Integers as int32, or as uint32 if none is negative and one needs it. OverflowError beyond."""
    if not array.size:
        return array.astype(np.int32)
    low, high = int(array.min()), int(array.max())
    if low >= -(2**31) and high < 2**31:
        return array.astype(np.int32)
    if low >= 0 and high < 2**32:
        return array.astype(np.uint32)
    raise OverflowError(f"{low if low < -(2**31) else high} does not fit into 32 bits; give dtype=ndd.int64")


def _enumerations(data: object) -> Samples | None:
    items = data if isinstance(data, (list, tuple)) else [data]
    if not items or not isinstance(items[0], ENUM_CLASSES):
        return None
    if len(set(map(type, items))) > 1:
        raise TypeError("members of different enumerations cannot be one tensor")
    numbers = np.array([int(item) for item in items], np.int32)  # type: ignore[arg-type]  # members, which were checked
    one = numbers if isinstance(data, (list, tuple)) else numbers.reshape(())
    return Samples.from_values(one[None], dtype=ENUM_KINDS[type(items[0])])


def _of_picture(data: object) -> Samples | None:
    """A PIL picture, as HWC."""
    if not type(data).__module__.startswith("PIL."):
        return None
    array = np.array(data)
    return Samples.from_values(_numbers(array[..., None] if array.ndim == 2 else array)[None], "HWC")


def _foreign(data: object, kind: DType | None) -> Samples:
    """An array of another library, or a sequence."""
    if hasattr(data, "__dlpack_device__"):
        array = _array_over(data)
        if array is None:
            from .cuda import imported

            return imported(data)
        return _of_array(array)
    if hasattr(data, "__array__") or hasattr(data, "__array_interface__"):
        return _of_array(np.asarray(data))
    if hasattr(data, "__len__") and hasattr(data, "__getitem__") and not isinstance(data, (str, bytes, dict)):
        return _of_python([*data], kind)  # type: ignore[misc]  # deque, UserList
    hint = "; numpy.frombuffer(data, numpy.uint8) is an array over bytes" if isinstance(data, bytes) else ""
    raise InputError(f"expected an array, numbers, a PIL picture or a Tensor, got {_kind(data)}{hint}")


def _array_over(data: Any) -> np.ndarray | None:
    """An array over the memory of an array of another library, by DLPack; None if the memory is a GPU's."""
    if type(data).__module__.partition(".")[0] == "torch":
        _check_torch(data)
    if Device.type_from_dlpack(int(data.__dlpack_device__()[0])) == "gpu":
        return None
    from ..tensors.dlpack import from_dlpack

    try:
        return from_dlpack(data)
    except (BufferError, RuntimeError) as error:
        raise InputError(f"the data of a {type(data).__name__} cannot be used: {error}") from None


def _kind(data: object) -> str:
    return "None" if data is None else f"a {type(data).__name__}"


def _check_torch(data: object) -> None:
    name = str(getattr(data, "dtype", ""))
    if getattr(data, "requires_grad", False):
        raise InputError("the torch tensor requires a gradient: give tensor.detach()")
    if getattr(data, "is_sparse", False) or "sparse" in str(getattr(data, "layout", "")):
        raise InputError("sparse torch tensors are not supported: give tensor.to_dense()")
    if name in ("torch.bfloat16", "torch.complex64", "torch.complex128"):
        raise InputError(f"elements of {name} are not supported: convert them first, for example with tensor.float()")


# ------------------------------------------------------------------------------------------------------------ batches


def _cut(samples: Samples, layout: str) -> Samples:
    """The samples along the first axis of a Tensor's only sample."""
    shape = samples.shapes[0].tolist()
    if not shape:
        raise ValueError("a 0-d array is no batch: its first axis would count the samples")
    if samples.device == "cpu":
        made = Samples.from_values(samples.sample(0), layout[1:], samples.dtype)
    else:
        rest = np.array(shape[1:], np.int64)
        pitch = int(rest.prod()) * samples.itemsize
        addresses = int(samples.addresses[0]) + pitch * np.arange(shape[0], dtype=np.int64)
        made = Samples(np.tile(rest, (shape[0], 1)), samples.dtype, layout[1:], addresses, samples.memory_owner, device=samples.device)
    made.reused = samples.reused
    return made


def _listed(items: list[object], kind: DType | None, copy: bool) -> Batch:
    """A batch of samples. Numbers of different types get a common one. Without `copy`, the batch views arrays and Tensors on the CPU."""
    if not items:
        if kind is None:
            raise ValueError("an empty batch needs `dtype`")
        return Batch._of(Samples(np.empty((0, 0), np.int64), stored(kind), contiguous=True, owner=np.empty(0, np.uint8)))
    if any(isinstance(item, Batch) for item in items):
        raise TypeError("a list of batches is no batch; give their samples")
    if any(item is None for item in items):
        raise TypeError(f"sample {next(k for k, item in enumerate(items) if item is None)} is None")
    if kind is None:
        plain = _plain_arrays(_arrays_over(items), copy)
        if plain is not None:
            return Batch._of(plain)
    tensors = [make_tensor(item, kind if not hasattr(item, "dtype") else None, None, None) for item in items]
    if kind is not None:
        tensors = [_as_asked(item, kind, None) for item in tensors]
    first = tensors[0]
    common = _common([item.dtype for item in tensors], items)
    layout = next((item.layout for item in tensors if item.layout), None) or ""
    tensors = [_in_common(item, common) for item in tensors]
    on_host = all(item._place == "cpu" for item in tensors)
    tensors = tensors if on_host else [item.cpu() for item in tensors]
    ranks = {item.ndim for item in tensors}
    if len(ranks) > 1:
        raise RuntimeError(f"all samples of a batch must have the same number of dimensions, got {', '.join(map(str, sorted(ranks)))}")
    samples = [item._samples() for item in tensors]
    shapes = np.concatenate([item.shapes for item in samples])
    named = [str(item.source_info[0]) if item.source_info else "" for item in samples]
    info = named if any(named) else None
    if on_host and not copy and any(isinstance(item, DynamicValue) or one.reused for item, one in zip(items, samples, strict=True)):
        made = Samples(shapes, samples[0].dtype, layout, np.concatenate([item.addresses for item in samples]), source_info=info)
        made.owner = [item.memory_owner for item in samples]
        made.reused = any(item.reused_memory is not False for item in samples)
        return Batch._of(made)
    made = gathered(shapes, samples[0].dtype, layout, [item.sample(0) for item in samples], "cpu", info)
    return Batch._of(made).to_device(first.device)


def _arrays_over(items: list[Any]) -> Sequence[Any]:
    """Arrays over the memory of samples of one other library with DLPack; `items` if the samples are something else, or on a GPU."""
    (kind, *others) = set(map(type, items))
    if others or issubclass(kind, (np.ndarray, DynamicValue, TensorCPU, TensorGPU)) or not hasattr(kind, "__dlpack_device__"):
        return items
    arrays = [_array_over(item) for item in items]
    return items if any(array is None for array in arrays) else arrays


def _plain_arrays(items: Sequence[Any], copy: bool) -> Samples | None:
    """Arrays of numpy with one type and rank, which are taken without making a Tensor of each."""
    first = items[0]
    if set(map(type, items)) != {np.ndarray} or first.dtype not in FROM_DTYPE:
        return None
    if any(item.dtype != first.dtype or item.ndim != first.ndim for item in items):
        return None
    shapes = np.array([item.shape for item in items], np.int64).reshape(len(items), first.ndim)
    kind = from_numpy_dtype(first.dtype)
    usable = [item.flags.c_contiguous and item.flags.writeable for item in items]
    if copy or not any(usable):
        return gathered(shapes, kind, "", items)
    if not all(usable):
        return None
    made = Samples(shapes, kind, "", np.array(list(map(address_of, items)), np.int64), list(items))
    made.reused = True
    return made


def _common(kinds: Sequence[DType], items: Sequence[object]) -> DType:
    """One type for all samples. TypeError if that would change values."""
    if len(set(map(id, kinds))) == 1:
        return kinds[0]
    storages = [kind.storage for kind in kinds]
    if any(kind.kind is DType.Kind.enum for kind in kinds) or any(item is None for item in storages):
        raise TypeError(f"samples of the types {', '.join(sorted({kind.name for kind in kinds}))} are no batch; give `dtype`")
    python = all(isinstance(item, (bool, int, float, list, tuple)) for item in items)
    result = np.result_type(*storages)
    if python and result == np.float64:
        result = np.dtype(np.float32)
    return of_id(from_numpy_dtype(result))


def _in_common(item: Tensor, common: DType) -> Tensor:
    """A sample in the batch's type. TypeError for integers of 64 bits that the type does not have."""
    made = _as_asked(item, common, None)
    if made is not item and common.kind is DType.Kind.float and item.dtype.bits == 64 and item.dtype.kind is not DType.Kind.float:
        before, after = array_of(item.cpu()), array_of(made.cpu())
        if any(int(one) != int(other) for one, other in zip(before.flat, after.flat, strict=True)):
            raise TypeError(f"a sample of {item.dtype} has integers that {common} cannot hold; give `dtype`")
    return made


def stacked(batch: Batch, pad: bool) -> Tensor:
    """The samples of a batch as one Tensor [samples, ...]. ValueError for different shapes, unless `pad`."""
    samples = batch._samples()
    count, shapes = len(samples), samples.shapes
    layout = f"N{samples.layout}" if samples.layout or not samples.ndim else ""
    uniform = count < 2 or shapes.tobytes() == shapes[0].tobytes() * count  # this takes less than a comparison of elements
    if not uniform and not pad:
        raise ValueError(f"samples of different shapes cannot be one tensor: {batch.shape}; give pad=True to fill them up with zeros")
    if samples.values is not None and uniform and samples.device == "cpu":
        made = Samples.from_values(samples.values[None], layout, samples.dtype)
        made.reused = samples.reused
        return Tensor._of(made)
    extents = (0,) * samples.ndim if not count else tuple(shapes[0].tolist() if uniform else shapes.max(axis=0).tolist())
    if uniform and samples.contiguous and count:
        whole = Samples(np.array([[count, *extents]], np.int64), samples.dtype, layout, device=samples.device)
        whole.addresses[0] = samples.addresses[0]
        whole.owner, whole.contiguous, whole.reused = samples.memory_owner, True, samples.reused_memory is not False
        return Tensor._of(whole)
    if samples.device != "cpu":
        return stacked(batch.cpu(), pad).to_device(batch.device)
    from ..batch import storage_dtype

    stacked_values = (np.zeros if not uniform else np.empty)((count, *extents), storage_dtype(samples.dtype))
    for k in range(count):
        key: Any = (k, *[slice(extent) for extent in shapes[k].tolist()])
        stacked_values[key] = samples.sample(k)
    return Tensor._of(Samples.from_values(stacked_values[None], layout, samples.dtype))


def broadcast(sample: object, batch_size: Any, where: object, kind: object) -> Batch:
    """See :meth:`values.Batch.broadcast`."""
    if isinstance(sample, (Batch, TensorListCPU, TensorListGPU)):
        raise ValueError("Batch.broadcast repeats one sample, and was given a batch")
    count = operator.index(batch_size)
    if count < 0:
        raise ValueError(f"batch_size cannot be negative, got {count}")
    tensor = make_tensor(sample, kind, where, None)
    return Batch._of(repeated_part(tensor._samples(), count))

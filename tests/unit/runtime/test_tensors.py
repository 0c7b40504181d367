"""Tensors and tensor lists: views, lifetimes, conversions and errors."""

from __future__ import annotations

import copy
import ctypes
import gc
import pickle
import sys
import weakref

import numpy as np
import pytest

from asyncdali import types
from asyncdali.batch import AddressView, Batch
from asyncdali.tensors import TensorCPU, TensorGPU, TensorListCPU, TensorListGPU

RAGGED = [np.arange(6, dtype=np.float32).reshape(2, 3), np.ones((1, 3), np.float32)]


class Pooled(np.ndarray):
    """Memory whose release can be observed."""


class Owner:
    """The object that a view of memory keeps alive."""


def batch_of(arrays, layout="", *, gaps=False):
    """A batch of copies of `arrays`, placed in memory as by the executor. With `gaps` the samples are in separate pieces."""
    arrays = [np.ascontiguousarray(array).reshape(np.shape(array)) for array in arrays]
    shapes = np.array([array.shape for array in arrays], np.int64).reshape(len(arrays), arrays[0].ndim)
    batch = Batch(shapes, types.to_dali_type(arrays[0].dtype), layout, source_info=[f"file{i}" for i in range(len(arrays))])
    if gaps:
        pieces = [array.copy() for array in arrays]
        batch.addresses[:] = [piece.ctypes.data for piece in pieces]
        batch.owner = pieces
    else:
        batch.place(np.zeros(max(int(batch.sizes().sum()), 1), np.uint8).view(Pooled))
        for index, array in enumerate(arrays):
            batch.sample(index)[...] = array
    return batch


@pytest.fixture(params=["one piece", "pieces"])
def ragged(request):
    return TensorListCPU._from_batch(batch_of(RAGGED, "HW", gaps=request.param == "pieces"))


@pytest.fixture(params=["one piece", "pieces", "values"])
def dense(request):
    array = np.arange(24, dtype=np.int16).reshape(2, 3, 4)
    if request.param == "values":
        return TensorListCPU._from_batch(Batch.from_values(array, "HW"))
    return TensorListCPU._from_batch(batch_of(list(array), "HW", gaps=request.param == "pieces"))


# --- lists -----------------------------------------------------------------------------------------------------------


def test_description(ragged):
    assert len(ragged) == 2
    assert ragged.shape() == [(2, 3), (1, 3)]
    assert (ragged.ndim(), ragged.dtype, ragged.layout()) == (2, types.FLOAT, "HW")
    assert not ragged.is_dense_tensor()
    assert ragged.as_cpu() is ragged


def test_samples(ragged):
    for index in (0, 1, -1, -2, np.int64(1), True):
        sample = ragged[index]
        assert isinstance(sample, TensorCPU)
        assert sample.shape() == list(RAGGED[index].shape)
        assert sample.layout() == "HW"
        assert sample.source_info() == sample.get_property("source_info") == f"file{int(index) % 2}"
        np.testing.assert_array_equal(np.asarray(sample), RAGGED[index])
    for index in (2, -3):
        with pytest.raises(IndexError):
            ragged[index]
    for index in ("a", 1.0, None, (0,)):
        with pytest.raises(TypeError, match="integers or slices"):
            ragged[index]
    assert [sample.shape() for sample in ragged] == [[2, 3], [1, 3]]


def test_at_is_a_copy(ragged):
    array = ragged.at(1)
    array[...] = 7
    np.testing.assert_array_equal(ragged.at(1), RAGGED[1])
    for index in (-1, 2):
        with pytest.raises(RuntimeError, match="out-of-range"):
            ragged.at(index)


def test_sample_views_share_memory(dense):
    first = np.asarray(dense[0])
    first[0, 0] = 99
    assert dense.at(0)[0, 0] == 99
    assert np.asarray(dense.as_tensor())[0, 0, 0] == 99
    # Now the list is in one piece.
    assert np.asarray(dense[0]).ctypes.data == dense.data_ptr() == dense.as_tensor().data_ptr() == dense[0].data_ptr()
    dense.as_array()[0] = 5
    assert dense.at(0)[0, 0] == 99


@pytest.mark.parametrize(
    ("index", "samples"), [(slice(1, 3), [1, 2]), (slice(None, None, 2), [0, 2]), (slice(None, None, -1), [3, 2, 1, 0]), (slice(4, 9), [])]
)
@pytest.mark.parametrize("gaps", [False, True])
def test_slices(index, samples, gaps):
    arrays = [np.full((i + 1, 2), i, np.int32) for i in range(4)]
    part = TensorListCPU._from_batch(batch_of(arrays, "HW", gaps=gaps))[index]
    assert isinstance(part, TensorListCPU)
    assert (len(part), part.layout(), part.dtype) == (len(samples), "HW", types.INT32)
    for sample, number in zip(part, samples, strict=True):
        np.testing.assert_array_equal(np.asarray(sample), arrays[number])
        assert sample.source_info() == f"file{number}"


def test_slices_of_values():
    part = TensorListCPU(np.arange(6))[1:5:2]
    assert part.as_array().tolist() == [1, 3]
    np.asarray(part[0])[...] = 9
    assert part.at(0) == 9


def test_as_tensor(dense):
    tensor = dense.as_tensor()
    assert (tensor.shape(), tensor.layout(), tensor.dtype) == ([2, 3, 4], "NHW", types.INT16)
    dense.set_layout(None)
    assert dense.as_tensor().layout() == ""


def test_ragged_errors(ragged):
    for call in (ragged.as_tensor, ragged.as_array, ragged.__dlpack__):
        with pytest.raises(RuntimeError, match=r"shape.*\(2, 3\), \(1, 3\)"):
            call()
    with pytest.raises(RuntimeError, match=r"fn\.pad, fn\.crop and fn\.resize make samples equal"):
        ragged.as_tensor()
    with pytest.raises(ValueError, match=r"\(2, 3\), \(1, 3\)"):
        np.asarray(ragged)


def test_as_reshaped_tensor(ragged):
    tensor = ragged.as_reshaped_tensor([9])
    assert (tensor.shape(), tensor.layout()) == ([9], "")
    np.testing.assert_array_equal(np.asarray(tensor), np.concatenate([array.ravel() for array in RAGGED]))
    assert ragged.as_reshaped_tensor((3, 3)).shape() == [3, 3]
    assert ragged.as_reshaped_tensor((1, 3, 3)).layout() == "NHW"
    for shape in ([-1], [8], [-3, -3]):
        with pytest.raises(RuntimeError, match="same volume"):
            ragged.as_reshaped_tensor(shape)
    with pytest.raises(TypeError):
        ragged.as_reshaped_tensor(9)


def test_copy_to_external(ragged):
    expected = np.concatenate([array.ravel() for array in RAGGED])
    for pointer in (
        lambda t: ctypes.c_void_p(t.ctypes.data),
        lambda t: t.ctypes.data,
        lambda t: t.ctypes.data_as(ctypes.POINTER(ctypes.c_float)),
    ):
        target = np.zeros(9, np.float32)
        ragged.copy_to_external(pointer(target))
        np.testing.assert_array_equal(target, expected)
    target = np.zeros((1, 3), np.float32)
    ragged[1].copy_to_external(ctypes.c_void_p(target.ctypes.data))
    np.testing.assert_array_equal(target, RAGGED[1])


@pytest.mark.parametrize("pointer", [None, 0, 5, -1, ctypes.c_void_p(), ctypes.c_void_p(0)])
def test_copy_to_nowhere(pointer, ragged):
    for tensors in (ragged, ragged[0]):
        with pytest.raises(ValueError, match="pointer"):
            tensors.copy_to_external(pointer)
    with pytest.raises(TypeError):
        ragged.copy_to_external("x")
    TensorListCPU(np.zeros((2, 0))).copy_to_external(pointer)


def test_numpy(dense):
    expected = np.arange(24).reshape(2, 3, 4)
    np.testing.assert_array_equal(np.asarray(dense), expected)
    assert np.asarray(dense, np.float64).dtype == np.float64
    copied = np.array(dense)
    copied[...] = 0
    np.testing.assert_array_equal(dense.as_array(), expected)
    view = np.array(dense, copy=False)
    assert view.ctypes.data == dense.data_ptr()
    assert not hasattr(dense, "__array_interface__")


def test_dlpack_of_list(dense):
    array = np.from_dlpack(dense)
    assert array.shape == (2, 3, 4)
    assert array.ctypes.data == dense.data_ptr()
    assert dense.__dlpack_device__() == (1, 0)


def test_layout_and_type_in_place(dense):
    batch = dense._batch
    dense.set_layout("AB")
    dense.reinterpret(types.UINT16)
    assert (dense.layout(), dense.dtype, dense[0].dtype, np.asarray(dense[0]).dtype) == ("AB", types.UINT16, types.UINT16, np.uint16)
    assert (batch.layout, batch.dtype) == ("HW", types.INT16)
    np.testing.assert_array_equal(dense.as_array(), np.arange(24).reshape(2, 3, 4))
    with pytest.raises(ValueError, match="same number of dimensions"):
        dense.set_layout("X")
    with pytest.raises(TypeError):
        dense.set_layout(5)
    for bad in (types.INT32, types.NO_TYPE, types.STRING):
        with pytest.raises(RuntimeError, match="element size"):
            dense.reinterpret(bad)
    with pytest.raises(TypeError):
        dense.reinterpret("x")


def test_reset(dense):
    sample = dense[0]
    dense.reset()
    assert (len(dense), dense.shape(), dense.dtype, dense.layout(), dense.ndim()) == (0, [], types.NO_TYPE, "", 0)
    assert np.asarray(sample).tolist() == np.arange(12).reshape(3, 4).tolist()


def test_identity(dense):
    same, other = dense, TensorListCPU(dense)
    assert dense == same
    assert dense != other
    assert len({dense, other}) == 2
    with pytest.raises(TypeError):
        dense + 1
    assert not TensorListCPU([])


def test_broadcast():
    tensor = TensorCPU(np.arange(3), "X")
    tensors = TensorListCPU.broadcast(tensor, 3)
    assert (tensors.shape(), tensors.layout()) == ([(3,)] * 3, "X")
    assert tensors[2].data_ptr() == tensor.data_ptr()
    assert tensors.as_array().tolist() == [[0, 1, 2]] * 3
    assert len(TensorListCPU.broadcast(tensor, 0)) == 0
    with pytest.raises(ValueError, match="negative"):
        TensorListCPU.broadcast(tensor, -1)


def test_from_dlpack_list():
    arrays = [np.zeros(3), np.ones(4)]
    tensors = TensorListCPU.from_dlpack_list(arrays, "X")
    assert (tensors.shape(), tensors.layout()) == ([(3,), (4,)], "X")
    assert tensors[1].data_ptr() == arrays[1].ctypes.data
    gathered = TensorListCPU.from_dlpack_list(arrays, contiguous=True)
    assert gathered[0].data_ptr() == gathered.data_ptr() != arrays[0].ctypes.data
    assert gathered[1].data_ptr() == gathered.data_ptr() + 24
    assert len(TensorListCPU.from_dlpack_list([])) == 0
    with pytest.raises(TypeError, match="position 1 does not support"):
        TensorListCPU.from_dlpack_list([np.zeros(3), 5])
    with pytest.raises(TypeError, match="different data types"):
        TensorListCPU.from_dlpack_list([np.zeros(3), np.zeros(3, np.int8)])
    with pytest.raises(RuntimeError, match="dimensions"):
        TensorListCPU.from_dlpack_list([np.zeros(3), np.zeros((3, 3))])
    with pytest.raises(TypeError, match="list of DLPack"):
        TensorListCPU.from_dlpack_list(np.zeros((2, 3)))


def test_pickle_and_copy(ragged):
    for restored in (pickle.loads(pickle.dumps(ragged)), copy.copy(ragged), copy.deepcopy(ragged), pickle.loads(pickle.dumps(ragged, 5))):
        assert (restored.shape(), restored.dtype, restored.layout()) == (ragged.shape(), ragged.dtype, ragged.layout())
        assert restored[1].source_info() == "file1"
        np.testing.assert_array_equal(restored.at(0), RAGGED[0])
        np.asarray(restored[0])[...] = 5
        np.testing.assert_array_equal(ragged.at(0), RAGGED[0])
    sample = pickle.loads(pickle.dumps(ragged[0]))
    assert (sample.layout(), sample.dtype, sample.source_info()) == ("HW", types.FLOAT, "file0")
    np.testing.assert_array_equal(np.asarray(sample), RAGGED[0])
    assert len(pickle.loads(pickle.dumps(TensorListCPU([])))) == 0


def test_pickling_a_part_takes_the_part():
    tensors = TensorListCPU(np.zeros((100, 1000)))
    assert len(pickle.dumps(tensors[:2])) < 20_000
    assert len(pickle.dumps(tensors[0])) < 10_000


@pytest.mark.parametrize(
    "view",
    [
        lambda t: t[0],
        lambda t: np.asarray(t[0]),
        lambda t: np.from_dlpack(t[0]),
        lambda t: t.as_tensor(),
        lambda t: np.asarray(t),
        lambda t: t[1:],
    ],
)
def test_views_keep_the_memory(view):
    batch = batch_of([np.full(5, 3), np.full(5, 4)])
    alive = weakref.ref(batch.owner)
    held = view(TensorListCPU._from_batch(batch))
    del batch
    gc.collect()
    assert alive() is not None
    del held
    gc.collect()
    assert alive() is None


def test_relabelled_lists_keep_the_memory():
    batch = batch_of([np.full(5, 3)])
    alive = weakref.ref(batch.owner)
    tensors = TensorListCPU._from_batch(batch)
    tensors.set_layout("X")
    tensors.reinterpret(types.UINT64)
    del batch
    gc.collect()
    assert alive() is not None
    assert tensors.at(0).tolist() == [3] * 5
    tensors.reset()
    gc.collect()
    assert alive() is None


# --- making lists ----------------------------------------------------------------------------------------------------


def test_list_of_array():
    array = np.arange(24).reshape(2, 3, 4)
    for source in (array, memoryview(array), array.__dlpack__(), TensorCPU(array)):
        tensors = TensorListCPU(source, "HW")
        assert (tensors.shape(), tensors.layout(), tensors.dtype) == ([(3, 4), (3, 4)], "HW", types.INT64)
        assert tensors.data_ptr() == array.ctypes.data
        np.asarray(tensors[0])[0, 0] = 0
    assert TensorListCPU(np.arange(3)).shape() == [(), (), ()]
    assert TensorListCPU(b"abc").dtype is types.UINT8
    empty = TensorListCPU(np.zeros((0, 3)))
    assert (empty.shape(), empty.ndim(), empty.dtype) == ([], 1, types.FLOAT64)
    assert empty.as_array().size == 0


def test_list_of_tensors():
    array = np.arange(12).reshape(2, 2, 3)
    source = TensorListCPU(array, "HW")
    copied = TensorListCPU([source[0], array[1]])
    assert copied.layout() == "HW"
    assert copied.data_ptr() != source.data_ptr()
    np.testing.assert_array_equal(copied.as_array(), array)
    shared = TensorListCPU([source[1], source[0]], "XY", contiguous=False)
    assert (shared[0].data_ptr(), shared.layout()) == (source[1].data_ptr(), "XY")
    assert TensorListCPU([source[0], source[1]], contiguous=False).data_ptr() == source.data_ptr()
    empty = TensorListCPU([])
    assert (len(empty), empty.dtype, empty.shape(), empty.data_ptr()) == (0, types.NO_TYPE, [], 0)
    assert empty.as_array().shape == (0,)
    with pytest.raises(RuntimeError):
        empty.as_tensor()


def test_list_of_list():
    source = TensorListCPU(np.zeros((2, 3, 4)), "HW")
    assert TensorListCPU(source).layout() == "HW"
    relabelled = TensorListCPU(source, "AB")
    assert (relabelled.layout(), source.layout(), relabelled.data_ptr()) == ("AB", "HW", source.data_ptr())


@pytest.mark.parametrize(
    ("make", "error"),
    [
        (lambda: TensorListCPU(np.array(5)), RuntimeError),
        (lambda: TensorListCPU(np.zeros((2, 3, 4)).T), RuntimeError),
        (lambda: TensorListCPU(np.zeros((2, 3)), "XY"), ValueError),
        (lambda: TensorListCPU([np.zeros(3), np.zeros(3, np.float32)]), TypeError),
        (lambda: TensorListCPU([np.zeros(3), np.zeros((3, 3))]), TypeError),
        (lambda: TensorListCPU([1, 2]), TypeError),
        (lambda: TensorListCPU([[1, 2], [3, 4]]), TypeError),
        (lambda: TensorListCPU([np.zeros((2, 3)).T]), TypeError),
        (lambda: TensorListCPU([TensorCPU(np.zeros(3)), TensorCPU(np.zeros(3), "X")]), TypeError),
        (lambda: TensorListCPU(5), TypeError),
        (lambda: TensorListCPU("x"), TypeError),
        (lambda: TensorListCPU(None), TypeError),
        (lambda: TensorListCPU(TensorGPU(np.zeros(3))), TypeError),
        (lambda: TensorCPU([1, 2]), TypeError),
        (lambda: TensorCPU(np.zeros((4, 4))[:, ::2]), RuntimeError),
        (lambda: TensorCPU(np.zeros(3), "XY"), ValueError),
    ],
)
def test_refused(make, error):
    with pytest.raises(error):
        make()


@pytest.mark.parametrize("dtype", ["c8", "U3", "O", ">i4", ">f8", "M8[s]", "S2", "g"])
def test_refused_types(dtype):
    array = np.zeros(3, dtype)
    for make in (TensorCPU, TensorListCPU, TensorGPU, TensorListGPU):
        with pytest.raises(TypeError, match="not supported"):
            make(array)
    with pytest.raises(TypeError):
        Batch.from_values(array)


# --- tensors ---------------------------------------------------------------------------------------------------------


def test_tensor():
    array = np.arange(6, dtype=np.int16).reshape(2, 3)
    tensor = TensorCPU(array, "HW")
    assert (tensor.shape(), tensor.ndim(), tensor.dtype, tensor.layout()) == ([2, 3], 2, types.INT16, "HW")
    assert tensor.data_ptr() == array.ctypes.data
    assert tensor.as_cpu() is tensor
    assert tensor.source_info() == ""
    assert [tensor.get_property(name) for name in ("layout", "source_info", "other")] == ["HW", None, None]
    with pytest.raises(TypeError):
        tensor.get_property(5)
    for call in (len, iter, lambda t: t[0]):
        with pytest.raises(TypeError):
            call(tensor)
    for call in (int, float):
        with pytest.raises(TypeError if sys.version_info < (3, 12) else ValueError):  # before Python 3.12 a tensor has no buffer
            call(tensor)


def test_tensor_to_numpy():
    array = np.arange(6, dtype=np.int16).reshape(2, 3)
    tensor = TensorCPU(array)
    view = np.asarray(tensor)
    view[0, 0] = 9
    assert array[0, 0] == 9
    assert not np.shares_memory(np.array(tensor), array)
    assert np.asarray(tensor, np.float32).dtype == np.float32
    interface = tensor.__array_interface__
    assert (interface["version"], interface["strides"], interface["data"]) == (3, None, (array.ctypes.data, False))
    assert np.shares_memory(tensor.__array__(), array)
    assert not np.shares_memory(tensor.__array__(copy=True), array)


@pytest.mark.skipif(sys.version_info < (3, 12), reason="Python classes export buffers from 3.12 on")
def test_tensor_buffer():
    assert memoryview(TensorCPU(np.zeros((2, 3), np.int16))).shape == (2, 3)


def test_tensor_dlpack():
    array = np.arange(6.0)
    tensor = TensorCPU(array)
    imported = np.from_dlpack(tensor)
    assert np.shares_memory(imported, array)
    assert imported.flags.writeable
    assert not np.shares_memory(np.from_dlpack(tensor, copy=True), array)
    assert tensor.__dlpack_device__() == (1, 0)
    assert np.shares_memory(np.asarray(TensorCPU(tensor.__dlpack__(stream=5, dl_device=(1, 0)), "X")), array)
    with pytest.raises(BufferError):
        tensor.__dlpack__(dl_device=(2, 0))


def test_capsules_can_be_written_and_keep_memory():
    memory = np.zeros(4)
    owner = Owner()
    alive = weakref.ref(owner)
    array = np.asarray(AddressView(memory.ctypes.data, (4,), memory.dtype, owner))
    tensor = TensorCPU(array.__dlpack__())
    del array, owner
    gc.collect()
    np.asarray(tensor)[...] = 1
    assert alive() is not None
    assert memory.tolist() == [1] * 4
    del tensor
    gc.collect()
    assert alive() is None


def test_read_only_memory_stays_read_only():
    tensor = TensorCPU(b"abc")
    assert not np.asarray(tensor).flags.writeable
    assert tensor.__array_interface__["data"][1]


def test_squeeze():
    tensor = TensorCPU(np.zeros((1, 6, 1)), "HWC")
    assert tensor.squeeze(1) is False
    assert tensor.squeeze(-1) is True
    assert (tensor.shape(), tensor.layout()) == ([1, 6], "HW")
    assert tensor.squeeze() is True
    assert (tensor.shape(), tensor.layout()) == ([6], "W")
    assert tensor.squeeze() is False
    for dim in (1, -2):
        with pytest.raises(RuntimeError, match="out of bound"):
            tensor.squeeze(dim)


def test_tensor_in_place():
    tensor = TensorCPU(np.arange(3, dtype=np.int32))
    tensor.reinterpret(types.FLOAT)
    assert (tensor.dtype, np.asarray(tensor).dtype) == (types.FLOAT, np.float32)
    tensor.set_layout("X")
    assert tensor.layout() == "X"
    with pytest.raises(ValueError, match="dimensions"):
        tensor.set_layout("XY")
    with pytest.raises(RuntimeError, match="element size"):
        tensor.reinterpret(types.INT64)


def test_scalar_samples_are_views():
    tensors = TensorListCPU(np.arange(3, dtype=np.int32))
    np.asarray(tensors[1])[...] = 7
    assert tensors.as_array().tolist() == [0, 7, 2]
    assert tensors[1].shape() == []


@pytest.mark.parametrize("kind", [types.IMAGE_TYPE, types.DATA_TYPE, types.INTERP_TYPE])
def test_enumerations_are_not_numbers(kind):
    tensors = TensorListCPU._from_batch(Batch.from_values(np.zeros((2, 1), np.int32), dtype=kind))
    assert (tensors.dtype, tensors[0].dtype, tensors.as_tensor().dtype) == (kind,) * 3
    assert f"dtype=DALIDataType.{kind.name}" in repr(tensors) + repr(tensors[0])
    reads = [lambda: tensors.at(0), tensors.as_array, lambda: np.asarray(tensors), lambda: np.asarray(tensors[0]), lambda: str(tensors),
             lambda: str(tensors[0]), lambda: np.from_dlpack(tensors[0]), lambda: tensors[0].__array_interface__]  # fmt: skip
    for read in reads:
        with pytest.raises(TypeError, match="cast"):
            read()
    tensors.reinterpret(types.INT32)
    assert tensors.as_array().tolist() == [[0], [0]]
    assert pickle.loads(pickle.dumps(TensorListCPU._from_batch(Batch.from_values(np.zeros(1, np.int32), dtype=kind)))).dtype is kind


# --- text ------------------------------------------------------------------------------------------------------------


def test_text():
    tensors = TensorListCPU(np.arange(12, dtype=np.int16).reshape(2, 2, 3), "HW")
    tail = '    dtype=DALIDataType.INT16,\n    layout="HW",\n    device="cpu",\n    num_samples=2,\n    shape=[(2, 3), (2, 3)])'
    assert repr(tensors) == f"TensorListCPU(\n{tail}"
    assert str(tensors) == f"TensorListCPU(\n    [[[0 1 2]\n     [3 4 5]],\n\n    [[ 6  7  8]\n     [ 9 10 11]]],\n{tail}"
    tensor = TensorCPU(np.arange(2.0))
    tail = '    dtype=DALIDataType.FLOAT64,\n    device="cpu",\n    shape=(2,))'
    assert repr(tensor) == f"TensorCPU(\n{tail}"
    assert str(tensor) == f"TensorCPU(\n    [0. 1.],\n{tail}"


# --- GPU on the host device ------------------------------------------------------------------------------------------


@pytest.fixture
def gpu():
    return TensorListGPU._from_batch(batch_of(RAGGED, "HW"), 3, 17)


def test_gpu_list(gpu):
    assert (gpu.device_id(), gpu.stream, len(gpu), gpu.shape(), gpu.layout()) == (3, 17, 2, [(2, 3), (1, 3)], "HW")
    sample = gpu[-1]
    assert isinstance(sample, TensorGPU)
    assert (sample.device_id(), sample.stream, sample.shape(), sample.source_info()) == (3, 17, [1, 3], "file1")
    assert isinstance(gpu[:1], TensorListGPU)
    assert gpu[:1].device_id() == 3
    with pytest.warns(DeprecationWarning):
        assert isinstance(gpu.at(0), TensorGPU)
    with pytest.raises(RuntimeError), pytest.warns(DeprecationWarning):
        gpu.at(-1)
    assert not hasattr(gpu, "as_array")


def test_gpu_to_cpu(gpu):
    for tensors in (gpu, TensorListGPU._from_batch(batch_of(RAGGED, "HW", gaps=True))):
        on_cpu = tensors.as_cpu()
        assert isinstance(on_cpu, TensorListCPU)
        assert (on_cpu.layout(), on_cpu[1].source_info()) == ("HW", "file1")
        np.asarray(on_cpu[0])[...] = 0
        np.testing.assert_array_equal(np.asarray(tensors[0].as_cpu()), RAGGED[0])
    assert len(TensorListGPU().as_cpu()) == 0


def test_gpu_interfaces(gpu):
    sample = gpu[0]
    assert not hasattr(sample, "__cuda_array_interface__")
    assert sample.__dlpack_device__() == (1, 0)
    assert np.from_dlpack(sample).ctypes.data == sample.data_ptr()
    for implicit in (gpu, sample):
        assert not hasattr(implicit, "__array_interface__")
        with pytest.raises(TypeError, match="as_cpu"):
            np.asarray(implicit)
        with pytest.raises(TypeError, match="as_cpu"):
            pickle.dumps(implicit)
    target = np.zeros(9, np.float32)
    gpu.copy_to_external(ctypes.c_void_p(target.ctypes.data), cuda_stream=types.CUDAStream(5), non_blocking=True, use_copy_kernel=True)
    np.testing.assert_array_equal(target[6:], 1)
    gpu[0].copy_to_external(target.ctypes.data + 12, None)
    np.testing.assert_array_equal(target[3:], np.arange(6))


def test_gpu_tensors(gpu):
    dense = TensorListGPU(np.zeros((2, 3, 4)), "HW", device_id=1)
    assert (dense.device_id(), dense.stream, dense.as_tensor().layout(), dense.as_tensor().device_id()) == (1, None, "NHW", 1)
    assert dense.as_reshaped_tensor([24]).shape() == [24]
    assert TensorListGPU([gpu[0], gpu[1]]).shape() == gpu.shape()
    assert TensorListGPU([gpu[0], gpu[1]], contiguous=False).data_ptr() == gpu.data_ptr()
    assert TensorListGPU(gpu, "AB").layout() == "AB"
    assert TensorListGPU.broadcast(gpu[0], 2).shape() == [(2, 3)] * 2
    assert TensorListGPU.from_dlpack_list([gpu[0], np.zeros((1, 1), np.float32)]).shape() == [(2, 3), (1, 1)]
    assert TensorListGPU().shape() == []
    assert 'device="gpu"' in repr(gpu)
    assert "[[0. 1. 2.]" in str(gpu)
    assert "[[0. 1. 2.]" in str(gpu[0])
    cuda = type("Cuda", (), {"__cuda_array_interface__": {}})()
    with pytest.raises(RuntimeError, match="CUDA"):
        TensorGPU(cuda)

"""Rows T and B of dynamic mode: tensors and batches from data. Expected are values of DALI, or better ones as a comment says."""

from __future__ import annotations

import array
import collections
import copy
import pickle

import numpy as np
import pytest

import asyncdali.dynamic as ndd
from asyncdali import types


def told(value: ndd.Tensor | ndd.Batch) -> tuple[object, ...]:
    return str(value.dtype), value.shape, value.layout


def numbers(batch: ndd.Batch) -> list[object]:
    return [np.asarray(item).tolist() for item in batch.tensors]


def test_T1_python_numbers() -> None:
    expected = [
        (3, "i32"), (True, "bool"), (1.5, "f32"), ([1, 2], "i32"), ([], "f32"), ([1, 2.5], "f32"), ([True, 2], "i32"), ([True], "bool"),
        (2**31, "u32"), ([2**31, 1], "u32"), (np.float64(1.5), "f64"), (np.int8(3), "i8"), (np.array([1], np.int16), "i16"),
        ([np.uint8(5)], "u8"), ([np.float64(1.5)], "f32"), ([np.array([1], np.uint16)], "u16"), ([np.int64(5)], "i32"), (range(3), "i32"),
        (types.FLOAT, "DataType"), ([types.INTERP_NN], "InterpType"),
    ]  # fmt: skip
    for data, kind in expected:
        assert str(ndd.tensor(data).dtype) == str(ndd.as_tensor(data).dtype) == kind, data
    for data in (2**32, -(2**31) - 1, [2**32], [2**31, -1], 2**64):
        with pytest.raises(OverflowError):
            ndd.tensor(data)
    assert ndd.tensor([[1, 2], [3, 4]]).shape == (2, 2)
    assert np.asarray(ndd.tensor(1e300)) == np.inf


def test_T2_types_of_python_data_and_of_arrays() -> None:
    assert np.asarray(ndd.tensor([1.7, -1.7], dtype=ndd.int32)).tolist() == [1, -1]  # cut, as numpy does
    assert np.asarray(ndd.tensor(np.array([1.5, -2.5, 300.0]), dtype=ndd.uint8)).tolist() == [2, 0, 255]  # the operator cast
    assert np.asarray(ndd.tensor(ndd.tensor([2.5]), dtype=ndd.int32)).tolist() == [3]
    for value in (300, -1):
        with pytest.raises(OverflowError):
            ndd.tensor(value, dtype=ndd.uint8)
    with pytest.raises(ValueError, match="NaN"):
        ndd.tensor(float("nan"), dtype=ndd.int32)
    for kind in ("u8", "uint8", np.uint8, types.UINT8, ndd.uint8):
        assert ndd.tensor(5, dtype=kind).dtype is ndd.uint8


def test_T3_sources() -> None:
    big = np.array([1, 256, -3], ">i2")
    assert np.asarray(ndd.tensor(big)).tolist() == [1, 256, -3]  # DALI reads the bytes as they lie
    for data in ("abc", b"abc", None, [[1], [1, 2]], np.array([1j]), np.zeros(2, np.longdouble), np.zeros(2, [("a", "i4")]),
                 np.zeros(2, "M8[s]"), np.array(["a"]), [None], ["a"], object(), {1: 2}):  # fmt: skip
        for make in (ndd.tensor, ndd.as_tensor):
            with pytest.raises((TypeError, ValueError, RuntimeError)):
                make(data)
    for data in (1j, [1j]):
        with pytest.raises(TypeError):  # DALI drops the imaginary part
            ndd.tensor(data)

    class Foreign:
        def __array__(self, dtype: object = None, copy: object = None) -> np.ndarray:
            return np.arange(3, dtype=np.int16)

    assert told(ndd.as_tensor(Foreign())) == ("i16", (3,), None)

    class Interface:
        __array_interface__ = np.arange(3, dtype=np.int16).__array_interface__

    assert told(ndd.as_tensor(Interface())) == ("i16", (3,), None)
    for make in (ndd.tensor, ndd.as_tensor):
        assert told(make(array.array("h", [1, -2]))) == ("i16", (2,), None)  # 64 bits alone become 32, as those of lists
    for data in ("abc", [b"abc"]):
        for kind in (TypeError, RuntimeError):
            with pytest.raises(kind):
                ndd.copy(data)
    for sequence in (array.array("q", [1, 2]), collections.deque([1, 2]), collections.UserList([1, 2])):
        assert told(ndd.as_tensor(sequence)) == told(ndd.copy(sequence)) == ("i32", (2,), None)
        assert ndd.as_tensor(sequence, dtype=ndd.int8).dtype is ndd.int8
        assert numbers(ndd.batch(sequence)) == [1, 2]
    for text in (collections.UserString("12"), collections.deque(["a"]), collections.OrderedDict(a=1), {1, 2}):
        with pytest.raises((TypeError, ValueError)):
            ndd.as_tensor(text)
    assert numbers(ndd.batch({5})) == [5]
    image = pytest.importorskip("PIL.Image")
    assert told(ndd.tensor(image.new("RGB", (4, 3)))) == ("u8", (3, 4, 3), "HWC")
    assert told(ndd.tensor(image.new("L", (4, 3)))) == ("u8", (3, 4, 1), "HWC")


def test_T3_torch_tensors_that_cannot_be_used() -> None:
    torch = pytest.importorskip("torch")
    for data, hint in ((torch.zeros(2, dtype=torch.bfloat16), "bfloat16"), (torch.zeros(2, requires_grad=True), "detach"),
                       (torch.zeros(2, 2).to_sparse(), "dense")):  # fmt: skip
        for kind in (TypeError, RuntimeError):  # the latter is DALI's
            with pytest.raises(kind, match=hint):
                ndd.as_tensor(data)


def test_foreign_byte_order_is_converted_on_every_way_in() -> None:
    big = np.array([1, 256, -3], ">i2")
    assert np.asarray(ndd.as_tensor(big)).tolist() == np.asarray(ndd.cast(big, dtype=ndd.int32)).tolist() == [1, 256, -3]
    assert numbers(ndd.batch([big, big])) == numbers(ndd.as_batch(np.stack([big, big]))) == [[1, 256, -3]] * 2
    assert np.asarray(ndd.tensor([1, 1, 1]) + big).tolist() == [2, 257, -2]
    assert np.asarray(ndd.as_tensor(np.array([1.5], ">f8"), dtype=ndd.float32)).tolist() == [1.5]


def test_dlpack_is_asked_before_an_array() -> None:
    class Both:
        def __dlpack_device__(self) -> tuple[int, int]:
            return 1, 0

        def __dlpack__(self, **keywords: object) -> object:
            return np.arange(3, dtype=np.int16).__dlpack__()

        def __array__(self, dtype: object = None, copy: object = None) -> np.ndarray:
            raise AssertionError

    assert told(ndd.as_tensor(Both())) == ("i16", (3,), None)
    assert told(ndd.as_batch([Both(), Both()])) == ("i16", [(3,), (3,)], None)


def test_tensors_of_pipelines_are_taken_with_their_layout() -> None:
    from asyncdali.tensors import TensorCPU, TensorListCPU

    picture = np.arange(24, dtype=np.uint8).reshape(2, 4, 3)
    assert told(ndd.as_tensor(TensorCPU(picture, "HWC"))) == ("u8", (2, 4, 3), "HWC")
    assert told(ndd.as_batch(TensorListCPU([picture, picture[:1]], layout="HWC"))) == ("u8", [(2, 4, 3), (1, 4, 3)], "HWC")
    assert told(ndd.as_batch([TensorCPU(picture, "HWC")] * 2)) == ("u8", [(2, 4, 3)] * 2, "HWC")


def test_pictures_of_every_mode_have_channels() -> None:
    image = pytest.importorskip("PIL.Image")
    modes = {
        "1": ("bool", 1), "L": ("u8", 1), "P": ("u8", 1), "LA": ("u8", 2), "RGB": ("u8", 3), "YCbCr": ("u8", 3), "RGBA": ("u8", 4),
        "CMYK": ("u8", 4), "I": ("i32", 1), "F": ("f32", 1), "I;16": ("u16", 1),
    }  # fmt: skip
    for mode, (kind, channels) in modes.items():
        for make in (ndd.tensor, ndd.as_tensor):
            assert told(make(image.new(mode, (4, 3)))) == (kind, (3, 4, channels), "HWC"), mode


def test_T4_strided_sources_are_copied() -> None:
    array = np.arange(24).reshape(4, 6)
    for data in (array[:, ::2], array.T, array[::-1], array[1:3, 2:5]):
        for make in (ndd.tensor, ndd.as_tensor):
            assert np.array_equal(np.asarray(make(data)), data)
        assert np.array_equal(np.stack(numbers(ndd.batch(data))), data)


def test_T5_views_and_copies() -> None:
    array = np.arange(4)
    shared, own = ndd.as_tensor(array), ndd.tensor(array)
    array[0] = 9
    assert (np.asarray(shared)[0], np.asarray(own)[0]) == (9, 0)
    np.asarray(shared)[1] = 7
    np.asarray(own)[1] = 8
    assert array[1] == 7 and np.asarray(own)[1] == 8
    array.flags.writeable = False
    copied = ndd.as_tensor(array)
    np.asarray(copied)[0] = 1
    assert array[0] == 9
    rows = np.zeros((2, 3))
    ndd_rows = ndd.as_batch(rows)
    rows[1, 2] = 5
    assert numbers(ndd_rows)[1] == [0, 0, 5]
    tensor = ndd.tensor([1, 2])
    assert not np.shares_memory(np.asarray(ndd.tensor(tensor)), np.asarray(tensor))
    assert np.shares_memory(np.asarray(ndd.as_tensor(tensor)), np.asarray(tensor))


def test_a_list_of_arrays_or_tensors_is_viewed_by_as_batch_and_copied_by_batch() -> None:
    kinds = {
        "arrays": (np.asarray, np.asarray), "results": (ndd.copy, ndd.copy), "views": (ndd.as_tensor, ndd.as_tensor),
        "both": (ndd.copy, np.asarray),
    }  # fmt: skip

    def change(items: list[object]) -> None:
        for item in items:
            np.asarray(item)[0] = 9

    for first, second in kinds.values():
        items = [first(np.arange(3)), second(np.arange(2))]
        shared, own = ndd.as_batch(items, layout="X"), ndd.batch(items, layout="X")
        converted = ndd.cast(shared, dtype=ndd.int32)
        change(items)
        assert told(shared) == told(own) == ("i64", [(3,), (2,)], "X")
        assert (numbers(shared), numbers(own), numbers(converted)) == ([[9, 1, 2], [9, 1]], [[0, 1, 2], [0, 1]], [[0, 1, 2], [0, 1]])
        np.asarray(shared.tensors[1])[1] = 7
        assert np.asarray(items[1])[1] == 7
        assert numbers(ndd.cast(shared, dtype=ndd.int32)) == [[9, 1, 2], [9, 7]]
    constant = np.arange(3)
    constant.flags.writeable = False
    mixed = [constant, np.arange(6)[::2], np.arange(3)]
    shared = ndd.as_batch(mixed)
    change([shared.tensors[0], shared.tensors[1], mixed[2]])
    assert numbers(shared) == [[9, 1, 2], [9, 2, 4], [9, 1, 2]] and constant[0] == 0 == mixed[1][0]
    with ndd.EvalMode.deferred:  # the memory is the program's, so the call runs at once
        later = ndd.cast(ndd.as_batch(mixed), dtype=ndd.int32)
        mixed[2][...] = 0
        assert numbers(later)[2] == [9, 1, 2]


def test_T6_layouts() -> None:
    assert ndd.tensor([1, 2], layout="X").layout == "X"
    assert ndd.tensor([1, 2], layout="").layout is None and ndd.tensor([1, 2]).layout is None
    for layout in ("XY", 3):
        for make in (ndd.tensor, ndd.as_tensor):
            with pytest.raises(ValueError, match="layout"):
                make([1, 2], layout=layout)
        for samples in ([[1, 2]], np.zeros((0, 3))):
            with pytest.raises(ValueError, match="layout"):
                ndd.batch(samples, layout=layout)
    for old in (ndd.tensor([1, 2]), ndd.tensor([1, 2], layout="A")):  # DALI ignores it where there was none
        for make in (ndd.tensor, ndd.as_tensor):
            assert make(old, layout="B").layout == "B"
        assert old.layout in (None, "A")
    with ndd.EvalMode.deferred:
        later = ndd.tensor([1, 2], layout="A") + 1
        assert ndd.as_tensor(later, layout="C").layout == "C" and later.layout == "A"
    old = ndd.batch([[1, 2]])
    for make in (ndd.batch, ndd.as_batch):
        assert make(old, layout="Q").layout == "Q" and old.layout is None


def test_T7_stacking() -> None:
    whole = ndd.as_tensor(ndd.batch([[1, 2], [3, 4]], layout="X"))
    assert told(whole) == ("i32", (2, 2), "NX")
    assert told(ndd.as_tensor(ndd.batch([1, 2, 3]))) == ("i32", (3,), "N")
    ragged = ndd.batch([[1, 2], [3]])
    with pytest.raises(ValueError, match="pad=True"):
        ndd.as_tensor(ragged).evaluate()
    assert np.asarray(ndd.tensor(ragged, pad=True)).tolist() == [[1, 2], [3, 0]]
    dense = ndd.as_batch(np.arange(6).reshape(2, 3))
    assert np.shares_memory(np.asarray(ndd.as_tensor(dense)), np.asarray(dense.tensors[0]))
    assert not np.shares_memory(np.asarray(ndd.tensor(dense)), np.asarray(dense.tensors[0]))


def test_B1_batches_of_data() -> None:
    for data in ([1, 2], (1, 2), range(1, 3), (k for k in (1, 2)), np.array([1, 2], np.int32), ndd.tensor([1, 2])):
        assert told(ndd.batch(data)) == ("i32", [(), ()], None) and not isinstance(data, ndd.Batch)
    for data in (np.array(5), np.float64(1.5)):
        with pytest.raises(ValueError):
            ndd.batch(data)
    for data in (5, 1.5):
        with pytest.raises(TypeError):
            ndd.batch(data)
    with pytest.raises(ValueError, match="dtype"):
        ndd.batch([])


def test_B2_samples_have_one_type() -> None:
    assert numbers(ndd.batch([1, 2.5])) == [1, 2.5]  # DALI casts to the first sample's type
    assert numbers(ndd.batch([True, 2])) == [1, 2] and ndd.batch([True, 2]).dtype is ndd.int32
    assert ndd.batch([np.int8(1), np.uint8(200)]).dtype is ndd.int16
    assert ndd.batch([ndd.tensor([1], layout="A"), ndd.tensor([1], layout="B")]).layout == "A"
    with pytest.raises(RuntimeError, match="dimensions"):
        ndd.batch([[1, 2], [[1]]])
    assert numbers(ndd.batch([np.int64(2**40), np.float32(0.5)])) == [2**40, 0.5]
    wide = [np.float32(1.5), np.int64(2**53 + 1)], [np.uint64(2**63 + 1), np.int64(-1)]  # no type has all of them
    for data in ([1, None], [ndd.batch([1])], [ndd.tensor(types.FLOAT), 1], *wide):
        with pytest.raises(TypeError):
            ndd.batch(data)


def test_the_first_sample_decides_the_device() -> None:
    there, here = ndd.tensor([1]).gpu(), ndd.tensor([2])
    for samples, device in (([there, here], "gpu"), ([here, there], "cpu")):
        for make in (ndd.batch, ndd.as_batch):
            made = make(samples)
            assert made.device == ndd.Device(device)
            assert sorted(np.asarray(item.cpu()).item() for item in made.tensors) == [1, 2]
    assert ndd.Batch.broadcast(3, 2, device="gpu").device == ndd.Device("gpu")


def test_B3_the_first_letter_of_a_layout_is_dropped() -> None:
    pictures = ndd.tensor(np.zeros((2, 3, 4, 3), np.uint8), layout="NHWC")
    for make in (ndd.batch, ndd.as_batch):
        assert told(make(pictures)) == ("u8", [(3, 4, 3)] * 2, "HWC")


def test_B4_samples_of_another_library() -> None:
    class Foreign:
        def __init__(self, array: np.ndarray):
            self.array = array

        def __dlpack__(self, **keywords: object) -> object:
            return self.array.__dlpack__(**keywords)

        def __dlpack_device__(self) -> tuple[int, int]:
            return self.array.__dlpack_device__()

    batch = ndd.as_batch([Foreign(np.arange(3)), Foreign(np.arange(2))])
    assert told(batch) == ("i64", [(3,), (2,)], None) and numbers(batch) == [[0, 1, 2], [0, 1]]


def test_lists_of_torch_tensors_are_viewed() -> None:
    torch = pytest.importorskip("torch")
    samples = [torch.arange(3), torch.arange(2)]
    shared, own = ndd.as_batch(samples), ndd.batch(samples)
    samples[1][0] = 9
    assert told(shared) == told(own) == ("i64", [(3,), (2,)], None)
    assert numbers(shared) == [[0, 1, 2], [9, 1]] and numbers(own) == [[0, 1, 2], [0, 1]]
    del samples
    assert numbers(shared) == [[0, 1, 2], [9, 1]]
    assert numbers(ndd.as_batch([torch.arange(4)[::2], torch.arange(2)])) == [[0, 2], [0, 1]]
    assert ndd.as_batch([torch.zeros(1), torch.zeros(1, dtype=torch.int32)]).dtype is ndd.float64
    assert ndd.as_batch([torch.zeros(1), torch.ones(2)], dtype=ndd.int16).dtype is ndd.int16
    for wrong, hint in ((torch.zeros(2, requires_grad=True), "detach"), (torch.zeros(2, dtype=torch.bfloat16), "bfloat16")):
        with pytest.raises(TypeError, match=hint):
            ndd.as_batch([torch.zeros(2), wrong])


def test_B5_broadcast() -> None:
    batch = ndd.Batch.broadcast(ndd.tensor([1, 2], layout="X"), 3)
    assert told(batch) == ("i32", [(2,)] * 3, "X") and numbers(batch) == [[1, 2]] * 3
    assert ndd.Batch.broadcast(np.zeros((2, 2)), 2, dtype=ndd.uint8).dtype is ndd.uint8
    assert ndd.Batch.broadcast(5, 0).batch_size == 0
    big = ndd.Batch.broadcast(np.zeros((100, 100)), 1000)
    assert big.batch_size == 1000 and np.shares_memory(np.asarray(big.tensors[0]), np.asarray(big.tensors[999]))
    for sample, count in ((ndd.batch([1]), 2), (5, -1)):
        with pytest.raises(ValueError):
            ndd.Batch.broadcast(sample, count)


def test_B6_shapes_and_empty_batches() -> None:
    batch = ndd.batch([[1, 2], [3]])
    assert batch.shape == [(2,), (1,)] and batch.ndim == 1
    batch.shape.append(())
    assert len(batch.shape) == 2
    nothing = ndd.batch([], dtype=ndd.uint8)
    assert (nothing.batch_size, nothing.shape, nothing.ndim) == (0, [], 0)
    empty = ndd.as_batch(np.zeros((0, 3)))
    assert (empty.batch_size, empty.ndim) == (0, 1)
    assert (empty + 1).batch_size == 0 and (empty + 1).ndim == 1 and (nothing + 1).dtype is ndd.int32
    assert empty.slice[0].ndim == 0 and empty.slice[1:].ndim == 1


def test_B7_samples_are_views() -> None:
    batch = ndd.batch([[1, 2], [3]], layout="X")
    assert [np.asarray(item).tolist() for item in batch] == [[1, 2], [3]]
    assert batch.tensors[0] is batch.tensors[0] and batch.tensors[-1] is batch.tensors[1] and batch.select(0) is batch.tensors[0]
    assert told(batch.select(1)) == ("i32", (1,), "X")
    np.asarray(batch.tensors[1])[0] = 8
    assert numbers(batch)[1] == [8]
    assert all(one is other for one, other in zip(batch, batch.tensors, strict=True))
    for index in (2, -3):
        for wrong in (lambda: batch.tensors[index], lambda: batch.select(index)):  # noqa: B023
            with pytest.raises(IndexError):
                wrong()


def test_B8_selections() -> None:
    batch = ndd.batch([10, 11, 12, 13])
    expected = [
        ([2, 0], [12, 10]), (slice(1, 3), [11, 12]), (slice(None, None, -1), [13, 12, 11, 10]), ([], []), (slice(4, None), []),
        ([True, False, True, False], [10, 12]), (range(1, 4, 2), [11, 13]), (np.array([3, -1]), [13, 13]), ((1, 1), [11, 11]),
        (np.array([False, True, False, True]), [11, 13]),
    ]  # fmt: skip
    for index, found in expected:  # DALI gives the whole batch, or refuses
        part = batch.tensors[index]
        assert len(part) == len(found) and [item.item() for item in part] == [item.item() for item in part.tolist()] == found
        assert numbers(part.as_batch()) == numbers(batch.select(index)) == found
    assert batch.select(...) is batch
    assert batch.tensors[[2, 0]][0] is batch.tensors[2]
    nested = batch.tensors[1:][[2, 0]]
    assert [item.item() for item in nested] == [13, 11]
    for index in (1.0, "a", [1.5], [True], np.array([1.5])):
        with pytest.raises(TypeError):
            batch.select(index)
    with pytest.raises(IndexError):
        batch.select([4])


def test_B9_torch() -> None:
    torch = pytest.importorskip("torch")
    dense, ragged = ndd.as_batch(np.arange(6).reshape(2, 3)), ndd.batch([[1, 2], [3]])
    assert dense.torch(copy=False).tolist() == [[0, 1, 2], [3, 4, 5]]
    assert ragged.torch(pad=True).tolist() == [[1, 2], [3, 0]]
    with pytest.raises(ValueError):
        ragged.torch()
    with pytest.raises(ValueError):
        ndd.as_batch([np.zeros(3)] * 2).select([1, 0]).torch(copy=False)
    assert isinstance(dense.torch(copy=True), torch.Tensor)


def test_B10_truth_and_membership() -> None:
    batch = ndd.batch([1, 2])
    for wrong in (lambda: bool(batch), lambda: hash(batch), lambda: len(batch), lambda: batch[0], lambda: np.asarray(batch)):
        with pytest.raises(TypeError):
            wrong()
    assert batch.tensors[0] in batch
    assert ndd.tensor(1) not in batch and ndd.batch([1]) not in batch
    assert batch in [batch]
    with pytest.raises(TypeError, match="truth value"):  # DALI: True
        batch in [ndd.batch([5, 6])]  # noqa: B015


def test_P2_copies_and_pickles() -> None:
    tensor, batch = ndd.tensor([[1, 2]], layout="AB"), ndd.batch([[1.5], [2, 3]], layout="X")
    for value in (tensor, batch):
        shared, own, sent = copy.copy(value), copy.deepcopy(value), pickle.loads(pickle.dumps(value))
        for other in (shared, own, sent):
            assert type(other) is type(value) and told(other) == told(value)
            assert repr(other) == repr(value)
    assert np.shares_memory(np.asarray(copy.copy(tensor)), np.asarray(tensor))
    assert not np.shares_memory(np.asarray(copy.deepcopy(tensor)), np.asarray(tensor))
    generator = ndd.random.RNG(5)
    generator()
    for other in (copy.copy(generator), copy.deepcopy(generator), pickle.loads(pickle.dumps(generator))):
        assert other.state == generator.state and other() == ndd.random.RNG(state=generator.state)()
    for sent in (pickle.loads(pickle.dumps(generator.state)), copy.deepcopy(generator.state)):
        assert sent == generator.state and ndd.random.RNG(state=sent)() == ndd.random.RNG(state=generator.state)()
    assert pickle.loads(pickle.dumps(ndd.float32)) is ndd.float32
    for thing in (ndd.Device("cpu"), ndd.EvalMode.deferred, ndd.resize, ndd.reductions.sum):
        assert pickle.loads(pickle.dumps(thing)) == thing

"""Rows Y, I, P1, A and M3-M6 of dynamic mode: types, devices, indexing, texts, arithmetic, conversion."""

from __future__ import annotations

import itertools
import operator
import pickle
import random
import threading

import numpy as np
import pytest

import asyncdali.dynamic as ndd
from asyncdali import types

SHORT = {
    "int8": "i8", "int16": "i16", "int32": "i32", "int64": "i64", "uint8": "u8", "uint16": "u16", "uint32": "u32", "uint64": "u64",
    "float16": "f16", "float32": "f32", "float64": "f64", "bool": "bool", "bfloat16": "bfloat16", "DataType": "DataType",
    "ImageType": "ImageType", "InterpType": "InterpType",
}  # fmt: skip


def told(value: ndd.Tensor | ndd.Batch) -> tuple[object, ...]:
    return str(value.dtype), value.shape, value.layout


def listed(value: ndd.Tensor) -> object:
    return np.asarray(value).tolist()


def test_Y1_names() -> None:
    for name, short in SHORT.items():
        kind = getattr(ndd, name)
        assert str(kind) == kind.name == short and kind.__doc__
        assert ndd.dtype(short) is kind
    assert ndd.dtype("int32") is ndd.int32 and ndd.dtype("float64") is ndd.float64  # DALI: ValueError
    assert repr(ndd.uint8) == "DType(kind=Kind.unsigned, bits=8)"
    assert repr(ndd.float16) == "DType(kind=Kind.float, bits=16, exponent_bits=5, significand_bits=10)"
    assert len({repr(kind) for kind in (ndd.DataType, ndd.ImageType, ndd.InterpType)}) == 3


def test_Y2_one_object_for_each_type() -> None:
    for given in ("f32", types.FLOAT, np.float32, np.dtype("f4"), ndd.float32):
        assert ndd.dtype(given) is ndd.float32
    assert ndd.DType.from_type_id(types.UINT8) is ndd.DType.parse("u8") is ndd.uint8
    assert ndd.type_id(ndd.int16) == types.INT16
    assert ndd.DataType != ndd.ImageType and ndd.float16 != ndd.bfloat16
    assert ndd.int32 != "i32" and ndd.int32 != 3 and ndd.Device("cpu") != "cpu"  # DALI: AttributeError
    assert pickle.loads(pickle.dumps(ndd.InterpType)) is ndd.InterpType


def test_Y3_types_as_arguments() -> None:
    assert ndd.dtype(float) is ndd.float32 and ndd.dtype(bool) is ndd.bool
    with pytest.raises(TypeError):
        ndd.dtype(int)
    data = ndd.tensor([1, 2])
    for kind in (ndd.float32, types.FLOAT, float, "f32", "float32", np.float32, np.dtype("float32")):
        assert ndd.cast(data, dtype=kind).dtype is ndd.float32
    assert ndd.cast(data, dtype=bool).dtype is ndd.bool
    for kind in (int, "i7", object()):
        with pytest.raises((TypeError, ValueError)):
            ndd.cast(data, dtype=kind)


def test_Y4_types_made_by_hand_change_nothing() -> None:
    for name in ("i7", "tf32"):
        with pytest.raises((TypeError, ValueError)):
            ndd.tensor([1], dtype=name)
    with pytest.raises((TypeError, ValueError), match="bfloat16"):
        ndd.tensor([1], dtype=ndd.bfloat16)
    for call in (lambda: ndd.cast([1], dtype=ndd.bfloat16), lambda: ndd.zeros(shape=[1], dtype="bfloat16")):
        with pytest.raises(TypeError, match="bfloat16"):
            call()
    made = ndd.DType("signed", 32)
    assert made == ndd.int32 and ndd.dtype("f16e5m10") == ndd.float16
    assert ndd.dtype("i32") is ndd.int32 and ndd.dtype("f16") is ndd.float16 and ndd.dtype("i32").type_id == types.INT32


def test_Y5_types_make_tensors() -> None:
    assert told(ndd.int32(3)) == ("i32", (), None) and ndd.int32(3).item() == 3
    assert told(ndd.float16([1, 2])) == ("f16", (2,), None)


def test_Y6_devices(monkeypatch: pytest.MonkeyPatch) -> None:
    assert ndd.device("cpu") == ndd.Device("cpu") == ndd.Device.CPU and ndd.device(None) is None
    assert ndd.device("gpu") == ndd.device("cuda:0") == ndd.device("gpu", 0)
    for name in ("mixed", "CPU", "tpu", "cpu:0", "gpu:7", ""):
        with pytest.raises(ValueError):
            ndd.device(name)
    with pytest.raises(TypeError):
        ndd.device(3)
    with pytest.raises(ValueError, match="'gpu'"):
        ndd.Device("mixed")
    monkeypatch.delenv("ASYNCDALI_DEVICE")
    monkeypatch.setattr("asyncdali.imperative.devices.has_gpu", lambda: False)
    with pytest.raises(RuntimeError, match="driver"):
        ndd.Device("gpu")
    for name in ("gpu:0", "cuda:7"):
        with pytest.raises(ValueError, match="driver"):
            ndd.Device(name)


def test_Y7_devices_as_contexts() -> None:
    before = ndd.Device.current()
    with ndd.Device("gpu") as outer:
        assert outer == ndd.Device.current() == ndd.Device("gpu")
        with ndd.Device("cpu") as inner:
            assert inner == ndd.Device.current() == ndd.Device.CPU
        assert ndd.Device.current() == outer
    assert ndd.Device.current() == before
    with ndd.EvalMode.deferred as mode:
        assert mode is ndd.EvalMode.deferred


def test_the_device_of_a_block_is_that_of_its_thread() -> None:
    seen: list[ndd.Device] = []
    outside = ndd.Device.current()
    with ndd.Device("gpu" if outside == ndd.Device.CPU else "cpu") as inside:
        thread = threading.Thread(target=lambda: seen.append(ndd.Device.current()))
        thread.start()
        thread.join(30)
        assert ndd.Device.current() == inside != outside
    assert seen == [outside]


def test_Y8_tensors_of_enumerations() -> None:
    for value, kind in ((types.FLOAT, ndd.DataType), (types.RGB, ndd.ImageType), (types.INTERP_LINEAR, ndd.InterpType)):
        tensor = ndd.tensor(value)
        assert tensor.dtype is kind
        with pytest.raises(TypeError):
            np.asarray(tensor)
        assert kind.name in repr(tensor)  # DALI: TypeError


# -------------------------------------------------------------------------------------------------------------- indexing


def random_key(rng: random.Random, shape: tuple[int, ...]) -> tuple[object, ...]:
    key: list[object] = []
    for extent in shape[: rng.randint(0, len(shape))]:
        if rng.random() < 0.4:
            key.append(rng.randint(-extent, extent - 1))
        else:
            bounds = [None, *range(-extent - 3, extent + 4)]
            key.append(slice(rng.choice(bounds), rng.choice(bounds), rng.choice([None, 1, 2, -1, -2, 3, -3])))
    if rng.random() < 0.3:
        key.insert(rng.randint(0, len(key)), ...)
    return tuple(key)


def test_I1_indexing_is_that_of_numpy() -> None:
    rng = random.Random(1)
    for _ in range(300):
        shape = rng.choice([(5,), (4, 6), (3, 4, 5), (2, 3, 4, 5)])
        array = np.arange(np.prod(shape)).reshape(shape)
        key = random_key(rng, shape)
        tensor = ndd.tensor(array)
        assert np.array_equal(np.asarray(tensor[key]), array[key]) and tensor[key].shape == array[key].shape, key
        for item in ndd.batch([array, array]).slice[key].tensors:
            assert np.array_equal(np.asarray(item), array[key]), key
    tensor = ndd.tensor(np.arange(20).reshape(4, 5))
    assert tensor[:] is tensor[...] is tensor[()] is tensor
    assert listed(tensor[1:][ndd.tensor(1)]) == [10, 11, 12, 13, 14] == listed(tensor[ndd.tensor(2), :])
    assert listed(tensor[np.array(1), np.array(2) : np.int64(4)]) == [7, 8]
    assert not np.shares_memory(np.asarray(tensor[1:3]), np.asarray(tensor))


def test_slices_of_slices_are_those_of_numpy() -> None:
    rng = random.Random(7)
    for _ in range(200):
        array = np.arange(120).reshape(4, 5, 6)
        tensor = ndd.tensor(array)
        for _ in range(rng.randint(2, 4)):
            if 0 in array.shape:
                break  # it has no index
            key = random_key(rng, array.shape)
            array, tensor = array[key], tensor[key]
        assert np.array_equal(np.asarray(tensor), array) and tensor.shape == array.shape


def test_bounds_of_slices_may_be_tensors_and_one_ellipsis_is_allowed() -> None:
    tensor = ndd.tensor(np.arange(20).reshape(4, 5))
    assert listed(tensor[ndd.tensor(1) : ndd.tensor(4) : ndd.tensor(2), ..., ndd.uint8(3)]) == [8, 18]
    with pytest.raises(ValueError, match="ellipsis"):
        tensor[..., ...]


def test_I2_errors_of_indices() -> None:
    tensor = ndd.tensor([1, 2, 3])
    with pytest.raises(ValueError, match="indices"):
        tensor[0, 0]
    for mode in ndd.EvalMode:
        with mode:
            for wrong in (3, -4):
                for read in (lambda value: value.evaluate(), lambda value: value.shape, np.asarray):
                    with pytest.raises(IndexError):
                        read(tensor[wrong])
            for read in (lambda value: value.evaluate(), lambda value: value.shape, np.asarray):
                with pytest.raises(ValueError):
                    read(tensor[::0])


def test_I3_empty_ranges_with_steps() -> None:
    array = np.arange(24).reshape(4, 6)
    for key in (np.s_[-2:0:2], np.s_[:, 7:-6:3], np.s_[3:1:3, 1::-2], np.s_[0:0]):
        assert ndd.tensor(array)[key].shape == array[key].shape


def test_I4_shapes_before_computing() -> None:
    array = np.arange(5)
    with ndd.EvalMode.deferred:
        tensor = ndd.tensor(array) + 0
        for key in (np.s_[9:2:-1], np.s_[-9:3], np.s_[::-2], np.s_[7:]):
            found = tensor[key]
            assert found.shape == array[key].shape == np.asarray(found).shape


def test_I5_layouts_of_slices() -> None:
    tensor = ndd.tensor(np.zeros((2, 3, 4)), layout="ABC")
    for mode in ndd.EvalMode:
        with mode:
            keys = (0, np.s_[:, 0], np.s_[..., 0], np.s_[0, :, 0], np.s_[1:])
            assert [tensor[key].layout for key in keys] == ["BC", "AC", "AB", "B", "ABC"]
            assert tensor[0, 0, 0].layout is None


def test_I6_what_is_no_index() -> None:
    tensor = ndd.tensor([1, 2, 3])
    for key in (None, 1.0, "1", [0], np.array([0]), np.array([True, False, True]), ndd.tensor([0]), ndd.tensor(1.0), True, np.s_[1.5:],
                np.array(1.0), np.array(True)):  # fmt: skip
        with pytest.raises(TypeError):
            tensor[key]
    with pytest.raises(TypeError):
        ndd.batch([[1]]).slice[None]


def test_I7_iteration_ends() -> None:
    rows = ndd.tensor([[1, 2], [3, 4]])
    assert [listed(row) for row in rows] == [[1, 2], [3, 4]] and len(list(rows)) == 2
    assert 3 in rows and 9 not in rows and ndd.tensor(4) in rows
    with pytest.raises(TypeError):
        iter(ndd.tensor(3))


def test_I8_slices_inside_of_samples() -> None:
    batch = ndd.batch([[1, 2, 3], [4, 5]], layout="X")
    assert [listed(item) for item in batch.slice[ndd.batch([2, 0])]] == [3, 4]
    assert [listed(item) for item in batch.slice[ndd.batch([1, 0]) : ndd.tensor(2)]] == [[2], [4, 5]]
    assert batch.slice[...] is batch.slice[:] is batch and batch.slice[0].layout is None
    assert [listed(item) for item in batch.slice[2:]] == [[3], []]
    with pytest.raises(ValueError):
        batch.slice[ndd.batch([0])]
    whole = ndd.batch([[0, 1, 2, 3], [4, 5, 6, 7]])
    assert [listed(item) for item in whole.slice[ndd.batch([0, 3]) : ndd.batch([4, 0]) : ndd.batch([2, -1])]] == [[0, 2], [7, 6, 5]]
    with pytest.raises((IndexError, RuntimeError)):
        batch.slice[2].evaluate()


# ----------------------------------------------------------------------------------------------------------------- texts


def test_P1_texts() -> None:
    tail = 'device="cpu",\n    shape='
    assert repr(ndd.tensor(3)) == f"Tensor(\n    3,\n    dtype=i32,\n    {tail}())"
    assert repr(ndd.tensor([[1, 2], [3, 4]], layout="HW")) == (
        f'Tensor(\n    [[1 2]\n     [3 4]],\n    dtype=i32,\n    layout="HW",\n    {tail}(2, 2))'
    )
    assert "[   0    1 ... 1998 1999]" in repr(ndd.tensor(np.arange(2000)))
    batch = 'device="cpu",\n    num_samples='
    assert repr(ndd.batch([1, 2])) == f"Batch(\n    [1, 2],\n    dtype=i32,\n    {batch}2,\n    shape=[(), ()])"
    kind = "dtype=i32,\n    "
    assert repr(ndd.batch([[1, 2], [3]])) == f"Batch(\n    [[1 2],\n    [3]],\n    {kind}{batch}2,\n    shape=[(2,), (1,)])"
    assert repr(ndd.batch([[[1]], [[2]]])) == f"Batch(\n    [[[1]],\n\n    [[2]]],\n    {kind}{batch}2,\n    shape=[(1, 1), (1, 1)])"
    cubes = repr(ndd.batch([[[[1]]], [[[2]]]]))
    assert cubes.startswith("Batch(\n    [[[[1]]],\n\n\n    [[[2]]]],")
    assert repr(ndd.batch([], dtype=ndd.uint8)) == f"Batch(\n    [],\n    dtype=u8,\n    {batch}0,\n    shape=[])"
    assert repr(ndd.tensor([1]) + 1) == f"Tensor(\n    [2],\n    dtype=i32,\n    {tail}(1,))"


def test_P1_texts_of_many_samples() -> None:
    def shapes(batch: ndd.Batch) -> str:
        text = repr(batch)
        return text[text.index("shape=") + 6 : -1]

    assert shapes(ndd.batch([0] * 16)) == f"[{', '.join(['()'] * 16)}]"
    assert shapes(ndd.batch([0] * 17)) == "[(), (), ..., (), ()]"
    assert shapes(ndd.batch([[1, 2]] * 12)) == f"[{', '.join(['(2,)'] * 12)}]"
    rows = ["(10, 10, 3)"] * 8
    assert shapes(ndd.batch([np.zeros((10, 10, 3))] * 8)) == f"[{(', ' + chr(10) + ' ' * 11).join(rows)}]"
    assert shapes(ndd.batch([np.zeros((1,) * 9)] * 12)).count("...") == 1
    text = repr(ndd.batch(np.arange(2400).reshape(6, 400)))
    assert text.count("...") == 1 and "[ 800" not in text and "[1600" in text  # two samples, dots, two samples
    for ones, empty in ((5, 0), (2, 3), (0, 20)):  # as in DALI, an empty sample counts as one element
        for size, dots in ((1000 - ones - empty, 0), (1001 - ones - empty, 1)):
            made = ndd.batch([np.zeros(size), *[np.zeros(1)] * ones, *[np.zeros(0)] * empty])
            assert repr(made).partition("dtype")[0].count("...") == dots


# ------------------------------------------------------------------------------------------------------------ arithmetic

KINDS = ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "float32", "float64", "bool")
SIGNED, UNSIGNED = ("i8", "i16", "i32", "i64"), ("u8", "u16", "u32", "u64")


def promoted(left: str, right: str) -> str:
    """The type of `left` * `right` by the rule of A2."""
    if left == right:
        return left
    floats = [kind for kind in (left, right) if kind[0] == "f"]
    if floats:
        return max(floats, key=lambda kind: int(kind[1:]))
    if "bool" in (left, right):
        return right if left == "bool" else left
    if left[0] == right[0]:
        return max((left, right), key=lambda kind: int(kind[1:]))
    signed, unsigned = sorted((left, right))
    return f"i{min(64, max(int(signed[1:]), 2 * int(unsigned[1:])))}"


def test_A1_operators() -> None:
    left, right = [7, 2, 5], [2, 3, 1]
    for operands in itertools.product((ndd.tensor(left), left, tuple(left), np.array(left, np.int32)), (ndd.tensor(right), right, 2)):
        if not isinstance(operands[0], ndd.Tensor) and (not isinstance(operands[1], ndd.Tensor) or isinstance(operands[0], np.ndarray)):
            continue
        a, b = operands
        other = np.asarray(b) if not isinstance(b, int) else b
        array = np.asarray(a)
        assert listed(a + b) == (array + other).tolist() and listed(a - b) == (array - other).tolist()
        assert listed(a * b) == (array * other).tolist() and listed(a // b) == (array // other).tolist()
        assert listed(a % b) == (array % other).tolist() and listed(a**b) == (array**other).tolist()
        assert listed(a << b) == (array << other).tolist() and listed(a ^ b) == (array ^ other).tolist()
        assert np.allclose(listed(a / b), array / other)
        assert listed(a < b) == (array < other).tolist() and listed(a == b) == (array == other).tolist()
    tensor = ndd.tensor(left)
    assert +tensor is tensor and listed(-tensor) == [-7, -2, -5] and listed(abs(-tensor)) == left and listed(~tensor) == [-8, -3, -6]
    batch = ndd.batch([[1], [2, 3]]) + ndd.tensor(10)
    assert isinstance(batch, ndd.Batch) and [listed(item) for item in batch] == [[11], [12, 13]]
    with pytest.raises(ValueError, match="samples"):
        ndd.batch([1, 2]) + ndd.batch([1, 2, 3])
    for wrong in (lambda: tensor @ tensor, lambda: divmod(tensor, 2)):
        with pytest.raises(TypeError):
            wrong()


OPERATORS = {
    "+": operator.add, "-": operator.sub, "*": operator.mul, "/": operator.truediv, "//": operator.floordiv, "%": operator.mod,
    "**": operator.pow, "<<": operator.lshift, ">>": operator.rshift, "&": operator.and_, "|": operator.or_, "^": operator.xor,
    "==": operator.eq, "!=": operator.ne, "<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge,
}  # fmt: skip


@pytest.mark.parametrize("sign", OPERATORS)
def test_every_operator_takes_every_kind_of_operand_on_both_sides(sign: str) -> None:
    operate, left, right = OPERATORS[sign], [7, 2, 5], [2, 3, 5]
    expected = operate(np.array(left), np.array(right))
    for other in (right, tuple(right), np.array(right, np.int32), ndd.tensor(right)):
        assert np.allclose(listed(operate(ndd.tensor(left), other)), expected)
        assert np.allclose([listed(item) for item in operate(ndd.batch([left, left]), other)], [expected] * 2)
    for other in (left, tuple(left)):
        assert np.allclose(listed(operate(other, ndd.tensor(right))), expected)
        assert np.allclose([listed(item) for item in operate(other, ndd.batch([right, right]))], [expected] * 2)
    for number in (2, 3):
        assert np.allclose(listed(operate(number, ndd.tensor(right))), operate(number, np.array(right)))
        assert np.allclose(listed(operate(ndd.tensor(left), number)), operate(np.array(left), number))


def test_A2_promotion() -> None:
    for left, right in itertools.product(KINDS, KINDS):
        found = ndd.tensor([1], dtype=getattr(ndd, left)) * ndd.tensor([1], dtype=getattr(ndd, right))
        assert str(found.dtype) == promoted(SHORT[left], SHORT[right]), (left, right)
    assert (ndd.int64([1]) / ndd.int64([2])).dtype is ndd.float32 and (ndd.float64([1]) / 2).dtype is ndd.float64
    assert listed(ndd.tensor([-7, 7]) // 2) == [-3, 3] and listed(ndd.tensor([-7, 7]) % 3) == [-1, 1]
    assert (ndd.tensor(2) ** -1).item() == 0 and (ndd.tensor(2) ** 3).dtype is ndd.int32


def test_A3_python_numbers() -> None:
    byte = ndd.uint8([200])
    assert told(byte + 1) == ("i32", (1,), None) and (byte + True).dtype is ndd.uint8 and (byte + 1.5).dtype is ndd.float32
    assert listed(ndd.float64([1]) + 0.1) == [1.1]  # DALI rounds 0.1 to float32
    assert listed(ndd.int64([1]) + 2**31) == [2**31 + 1]  # DALI: OverflowError
    assert told(ndd.float32([1.5]) + 2**40) == ("f32", (1,), None)  # DALI: OverflowError
    assert listed(ndd.float64([1.5]) + 2**40) == [2**40 + 1.5]
    for data in (byte, ndd.int32([1])):
        with pytest.raises(OverflowError):
            data + 2**31


def test_A4_types_without_arithmetic() -> None:
    for wrong in (lambda: ndd.float16([1]) + 1, lambda: ndd.math.sqrt(ndd.float16([1])), lambda: ndd.float16([1]) * ndd.float32([1])):
        with pytest.raises(RuntimeError, match="f16"):
            wrong()
    truth = ndd.tensor([True, False])
    for wrong in (lambda: truth + truth, lambda: truth - True, lambda: -truth, lambda: ndd.math.sqrt(truth)):
        with pytest.raises(RuntimeError):
            wrong()
    assert listed(truth * truth) == listed(truth & truth) == [True, False] and listed(truth | True) == [True, True]
    assert listed(~truth) == listed(truth ^ True) == [False, True]


def test_A5_division_by_zero() -> None:
    for wrong in (lambda: ndd.tensor([4]) // 0, lambda: ndd.tensor([4]) % ndd.tensor([0])):
        with pytest.raises(ValueError):
            wrong().evaluate()
    assert listed(ndd.tensor([4, -4]) / 0) == [np.inf, -np.inf]


def test_A6_broadcasting_and_layouts() -> None:
    row = [10, 20, 30]
    assert listed(ndd.tensor([[1], [2]]) + row) == [[11, 21, 31], [12, 22, 32]]
    assert (ndd.tensor([[1, 2]], layout="AB") + ndd.tensor([1, 2], layout="B")).layout == "AB"
    assert (ndd.tensor([1, 2]) + ndd.tensor([1, 2], layout="B")).layout == "B"
    first = ndd.tensor([1], layout="A")
    for left, right in ((first, ndd.tensor([1], layout="B")), (ndd.tensor([[1]], layout="AB"), first)):
        with pytest.raises(RuntimeError):
            (left + right).evaluate()
    with pytest.raises((RuntimeError, ValueError)):
        (ndd.tensor([1, 2]) + row).evaluate()


def test_A7_each_sample_is_broadcast_by_itself() -> None:
    row = [10, 20]
    found = ndd.batch([[3], [1, 2]]) + row
    assert [listed(item) for item in found] == [[13, 23], [11, 22]]
    found = ndd.batch([[[1], [2]], [[1, 2, 3]]]) * ndd.batch([[1, 10], [2]])
    assert [listed(item) for item in found] == [[[1, 10], [2, 20]], [[2, 4, 6]]]


def test_A8_truth_and_numbers() -> None:
    assert not ndd.tensor(0) and ndd.tensor([[3]]) and int(ndd.tensor([3])) == 3 and float(ndd.tensor(1.5)) == 1.5
    assert 1 <= ndd.tensor(2) < 3 and not 1 <= ndd.tensor(5) < 3
    assert list(range(5))[ndd.tensor(2)] == 2
    for wrong in (lambda: bool(ndd.tensor([1, 2])), lambda: int(ndd.tensor([1, 2])), lambda: bool(ndd.tensor([]))):
        with pytest.raises(ValueError):
            wrong()
    assert ndd.tensor(3) in [1, 3] and ndd.tensor(3) not in [1, 2]  # DALI: True for both
    with pytest.raises(TypeError):
        bool(ndd.batch([1]))


def test_A9_arrays_on_the_left() -> None:
    tensor = ndd.tensor([1, 2])
    assert np.asarray(np.array([1, 2]) + tensor).tolist() == [2, 4] and np.asarray(np.float32(2) * tensor).tolist() == [2, 4]
    assert isinstance(tensor + np.array([1, 2]), ndd.Tensor)
    for left in (np.array([10, 20]), np.float32(10)):  # DALI gives an array of objects
        found = left - ndd.batch([[1, 2], [3, 4]])
        assert isinstance(found, ndd.Batch)
        assert [np.asarray(sample).tolist() for sample in found.tensors] == [(left - np.array(row)).tolist() for row in ([1, 2], [3, 4])]
    with pytest.raises(TypeError):
        np.sqrt(ndd.batch([1.0]))


def test_torch_tensors_on_the_left_give_tensors() -> None:
    torch = pytest.importorskip("torch")
    tensor = ndd.tensor([1, 2])
    for found, expected in ((torch.tensor([5, 2]) - tensor, [4, 0]), (torch.tensor(2) * tensor, [2, 4]),
                            (torch.tensor([1, 1]) < tensor, [False, True])):  # fmt: skip
        assert isinstance(found, ndd.Tensor) and listed(found) == expected
    found = torch.tensor([5, 2]) - ndd.batch([[1, 2]])
    assert isinstance(found, ndd.Batch) and listed(found.tensors[0]) == [4, 0]


def test_A10_what_is_no_number() -> None:
    for value in (ndd.tensor([1, 2]), ndd.batch([1])):
        for other in (None, "x", {}):
            assert (value == other) is False and (value != other) is True
            for wrong in (lambda: value + other, lambda: other * value, lambda: value < other):  # noqa: B023
                with pytest.raises(TypeError):
                    wrong()
    with pytest.raises((TypeError, ValueError)):
        ndd.math.sqrt(None)


def test_A11_functions() -> None:
    whole, double = ndd.tensor([1, 4]), ndd.float64([1, 4])
    numpys = {"asinh": "arcsinh", "acosh": "arccosh", "atan": "arctan"}
    for name in ("sqrt", "rsqrt", "cbrt", "exp", "log", "log2", "log10", "fabs", "floor", "ceil", "sin", "cos", "tan", "atan", "sinh",
                 "cosh", "tanh", "asinh", "acosh"):  # fmt: skip
        function = getattr(ndd.math, name)
        assert function(whole).dtype is ndd.float32 and function(double).dtype is ndd.float64, name
        if name != "rsqrt":
            assert np.allclose(listed(function(double)), getattr(np, numpys.get(name, name))(np.array([1.0, 4.0]))), name
    assert listed(ndd.math.rsqrt(double)) == [1, 0.5]
    assert ndd.math.abs(ndd.int8([-3])).dtype is ndd.int8 and ndd.math.clamp(ndd.int8([9]), ndd.int8(1), ndd.int8(5)).dtype is ndd.int8
    assert listed(ndd.math.clamp([1, 5, 9], 2, 6)) == [2, 5, 6]
    assert ndd.math.max(1, 2).item() == 2 and listed(ndd.math.min([3, 1], 2)) == [2, 1]
    assert ndd.math.sqrt(4).item() == 2 and isinstance(ndd.math.sqrt(4), ndd.Tensor) and ndd.math.pow(2, 3).dtype is ndd.int32
    assert ndd.math.fpow(2, 3).dtype is ndd.float32 and np.isclose(ndd.math.atan2(1.0, 1.0).item(), np.pi / 4)


def test_functions_with_bounded_domains_and_with_two_operands() -> None:
    for name, numpys in (("asin", "arcsin"), ("acos", "arccos"), ("atanh", "arctanh")):
        function = getattr(ndd.math, name)
        assert function(ndd.tensor([0])).dtype is ndd.float32
        found = function(ndd.float64([0.5, -0.25]))
        assert found.dtype is ndd.float64 and np.allclose(listed(found), getattr(np, numpys)(np.array([0.5, -0.25])))
    assert told(ndd.math.pow(2.0, [3, 1])) == ("f32", (2,), None) and listed(ndd.math.pow(2.0, [3, 1])) == [8, 2]
    assert told(ndd.math.fpow(ndd.float64([4]), 0.5)) == ("f64", (1,), None)
    assert np.allclose(listed(ndd.math.atan2([1.0, -1.0], ndd.tensor([0.0, -1.0]))), np.arctan2([1.0, -1.0], [0.0, -1.0]))
    assert ndd.math.min(ndd.int8([3]), ndd.int8([2])).dtype is ndd.int8 and ndd.math.fabs(ndd.int8([-3])).dtype is ndd.float32
    assert [listed(item) for item in ndd.math.max(ndd.batch([[1, 5], [2]]), 3)] == [[3, 5], [3]]


# ------------------------------------------------------------------------------------------------------------ conversion


def test_M3_numpy() -> None:
    tensor = ndd.tensor([1, 2])
    assert np.shares_memory(np.asarray(tensor), np.asarray(tensor)) and not np.shares_memory(np.array(tensor), np.asarray(tensor))
    assert np.asarray(tensor, dtype=np.float64).dtype == np.float64
    with pytest.raises(TypeError, match="cpu"):
        np.asarray(tensor.gpu())
    with pytest.raises(TypeError, match="as_tensor"):
        np.asarray(ndd.batch([1]))


def test_M4_dlpack() -> None:
    tensor = ndd.tensor([1, 2])
    view = np.from_dlpack(tensor)
    assert np.shares_memory(view, np.asarray(tensor)) and tensor.__dlpack_device__() == (1, 0)
    assert not np.shares_memory(np.from_dlpack(tensor, copy=True), np.asarray(tensor))
    assert tensor.__dlpack__(max_version=(1, 0)) is not None and tensor.__dlpack__(copy=False, dl_device=(1, 0)) is not None
    assert not hasattr(tensor, "__cuda_array_interface__")


def test_torch_takes_memory_by_dlpack() -> None:
    torch = pytest.importorskip("torch")
    tensor = ndd.tensor([1, 2])
    torch.from_dlpack(tensor)[0] = 7
    assert listed(tensor) == [7, 2]
    assert torch.from_dlpack(ndd.tensor([True, False])).tolist() == [True, False] and torch.from_dlpack(ndd.tensor(3)).item() == 3
    assert torch.from_dlpack(ndd.tensor(np.zeros((0, 3)))).shape == (0, 3)
    with pytest.raises(TypeError, match="DataType"):
        np.from_dlpack(ndd.tensor(types.FLOAT))


def test_every_type_is_one_of_torch() -> None:
    torch = pytest.importorskip("torch")
    for name in (*KINDS, "float16"):
        found = ndd.tensor([1, 0], dtype=getattr(ndd, name)).torch()
        assert found.dtype is getattr(torch, name) and found.tolist() == [1, 0]


def test_M5_torch() -> None:
    torch = pytest.importorskip("torch")
    tensor = ndd.tensor([1, 2])
    shared = tensor.torch()
    shared[0] = 5
    assert listed(tensor) == [5, 2] and shared.dtype == torch.int32
    tensor.torch(copy=True)[0] = 9
    assert listed(tensor) == [5, 2]
    with pytest.raises(TypeError):
        ndd.tensor(types.FLOAT).torch()


def test_M6_moves() -> None:
    for value in (ndd.tensor([1, 2], layout="X"), ndd.batch([[1, 2]], layout="X")):
        assert value.to_device("cpu") is value.cpu() is value
        copied = value.to_device("cpu", force_copy=True)
        assert copied is not value and told(copied) == told(value)
        there = value.gpu()
        assert there.device == ndd.Device("gpu") and there.gpu() is there and told(there.cpu()) == told(value)
    tensor = ndd.tensor([1, 2])
    assert not np.shares_memory(np.asarray(tensor.to_device("cpu", force_copy=True)), np.asarray(tensor))


def test_moves_are_made_in_the_current_mode() -> None:
    array = np.array([1, 2])
    for mode in ndd.EvalMode:
        with mode:
            value = ndd.copy(ndd.tensor(array)) + 1
            for made, device in ((value.to_device("cpu", force_copy=True), "cpu"), (value.gpu(), "gpu")):
                assert (made._work is not None) == (mode is ndd.EvalMode.deferred)
                assert (made.dtype, made.device, made.ndim) == (value.dtype, ndd.Device(device), 1)
                assert listed(made.cpu()) == [2, 3] and made.shape == (2,)
    with ndd.EvalMode.deferred:
        wrong = ndd.crop(ndd.copy(ndd.tensor(np.zeros((2, 2, 3), np.uint8))), crop=(9, 9)).gpu()
        outside = ndd.as_tensor(array).gpu()  # memory of the program is read at once
        array[...] = 0
    assert listed(outside.cpu()) == [1, 2]
    with pytest.raises(RuntimeError, match="out of bounds"):
        wrong.evaluate()


def test_notebooks_show_values() -> None:
    pytest.importorskip("PIL.Image")
    pictures = ndd.batch([np.full((20, 30 + k, 3), k, np.uint8) for k in range(20)], layout="HWC")
    page = pictures._repr_html_()
    assert page.count("data:image/png") == 16 and "and 4 more" in page and "20 samples" in page
    assert "data:image/png" in ndd.tensor(np.eye(20, dtype=np.int32), layout="HW")._repr_html_()  # a mask
    sound = ndd.tensor(np.sin(np.arange(4000, dtype=np.float32)))._repr_html_()
    assert 'class="wave"' in sound and "histogram" in sound
    assert "histogram" in ndd.tensor(np.arange(100))._repr_html_() and "<code>5" in ndd.tensor(5)._repr_html_()
    assert "DataType" in ndd.tensor(types.FLOAT)._repr_html_() and "0 samples" in ndd.as_batch(np.zeros((0, 3)))._repr_html_()
    with ndd.EvalMode.deferred:
        assert "f32" in (ndd.copy(ndd.tensor([1.5, 2])) * 2)._repr_html_()


def test_notebooks_show_lists_of_pipelines() -> None:
    pytest.importorskip("PIL.Image")
    from asyncdali.tensors import TensorListCPU

    page = TensorListCPU([np.zeros((20, 30, 3), np.uint8)] * 2, layout="HWC")._repr_html_()
    assert page.count("data:image/png") == 2 and "TensorListCPU: 2 samples" in page

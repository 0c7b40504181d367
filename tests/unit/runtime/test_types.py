"""asyncdali.types: names, conversions and constants."""

from __future__ import annotations

import pickle
import subprocess
import sys

import numpy as np
import pytest

from asyncdali import types
from asyncdali.data_node import DataNode
from asyncdali.graph.constants import output_constant

NUMERIC = {
    "UINT8": np.uint8, "UINT16": np.uint16, "UINT32": np.uint32, "UINT64": np.uint64, "INT8": np.int8, "INT16": np.int16,
    "INT32": np.int32, "INT64": np.int64, "FLOAT16": np.float16, "FLOAT": np.float32, "FLOAT64": np.float64, "BOOL": np.bool_,
}  # fmt: skip


def kinds_of(value, dtype=None, shape=None):
    array, kind = types.constant_array(value, dtype, shape)
    assert array.flags.c_contiguous
    assert array.dtype == np.dtype(NUMERIC.get(kind.name, np.int32))
    return array.tolist(), kind


# --- enumerations ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", [types.DALIDataType, types.DALIImageType, types.DALIInterpType])
def test_members_are_names_of_the_module(kind):
    for name, member in kind.__members__.items():
        assert getattr(types, name) is member
        assert str(member) == f"{member}" == f"{kind.__name__}.{name}"
        assert repr(member) == f"<{kind.__name__}.{name}: {int(member)}>"
        assert pickle.loads(pickle.dumps(member)) is member
        assert kind(int(member)) is member
        assert member == int(member)
        assert bool(member)


def test_values():
    assert (types.NO_TYPE, types.FLOAT, types.BOOL, types.PYTHON_OBJECT) == (-1, 9, 11, 24)
    assert (types.RGB, types.ANY_DATA, types.INTERP_GAUSSIAN) == (0, 4, 5)
    assert types.CPU_ONLY_DEVICE_ID == -99999
    assert [each.value for each in types.PipelineAPIType] == [0, 1, 2]
    assert types.StreamPolicy["PER_OPERATOR"] is types.StreamPolicy.PER_OPERATOR
    assert {each.name for each in types.OperatorConcurrency} == {"UNSPECIFIED", "NONE", "BACKEND", "FULL"}


def test_stream_and_layout():
    assert types.CUDAStream(5).ptr == 5
    assert types.CUDAStream().ptr is None
    layout = types.TensorLayout("HWC")
    assert (str(layout), len(layout)) == ("HWC", 3)
    assert layout == "HWC"
    assert layout == types.TensorLayout("HWC")
    assert layout != "CHW"
    assert hash(layout) == hash("HWC")
    with pytest.raises(TypeError):
        types.TensorLayout(5)


def test_the_import_loads_numpy_only():
    code = "import sys, numpy; before = {*sys.modules}; import asyncdali.types, asyncdali.tensors; print(*{*sys.modules} - before)"
    loaded = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout.split()
    heavy = {"asyncio", "numba", "cv2", "cupy", "torch", "nvidia", "concurrent", "multiprocessing"}
    assert not {name.partition(".")[0] for name in loaded} & heavy


# --- type conversions ------------------------------------------------------------------------------------------------


def test_to_numpy_type():
    for name, cls in NUMERIC.items():
        assert types.to_numpy_type(getattr(types, name)) is cls
    for kind in (types.NO_TYPE, "FLOAT", types.IMAGE_TYPE, types.STRING):
        with pytest.raises(KeyError):
            types.to_numpy_type(kind)


def test_to_dali_type_of_numpy():
    for name, cls in NUMERIC.items():
        for spelled in (cls, np.dtype(cls), np.dtype(cls).name):
            assert types.to_dali_type(spelled) is getattr(types, name)
    assert types.to_dali_type(np.longlong) is types.INT64
    assert types.to_dali_type(np.intc) is types.INT32


@pytest.mark.parametrize(
    ("spelled", "kind"),
    [(float, "FLOAT"), (bool, "BOOL"), ("float", "FLOAT"), ("double", "FLOAT64"), ("half", "FLOAT16"), ("long", "INT64"),
     ("short", "INT16"), ("byte", "UINT8"), ("ubyte", "UINT8"), ("ushort", "UINT16"), ("ulong", "UINT64"), ("bool_", "BOOL"),
     ("torch.float32", "FLOAT")],
)  # fmt: skip
def test_to_dali_type_names(spelled, kind):
    assert types.to_dali_type(spelled).name == kind


def test_to_dali_type_of_torch_without_torch():
    loaded = "torch" in sys.modules
    fake = type("dtype", (), {"__init__": lambda self, name: setattr(self, "name", name), "__repr__": lambda self: self.name})
    assert types.to_dali_type(fake("torch.float16")) is types.FLOAT16
    assert types.to_dali_type(fake("torch.int64")) is types.INT64
    with pytest.raises(TypeError):
        types.to_dali_type(fake("torch.bfloat16"))
    assert ("torch" in sys.modules) == loaded


@pytest.mark.parametrize(
    "bad",
    [int, complex, str, "int", "char", "f4", "FLOAT", None, 5, np.complex64, np.str_, np.dtype(">f4"), np.dtype("O"), np.dtype("U3"),
     np.floating, np.integer, np.datetime64, np.array([1]), types.FLOAT],
)  # fmt: skip
def test_to_dali_type_refuses(bad):
    with pytest.raises(TypeError, match="could not be converted"):
        types.to_dali_type(bad)


# --- ScalarConstant --------------------------------------------------------------------------------------------------


def test_scalar_kinds():
    for value, kind in [(3, "INT32"), (3.5, "FLOAT"), (True, "BOOL"), (np.float64(2), "FLOAT64"), (np.int64(2**40), "INT64"),
                        (np.array(3, np.uint8), "UINT8"), (np.bool_(True), "BOOL"), (2**40, "INT32")]:  # fmt: skip
        constant = types.Constant(value)
        assert isinstance(constant, types.ScalarConstant)
        assert constant.dtype.name == kind
        assert constant.shape == []
        assert type(constant.value) in (bool, int, float)


@pytest.mark.parametrize("shape", [None, (), [], 1, [1], (1,)])
def test_scalar_shapes(shape):
    assert types.Constant(3, shape=shape) == types.Constant(3)


def test_scalar_converters():
    constant = types.Constant(2.5)
    for method, kind in [("bool", "BOOL"), ("int8", "INT8"), ("int16", "INT16"), ("int32", "INT32"), ("int64", "INT64"),
                         ("uint8", "UINT8"), ("uint16", "UINT16"), ("uint32", "UINT32"), ("uint64", "UINT64"),
                         ("float16", "FLOAT16"), ("float32", "FLOAT"), ("float64", "FLOAT64")]:  # fmt: skip
        converted = getattr(constant, method)()
        assert converted.dtype.name == kind
        assert converted is not constant
    assert constant.int32().value == 2
    assert constant.bool().value is True
    assert types.Constant(300, dtype=types.UINT8).value == 300


def test_scalar_text_and_equality():
    constant = types.Constant(3)
    assert (str(constant), repr(constant)) == ("3:DALIDataType.INT32", "3")
    assert constant == types.Constant(3)
    assert constant != types.Constant(3.0)
    assert constant != 3
    assert len({constant, types.Constant(3), types.Constant(4)}) == 2


def test_scalar_comparison_defers_to_nodes():
    class Node:
        def __eq__(self, other):
            return ("eq", other)

        def __ne__(self, other):
            return ("ne", other)

    constant, node = types.Constant(3), Node()
    assert (constant == node) == ("eq", constant)
    assert (constant != node) == ("ne", constant)


def test_scalar_to_builtins():
    assert int(types.Constant(3)) == 3
    assert bool(types.Constant(0)) is False
    assert float(types.Constant(3.5)) == 3.5
    for convert, value in [(int, 3.0), (bool, 0.0), (float, 3), (float, True)]:
        with pytest.raises(TypeError, match="explicitly before casting"):
            convert(types.Constant(value))


@pytest.mark.parametrize("bad", ["x", None, 1 + 2j, {}, range(3), b"abc", object()])
def test_scalar_refuses(bad):
    with pytest.raises(TypeError, match="Expected scalar value"):
        types.Constant(bad)


def test_scalar_dtype_refuses():
    for dtype in (types.STRING, "x", int, 99):
        with pytest.raises(TypeError):
            types.Constant(3, dtype=dtype)


# --- constant_array --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("value", "result", "kind"),
    [([1, 2], [1, 2], "INT32"), ([1.5, 2], [1.5, 2.0], "FLOAT"), ([True, False], [True, False], "BOOL"), ([True, 2], [1, 2], "INT32"),
     ([], [], "FLOAT"), ((1, 2), [1, 2], "INT32"), ([2**40, -(2**40)], [2**31 - 1, -(2**31)], "INT32"), (3, 3, "INT32"),
     (2.5, 2.5, "FLOAT"), (True, True, "BOOL"), ([np.float32(2), np.int8(1)], [2.0, 1.0], "FLOAT"), (2**63, 2**31 - 1, "INT32")],
)  # fmt: skip
def test_inference_of_python_values(value, result, kind):
    assert kinds_of(value) == (result, getattr(types, kind))


def test_inference_of_arrays():
    assert kinds_of(np.arange(2.0)) == ([0.0, 1.0], types.FLOAT)
    assert kinds_of(np.arange(2)) == ([0, 1], types.INT32)
    assert kinds_of(np.arange(2, dtype=np.uint64)) == ([0, 1], types.UINT32)
    assert kinds_of(np.float16([2])) == ([2.0], types.FLOAT16)
    assert kinds_of(np.array(3)) == (3, types.INT32)
    assert kinds_of(np.arange(6).reshape(2, 3).T) == ([[0, 3], [1, 4], [2, 5]], types.INT32)
    assert kinds_of(np.zeros((2, 0))) == ([[], []], types.FLOAT)
    assert kinds_of(np.array([1e300])) == ([np.inf], types.FLOAT)


@pytest.mark.parametrize("value", [np.array([2**40]), np.array([2**40], np.uint64), np.int64(-(2**31) - 1)])
def test_wide_arrays_overflow(value):
    with pytest.raises(OverflowError, match="out of range for u?int32"):
        types.constant_array(value)
    wide = types.to_dali_type(value.dtype)
    assert kinds_of(value, wide)[0] == value.tolist()


def test_rounding_and_saturation():
    assert kinds_of([2.5, 3.5, -2.5, 300, -5], types.UINT8)[0] == [3, 4, 0, 255, 0]
    assert kinds_of(np.array([2.5, -2.5, 0.49999999999999994, -0.5]), types.INT8)[0] == [3, -3, 0, -1]
    assert kinds_of([1e20, -1e20, np.nan], types.INT32)[0] == [2**31 - 1, -(2**31), -(2**31)]
    assert kinds_of([1e30, -1e30, 2.0**63], types.INT64)[0] == [2**63 - 1, -(2**63), 2**63 - 1]
    assert kinds_of([1e30, -1.0, np.nan], types.UINT64)[0] == [2**64 - 1, 0, 2**63]
    assert kinds_of([np.nan], types.UINT8)[0] == [0]
    assert kinds_of([0.5, 0.4, -0.5, 0.0, np.nan], types.BOOL)[0] == [True, False, True, False, True]
    assert kinds_of([70000], types.FLOAT16)[0] == [np.inf]
    assert kinds_of([1 / 3], types.FLOAT64)[0] == [1 / 3]
    assert kinds_of([2**33 + 1], types.INT64)[0] == [2**33 + 1]
    assert kinds_of([2**64 - 1, -1], types.UINT64)[0] == [2**64 - 1, 0]
    assert kinds_of([2**63, -1], types.INT64)[0] == [2**63 - 1, -1]
    assert kinds_of(np.array([300, -5]), types.UINT8)[0] == [255, 0]
    assert kinds_of(np.array([2**64 - 1], np.uint64), types.INT8)[0] == [127]
    assert kinds_of(np.array([-1], np.int8), types.UINT64)[0] == [0]
    assert kinds_of([True, False], types.FLOAT)[0] == [1.0, 0.0]


def test_integers_beyond_64_bits():
    with pytest.raises(OverflowError):
        types.constant_array([2**70])


def test_shapes():
    assert kinds_of(3, shape=[2, 2])[0] == [[3, 3], [3, 3]]
    assert kinds_of(3.5, shape=3)[0] == [3.5] * 3
    assert kinds_of(np.float64(2), shape=[2])[0] == [2.0, 2.0]
    assert kinds_of([1], shape=[2])[0] == [1, 1]
    assert kinds_of([1], shape=[])[0] == 1
    assert kinds_of([1, 2, 3, 4], shape=(2, 2))[0] == [[1, 2], [3, 4]]
    assert kinds_of(np.arange(4), shape=[2, 2])[0] == [[0, 1], [2, 3]]
    assert kinds_of(3, shape=[0])[0] == []
    assert kinds_of([], shape=[2, 0])[0] == [[], []]


def test_shape_errors():
    with pytest.raises(RuntimeError, match="does not match the shape"):
        types.constant_array([1, 2, 3], None, [2, 2])
    with pytest.raises(RuntimeError, match="does not match the shape"):
        types.constant_array([], None, [2])
    with pytest.raises(ValueError, match="does not match the shape"):
        types.constant_array(np.arange(3), None, [2])
    with pytest.raises(ValueError, match="negative"):
        types.constant_array(3, None, [-1])
    for shape in ("x", [2.5], [None]):
        with pytest.raises(TypeError):
            types.constant_array(3, None, shape)


def test_enumerations():
    assert kinds_of([types.RGB, types.GRAY]) == ([0, 2], types.IMAGE_TYPE)
    assert kinds_of(types.FLOAT) == (9, types.DATA_TYPE)
    assert kinds_of([types.INTERP_CUBIC]) == ([2], types.INTERP_TYPE)
    assert kinds_of(types.FLOAT, shape=[2]) == ([9, 9], types.DATA_TYPE)
    assert kinds_of([types.GRAY], types.INT64) == ([2], types.INT64)
    assert kinds_of([1, 2], types.IMAGE_TYPE) == ([1, 2], types.IMAGE_TYPE)
    for mixed in ([types.RGB, types.FLOAT], [types.RGB, 1], [1, types.RGB]):
        with pytest.raises(TypeError, match="same enum type"):
            types.constant_array(mixed)


@pytest.mark.parametrize(
    "bad", [[[1, 2], [3, 4]], ["a"], [None], np.array(["a"]), np.array([1j]), np.array([1, None]), np.arange(4, dtype=">i4"), "abc", None]
)
def test_values_refused(bad):
    with pytest.raises(TypeError):
        types.constant_array(bad)


def test_dtypes_spelled_otherwise():
    for dtype in (9, np.float32, "float32", float, types.FLOAT):
        assert kinds_of([1, 2], dtype) == ([1.0, 2.0], types.FLOAT)
    for dtype in (types.STRING, types.NO_TYPE, 99, complex, "nothing", True):
        with pytest.raises(TypeError):
            types.constant_array([1], dtype)


def test_array_likes():
    class Like:
        def __array__(self, dtype=None, copy=None):
            return np.arange(3, dtype=np.int16)

    assert kinds_of(Like()) == ([0, 1, 2], types.INT16)


# --- Constant and outputs --------------------------------------------------------------------------------------------


@pytest.fixture
def nodes(monkeypatch):
    """Replaces the graph by a list of the calls of `constant_node`."""
    asked = lambda values, dtype, layout, device, name=None: (values.tolist(), dtype, layout, device, name)  # noqa: E731
    monkeypatch.setattr("asyncdali.types.constant.make_node", asked)


def test_constant_nodes(nodes):
    assert types.Constant([1, 2]) == ([1, 2], types.INT32, "", "cpu", None)
    assert types.Constant(3, device="cpu") == (3, types.INT32, "", "cpu", None)
    assert types.Constant(3, device="gpu") == (3, types.INT32, "", "gpu", None)
    assert types.Constant(3, shape=[2]) == ([3, 3], types.INT32, "", "cpu", None)
    assert types.Constant(types.RGB) == (0, types.IMAGE_TYPE, "", "cpu", None)
    assert types.Constant(1, dtype=types.IMAGE_TYPE) == (1, types.IMAGE_TYPE, "", "cpu", None)
    assert types.Constant(np.ones((1, 2)), layout="HW", name="n") == ([[1.0, 1.0]], types.FLOAT, "HW", "cpu", "n")
    assert types.Constant(3, layout="") == (3, types.INT32, "", "cpu", None)
    assert types.Constant(types.Constant(2.5).int32(), shape=[2]) == ([2, 2], types.INT32, "", "cpu", None)


def test_constant_node_errors(nodes):
    with pytest.raises(RuntimeError, match="layout"):
        types.Constant([1, 2], layout="XY")
    with pytest.raises(ValueError, match="device"):
        types.Constant([1, 2], device="tpu")
    with pytest.raises(KeyError, match="bogus"):
        types.Constant([1, 2], bogus=1)


@pytest.mark.parametrize(
    ("value", "result", "kind"),
    [(True, True, "BOOL"), (3, 3, "INT32"), (2.5, 2.5, "FLOAT"), (np.float64(1.5), 1.5, "FLOAT"), (np.uint64(5), 5, "UINT32"),
     ([1, 2.5], [1.0, 2.5], "FLOAT"), ([], [], "FLOAT"), (types.Constant(300).uint8(), 255, "UINT8"),
     (types.Constant(1 / 3).float64(), 1 / 3, "FLOAT64"), (types.RGB, 0, "IMAGE_TYPE"), (np.arange(3), [0, 1, 2], "INT32")],
)  # fmt: skip
def test_outputs(value, result, kind):
    array, dtype = output_constant(value)
    assert (array.tolist(), dtype.name) == (result, kind)


@pytest.mark.parametrize("bad", ["a", None, {}, b"x", 1 + 2j, [None], ["a"], [[1], [2]], np.array(["a"]), object(), range(3), {1}])
def test_illegal_outputs(bad):
    with pytest.raises(TypeError, match="Illegal output type. The output 2 is a"):
        output_constant(bad, 2)


def test_output_overflow():
    with pytest.raises(OverflowError):
        output_constant(np.array([2**40]))


def test_nested_nodes():
    node = DataNode("node", "cpu", None)
    for value in ([node], [1, node], ((node,),)):
        with pytest.raises(TypeError, match="Illegal pipeline output type.*nested `DataNode`"):
            output_constant(value)
    with pytest.raises(TypeError, match="Illegal output type"):
        output_constant({"a": node})

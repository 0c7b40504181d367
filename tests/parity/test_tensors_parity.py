"""Calls of tensors, types and constants beside DALI's: results, texts and types of exceptions are equal."""

from __future__ import annotations

import ctypes
import importlib
from types import SimpleNamespace

import numpy as np
import pytest

pytest.importorskip("nvidia.dali")

ARRAY = np.arange(24, dtype=np.int16).reshape(2, 3, 4)
RAGGED = [np.arange(6, dtype=np.float32).reshape(2, 3), np.ones((1, 3), np.float32)]


def load(name):
    types, tensors = importlib.import_module(f"{name}.types"), importlib.import_module(f"{name}.tensors")
    return SimpleNamespace(T=types, C=types.Constant, TL=tensors.TensorListCPU, TC=tensors.TensorCPU)


@pytest.fixture(scope="module")
def both():
    return load("nvidia.dali"), load("asyncdali")


def plain(value):
    """A result in a form that does not depend on the library."""
    if isinstance(value, (list, tuple)):
        return type(value)(map(plain, value))
    if isinstance(value, np.ndarray):
        return (value.dtype.str, value.shape, value.tolist())
    if value is NotImplemented or isinstance(value, (bool, int, float, str, type(None), type)):
        return repr(value)
    return repr(value).replace("nvidia.dali.", "").replace("asyncdali.", "")


def outcome(call, library):
    try:
        return plain(call(library))
    except Exception as error:
        return type(error)


def compare(both, call):
    expected, ours = outcome(call, both[0]), outcome(call, both[1])
    if isinstance(expected, type) and issubclass(expected, Exception):
        assert isinstance(ours, type), f"DALI raises {expected}, ours gives {ours}"
        assert issubclass(ours, expected)
    else:
        assert ours == expected


def dense(m):
    return m.TL(ARRAY.copy(), "HW")


def ragged(m):
    return m.TL(RAGGED, "HW")


def external(m, source, count):
    target = np.zeros(count, np.float32)
    source.copy_to_external(ctypes.c_void_p(target.ctypes.data))
    return target


def changed(tensor, method, *arguments):
    result = getattr(tensor, method)(*arguments)
    return (result, tensor.shape(), tensor.layout(), int(tensor.dtype))


def is_own_cpu(tensors):
    return tensors.as_cpu() is tensors


def compared(tensors, cls):
    same = tensors
    return same == tensors, cls(tensors) == tensors


def shares_memory(tensors):
    return np.asarray(tensors[0]).ctypes.data == tensors.data_ptr() == tensors.as_tensor().data_ptr()


def stays_in_place(tensors, cls):
    return cls([tensors[0], tensors[1]], contiguous=False).data_ptr() == tensors.data_ptr()


LISTS = {
    "shape": lambda m: (dense(m).shape(), ragged(m).shape(), dense(m).ndim(), len(ragged(m))),
    "dtype": lambda m: (dense(m).dtype, int(ragged(m).dtype)),
    "sample shape": lambda m: [dense(m)[i].shape() for i in (0, 1, -1, -2, np.int64(1), True)],
    "past the end": lambda m: dense(m)[2],
    "before the start": lambda m: dense(m)[-3],
    "at": lambda m: (dense(m).at(1), ragged(m).at(0)),
    "at -1": lambda m: dense(m).at(-1),
    "at 2": lambda m: dense(m).at(2),
    "iteration": lambda m: [np.asarray(sample) for sample in ragged(m)],
    "scalars": lambda m: (m.TL(np.arange(3)).shape(), np.asarray(m.TL(np.arange(3))[1])),
    "is_dense_tensor": lambda m: (dense(m).is_dense_tensor(), ragged(m).is_dense_tensor(), m.TL(np.arange(3)).is_dense_tensor()),
    "as_tensor": lambda m: (dense(m).as_tensor().shape(), dense(m).as_tensor().layout(), np.asarray(dense(m).as_tensor())),
    "as_tensor ragged": lambda m: ragged(m).as_tensor(),
    "as_array": lambda m: dense(m).as_array(),
    "as_array ragged": lambda m: ragged(m).as_array(),
    "as_array empty": lambda m: m.TL([]).as_array(),
    "as_tensor empty": lambda m: m.TL([]).as_tensor(),
    "reshaped": lambda m: [np.asarray(t.as_reshaped_tensor(s)) for t, s in ((dense(m), [24]), (dense(m), (2, 12)), (ragged(m), [9]))],
    "reshaped layout": lambda m: [dense(m).as_reshaped_tensor(s).layout() for s in ([2, 3, 4], [4, 3, 2], [6, 4], [1, 2, 3, 4])],
    "reshaped -1": lambda m: dense(m).as_reshaped_tensor([-1]),
    "reshaped 5": lambda m: dense(m).as_reshaped_tensor([5]),
    "reshaped int": lambda m: dense(m).as_reshaped_tensor(24),
    "copy_to_external": lambda m: (external(m, ragged(m), 9), external(m, ragged(m)[0], 6)),
    "set_layout": lambda m: [changed(dense(m), "set_layout", layout) for layout in ("AB", "", None)],
    "set_layout X": lambda m: dense(m).set_layout("X"),
    "set_layout 5": lambda m: dense(m).set_layout(5),
    "reinterpret": lambda m: changed(dense(m), "reinterpret", m.T.FLOAT16),
    "reinterpret wider": lambda m: dense(m).reinterpret(m.T.INT32),
    "reinterpret none": lambda m: dense(m).reinterpret(m.T.NO_TYPE),
    "reinterpret str": lambda m: dense(m).reinterpret("x"),
    "reset": lambda m: changed(dense(m), "reset"),
    "as_cpu": lambda m: is_own_cpu(dense(m)),
    "broadcast": lambda m: (
        m.TL.broadcast(dense(m)[0], 3).shape(),
        m.TL.broadcast(dense(m)[0], 3).layout(),
        m.TL.broadcast(ARRAY, 2).shape(),
    ),
    "broadcast negative": lambda m: m.TL.broadcast(dense(m)[0], -1),
    "dlpack list": lambda m: m.TL.from_dlpack_list([np.zeros(3), np.ones(4)], "X"),
    "dlpack list rank": lambda m: m.TL.from_dlpack_list([np.zeros(3), np.ones((3, 3))]),
    "dlpack list type": lambda m: m.TL.from_dlpack_list([np.zeros(3), np.ones(3, np.float32)]),
    "dlpack list int": lambda m: m.TL.from_dlpack_list([5]),
    "dlpack list array": lambda m: m.TL.from_dlpack_list(np.zeros((2, 3))),
    "dlpack list strided": lambda m: m.TL.from_dlpack_list([np.zeros((3, 3)).T]),
    "asarray": lambda m: np.asarray(dense(m)),
    "asarray ragged": lambda m: np.asarray(ragged(m)),
    "identity": lambda m: (compared(dense(m), m.TL), bool(m.TL([]))),
    "addition": lambda m: dense(m) + 1,
    "shares memory": lambda m: shares_memory(dense(m)),
}

MAKING = {
    "empty": lambda m: (m.TL([]), m.TL([]).dtype, m.TL([]).ndim(), m.TL([]).is_dense_tensor(), m.TL([]).data_ptr()),
    "no samples": lambda m: (m.TL(np.zeros((0, 3))), m.TL(np.zeros((0, 3))).ndim()),
    "no elements": lambda m: (m.TL(np.zeros((2, 0))), m.TL(np.zeros((2, 0))).as_array()),
    "nothing": lambda m: m.TL(),
    "mixed types": lambda m: m.TL([np.zeros(3), np.zeros(3, np.float32)]),
    "mixed ranks": lambda m: m.TL([np.zeros(3), np.zeros((3, 3))]),
    "numbers": lambda m: m.TL([1, 2]),
    "nested": lambda m: m.TL([[1, 2], [3, 4]]),
    "one layout": lambda m: (m.TL([dense(m)[0], ARRAY[1]]).layout(), m.TL([dense(m)[0], dense(m)[1]], "XY").layout()),
    "late layout": lambda m: m.TL([ARRAY[0], dense(m)[1]]),
    "other layout": lambda m: m.TL([dense(m)[0], m.TC(ARRAY[0], "AB")]),
    "not contiguous": lambda m: stays_in_place(dense(m), m.TL),
    "strided in list": lambda m: m.TL([ARRAY[0].T]),
    "0-d": lambda m: m.TL(np.array(5)),
    "int": lambda m: m.TL(5),
    "str": lambda m: m.TL("x"),
    "bytes": lambda m: (m.TL(b"abc"), m.TL(bytearray(b"ab")), m.TL(memoryview(b"ab"))),
    "transposed": lambda m: m.TL(ARRAY.T),
    "strided": lambda m: m.TL(ARRAY[:, :, ::2]),
    "short layout": lambda m: m.TL(ARRAY, "X"),
    "batch layout": lambda m: m.TL(ARRAY, "NHW"),
    "strings": lambda m: m.TL(np.array(["a"])),
    "objects": lambda m: m.TL(np.array([None])),
    "list": lambda m: (m.TL(dense(m)).layout(), m.TL(dense(m), "AB").layout()),
    "list, wrong layout": lambda m: m.TL(dense(m), "A"),
    "tensor": lambda m: (m.TL(dense(m)[0]), m.TL(dense(m).as_tensor())),
    "capsule": lambda m: m.TL(ARRAY.__dlpack__(), "HW"),
}

TENSORS = {
    "0-d": lambda m: (m.TC(np.array(5)).shape(), m.TC(np.array(5)).ndim()),
    "list": lambda m: m.TC([1, 2]),
    "int": lambda m: m.TC(5),
    "none": lambda m: m.TC(None),
    "strided": lambda m: m.TC(ARRAY[:, :, ::2]),
    "short layout": lambda m: m.TC(ARRAY, "X"),
    "strings": lambda m: m.TC(np.array(["a"])),
    "objects": lambda m: m.TC(np.array([None])),
    "capsule": lambda m: m.TC(ARRAY.__dlpack__(), "XYZ"),
    "tensor": lambda m: m.TC(m.TC(ARRAY)),
    "squeeze": lambda m: [changed(m.TC(np.zeros((1, 6, 1)), "HWC"), "squeeze", *dim) for dim in ((), (0,), (1,), (-1,), (2,), (None,))],
    "squeeze all": lambda m: changed(m.TC(np.zeros((1, 1))), "squeeze"),
    "squeeze 5": lambda m: m.TC(np.zeros((1, 6, 1))).squeeze(5),
    "properties": lambda m: [m.TC(ARRAY, "XYZ").get_property(name) for name in ("layout", "source_info", "other")],
    "no layout": lambda m: (m.TC(ARRAY).get_property("layout"), m.TC(ARRAY).source_info()),
    "property 5": lambda m: m.TC(ARRAY).get_property(5),
    "len": lambda m: len(m.TC(ARRAY)),
    "index": lambda m: m.TC(ARRAY)[0],
    "iter": lambda m: iter(m.TC(ARRAY)),
    "interface": lambda m: [m.TC(ARRAY).__array_interface__[key] for key in ("shape", "version", "strides", "data")],
    "dlpack": lambda m: np.from_dlpack(m.TC(ARRAY)),
    "dlpack device": lambda m: [int(number) for number in m.TC(ARRAY).__dlpack_device__()],
    "data_ptr": lambda m: m.TC(ARRAY).data_ptr() - ARRAY.ctypes.data,
    "reinterpret": lambda m: m.TC(ARRAY).reinterpret(m.T.INT32),
    "set_layout": lambda m: m.TC(ARRAY).set_layout("XY"),
    "asarray": lambda m: (np.asarray(m.TC(ARRAY)), np.asarray(m.TC(ARRAY), dtype=np.float32), np.array(m.TC(ARRAY), copy=True)),
    "identity": lambda m: m.TC(ARRAY) == m.TC(ARRAY),
}


@pytest.mark.parametrize("call", LISTS.values(), ids=LISTS)
def test_lists(both, call):
    compare(both, call)


@pytest.mark.parametrize("call", MAKING.values(), ids=MAKING)
def test_making(both, call):
    compare(both, call)


@pytest.mark.parametrize("call", TENSORS.values(), ids=TENSORS)
def test_tensors(both, call):
    compare(both, call)


# --- text ------------------------------------------------------------------------------------------------------------

RANDOM = np.random.default_rng(0)
PRINTED = [
    ARRAY, np.arange(3), np.zeros((0, 3)), np.zeros((2, 0)), np.zeros((3, 0, 2)), np.arange(1200).reshape(6, 200),
    np.arange(996).reshape(6, 166),
    np.arange(1000).reshape(8, 125), np.arange(1002).reshape(6, 167), np.arange(5000).reshape(5, 1000), np.arange(2000, dtype=np.float32),
    np.arange(14400, dtype=np.uint16).reshape(4, 30, 40, 3), np.zeros((8, 30, 40, 3), np.uint8), np.array([True, False]),
    np.array([[1.5, np.nan, 1e10]], np.float32), np.array([[1 / 3, 2 / 3]], np.float16), RANDOM.random((7, 2, 300)),
    RANDOM.random((3, 2, 600)),
    np.zeros((2, 1, 2, 2)), np.arange(100, dtype=np.uint8).reshape(100, 1), np.arange(100).reshape(100, 1, 1, 1, 1, 1),
]  # fmt: skip
PRINTED_LISTS = [
    [np.zeros((0, 3)), np.ones((2, 3))], RAGGED, [np.full((3 + i, 2 + i % 3, 3), i, np.uint8) for i in range(40)],
    [np.full((100 + i, 200 + i % 3, 3), i, np.uint8) for i in range(7)], [RANDOM.random((2, 300) if i % 2 else (3, 5)) for i in range(7)],
]  # fmt: skip


@pytest.mark.parametrize("value", PRINTED + PRINTED_LISTS, ids=lambda v: str(getattr(v, "shape", len(v))))
def test_text_of_lists(both, value):
    theirs, ours = (m.TL(value) for m in both)
    assert repr(ours) == repr(theirs)
    assert str(ours) == str(theirs)


@pytest.mark.parametrize("value", [*PRINTED, np.array(5), np.arange(3000)], ids=lambda v: str(v.shape))
def test_text_of_tensors(both, value):
    layout = "NHWCDF"[: value.ndim]
    theirs, ours = (m.TC(value, layout) for m in both)
    assert repr(ours) == repr(theirs)
    assert str(ours) == str(theirs)


def test_text_follows_print_options(both):
    for options in ({"threshold": 5, "precision": 2}, {"linewidth": 40}, {"suppress": True}):
        with np.printoptions(**options):
            theirs, ours = (str(m.TL((np.arange(40) / 3).reshape(2, 20))) for m in both)
            assert ours == theirs


def test_shape_lists_wrap_alike(both):
    for shape in ((), (1,), (1, 2), (1, 2, 3), (10, 20, 3), (1,) * 6, (1000,)):
        for count in range(1, 20):
            theirs, ours = (repr(m.TL([np.zeros(shape, np.uint8)] * count)) for m in both)
            assert ours == theirs


# --- types -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["DALIDataType", "DALIImageType", "DALIInterpType"])
def test_enumerations(both, kind):
    theirs, ours = (getattr(m.T, kind) for m in both)
    public = {name: member for name, member in theirs.__members__.items() if not name.startswith("_")}
    assert set(ours.__members__) == set(public)
    for name, member in public.items():
        mine = getattr(both[1].T, name)
        assert (int(mine), str(mine), repr(mine), f"{mine}", mine.name, bool(mine)) == (
            int(member), str(member), repr(member), f"{member}", member.name, bool(member),
        )  # fmt: skip


def test_module_names(both):
    ignored = {"ConstantNode", "Enum", "SampleInfo", "BatchInfo"}
    internal = {"backend_impl", "ctypes", "dali_type_converters", "re", "tfrec", "unique"}
    missing = {name for name in vars(both[0].T) if not name.startswith("_")} - set(vars(both[1].T)) - ignored - internal
    assert not missing


TYPES = [
    np.float32, np.dtype("f4"), np.dtype(">f4"), float, bool, int, complex, "half", "long", "byte", "double", "float", "int", "short",
    "char",
    "uint8", "bool", "FLOAT", None, "str", str, np.str_, np.dtype("U3"), np.complex64, "bool_", np.bool_, "f4", np.int_,
    "torch.float32", "uint",
    "ushort", "ulong", "ubyte", "longlong", np.dtype("O"), 5, "single", "intc", np.datetime64, np.float16, np.dtype(bool), "float_",
    "bfloat16",
]  # fmt: skip


@pytest.mark.parametrize("value", TYPES, ids=repr)
def test_to_dali_type(both, value):
    compare(both, lambda m: m.T.to_dali_type(value))


def test_to_numpy_type(both):
    for name in both[1].T.DALIDataType.__members__:
        compare(both, lambda m, name=name: m.T.to_numpy_type(getattr(m.T, name)))


# --- constants -------------------------------------------------------------------------------------------------------

SCALARS = [
    "C(3)", "C(3.5)", "C(True)", "C(np.float64(2))", "C(np.int64(2**40))", "C(np.array(3))", "C(np.array(3), shape=[1])", "C(2**70)",
    "C(3, dtype=T.UINT8)", "C(300, dtype=T.UINT8)", "C(2.7, dtype=T.INT32)", "C(2, dtype=T.FLOAT)", "C(2, dtype=T.BOOL)",
    "C(2, dtype=T.STRING)",
    "C('x')", "C(None)", "C(1+2j)", "C(np.array('x'))", "C(float('nan')).int32()", "C(float('inf'), dtype=T.INT32)", "C(2.5).int32()",
    "C(-1).uint8()", "C(2.5).bool()", "C(1/3).float16()", "int(C(3))", "int(C(True))", "int(C(3.0))", "float(C(3))", "float(C(3.5))",
    "bool(C(0))",
    "bool(C(3.5))", "float(C(True))", "C(3) == C(3)", "C(3) == C(3.0)", "C(3) != C(4)", "C(3) == 3", "C(3) != 3", "C(3) + 1", "-C(3)",
    "C(3)[0]",
    "C(3, shape=1)", "C(3, shape=())", "C(3, shape=(1,))", "C(3).shape", "T.ScalarConstant(3.7, T.INT8)", "T.ScalarConstant([1])",
    "T.ScalarConstant(3, 'x')", "T.ScalarConstant(T.RGB)", "T.CUDAStream(5).ptr", "len(T.TensorLayout('HWC'))",
    "str(T.TensorLayout('HWC'))",
    "T.TensorLayout('HWC') == 'HWC'", "T.TensorLayout('HWC')", "T.TensorLayout(5)", "T.CPU_ONLY_DEVICE_ID",
    "[T.NCHW, T.NHWC, T.NFCHW, T.NFHWC, T.SAME]",
]  # fmt: skip


@pytest.mark.parametrize("expression", SCALARS)
def test_scalars(both, expression):
    def call(m):
        value = eval(expression, {"np": np, "T": m.T, "C": m.C})
        return (repr(value), str(value)) if type(value).__name__ == "ScalarConstant" else value

    compare(both, call)


def dali_constant(types, *arguments):
    """One sample of a constant in DALI: values, type and shape. Values of enumerations cannot be read."""
    from nvidia.dali import Pipeline

    pipe = Pipeline(1, 1, None, prefetch_queue_depth=1)
    with pipe:
        pipe.set_outputs(types.Constant(arguments[0], *arguments[1:], device="cpu"))
    (output,) = pipe.run()
    kind = output.dtype.name
    return ("enum" if kind.endswith("_TYPE") else output.at(0).tolist()), kind, output.shape()[0]


def our_constant(types, *arguments):
    array, kind = types.constant_array(*arguments)
    return ("enum" if kind.name.endswith("_TYPE") else array.tolist()), kind.name, array.shape


NAN = float("nan")
INTEGERS = ["UINT8", "INT8", "UINT16", "INT16", "UINT32", "INT32", "UINT64", "INT64"]
CONSTANTS = [
    "[1, 2]", "[1.5, 2]", "[True, False]", "[True, 2]", "[]", "()", "[2**40]", "[2**40], T.INT64", "[-2**40]", "[[1, 2], [3, 4]]",
    "['a']", "[None]",
    "[T.RGB, T.GRAY]", "[T.RGB, T.FLOAT]", "[T.RGB, 1]", "[T.FLOAT]", "[T.INTERP_NN]", "[T.GRAY], T.INT32", "T.RGB",
    "T.FLOAT, None, [2]", "3",
    "3, None, [2, 2]", "3.5, None, 3", "True, None, [2]", "[1, 2, 3, 4], None, [2, 2]", "[1, 2, 3], None, [2, 2]",
    "[1, 2, 3], None, [3, 1]",
    "[1], None, [2]", "[1], None, []", "[1]", "(1, 2)", "np.arange(4.)", "np.arange(4)", "np.array([2**40])",
    "np.array([2**40], dtype='u8')",
    "np.array([2**40]), T.INT64", "np.arange(4).reshape(2, 2)", "np.arange(4).reshape(2, 2), None, [4]",
    "np.arange(4).reshape(2, 2), None, [5]",
    "np.arange(4, dtype='f2')", "np.array([1+2j])", "np.array(['a'])", "np.array([1, None])", "np.zeros((2, 0))",
    "np.arange(4, dtype='>i4')",
    "np.arange(6).reshape(2, 3).T", "np.array([True, False])", "np.array([2.5, -2.5, 300, -5]), T.UINT8", "[2.5, -2.5, 1e20], T.INT32",
    "[1, 0, 2], T.BOOL", "[0.5, 0.], T.BOOL", "[1e10], T.INT64", "[1, 2], T.FLOAT16", "[16777217], T.FLOAT", "[2**33+1], T.UINT32",
    "[-1], T.UINT64", "[1, 2], T.IMAGE_TYPE", "[1, 2], 9", "'abc'", "None", "{}", "[np.float64(2)]", "[1, True, 2.5]", "range(3)",
    "3, None, [0]",
    "2**40, None, [2]", "300, T.UINT8, [2]", "2.5, T.INT32, [2]", "np.array([300, -5]), T.UINT8", "np.array([2.5]), T.INT32",
    "np.array([3.]), T.FLOAT16",
    "np.array([1e300])", "np.array([2**40]), T.INT32", "np.array([1.5]), T.BOOL", "np.array(3)", "[], None, [2, 0]", "[], None, [2]",
    *[f"[NAN, 1e30, -1e30, 0.49999997, -0.5, 65519.], T.{kind}" for kind in [*INTEGERS, "BOOL"]],
    *[f"[-1, 2**31, 2**40, -2**40, 2**62 + 1, 65519], T.{kind}" for kind in [*INTEGERS, "BOOL", "FLOAT16"]],
]  # fmt: skip


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("expression", CONSTANTS)
def test_constants(both, expression):
    def run(library, deliver):
        arguments = eval(f"({expression},)", {"np": np, "T": library.T, "NAN": NAN})
        try:
            return deliver(library.T, *arguments)
        except Exception as error:
            return type(error)

    theirs, ours = run(both[0], dali_constant), run(both[1], our_constant)
    if isinstance(theirs, type):
        assert isinstance(ours, type)
        assert issubclass(ours, theirs)
    else:
        np.testing.assert_equal(ours, theirs)


@pytest.mark.parametrize(
    "samples, layout", [([np.arange(3)] * 2, ""), ([np.arange(3)] * 2, "X"), ([np.float32(1)] * 6, ""), ([np.ones((2, 1))] * 3, "HW")]
)
def test_layouts_of_lists_as_tensors(samples, layout):
    """A layout of the samples, and none of samples without axes, is behind the N of samples."""
    results = []
    for library in (importlib.import_module("asyncdali.tensors"), importlib.import_module("nvidia.dali.tensors")):
        made = library.TensorListCPU([np.asarray(sample) for sample in samples], layout)
        found = [made.as_tensor().layout()]
        for extents in ([6], [2, 3], [3, 2], [1, 2, 3], [3, 2, 1]):
            try:
                found.append(made.as_reshaped_tensor(extents).layout())
            except RuntimeError:
                found.append(None)
        results.append(found)
    assert results[0] == results[1]

"""numba_function's kernels on a GPU: compilation, and the launches over the CUDA simulator."""

from __future__ import annotations

import ctypes
import re
from types import SimpleNamespace

import numpy as np
import pytest
from helpers import kernels
from numba import cuda as numba_cuda
from numba.np.numpy_support import as_dtype

from asyncdali import fn, pipeline_def, types
from asyncdali.batch import Batch
from asyncdali.device.launch import Code
from asyncdali.operators.python import numba_function_gpu_kernels
from asyncdali.plugin.numba.fn import numba_function

host_kernels = pytest.mark.skipif(kernels.COMPILER is None, reason="no C++ compiler to build kernels for the host")
BATCH = 3
GRID = {"device": "gpu", "blocks": [2, 3, 1], "threads_per_block": [8, 4, 1]}
CODE = Code("text", "kernel")


def doubled(out, a, more):
    i, j = numba_cuda.grid(2)
    if i < a.shape[0] and j < a.shape[1]:
        out[j, i] = a[i, j] * 2 + more[()]


def transposed(outs, ins):
    for k in range(len(outs[0])):
        outs[0][k][0], outs[0][k][1] = ins[0][k][1], ins[0][k][0]


DECLARED = {
    "in_types": [types.UINT8, types.FLOAT64], "out_types": [types.FLOAT], "ins_ndim": [2, 0], "outs_ndim": [2],
}  # fmt: skip
DTYPES, NDIMS = [np.dtype(name) for name in ("float32", "uint8", "float64")], [2, 2, 0]


def arrays_of(arguments):
    """The arguments as a kernel receives them."""
    left, arrays = arguments.tolist(), []
    for dtype, ndim in zip(DTYPES, NDIMS, strict=True):
        (owner, parent, elements, size, address), left = left[:5], left[5:]
        shape, strides, left = left[:ndim], left[ndim : 2 * ndim], left[2 * ndim :]
        assert owner == parent == 0 and size == dtype.itemsize and elements == np.prod(shape, dtype=np.int64)
        interface = {"data": (address, False), "shape": tuple(shape), "typestr": dtype.str, "strides": tuple(strides), "version": 3}
        arrays.append(np.asarray(SimpleNamespace(__array_interface__=interface)))
    assert not left
    return arrays


@pytest.fixture
def launched(cuda, monkeypatch):
    """A list of the launches of CODE, as (blocks, threads, shapes). A simulated launch does the work of the kernel."""
    found, asked = [], []

    def kernel(blocks, threads, arguments):
        out, a, more = arrays_of(arguments)
        out[...] = a.T.astype(np.float64) * 2 + more
        found.append((blocks, threads, a.shape))

    def compiled(*given):
        asked.append(given)
        return CODE

    cuda.codes[CODE] = kernel
    monkeypatch.setattr(numba_function_gpu_kernels, "compiled", compiled)
    return SimpleNamespace(launches=found, asked=asked)


def picture(info):
    return np.full((4 + info.idx_in_batch, 5), info.idx_in_epoch, np.uint8)


def graph(body=lambda x: x):
    @pipeline_def(batch_size=BATCH, num_threads=2, device_id=0)
    def made():
        x = fn.external_source(picture, batch=False).gpu() + types.Constant(0).uint8()
        more = fn.external_source(lambda info: np.float64(info.idx_in_batch / 2), batch=False).gpu()
        return body(numba_function(x, more, run_fn=doubled, setup_fn=transposed, **DECLARED, **GRID))

    return made()


def expected(iteration):
    return [np.full((5, 4 + k), (iteration * BATCH + k) * 2 + k / 2, np.float32) for k in range(BATCH)]


@host_kernels
def test_launches(cuda, launched):
    """The kernel runs once per sample, after the inputs are computed and before the outputs are read. No thread waits."""
    pipe = graph(lambda x: x + 1)
    pipe.build()
    outputs = [pipe.run() for _ in range(4)]
    for i, (batch,) in enumerate(outputs):
        for sample, wanted in zip(batch.as_cpu(), expected(i), strict=True):
            np.testing.assert_array_equal(np.array(sample), wanted + 1)
    pipe.close()
    assert launched.launches[:BATCH] == [((2, 3, 1), (8, 4, 1), (4 + k, 5)) for k in range(BATCH)]
    ((function, options, dtypes, ndims, capability),) = launched.asked
    assert function is doubled and options == {} and capability == (9, 0)
    assert (dtypes, ndims) == (DTYPES, NDIMS)
    assert cuda.calls["load_code"] == 1


@host_kernels
def test_no_wait(cuda, launched):
    pipe = graph()
    cuda.use(0)
    stream = cuda.stream_create()
    for _ in range(4):
        pipe.run(stream)
    assert cuda.calls["stream_synchronize"] == cuda.calls["event_synchronize"] == 0
    assert cuda.calls["launch_each"] >= 4 * BATCH
    pipe.close()


@host_kernels
def test_a_resize_before_a_user_kernel_is_not_fused(cuda, monkeypatch):
    """The kernel reads the result of a resize, so the resize is not fused with crop_mirror_normalize."""
    seen = []

    def kernel(blocks, threads, arguments):
        elements, size, address = arguments.tolist()[2 + 11 : 5 + 11]  # of the input's array
        seen.append(np.frombuffer(ctypes.string_at(address, elements * size), np.uint8))

    cuda.codes[CODE] = kernel
    monkeypatch.setattr(numba_function_gpu_kernels, "compiled", lambda *given: CODE)
    kinds = {"in_types": [types.UINT8], "out_types": [types.UINT8], "ins_ndim": [3], "outs_ndim": [3]}

    @pipeline_def(batch_size=BATCH, num_threads=2, device_id=0)
    def made():
        x = fn.external_source(lambda: [np.full((9, 8, 3), 7, np.uint8)] * BATCH, layout="HWC").gpu()
        resized = fn.resize(x, size=[6.0, 5.0])
        numba_function(resized, run_fn=doubled, **kinds, **GRID)
        return fn.crop_mirror_normalize(resized, dtype=types.FLOAT)

    pipe = made()
    pipe.run()[0].as_cpu()
    pipe.close()
    assert len(seen) >= BATCH
    for pixels in seen:
        np.testing.assert_array_equal(pixels, np.full(90, 7))


def test_arguments():
    """An array is passed by value as pointers, numbers, address, extents and strides, also for empty samples and scalars."""
    batch = Batch(np.int64([[2, 0, 3], [1, 2, 4]]), types.INT16)
    batch.place(np.zeros(64, np.uint8))
    scalars = Batch(np.empty((2, 0), np.int64), types.BOOL)
    scalars.place(np.zeros(2, np.uint8))
    first, second = batch.addresses.tolist()
    a, b = scalars.addresses.tolist()
    assert numba_function_gpu_kernels.launch_arguments([batch, scalars]).tolist() == [
        [0, 0, 0, 2, first, 2, 0, 3, 0, 6, 2, 0, 0, 1, 1, a],
        [0, 0, 8, 2, second, 1, 2, 4, 16, 8, 2, 0, 0, 1, 1, b],
    ]


def test_a_numba_that_does_not_go_with_numpy(monkeypatch):
    """numba-cuda 0.30 uses a name that NumPy 2.5 does not have. The error says what to install."""

    def fails(*args, **options):
        raise AttributeError("module 'numpy' has no attribute 'row_stack'")

    monkeypatch.setattr(numba_cuda, "compile_ptx", fails)
    with pytest.raises(numba_function_gpu_kernels.NoCompiler, match=r"row_stack'\. Install it with pip install .* numpy<2\.5"):
        numba_function_gpu_kernels.compiled(doubled, {}, DTYPES, NDIMS, (9, 0))


def has_compiler():
    try:
        numba_function_gpu_kernels.compiled(doubled, {}, DTYPES, NDIMS, (7, 5))
    except numba_function_gpu_kernels.NoCompiler:
        return False
    return True


def test_compiled_for_a_gpu():
    """The kernel that Numba compiles takes exactly as many words as our launch passes."""
    if not has_compiler():
        pytest.skip("Numba's compiler for CUDA (libNVVM) is not here")
    for function in (doubled, numba_cuda.jit(doubled)):
        plain, options = numba_function_gpu_kernels.kernel_of(function, "run_fn")
        assert plain is doubled
        code = numba_function_gpu_kernels.compiled(plain, options, DTYPES, NDIMS, (9, 0))
        assert ".target sm_90" in code.ptx
        parameters = re.search(rf"\.entry\s+{re.escape(code.entry)}\s*\((.*?)\)", code.ptx, re.DOTALL)[1]
        assert re.findall(r"\.param \.(\w+)", parameters) == ["u64"] * (9 + 9 + 5)
    with pytest.raises(RuntimeError, match=r"(?s)`run_fn` cannot be compiled for the GPU: .*unknown_name"):
        numba_function_gpu_kernels.compiled(lambda out: unknown_name, {}, [np.dtype(np.uint8)], [1], (9, 0))  # noqa: F821
    assert as_dtype(numba_function_gpu_kernels.array_types(DTYPES, NDIMS)[0].dtype) == DTYPES[0]


def test_without_a_compiler(monkeypatch):
    """`build()` raises an error that names the packages to install."""

    class NvvmSupportError(ImportError):
        pass

    def compile_ptx(*args, **options):
        raise NvvmSupportError("libNVVM cannot be found")

    monkeypatch.setattr(numba_cuda, "compile_ptx", compile_ptx)
    with pytest.raises(RuntimeError, match=r"libNVVM cannot be found.*asyncdali\[numba-cuda12\] or asyncdali\[numba-cuda13\]"):
        numba_function_gpu_kernels.compiled(doubled, {}, DTYPES, NDIMS, (9, 0))


def test_options_of_cuda_jit(monkeypatch):
    given = []
    monkeypatch.setattr(numba_cuda, "compile_ptx", lambda *args, **options: (given.append(options), (".entry name(", None))[1])
    function, options = numba_function_gpu_kernels.kernel_of(numba_cuda.jit(fastmath=True)(doubled), "run_fn")
    assert numba_function_gpu_kernels.compiled(function, options, DTYPES, NDIMS, (8, 6)) == Code(".entry name(", "name")
    assert given[0]["fastmath"] is True and given[0]["cc"] == (8, 6)
    with pytest.raises(ValueError, match="`run_fn` is compiled by cuda.jit with the option `link`"):
        numba_function_gpu_kernels.kernel_of(SimpleNamespace(py_func=doubled, targetoptions={"link": ["a.cu"]}), "run_fn")

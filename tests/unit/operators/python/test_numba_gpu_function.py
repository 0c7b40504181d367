"""Kernels written for numba.cuda as operators on the host device: results, arithmetic, and allowed kernels."""

from __future__ import annotations

import math

import numba
import numpy as np
import pytest
from helpers.pipelines import pipeline_of
from numba import cuda
from numba.cuda import grid, gridsize

from asyncdali import Pipeline, fn, pipeline_def, types
from asyncdali.plugin.numba.fn import numba_function

RNG = np.random.default_rng(3)
PICTURES = [RNG.integers(0, 256, (5 + k, 7, 3), np.uint8) for k in range(3)]
GRID = {"device": "gpu", "blocks": [2, 1, 1], "threads_per_block": [4, 4, 3]}


def declared(in_types, out_types, ins_ndim, outs_ndim):
    return {"in_types": in_types, "out_types": out_types, "ins_ndim": ins_ndim, "outs_ndim": outs_ndim}


SAME = declared([types.UINT8], [types.UINT8], [3], [3])


def made(body, count=1, batch_size=3, **options):
    """The outputs of one iteration over PICTURES: lists of arrays."""
    pipe = pipeline_of(lambda: body(fn.external_source(lambda: PICTURES).gpu()), batch_size=batch_size, **options)
    outputs = pipe.run()
    found = [[np.array(sample) for sample in output.as_cpu()] for output in outputs]
    pipe.close()
    return found[0] if count == 1 else found


def equal(found, expected):
    assert len(found) == len(expected)
    for a, b in zip(found, expected, strict=True):
        np.testing.assert_array_equal(a, b, strict=True)


def flipped(out, a):
    """The grid is smaller than the picture, so each thread processes several elements."""
    x, y, z = cuda.grid(3)
    by_x, by_y, by_z = cuda.gridsize(3)
    for i in range(x, a.shape[0], by_x):
        for j in range(y, a.shape[1], by_y):
            for c in range(z, a.shape[2], by_z):
                out[i, a.shape[1] - 1 - j, c] = a[i, j, c]


@pytest.mark.parametrize("jit", [False, True])
def test_a_kernel(jit):
    run = cuda.jit(flipped) if jit else flipped
    equal(made(lambda x: numba_function(x, run_fn=run, **SAME, **GRID)), [picture[:, ::-1] for picture in PICTURES])


def brighter_kernel(out, a):
    i = cuda.blockIdx.x * cuda.blockDim.x + cuda.threadIdx.x
    if i < a.shape[0]:
        for j in range(a.shape[1]):
            for c in range(a.shape[2]):
                out[i, j, c] = min(a[i, j, c] * 2 - 100, 255) * 0.5


def brighter(out, a):
    for i in range(a.shape[0]):
        for j in range(a.shape[1]):
            for c in range(a.shape[2]):
                out[i, j, c] = min(a[i, j, c] * 2 - 100, 255) * 0.5


def same_shape(outs, ins):
    for k in range(len(outs[0])):
        outs[0][k][:] = ins[0][k]


BRIGHTER = {**declared([types.UINT8], [types.FLOAT], [3], [3]), "setup_fn": same_shape}
BRIGHTER_GPU = {"run_fn": brighter_kernel, "device": "gpu", "blocks": [2, 1, 1], "threads_per_block": [32, 1, 1]}


def test_arithmetic_is_numbas():
    """As in Numba, UINT8 times 2 does not overflow."""
    expected = [np.float32(np.minimum(picture.astype(np.int64) * 2 - 100, 255) * 0.5) for picture in PICTURES]
    equal(made(lambda x: numba_function(x, **BRIGHTER_GPU, **BRIGHTER)), expected)


@pytest.mark.slow
def test_arithmetic_is_that_of_the_cpu_function():
    gpu = made(lambda x: numba_function(x, **BRIGHTER_GPU, **BRIGHTER))
    equal(gpu, made(lambda x: numba_function(x.cpu(), run_fn=brighter, **BRIGHTER)))


@cuda.jit(device=True)
def scaled(value, by):
    return value * by


@cuda.jit(device=True)
def factorial(n):
    return 1 if n < 2 else n * factorial(n - 1)


def test_device_functions_names_from_closures_and_of_numba_cuda():
    import numba.cuda as renamed

    factor = 3

    def run(out, a):
        local = renamed.local.array(2, numba.int32)
        i, step = grid(1), gridsize(1)
        while i < a.size:
            local[0] = scaled(a[i], factor)
            local[1] = math.fabs(-1.0)
            out[i] = local[0] + local[1] + renamed.gridDim.x
            i += step

    flat = declared([types.UINT8], [types.INT32], [1], [1])
    setup = same_shape
    found = made(lambda x: numba_function(fn.reshape(x, shape=[-1]), run_fn=run, setup_fn=setup, **flat, **GRID))
    equal(found, [picture.reshape(-1).astype(np.int32) * 3 + 3 for picture in PICTURES])
    assert run.__globals__["cuda"] is cuda and scaled.py_func.__globals__["cuda"] is cuda  # the names in the user's module have not changed


def test_atomics_several_arrays_and_scalars():
    def setup(outs, ins):
        for k in range(len(outs[0])):
            outs[0][k][0] = 1
            outs[1][k][:] = 1

    kinds = declared([types.UINT8, types.INT32], [types.INT64, types.UINT8], [3, 0], [1, 2])

    def run(total, largest, a, weight):
        i, j, c = cuda.grid(3)
        if i == 0 and j == 0 and c == 0:
            total[0] = 0
            largest[0, 0] = 0
        if i < a.shape[0] and j < a.shape[1] and c < a.shape[2]:
            cuda.atomic.add(total, 0, a[i, j, c] * weight[()])
            cuda.atomic.max(largest, (0, 0), a[i, j, c])

    def body(x):
        weights = fn.external_source(lambda: np.int32([2, 3, 4])).gpu()
        options = {"device": "gpu", "blocks": [2, 2, 1], "threads_per_block": [4, 4, 3]}
        return tuple(numba_function(x, weights, run_fn=run, setup_fn=setup, **kinds, **options))

    totals, largest = made(body, 2)
    equal(totals, [np.int64([int(picture.sum()) * (k + 2)]) for k, picture in enumerate(PICTURES)])
    equal(largest, [picture.max().reshape(1, 1) for picture in PICTURES])


def test_threads_that_wait_for_each_other_need_a_gpu():
    """Kernels with barriers and shared memory are refused in build(), with what is allowed."""

    def run(out, a):
        row = cuda.shared.array(8, numba.uint8)
        x, block = cuda.threadIdx.x, cuda.blockIdx.x
        if x < a.shape[1]:
            row[x] = a[block, x]
        cuda.syncthreads()
        if x < a.shape[1]:
            out[block, x] = row[a.shape[1] - 1 - x]

    flat = declared([types.UINT8], [types.INT32], [2], [2])
    options = {"device": "gpu", "blocks": [2, 1, 1], "threads_per_block": [8, 1, 1], "setup_fn": same_shape}

    def body():
        return numba_function(fn.external_source(lambda: PICTURES).gpu(), run_fn=run, **flat, **options)

    pipe = pipeline_of(body, batch_size=3)
    with pytest.raises(RuntimeError, match=r"(?s)`run_fn` cannot be compiled .*barriers, shared memory.* on a GPU only"):
        pipe.build()


def test_between_other_operators():
    """The kernel runs after its inputs are computed, also in branches."""

    @pipeline_def(batch_size=3, num_threads=2, device_id=None, enable_conditionals=True)
    def graph():
        x = fn.flip(fn.external_source(lambda: PICTURES, layout="HWC").gpu())
        x = fn.reinterpret(x, layout="")
        if fn.external_source(lambda: np.bool_([True, False, True])):
            x = numba_function(x, run_fn=flipped, **SAME, **GRID)
            y = x + types.Constant(1).uint8()
        else:
            y = x
        return y

    pipe = graph()
    found = [np.array(sample) for sample in pipe.run()[0].as_cpu()]
    equal(found, [PICTURES[0] + np.uint8(1), PICTURES[1][:, ::-1], PICTURES[2] + np.uint8(1)])


def test_functions_defined_in_a_rewritten_pipeline_function():
    """Such kernels are compiled unchanged. DALI requires a definition outside of the graph function."""

    @pipeline_def(batch_size=3, num_threads=2, device_id=None, enable_conditionals=True)
    def graph():
        x = fn.reshape(fn.external_source(lambda: PICTURES), shape=[-1])
        most = 100

        def run(out, a):
            for i in range(a.shape[0]):
                if a[i] > most and a[i] != 255:
                    out[i] = most
                else:
                    out[i] = a[i]

        def kernel(out, a):
            i = cuda.grid(1)
            while i < a.shape[0]:
                if a[i] > most and a[i] != 255:
                    out[i] = most
                else:
                    out[i] = a[i]
                i += cuda.gridsize(1)

        kinds = declared([types.UINT8], [types.UINT8], [1], [1])
        return numba_function(x, run_fn=run, **kinds), numba_function(x.gpu(), run_fn=kernel, **kinds, **GRID)

    flat = [picture.reshape(-1) for picture in PICTURES]
    for output in graph().run():
        equal([np.array(sample) for sample in output.as_cpu()], [np.where((a > 100) & (a != 255), np.uint8(100), a) for a in flat])


def test_an_index_outside_names_the_sample():
    def run(out, a):
        out[a.shape[0] - 5, 0, 7 if a.shape[0] == 6 else 0] = 1

    with pytest.raises(RuntimeError, match=r"(?s)iteration 0, sample 1.*`run_fn` raised IndexError"):
        made(lambda x: numba_function(x, run_fn=run, **SAME, **GRID))


def test_functions_that_do_not_compile_fail_in_build():
    def run(out, a):
        out[0] = unknown_name  # noqa: F821

    pipe = pipeline_of(lambda: numba_function(fn.external_source(lambda: PICTURES).gpu(), run_fn=run, **SAME, **GRID), batch_size=3)
    with pytest.raises(RuntimeError, match=r"(?s)`run_fn` cannot be compiled for the host device: .*unknown_name"):
        pipe.build()


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"blocks": None}, "`blocks` must be 3 numbers .*got None"),
        ({"threads_per_block": [1, 2]}, r"`threads_per_block` must be 3 numbers .*got \[1, 2\]"),
        ({"blocks": [1, 0, 1]}, r"`blocks`: each number must be at least 1.*\[1, 0, 1\]"),
        ({"blocks": [1, 70000, 1]}, "at most 2147483647, 65535, 65535"),
        ({"threads_per_block": [1, 1, 65]}, "at most 1024, 1024, 64"),
        ({"threads_per_block": [64, 32, 1]}, "a block has at most 1024 threads"),
        ({"batch_processing": True}, "`batch_processing` is for the CPU"),
    ],
)
def test_declarations(wrong, words):
    def body():
        source = fn.external_source(lambda: PICTURES)
        return numba_function(source.gpu(), run_fn=flipped, **{**SAME, **GRID, **wrong})

    with pytest.raises(ValueError, match=words):
        pipeline_of(body, batch_size=3).build()


def _negated(out, image):
    out[:] = 255 - image


def test_a_grid_on_the_cpu_is_ignored_with_a_warning():
    def body():
        return numba_function(fn.external_source(lambda: PICTURES), run_fn=_negated, **SAME, **{**GRID, "device": "cpu"})

    pipe = pipeline_of(body, batch_size=3)
    with pytest.warns(UserWarning, match="`blocks` and `threads_per_block` act with device='gpu' only"):
        pipe.build()
    with pipe:
        np.testing.assert_array_equal(np.asarray(pipe.run()[0][0]), 255 - PICTURES[0])


def test_a_kernel_is_a_function():
    with pytest.raises(TypeError, match=r"`run_fn` must be a function .*got int"):
        pipeline_of(lambda: numba_function(fn.external_source(lambda: PICTURES).gpu(), run_fn=5, **SAME, **GRID), batch_size=3).build()


def test_the_function_runs_although_its_outputs_are_unused():
    pipe = Pipeline(batch_size=3, num_threads=1, device_id=None)
    with pipe:
        x = fn.external_source(lambda: PICTURES).gpu()

        def run(out, a):
            raise ValueError("called")

        numba_function(x, run_fn=run, **SAME, **GRID)
        pipe.set_outputs(x)
    with pytest.raises(RuntimeError, match="`run_fn` raised ValueError: called"):
        pipe.run()


def test_debug_mode():
    @pipeline_def(batch_size=3, num_threads=1, device_id=None, debug=True)
    def graph():
        return numba_function(fn.external_source(lambda: PICTURES).gpu(), run_fn=flipped, **SAME, **GRID)

    equal([np.array(sample) for sample in graph().run()[0].as_cpu()], [picture[:, ::-1] for picture in PICTURES])


@pytest.mark.slow
def test_positional_arguments_of_the_class():
    from asyncdali.plugin.numba import NumbaFunction

    kinds = [types.UINT8]
    operator = lambda: NumbaFunction(flipped, kinds, kinds, [3], [3], None, "gpu", False, [2, 1, 1], [4, 4, 3])  # noqa: E731
    equal(made(lambda x: operator()(x)), [picture[:, ::-1] for picture in PICTURES])

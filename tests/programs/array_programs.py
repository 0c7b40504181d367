"""Expressions, indexing, reductions, tensors, tables, Python and Numba functions."""

from __future__ import annotations

import importlib

import numpy as np
from user_programs import FLOATS, batches, program

ARRAYS = [np.random.default_rng(k).normal(size=(4 + k, 5)).astype(np.float32) for k in range(3)]


@program()
def expressions_and_indices(dali, data):
    fn, math = dali.fn, importlib.import_module(dali.__name__ + ".math")

    @dali.pipeline_def(batch_size=3, num_threads=2, device_id=None)
    def pipeline():
        x = fn.external_source(lambda: ARRAYS)
        whole = fn.cast(x * 10, dtype=dali.types.INT32)
        row = x[1]
        return (
            x + 2 * row, whole // 3, whole % 4, (x > 0) & (x < 1), math.max(x, -x), math.clamp(x, -0.5, 0.5), x[-2:, ::2], whole << 2,
            x[:, dali.newaxis], math.floor(x), -whole, x[0, 3] ** 2,
        )  # fmt: skip

    return batches(pipeline(), 2)


@program(rtol=1e-5, atol=1e-5, why=FLOATS)
def statistics_and_normalisation(dali, data):
    fn = dali.fn

    @dali.pipeline_def(batch_size=3, num_threads=2, device_id=None)
    def pipeline():
        x = fn.external_source(lambda: ARRAYS, layout="HW")
        mean = fn.reductions.mean(x, axes=[0], keep_dims=True)
        return (
            mean, fn.reductions.std_dev(x, mean, axes=[0], keep_dims=True), fn.reductions.sum(x), fn.reductions.rms(x, axis_names="W"),
            fn.normalize(x, axis_names="H"), fn.normalize(x, mean=0.5, stddev=2.0, shift=3.0), fn.reductions.min(x),
            fn.reductions.variance(x, mean, axes=[0], keep_dims=True),
        )  # fmt: skip

    return batches(pipeline(), 1)


@program()
def shapes_and_layouts(dali, data):
    fn, types = dali.fn, dali.types

    @dali.pipeline_def(batch_size=3, num_threads=2, device_id=None)
    def pipeline():
        x = fn.external_source(lambda: ARRAYS, layout="HW")
        return (
            fn.transpose(x, perm=[1, 0]), fn.reshape(x, shape=[-1]), fn.expand_dims(x, axes=[2], new_axis_names="C"), x.shape(),
            fn.reinterpret(x, dtype=types.INT32), fn.squeeze(fn.expand_dims(x, axes=[0]), axes=[0]), fn.full_like(x, 7),
            fn.zeros(shape=[2, 3]), fn.one_hot(np.int32([1, 0, 2]), num_classes=3), fn.constant(fdata=[1.5, 2.5]), fn.copy(x),
            fn.lookup_table(fn.cast(fn.zeros_like(x), dtype=types.UINT8), keys=[0], values=[5.0]),
            fn.tensor_resize(x, sizes=[3, 4], axes=[0, 1], interp_type=types.INTERP_NN),
        )  # fmt: skip

    return batches(pipeline(), 1)


@program()
def python_functions(dali, data):
    fn = dali.fn

    @dali.pipeline_def(batch_size=3, num_threads=2, device_id=None, exec_async=True, exec_pipelined=True)
    def pipeline():
        x = fn.external_source(lambda: ARRAYS)
        low, high = fn.python_function(x, function=lambda array: (array[:2] - 1, array[2:] * 2), num_outputs=2)
        together = fn.python_function(x, function=lambda samples: [array[::-1].copy() for array in samples], batch_processing=True)
        return low, high, together

    return batches(pipeline(), 2)


def _shape_of(outs, ins):
    for k in range(len(outs[0])):
        outs[0][k][0], outs[0][k][1] = ins[0][k][1], ins[0][k][0]


def _negative_of_turned(out, array):
    for y in range(out.shape[0]):
        for x in range(out.shape[1]):
            out[y, x] = 255 - array[x, y]


@program()
def numba_functions(dali, data):
    fn, types = dali.fn, dali.types
    numba_function = importlib.import_module(dali.__name__ + ".plugin.numba.fn.experimental").numba_function

    @dali.pipeline_def(batch_size=3, num_threads=1, device_id=None)
    def pipeline():
        images = fn.external_source(lambda: [np.arange(12, dtype=np.uint8).reshape(3, 4)] * 3)
        kinds = {"out_types": [types.UINT8], "in_types": [types.UINT8], "outs_ndim": [2], "ins_ndim": [2], "batch_processing": False}
        return numba_function(images, run_fn=_negative_of_turned, setup_fn=_shape_of, **kinds)

    return batches(pipeline(), 1)

"""Vector instructions in kernels: operations on lanes, shuffles of bytes, tables, functions of glibc, and code that uses them."""

from __future__ import annotations

import numpy as np
import pytest
from helpers import operators as harness
from helpers.twins import outputs_of
from llvmlite import ir

from asyncdali.compiled import byte_vectors, c_library, kinds
from asyncdali.compiled.step import Compiled
from asyncdali.compiled.vectors import I64, function_of, lanes, load_ir, store_ir, transposed_ir
from asyncdali.operators.audio.spectrogram_fourier import RealTransform, Transform, transform_of
from asyncdali.sampling.philox_vectors import ELEMENTS, normals_32, words_32
from asyncdali.sampling.random_streams_kernels import normal32, word

U = np.uint64


def run(function, *arrays_and_numbers):
    """Call a kernel with the addresses of arrays."""
    values = [x.ctypes.data if isinstance(x, np.ndarray) else int(x) for x in arrays_and_numbers]
    return Compiled(function, len(values), ("test_vectors", function.__name__))(*values)


@pytest.mark.parametrize("count", [4, 8, 16])
def test_transposed(count):
    kind = ir.VectorType(ir.FloatType(), count)

    def codegen(context, builder, sig, args):
        rows = [load_ir(builder, builder.add(args[0], I64(4 * count * k)), kind) for k in range(count)]
        for k, row in enumerate(transposed_ir(builder, rows)):
            store_ir(builder, row, builder.add(args[1], I64(4 * count * k)))
        return context.get_dummy_value()

    turn = function_of(kinds.void(kinds.int64, kinds.int64), codegen)

    def turned(a, b):
        turn(a, b)
        return 0

    turned.__name__ = f"turned{count}"
    square = np.arange(count * count, dtype=np.float32).reshape(count, count)
    out = np.zeros_like(square)
    run(turned, square, out)
    np.testing.assert_array_equal(out, square.T)


def test_operations():
    v = lanes("float32", 8)
    load, store, splat, choose, smaller, larger, largest = v.load, v.store, v.splat, v.choose, v.smaller, v.larger, v.largest

    def operations(a, b, out):
        x, y = load(a), load(b)
        store(out, choose(x > y, x * y - x, (x + y) / splat(np.float32(2))))
        store(out + 32, smaller(x, y))
        store(out + 64, larger(x, y))
        store(out + 96, splat(largest(y)))
        return 0

    a, b, out = np.float32([1, -2, 3, np.nan, 5, 6, 7, 8]), np.float32([8, 7, 1, 5, 4, 3, 2, 1]), np.zeros((4, 8), np.float32)
    run(operations, a, b, out)
    np.testing.assert_array_equal(out[0], np.where(a > b, a * b - a, (a + b) / 2))
    np.testing.assert_array_equal(out[1], np.where(a < b, a, b))  # NaN is not smaller than any number
    np.testing.assert_array_equal(out[2], np.where(a > b, a, b))
    assert (out[3] == 8).all()


def test_partial_vectors_touch_only_their_lanes():
    v = lanes("float32", 16)
    load_some, store_some, splat = v.load_some, v.store_some, v.splat

    def some(source, out, valid):
        store_some(out, load_some(source, valid, splat(np.float32(-1))) + splat(np.float32(1)), valid)
        return 0

    data = np.arange(16, dtype=np.float32)
    for valid in (0, 1, 7, 16, 20):
        out = np.full(24, 99, np.float32)
        run(some, data, out, valid)
        count = min(valid, 16)
        np.testing.assert_array_equal(out, np.concatenate([data[:count] + 1, np.full(24 - count, 99, np.float32)]))


@pytest.mark.parametrize("tables", [1, 3])
def test_translate(tables):
    translate = byte_vectors.translator(tables)

    def translated(source, out, table, count):
        translate(source, out, table, count)
        return 0

    translated.__name__ = f"translated{tables}"
    rng = np.random.default_rng(3)
    table = rng.integers(0, 256, (tables, 256), np.uint8)
    for count in (0, 1, 63, 64, 65, 191, 192, 193, 1000):
        source, out = rng.integers(0, 256, count + 1, np.uint8), np.full(count + 1, 7, np.uint8)
        run(translated, source, out, table, count)
        np.testing.assert_array_equal(out[:count], table[np.arange(count) % tables, source[:count]])
        assert out[count] == 7


def test_functions_of_the_c_library_to_the_last_bit():
    if not c_library.same_as_platform():
        pytest.skip("this C library computes logf and cosf in another way: kernels call it number by number")
    rng = np.random.default_rng(4)
    words = rng.integers(1, 2**32, 1 << 18)
    assert c_library.differing(words.astype(np.float32) * np.float32(2**-32), rng.uniform(0, 7, 1 << 18)) == 0


@pytest.mark.parametrize("lo", [0, 2**64 - 3])
def test_words_and_normal_numbers_of_many_elements(lo):
    """Vectorized draws equal single draws, also where the counter carries."""

    def words(key, hi, lo, offset, out, single):
        words_32(key, hi, lo, offset, out)
        for k in range(ELEMENTS):
            value = word(U(key), U(hi), U(lo), U(offset) + U(257 * k))
            store(single + 4 * k, np.uint32(value))
        return 0

    def normals(key, hi, lo, offset, out, single):
        normals_32(key, hi, lo, offset, out)
        for k in range(ELEMENTS):
            store_float(single + 4 * k, normal32(U(key), U(hi), U(lo), U(offset) + U(257 * k)))
        return 0

    from asyncdali.compiled.intrinsics import store_f32 as store_float
    from asyncdali.compiled.vectors import element_ir

    def codegen(context, builder, sig, args):
        builder.store(args[1], builder.inttoptr(args[0], element_ir(kinds.uint32).as_pointer()))
        return context.get_dummy_value()

    store = function_of(kinds.void(kinds.int64, kinds.uint32), codegen)
    signed = np.array([0x123456789ABCDEF, 77, lo], np.uint64).view(np.int64).tolist()
    for offset in (0, 4, 1028, 4 * 257 * 32):
        many, one = np.zeros(ELEMENTS, np.uint32), np.zeros(ELEMENTS, np.uint32)
        run(words, *signed, offset, many, one)
        np.testing.assert_array_equal(many, one)
        if c_library.same_as_platform():
            run(normals, *signed, offset, many, one)
            np.testing.assert_array_equal(many, one)


@pytest.mark.parametrize("n, kind", [(512, RealTransform), (400, RealTransform), (30, RealTransform), (2, RealTransform), (7, Transform),
                                     (26, Transform), (1, Transform)])  # fmt: skip
def test_lengths_with_a_plan(n, kind):
    assert type(transform_of(n)) is kind


@pytest.mark.parametrize("n", [2, 4, 6, 10, 16, 30, 90, 200, 250, 360, 400, 480, 600, 2048])
@pytest.mark.parametrize("shape", [(1,), (5,), (37,), (3, 2), (2, 19)])
def test_real_transforms(n, shape):
    """Transforms along the last axis and along an earlier one, with full and partial vectors."""
    rng = np.random.default_rng(n)
    data = rng.standard_normal((*shape, n)).astype(np.float32)
    for axis in range(len(shape) + 1):
        moved = np.ascontiguousarray(np.moveaxis(data, -1, axis))
        (found,) = harness.run("power_spectrum", [moved], axis=axis)
        expected = np.abs(np.fft.rfft(moved.astype(np.float64), axis=axis)) ** 2
        np.testing.assert_allclose(found, expected, rtol=2e-6, atol=2e-6 * expected.max())


@pytest.mark.parametrize("layout", ["ft", "tf"])
@pytest.mark.parametrize("nfft, length", [(400, 301), (64, 64), (60, 33)])
def test_spectrograms_of_any_number_of_windows(layout, nfft, length):
    step, constants = 17, {"nfft": nfft, "window_length": length}
    window = (0.5 * (1 - np.cos(2 * np.pi * (np.arange(length) + 0.5) / length))).astype(np.float32)
    for count in (1, 3, 16, 18, 40):
        signal = np.random.default_rng(count).standard_normal(length + step * (count - 1)).astype(np.float32)
        named = {"window_step": step, "layout": layout, "center_windows": False, **constants}
        ((found,),) = outputs_of("spectrogram", [[signal]], "", None, False, **named)
        frames = np.lib.stride_tricks.sliding_window_view(signal, length)[::step] * window.astype(np.float64)
        expected = np.abs(np.fft.rfft(frames, nfft, axis=1)) ** 2
        np.testing.assert_allclose(found if layout == "tf" else found.T, expected, rtol=2e-6, atol=2e-6 * expected.max())

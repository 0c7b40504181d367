"""Compiled functions: caches, helpers that several functions share, and functions that Numba lacks."""

from __future__ import annotations

import itertools
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numba import config, njit
from numba.core.bytecode import FunctionIdentity

from asyncdali.compiled import kernel_store, step
from asyncdali.compiled.intrinsics import float_of_bits, larger, load_i64, local_array, smaller, store_f32, store_i64


def twice(value):
    return value * 2


def made(number):
    def add(value):
        return value + number

    return add


def _nothing(value):
    pass


@pytest.fixture
def nowhere_to_write(monkeypatch, tmp_path):
    """No folder for kernels can be written, not even a temporary one."""
    monkeypatch.setattr(config, "CACHE_DIR", "/proc/none")
    monkeypatch.setattr(kernel_store, "_temporary_root", lambda: Path("/proc/none"))
    monkeypatch.setattr(kernel_store, "_notified", False)


def test_compiles_without_a_cache_and_says_so_once(nowhere_to_write):
    with pytest.warns(RuntimeWarning, match="NUMBA_CACHE_DIR") as caught:
        assert step.Compiled(twice, 1)(21) == 42
        assert step.Compiled(made(3), 1, ("add", 3))(4) == 7
        assert step.callback(_nothing).address
    assert len(caught) == 1


def test_a_full_disk_does_not_stop_the_compilation(monkeypatch, tmp_path):
    def full(*_args):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(config, "CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(kernel_store.Store, "_write", full)
    monkeypatch.setattr(kernel_store, "_notified", False)
    with pytest.warns(RuntimeWarning, match="No space left"):
        assert step.Compiled(made(11), 1, ("full disk", 11))(1) == 12


def test_symbols_are_unique_over_processes(monkeypatch, tmp_path):
    """Numba numbers functions from 1 in every process. Code that two processes had cached then called each other's helpers."""
    monkeypatch.setattr(config, "CACHE_DIR", str(tmp_path))
    names = set()
    for variant in (1, 2):  # as if each were the first function of its process
        monkeypatch.setattr(FunctionIdentity, "_unique_ids", itertools.count(1))
        compiled: Any = step.Compiled(made(variant), 1, ("symbols", variant))
        assert compiled(1) == 1 + variant
        names.add(compiled._keep.native_name)
    assert len(names) == 2


def test_two_variants_of_one_function_do_not_meet_in_the_cache():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert [step.Compiled(made(k), 1, ("variant", k))(1) for k in (5, 6)] == [6, 7]


@step.inlined
def _squared(value):
    return value * value


@step.inlined
def _sum_of_squares(a, b):
    return _squared(a) + _squared(b)


def length(a, b):
    return np.int64(np.sqrt(_sum_of_squares(a, b)))


def bounded(a, b):
    return smaller(larger(_squared(a), 3), b)


def test_helpers_belong_to_every_function_that_calls_them():
    assert step.Compiled(length, 2)(3, 4) == 5
    assert step.Compiled(bounded, 2)(4, 10) == 10
    assert step.Compiled(bounded, 2)(1, 10) == 3


def test_functions_of_other_packages_compile_as_before():
    """Only kernels use our compiler pass, and functions of other packages use Numba's pipeline."""

    @njit
    def outside(x):
        def nearest(value):
            return min(abs(value), 4.5)

        return sum([nearest(value) for value in x]) + _squared(2)

    assert outside(np.array([1.0, -7.0])) == 9.5


def choose(at, out):
    # The built-in functions define the results for mixed types and NaN.
    store_f32(out, smaller(float_of_bits(load_i64(at)), np.float32(1)))
    store_f32(out + 4, larger(np.float32(1), float_of_bits(load_i64(at))))
    store_f32(out + 8, np.float32(smaller(np.int64(3), 2.5)))
    return larger(np.int32(-4), np.int64(-5))


@pytest.mark.parametrize("value", [0.25, 3.5, -0.0, np.nan, np.inf])
def test_smaller_and_larger_are_min_and_max(value):
    bits, out = np.array([value], np.float32).view(np.int32).astype(np.int64), np.zeros(3, np.float32)
    assert step.Compiled(choose, 2)(bits.ctypes.data, out.ctypes.data) == -4
    np.testing.assert_array_equal(out, np.array([min(value, 1.0), max(1.0, value), 2.5], np.float32))


_five = local_array(np.int64, 5)


def reversed_five(source, target):
    kept = _five()
    for k in range(5):
        kept[4 - k] = load_i64(source + 8 * k)
    for k in range(5):
        store_i64(target + 8 * k, kept[k])
    return 0


def test_local_array():
    data, out = np.arange(5), np.zeros(5, np.int64)
    step.Compiled(reversed_five, 2)(data.ctypes.data, out.ctypes.data)
    np.testing.assert_array_equal(out, data[::-1])

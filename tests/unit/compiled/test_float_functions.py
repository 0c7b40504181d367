"""Vectorized functions of float32 give the results of the C library, bit for bit."""

from __future__ import annotations

import ctypes

import numpy as np
import pytest
from helpers.pipelines import pipeline_of

from asyncdali import fn, math
from asyncdali.compiled.machine_code import link
from asyncdali.operators.expressions import function_probes, probe_code
from asyncdali.operators.expressions.float_functions import FUNCTIONS
from asyncdali.operators.expressions.types import VECTORISED

ONES = [1.0, -1.0, 0.5, -0.5, 0.75, 1.25, 2.0, 3.0, 0.0, -0.0, np.inf, -np.inf, np.nan, 1e-40, -1e-40, 3.4e38]


@pytest.mark.parametrize("name", FUNCTIONS)
def test_all_covered_numbers_give_the_results_of_the_library(name):
    if not function_probes.same_as_library(name):
        pytest.skip("this C library is another one: its functions are called")
    random = np.random.default_rng(7)
    any_bits = [random.integers(0, 2**32, 300_000, np.uint32).view(np.float32) for _ in range(2)]
    near = [random.uniform(-limit, limit, (2, 100_000)).astype(np.float32) for limit in (1.01, 12, 119)]
    x, y = (np.concatenate([any_bits[k], *(part[k] for part in near), np.tile(np.float32(ONES), 16)]) for k in range(2))
    assert function_probes.differing(name, x, np.concatenate([y[:-256], np.repeat(np.float32(ONES), 16)])) == 0


def test_the_comparison_finds_a_wrong_function(monkeypatch):
    wrong = dict(FUNCTIONS, exp=lambda x: (x * 1.0, FUNCTIONS["exp"](x)[1]))
    monkeypatch.setattr(probe_code, "FUNCTIONS", wrong)
    counter = link(probe_code.counter_code("exp", "a_wrong_exp"))
    found = function_probes.counted(counter, np.float32([0.5, 1.5, 200.0]), np.zeros(3, np.float32))
    assert found == 2  # 200 is outside of the covered range


def test_the_names_of_vectorised_functions_are_declared():
    assert set(FUNCTIONS) == VECTORISED


def test_other_numbers_in_a_block_give_the_results_of_the_library():
    """If one number is outside of the covered range, its whole block is computed again."""
    library = ctypes.CDLL("libm.so.6")
    library.sinf.restype, library.sinf.argtypes = ctypes.c_float, [ctypes.c_float]
    numbers = np.linspace(-3, 3, 2000, dtype=np.float32)
    numbers[[5, 700, 1999]] = 1e8, np.inf, np.nan
    with pipeline_of(lambda: math.sin(fn.external_source(lambda: [numbers] * 2)), batch_size=2) as pipeline:
        (made,) = pipeline.run()
    wanted = np.float32([library.sinf(float(number)) for number in numbers])
    np.testing.assert_array_equal(np.asarray(made[1]), wanted)

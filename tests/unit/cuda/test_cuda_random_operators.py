"""Random calls of operators with kernels that are compiled for the host, beside the CPU (tests/helpers/random_operators.py).

Three are run by default, all with ``-m slow``: each compiles kernels."""

from __future__ import annotations

import pytest
from helpers import kernels
from helpers.cuda import StandIn, use
from helpers.random_operators import CALLS, compared

pytestmark = pytest.mark.skipif(kernels.COMPILER is None, reason="no C++ compiler to build kernels for the host")
QUICK = ("flip", "arithmetic", "noise.salt_and_pepper")


@pytest.mark.parametrize("seed", [0, *[pytest.param(seed, marks=pytest.mark.slow) for seed in range(1, 6)]])
@pytest.mark.parametrize("name", [name if name in QUICK else pytest.param(name, marks=pytest.mark.slow) for name in CALLS])
def test_random_calls(name, seed, monkeypatch):
    use(StandIn(), monkeypatch)
    compared(name, seed)

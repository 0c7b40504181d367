"""On a GPU: random calls of operators give the results of the CPU (tests/helpers/random_operators.py)."""

from __future__ import annotations

import pytest
from helpers.random_operators import CALLS, compared
from test_operators import gpu  # noqa: F401

pytestmark = pytest.mark.gpu


@pytest.mark.parametrize("name", CALLS)
@pytest.mark.parametrize("seed", range(6))
def test_random_calls(name, seed):
    compared(name, seed)

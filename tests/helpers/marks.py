"""Parameters of tests that only slow runs use."""

from __future__ import annotations

from typing import Any

import pytest


def slow(*cases: Any) -> list[Any]:
    """Parameters that only slow runs use. A tuple has the values of several names."""
    return [pytest.param(*(case if isinstance(case, tuple) else (case,)), marks=pytest.mark.slow) for case in cases]


def seeds(quick: int, most: int) -> list[Any]:
    """The first `quick` numbers, and for slow runs the numbers up to `most`."""
    return [*range(quick), *slow(*range(quick, most))]

"""One plan of an operator, run by its compiled steps and by its kernels (compiled for the host), for comparison."""

from __future__ import annotations

from typing import Any

import numpy as np

from asyncdali.extending.testing import GUARD as GUARD
from asyncdali.extending.testing import outputs_of as outputs_of


def both(
    name: str,
    samples: list[np.ndarray],
    layout: str = "",
    /,
    per_sample: dict[str, Any] | None = None,
    more: tuple[list[np.ndarray], ...] = (),
    **constants: Any,
) -> tuple[list[np.ndarray], list[np.ndarray]]:
    """First output by the compiled steps and by the kernels."""
    by_steps, by_kernels = (outputs_of(name, [samples, *more], layout, per_sample, gpu, **constants)[0] for gpu in (False, True))
    return by_steps, by_kernels


def assert_near(expected: list[np.ndarray], found: list[np.ndarray], relative: float = 0.0, steps: int = 0) -> None:
    """Integers within `steps`; floats within `relative` to the largest of their sample, NaN and infinities in the same places."""
    for a, b in zip(expected, found, strict=True):
        assert a.shape == b.shape and a.dtype == b.dtype
        if a.dtype.kind in "iub":
            assert np.abs(a.astype(np.float64) - b.astype(np.float64)).max(initial=0) <= steps
        else:
            largest = np.abs(a[np.isfinite(a)].astype(np.float64)).max(initial=0)
            np.testing.assert_allclose(b.astype(np.float64), a.astype(np.float64), rtol=relative, atol=relative * largest)

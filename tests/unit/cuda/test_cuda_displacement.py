"""sphere and water: the kernel, compiled for the host, equals the compiled step."""

from __future__ import annotations

import numpy as np
import pytest
from helpers import kernels
from helpers.twins import assert_near, both

from asyncdali import types

pytestmark = pytest.mark.skipif(kernels.COMPILER is None, reason="no C++ compiler to build kernels for the host")


@pytest.mark.parametrize("dtype", [np.uint8, np.float32])
@pytest.mark.parametrize("interpolation", [types.INTERP_NN, types.INTERP_LINEAR])
@pytest.mark.parametrize("name", ["sphere", "water"])
def test_as_the_compiled_step(name, interpolation, dtype):
    """Sizes down to one pixel, one to four channels, unchanged samples, and positions outside of the image."""
    rng = np.random.default_rng(5)
    shapes = [(1, 1, 3), (2, 9, 1), (31, 40, 3), (40, 7, 4), (24, 24, 3), (30, 33, 2)]
    samples = [rng.integers(0, 256, shape).astype(dtype) for shape in shapes]
    masks = np.array([1, 1, 1, 1, 0, 1], np.int32)
    options = {} if name == "sphere" else {"ampl_x": 4.5, "freq_y": 0.2, "phase_x": 1.0}
    found = both(name, samples, "HWC", {"mask": masks}, interp_type=interpolation, fill_value=9, **options)
    assert_near(*found, relative=1e-6, steps=1 if interpolation == types.INTERP_LINEAR else 0)

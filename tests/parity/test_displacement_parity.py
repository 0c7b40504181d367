"""sphere and water beside DALI's: positions, pixels and fill values."""

from __future__ import annotations

import numpy as np
import pytest
from helpers import operators as harness
from helpers.images import picture
from helpers.parity import dali_output, errors, same

from asyncdali import types

pytest.importorskip("nvidia.dali")

WAVES = {"ampl_x": 4.0, "ampl_y": -7.0, "freq_x": 0.3, "freq_y": 0.7, "phase_x": 1.0, "phase_y": 2.0}


@pytest.mark.parametrize("name, arguments", [("sphere", {}), ("water", {}), ("water", WAVES)])
@pytest.mark.parametrize("dtype", ["uint8", "float32"])
def test_positions_and_pixels(name, arguments, dtype):
    rng = np.random.default_rng(2)
    sizes = rng.integers(1, 90, (12, 2))
    images = [picture(int(height), int(width), 3, 1).reshape(height, width, 3).astype(dtype) for height, width in sizes]
    mask = {"mask": rng.integers(0, 3, len(images)).astype(np.int32)}
    options = {**arguments, "fill_value": 41.5}
    same(dali_output(name, images, "HWC", mask, **options), harness.run(name, images, "HWC", mask, **options))
    options["interp_type"] = types.INTERP_LINEAR
    found = errors(dali_output(name, images, "", **options), harness.run(name, images, "", **options))
    if dtype == "uint8":  # The last bit of a value half-way between two integers decides how it is rounded.
        assert found.max() <= 1 and (found > 0).mean() < 1e-3
    else:
        assert found.max() < 2e-2


@pytest.mark.parametrize("fill", [300.0, -3.0, 7.6, 1e10])
def test_fill_values(fill):
    images = [picture(20, 31, 3, 1)]
    for interpolation in (types.INTERP_NN, types.INTERP_LINEAR):
        options = {"fill_value": fill, "interp_type": interpolation}
        found = errors(dali_output("sphere", images, "HWC", **options), harness.run("sphere", images, "HWC", **options))
        assert found.max() <= 1 and (found > 0).mean() < 1e-3

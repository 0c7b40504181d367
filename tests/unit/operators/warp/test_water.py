"""water: waves along one axis (test_sphere_water.py has the model)."""

from __future__ import annotations

import numpy as np
from helpers import operators as harness


def test_a_wave_along_x_shifts_rows():
    image = np.tile(np.arange(20, dtype=np.uint8)[None, :, None], (3, 1, 1))
    wave = {"ampl_x": 5.0, "freq_x": np.pi / 2, "phase_x": 0.1, "ampl_y": 0.0}
    (made,) = harness.run("water", [image], "HWC", fill_value=99.0, **wave)
    for y in range(3):
        source = np.floor(np.arange(20) + 5 * np.sin(np.pi / 2 * y + 0.1)).astype(int)
        np.testing.assert_array_equal(made[y, :, 0], np.where((source >= 0) & (source < 20), source, 99))

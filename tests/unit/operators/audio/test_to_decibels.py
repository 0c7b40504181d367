"""to_decibels against numpy."""

from __future__ import annotations

import numpy as np
import pytest
from helpers import operators as harness


def test_decibels_of_powers_and_magnitudes():
    values = np.float32([1, 10, 100, 0.001])
    (powers,) = harness.run("to_decibels", [values], multiplier=10.0, reference=1.0, cutoff_db=-20.0)
    np.testing.assert_allclose(powers, [0, 10, 20, -20], atol=1e-4)
    (relative,) = harness.run("to_decibels", [values], multiplier=20.0)
    np.testing.assert_allclose(relative, [-40, -20, 0, -100], atol=1e-3)


def test_decibels_refuse_a_multiplier_of_0():
    with pytest.raises(ValueError, match="multiplier"):
        harness.run("to_decibels", [np.ones(3, np.float32)], multiplier=0.0)

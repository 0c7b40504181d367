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


def test_a_cutoff_beyond_the_largest_float_is_infinite():
    """1.5 dB of a multiplier of 0.001 is a ratio of 10 ** 1500."""
    (found,) = harness.run("to_decibels", [np.float32([1, 2])], multiplier=0.001, cutoff_db=1.5, reference=1.0)
    assert np.isposinf(found).all()

"""preemphasis_filter, nonsilent_region and to_decibels against numpy."""

from __future__ import annotations

import numpy as np
import pytest
from helpers import operators as harness

from asyncdali.types import INT16


def test_preemphasis_of_short_signals_and_integers():
    for border, first in (("zero", 5.0), ("clamp", 2.5), ("reflect", 2.5)):
        (result,) = harness.run("preemphasis_filter", [np.array([5], np.int16)], border=border, preemph_coeff=0.5)
        assert result.tolist() == [first]
    (result,) = harness.run("preemphasis_filter", [np.array([100, -32768, 32767], np.int16)], dtype=INT16, preemph_coeff=0.5, border="zero")
    assert result.tolist() == [100, -32768, 32767]


def test_nonsilent_region():
    data = np.zeros(1000, np.int16)
    data[300:500] = 1000
    begin, length = harness.run_all("nonsilent_region", [data], window_length=1, reset_interval=-1, cutoff_db=-20.0)
    assert (int(begin[0]), int(length[0])) == (300, 200)
    begin, length = harness.run_all("nonsilent_region", [data], window_length=10, reset_interval=-1, cutoff_db=-20.0)
    assert (int(begin[0]), int(length[0])) == (300 - 9, 200 + 18)
    begin, length = harness.run_all("nonsilent_region", [data], window_length=10, reset_interval=-1, reference_power=1e14)
    assert int(length[0]) == 0


@pytest.mark.parametrize("constants", [{"window_length": 0}, {"window_length": 10, "reset_interval": 15}, {"reference_power": -1.0}])
def test_nonsilent_region_refuses(constants):
    with pytest.raises(ValueError, match=r"window_length|reset_interval|reference_power"):
        harness.run("nonsilent_region", [np.zeros(9, np.float32)], **constants)


def test_decibels_refuse_a_multiplier_of_0():
    with pytest.raises(ValueError, match="multiplier"):
        harness.run("to_decibels", [np.ones(3, np.float32)], multiplier=0.0)

"""nonsilent_region: begin and length of the region."""

from __future__ import annotations

import numpy as np
import pytest
from helpers import operators as harness


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

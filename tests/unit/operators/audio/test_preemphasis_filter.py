"""preemphasis_filter: short signals, integers, borders."""

from __future__ import annotations

import numpy as np
from helpers import operators as harness

from asyncdali.types import INT16


def test_preemphasis_of_short_signals_and_integers():
    for border, first in (("zero", 5.0), ("clamp", 2.5), ("reflect", 2.5)):
        (result,) = harness.run("preemphasis_filter", [np.array([5], np.int16)], border=border, preemph_coeff=0.5)
        assert result.tolist() == [first]
    (result,) = harness.run("preemphasis_filter", [np.array([100, -32768, 32767], np.int16)], dtype=INT16, preemph_coeff=0.5, border="zero")
    assert result.tolist() == [100, -32768, 32767]

"""per_frame: samples become sequences of frames."""

from __future__ import annotations

import numpy as np
from helpers.tensor_parity import Failed, ours

FILM = [np.zeros((2, 3), np.uint8)]


def test_layouts_of_sequences():
    assert ours("per_frame", [FILM]).layout == "F*" and ours("per_frame", [FILM], ["FW"]).layout == "FW"
    assert "`replace=True`" in ours("per_frame", [FILM], ["HW"]).message
    assert ours("per_frame", [FILM], ["HW"], replace=True).layout == "FW"


def test_scalars_are_no_sequences():
    result = ours("per_frame", [[np.float32(1)]])
    assert isinstance(result, Failed) and "has 0 dimensions; supported are: 1 or more" in result.message

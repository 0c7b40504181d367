"""sequence_rearrange: frames are selected by number. They may be repeated or left out."""

from __future__ import annotations

import numpy as np
from helpers import operators as harness
from helpers.pipelines import outputs_of

from asyncdali import fn


def test_sequence_rearrange():
    frames = np.arange(12).reshape(4, 3)
    np.testing.assert_array_equal(harness.run("sequence_rearrange", [frames], "FX", new_order=[3, 0, 0])[0], frames[[3, 0, 0]])


def test_a_layout_of_frames_alone():
    """DALI refuses the layout "F"."""
    rows = [np.arange(4, dtype=np.int32)] * 2
    [[found]] = outputs_of(lambda: fn.sequence_rearrange(fn.external_source(lambda: rows, layout="F"), new_order=[3, 0, 0]), batch_size=2)
    assert [sample.tolist() for sample in found] == [[3, 0, 0]] * 2

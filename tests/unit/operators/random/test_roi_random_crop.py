"""roi_random_crop: windows contain their region and stay within the image."""

from __future__ import annotations

import numpy as np
import pytest
from helpers.pipelines import outputs_of, pipeline_of

from asyncdali import fn


def test_windows_contain_their_region():
    def graph():
        return fn.roi_random_crop(crop_shape=[10, 20], roi_start=[3, 30], roi_shape=[4, 5], in_shape=[40, 60])

    with pipeline_of(graph) as pipeline:
        for _ in range(30):
            for start in map(np.asarray, pipeline.run()[0]):
                assert 0 <= start[0] <= 3 and start[0] + 10 >= 7 and 15 <= start[1] <= 30


def test_negative_extents_are_refused():
    with pytest.raises(RuntimeError, match=r"negative extents: \[-1, 3\]"):
        outputs_of(lambda: fn.roi_random_crop(crop_shape=[-1, 3], roi_start=[0, 0], roi_end=[5, 5], in_shape=[10, 10]))

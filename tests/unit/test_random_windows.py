"""random_crop_generator and roi_random_crop: windows lie where they may."""

from __future__ import annotations

import numpy as np
import pytest
from helpers.pipelines import outputs_of, pipeline_of

from asyncdali import fn


def test_random_windows_stay_in_their_range():
    def graph():
        anchor, shape = fn.random_crop_generator(np.array([40, 60]))
        start = fn.roi_random_crop(crop_shape=[10, 20], roi_start=[3, 30], roi_shape=[4, 5], in_shape=[40, 60])
        return anchor, shape, start

    with pipeline_of(graph) as pipeline:
        for _ in range(30):
            anchors, shapes, starts = ([np.asarray(sample) for sample in output] for output in pipeline.run())
            for anchor, shape, start in zip(anchors, shapes, starts, strict=True):
                assert (anchor >= 0).all() and (anchor + shape <= [40, 60]).all()
                assert 0 <= start[0] <= 3 and start[0] + 10 >= 7 and 15 <= start[1] <= 30


def test_negative_extents_are_refused():
    with pytest.raises(RuntimeError, match=r"negative extents: \[-1, 3\]"):
        outputs_of(lambda: fn.roi_random_crop(crop_shape=[-1, 3], roi_start=[0, 0], roi_end=[5, 5], in_shape=[10, 10]))

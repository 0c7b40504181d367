"""random_crop_generator: windows lie within the image."""

from __future__ import annotations

import numpy as np
from helpers.pipelines import pipeline_of

from asyncdali import fn


def test_windows_stay_within_the_image():
    with pipeline_of(lambda: tuple(fn.random_crop_generator(np.array([40, 60])))) as pipeline:
        for _ in range(30):
            anchors, shapes = ([np.asarray(sample) for sample in output] for output in pipeline.run())
            for anchor, shape in zip(anchors, shapes, strict=True):
                assert (anchor >= 0).all() and (anchor + shape <= [40, 60]).all()

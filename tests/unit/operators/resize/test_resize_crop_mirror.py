"""resize_crop_mirror: resize, crop and flip in one operator."""

from __future__ import annotations

import numpy as np
from helpers.pipelines import outputs_of

from asyncdali import fn


def test_the_operator_equals_its_parts():
    image = np.random.default_rng(4).integers(0, 256, (20, 30, 3), dtype=np.uint8)

    def graph():
        source = fn.external_source(lambda: [image] * 3, layout="HWC")
        once = fn.resize_crop_mirror(source, resize_x=15, resize_y=10, crop=[8, 9], crop_pos_x=0.5, crop_pos_y=0.0, mirror=1)
        resized = fn.resize(source, resize_x=15, resize_y=10)
        return once, fn.flip(fn.crop(resized, crop=[8, 9], crop_pos_x=0.5, crop_pos_y=0.0), horizontal=1)

    [[once, parts]] = outputs_of(graph)
    assert once[0].shape == (8, 9, 3)
    np.testing.assert_allclose(once[1].astype(int), parts[1].astype(int), atol=1)

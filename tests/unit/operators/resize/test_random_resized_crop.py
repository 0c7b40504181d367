"""random_resized_crop: a random window of the picture is resized."""

from __future__ import annotations

import numpy as np
from helpers.pipelines import outputs_of

from asyncdali import fn


def test_the_size_and_a_window_of_the_picture():
    gradient = np.repeat(np.arange(0, 200, 2, dtype=np.uint8)[:, None], 100, 1)[..., None]

    def graph():
        source = fn.external_source(lambda: [gradient] * 3, layout="HWC")
        return fn.random_resized_crop(source, size=[10, 20], random_area=[0.25, 0.25], random_aspect_ratio=[1.0, 1.0], seed=3)

    first, second = outputs_of(graph, 2)
    for sample in first[0]:
        assert sample.shape == (10, 20, 1)
        steps = np.diff(sample[:, 0, 0].astype(int))
        assert (np.abs(steps - 10) <= 1).all()  # 50 of 100 rows are resized to 10
        assert (sample == sample[:, :1]).all()
    assert any((one != two).any() for one, two in zip(first[0], second[0], strict=True))

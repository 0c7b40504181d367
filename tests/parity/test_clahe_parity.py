"""clahe beside DALI's: equal bits, except for the last bit of colours that are converted to CIELAB and back."""

from __future__ import annotations

import numpy as np
import pytest
from helpers.images import picture
from helpers.parity import dali_output, errors, same
from helpers.pipelines import pipeline_of

from asyncdali import fn

pytest.importorskip("nvidia.dali")


def our_output(samples, **arguments):
    def graph():
        return fn.clahe(fn.external_source(lambda: samples, layout="HWC"), **arguments)

    with pipeline_of(graph, batch_size=len(samples)) as pipeline:
        (output,) = pipeline.run()
        return [np.array(sample) for sample in output]


@pytest.mark.parametrize("tiles_x, tiles_y, limit", [(4, 3, 2.0), (8, 8, 40.0), (3, 5, 0.5), (1, 1, 3.0), (7, 2, 0.0), (2, 2, -1.0)])
def test_images_of_all_sizes(tiles_x, tiles_y, limit):
    rng = np.random.default_rng(5)
    sizes = rng.integers(1, 90, (8, 2))
    images = [picture(int(height), int(width), 3, k) for k, (height, width) in enumerate(sizes)]
    given = {"tiles_x": tiles_x, "tiles_y": tiles_y, "clip_limit": limit}
    assert errors(dali_output("clahe", images, "HWC", **given), our_output(images, **given)).max() <= 1
    given["luma_only"] = False
    same(dali_output("clahe", images, "HWC", **given), our_output(images, **given))
    grey = [image[..., :1].copy() for image in images]
    same(dali_output("clahe", grey, "HWC", **given), our_output(grey, **given))

"""Pixels that a GPU's kernel computes while reading are stored anyway if another operator reads them, too."""

from __future__ import annotations

import numpy as np
import pytest
from helpers import kernels
from helpers.cuda import StandIn, use

from asyncdali import fn, pipeline_def, types

pytestmark = pytest.mark.skipif(kernels.COMPILER is None, reason="no C++ compiler to build kernels for the host")

SHAPES = [(12, 17, 3), (9, 20, 3)]
MAKERS = {
    "resize": lambda x: fn.resize(x, size=[6, 7]),
    "color_twist": lambda x: fn.color_twist(x, brightness=1.1),
}
READERS = {
    "transpose": lambda y: fn.transpose(y, perm=[2, 0, 1]),
    "a transposed view": lambda y: fn.transpose(fn.reshape(y, layout="HWC"), perm=[2, 0, 1]),
    "slice": lambda y: fn.slice(y, start=[1, 2], shape=[3, 2], axes=[0, 1]),
    "flip": lambda y: fn.flip(y, vertical=1),
    "pad": lambda y: fn.pad(y, axes=[0, 1], align=[8, 8]),
    "cat": lambda y: fn.cat(y, y, axis=0),
    "stack": lambda y: fn.stack(y, y),
    "erase": lambda y: fn.erase(y, anchor=[0.2, 0.2], shape=[0.3, 0.3], normalized=True, axes=[0, 1]),
    "copy": lambda y: fn.copy(y),
    "cast": lambda y: fn.cast(y, dtype=types.INT16),
    "arithmetic": lambda y: y + 3,
    "element_extract": lambda y: fn.element_extract(fn.stack(y, y), element_map=[1]),
    "gaussian_blur": lambda y: fn.gaussian_blur(y, window_size=3),
    "rotate": lambda y: fn.rotate(y, angle=13.0, fill_value=0),
    "normalize": lambda y: fn.normalize(y, axes=[0, 1]),
    "mean": lambda y: fn.reductions.mean(y, axes=[0, 1]),
    "crop_mirror_normalize": lambda y: fn.crop_mirror_normalize(y, crop=[4, 4], mean=[3.0], std=[2.0]),
}  # fmt: skip


def outputs(body, on_gpu):
    @pipeline_def(batch_size=2, num_threads=1, device_id=0, seed=5)
    def graph():
        fed = fn.external_source(lambda k: [np.random.default_rng(k).integers(0, 255, shape, np.uint8) for shape in SHAPES], layout="HWC")
        return body(fed.gpu() if on_gpu else fed)

    with graph() as pipe:
        pipe.build()
        return [[np.array(sample) for sample in (output.as_cpu() if on_gpu else output)] for output in pipe.run()]


@pytest.mark.parametrize("maker", MAKERS)
@pytest.mark.parametrize("reader", READERS)
def test_pixels_with_two_readers_are_stored(maker, reader, monkeypatch):
    driver = StandIn()
    use(driver, monkeypatch)
    driver.use(0)

    def body(x):
        y = MAKERS[maker](x)
        return fn.crop_mirror_normalize(y, mean=[1.0], std=[2.0]), READERS[reader](y)

    for found, expected in zip(outputs(body, True), outputs(body, False), strict=True):
        for a, b in zip(found, expected, strict=True):
            np.testing.assert_allclose(a.astype(np.float64), b.astype(np.float64), atol=1.01)

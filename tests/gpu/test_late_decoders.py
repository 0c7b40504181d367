"""On a GPU: a slow graph reads decoded pictures late. A decoder that writes its targets too early changes pictures that are still read."""

from __future__ import annotations

import numpy as np
import pytest
from test_flow import encoded
from test_operators import gpu  # noqa: F401

from asyncdali import fn, pipeline_def, types

pytestmark = pytest.mark.gpu
ITERATIONS = 18


@pipeline_def(batch_size=64, num_threads=4, device_id=0, seed=7)
def late(decoder):
    images = fn.decoders.image(fn.external_source(encoded, batch=False), device="mixed", decoder=decoder, name="decode")
    slow = fn.resize(images, size=[800.0, 800.0])
    for _ in range(6):
        slow = fn.gaussian_blur(slow, window_size=25)
    slow = fn.reductions.sum(slow, axes=[0, 1])
    return slow, fn.reductions.sum(fn.cast(images, dtype=types.INT64), axes=[0])  # read behind the slow operators


@pytest.mark.parametrize("decoder", ["cpu", "shared", "hardware", "hybrid"])
def test_a_late_reader_sees_its_own_pictures(gpu, decoder):  # noqa: F811
    with late(decoder, prefetch_queue_depth=1) as calm:
        expected = []
        for _ in range(ITERATIONS):
            expected.append([np.asarray(sample) for sample in calm.run()[1].as_cpu()])
    with late(decoder, prefetch_queue_depth=6) as pipe:
        made = [pipe.run()[1] for _ in range(ITERATIONS)]
        refused = dict(pipe.statistics().operator("decode").counted).get("JPEGs refused by the GPU", 0)
        found = [[np.asarray(sample) for sample in batch.as_cpu()] for batch in made]
    assert refused == 0
    for x, y in zip(expected, found, strict=True):
        for one, other in zip(x, y, strict=True):
            np.testing.assert_array_equal(one, other)

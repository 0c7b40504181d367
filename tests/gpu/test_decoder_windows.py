"""On a GPU: a window has the pixels of the whole picture there, whichever decoder makes it."""

from __future__ import annotations

import numpy as np
import pytest
from test_flow import encoded
from test_operators import gpu  # noqa: F401

from asyncdali import fn, pipeline_def

pytestmark = pytest.mark.gpu
BATCH, ITERATIONS = 64, 8


def _rows(least, most):
    """Random integers from `least` to `most` of each sample, int64[batch, 2] per iteration."""
    rng = np.random.default_rng(3)
    high = np.where(np.arange(BATCH) % 3 == 0, min(least + 3, most), most)[:, None]
    return [rng.integers(least, high + 1, (BATCH, 2)) for _ in range(ITERATIONS)]


@pipeline_def(batch_size=BATCH, num_threads=4, device_id=0, prefetch_queue_depth=3)
def windows(decoder, fancy, cut):
    """Windows of one pixel up to 64 x 64."""
    data = fn.external_source(encoded, batch=False)
    anchor, shape = fn.external_source(_rows(0, 36), cycle=True), fn.external_source(_rows(1, 64), cycle=True)
    load = {"hw_decoder_load": 0.5} if decoder == "shared" else {}  # otherwise whole pictures have another part
    options = {"device": "mixed", "decoder": decoder, "jpeg_fancy_upsampling": fancy, "name": "decode", **load}
    slicing = {"normalized_anchor": False, "normalized_shape": False, "axis_names": "HW"}
    if cut:
        return fn.slice(fn.decoders.image(data, **options), anchor, shape, **slicing)
    return fn.decoders.image_slice(data, anchor, shape, **slicing, **options)


@pytest.mark.parametrize("fancy", [False, True])
@pytest.mark.parametrize("decoder", ["hardware", "shared"])
def test_a_window_is_a_part_of_the_picture(gpu, decoder, fancy):  # noqa: F811
    made = []
    for cut in (True, False):
        with windows(decoder, fancy, cut) as pipe:
            batches = [pipe.run()[0] for _ in range(ITERATIONS)]
            counted = dict(pipe.statistics().operator("decode").counted)
            made.append([[np.asarray(sample) for sample in batch.as_cpu()] for batch in batches])
        assert counted["JPEGs decoded by engines"] > 0 == counted["JPEGs refused by the GPU"]
    whole, found = made
    assert min(sample.size for batch in whole for sample in batch) < 16  # fewer bytes than a mark
    for x, y in zip(whole, found, strict=True):
        for one, other in zip(x, y, strict=True):
            np.testing.assert_array_equal(one, other)

"""On a GPU: the busy times of its streams."""

from __future__ import annotations

import os
import time

import numpy as np
import pytest
from test_operators import gpu  # noqa: F401

from asyncdali import fn, pipeline_def

pytestmark = pytest.mark.gpu


@pipeline_def(batch_size=32, num_threads=4, device_id=0)
def blurred(sigma):
    data = np.random.default_rng(1).integers(0, 255, (32, 512, 512, 3), np.uint8)
    images = fn.external_source(lambda i: data, layout="HWC", no_copy=True).gpu()
    return fn.gaussian_blur(images, sigma=sigma)


def device_seconds(sigma, iterations=48):
    pipe = blurred(sigma)
    for _ in range(17):
        pipe.run()
    before, began = pipe.statistics(), time.perf_counter()
    for _ in range(iterations):
        pipe.run()
    took = time.perf_counter() - began
    found = pipe.statistics().since(before)
    pipe.close()
    [seconds] = [stream.device_seconds for stream in found.streams if stream.name not in ("cpu", "loop")]
    return seconds, took


@pytest.mark.skipif(int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1")) > 1, reason="other processes use the GPU meanwhile")
def test_streams_report_the_busy_time_of_the_device():
    """The busy time is at most the elapsed time, and longer for more work."""
    small, took = device_seconds(0.5)
    large, took_longer = device_seconds(12.0)
    assert 0 < small <= took * 1.1 and 0 < large <= took_longer * 1.1
    assert large > small

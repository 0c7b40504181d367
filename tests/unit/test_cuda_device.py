"""Pipelines on the CUDA device over a stand-in for CUDA: same results as on the CPU, memory never used too early, nothing allocated
in steady state."""

from __future__ import annotations

import numpy as np
import pytest
from helpers import kernels
from helpers.cuda import StandIn

from asyncdali import fn, pipeline_def, types
from asyncdali.device import select

pytestmark = pytest.mark.skipif(kernels.COMPILER is None, reason="no C++ compiler to build kernels for the host")


@pytest.fixture
def cuda(monkeypatch):
    """The stand-in, as the machine's CUDA."""
    driver = StandIn()
    monkeypatch.setenv("ASYNCDALI_DEVICE", "cuda")
    monkeypatch.setattr(select, "_driver", driver)
    return driver


def source(info):
    rng = np.random.default_rng(info.idx_in_epoch)
    return rng.integers(0, 255, (*rng.integers(8, 30, 2), 3), np.uint8)


@pipeline_def(batch_size=6, num_threads=2, device_id=0, seed=3)
def pictures(gpu=True):
    images = fn.external_source(source, batch=False, layout="HWC")
    images = images.gpu() if gpu else images
    mirror = fn.random.coin_flip()
    small = fn.resize(images, size=[16.0, 12.0])
    normal = fn.crop_mirror_normalize(small, mirror=mirror, crop=[12, 12], mean=[120.0], std=[60.0], dtype=types.FLOAT16)
    return small, normal, mirror


def samples_of(tensors):
    tensors = tensors.as_cpu() if hasattr(tensors, "as_cpu") else tensors
    return [np.array(tensors[i]) for i in range(len(tensors))]


def run(pipe, iterations, stream=None):
    results = []
    for _ in range(iterations):
        outputs = pipe.run() if stream is None else pipe.run(stream)
        results.append([samples_of(output) for output in outputs])
    return results


def assert_equal(found, expected):
    """Equal but for the last bit of an integer, and what comes of that."""
    for a, b in zip(found, expected, strict=True):
        for x, y in zip(a, b, strict=True):
            for s, t in zip(x, y, strict=True):
                assert s.dtype == t.dtype and s.shape == t.shape
                assert np.abs(s.astype(np.float64) - t.astype(np.float64)).max(initial=0) <= (1 if s.dtype.kind in "iu" else 0.02)


@pytest.fixture(scope="module")
def expected():
    pipe = pictures(gpu=False)
    pipe.build()
    return run(pipe, 6)


def test_same_as_on_the_cpu(cuda, expected):
    assert_equal(run(pictures(), 6), expected)
    assert cuda.calls["launch"] == 6 * 3 or cuda.calls["launch"] >= 18
    assert cuda.calls["pageable downloads"] == 0

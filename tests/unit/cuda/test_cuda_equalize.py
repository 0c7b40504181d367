"""equalize and RandAugment on a GPU: the kernel, compiled for the host, and pipelines over the CUDA simulator."""

from __future__ import annotations

import numpy as np
import pytest
from helpers import kernels
from helpers.twins import both

from asyncdali import fn, pipeline_def

pytestmark = pytest.mark.skipif(kernels.COMPILER is None, reason="no C++ compiler to build kernels for the host")


@pytest.mark.parametrize("layout", ["HW", "HWC", "CHW", "FHW", "FHWC", "FCHW"])
def test_as_the_compiled_step(layout):
    """All layouts, sizes down to zero, constant planes, and more planes than the compiled step counts at the same time."""
    rng = np.random.default_rng(len(layout))
    samples = []
    for extent in (0, 1, 2, 17, 40):
        extents = {"H": extent, "W": extent + 3, "C": 3 if extent else 6, "F": 2}
        samples.append((rng.normal(90, 1 + extent, [extents[axis] for axis in layout]).clip(0, 255)).astype(np.uint8))
    samples.append(np.full([{"H": 5, "W": 6, "C": 2, "F": 3}[axis] for axis in layout], 77, np.uint8))
    for one, other in zip(*both("equalize", samples, layout), strict=True):
        np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize("channels", [1, 3, 4, 5])
def test_pictures_that_several_blocks_share(channels):
    """Parts begin and end anywhere in a pixel, and at any address."""
    rng = np.random.default_rng(channels)
    samples = [rng.integers(0, 256, (extent, extent + 5, channels)).astype(np.uint8) // 3 for extent in (31, 1, 173, 260)]
    for one, other in zip(*both("equalize", samples, "HWC"), strict=True):
        np.testing.assert_array_equal(one, other)


def test_pipeline(cuda):
    rng = np.random.default_rng(3)
    images = [rng.integers(0, 99, (20 + k, 30, 3)).astype(np.uint8) for k in range(4)]

    @pipeline_def(batch_size=4, num_threads=2, device_id=0)
    def graph():
        data = fn.external_source(lambda: images, layout="HWC")
        return fn.equalize(data), fn.equalize(data.gpu())

    pipe = graph()
    pipe.build()
    here, there = pipe.run()
    for one, other in zip(here, there.as_cpu(), strict=True):
        np.testing.assert_array_equal(np.asarray(one), np.asarray(other))
    pipe.close()


@pytest.mark.parametrize("policy", ["rand_augment", "trivial_augment", "auto_augment"])
def test_automatic_augmentations(cuda, policy):
    """Every operation of the policies has a kernel, and the policies choose the same operations as on the CPU."""
    from asyncdali.auto_aug import auto_augment, rand_augment, trivial_augment

    rng = np.random.default_rng(4)
    images = [rng.integers(0, 256, (24 + k, 30, 3)).astype(np.uint8) for k in range(8)]
    apply = {
        "rand_augment": lambda data: rand_augment.rand_augment(data, n=2, m=9),
        "trivial_augment": trivial_augment.trivial_augment_wide,
        "auto_augment": auto_augment.auto_augment,
    }[policy]

    def outputs(device):
        @pipeline_def(batch_size=8, num_threads=2, device_id=0, seed=6, enable_conditionals=True)
        def graph():
            data = fn.external_source(lambda: images, layout="HWC")
            return apply(data.gpu() if device == "gpu" else data)

        pipe = graph()
        pipe.build()
        found = [np.array(sample) for _ in range(3) for sample in pipe.run()[0].as_cpu()]
        pipe.close()
        return found

    for one, other in zip(outputs("cpu"), outputs("gpu"), strict=True):
        assert one.shape == other.shape
        # Pixels of filters and warps may differ by rounding. With equal choices nearly all pixels are equal.
        assert (np.abs(one.astype(int) - other.astype(int)) <= 1).mean() > 0.99

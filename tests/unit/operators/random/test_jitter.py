"""jitter beside a NumPy model, and its kernel beside the compiled step."""

from __future__ import annotations

import numpy as np
import pytest
from helpers import kernels
from helpers.operators import run
from helpers.pipelines import pipeline_of
from helpers.twins import assert_near, both

from asyncdali import fn, types

MASK = 2**64 - 1


def words(key, counter, offset):
    """Two words of Philox4x32-10, starting at number `offset`, by the definition (Salmon et al., 2011)."""
    return [block(key, counter + (offset + k) // 4)[(offset + k) % 4] for k in range(2)]


def block(key, counter):
    c = [counter >> (32 * k) & 0xFFFFFFFF for k in range(4)]
    k0, k1 = key & 0xFFFFFFFF, key >> 32
    for _ in range(10):
        a, b = c[0] * 0xD2511F53, c[2] * 0xCD9E8D57
        c = [(b >> 32) ^ c[1] ^ k0, b & 0xFFFFFFFF, (a >> 32) ^ c[3] ^ k1, a & 0xFFFFFFFF]
        k0, k1 = (k0 + 0x9E3779B9) & 0xFFFFFFFF, (k1 + 0xBB67AE85) & 0xFFFFFFFF
    return c


def model(images, seed, degree, per_pixel, first=0):
    outputs = []
    for i, image in enumerate(images):
        height, width, channels = image.shape
        out = np.empty_like(image)
        counter = ((first + 65537 * i) & MASK) << 64
        for y in range(height):
            for x in range(width):
                for c in range(channels):
                    e = (0 if per_pixel else c) + channels * (x + width * y)
                    dx, dy = (
                        -(degree >> 1) + (w & (degree - 1) if degree & (degree - 1) == 0 else w * degree >> 32)
                        for w in words(seed, counter, 257 * e)
                    )
                    out[y, x, c] = image[np.clip(y + dy, 0, height - 1), np.clip(x + dx, 0, width - 1), c]
        outputs.append(out)
    return outputs


def pictures(rng, dtype, *shapes):
    return [rng.integers(0, 256, shape).astype(dtype) for shape in shapes]


@pytest.mark.parametrize("degree", [1, 2, 3, 4, 5])
@pytest.mark.parametrize(
    "dtype, shapes, per_pixel",
    [
        ("uint8", [(4, 5, 3), (8, 3, 1)], True), ("uint8", [(4, 5, 3), (3, 5, 3)], False), ("float32", [(3, 5, 3), (7, 3, 1)], True),
        ("float32", [(4, 4, 3), (3, 5, 2)], False),
    ],
)  # fmt: skip
def test_draws_equal_the_model(dtype, shapes, per_pixel, degree):
    images = pictures(np.random.default_rng(degree), dtype, *shapes)
    found = run("jitter", images, "HWC", nDegree=degree, seed=123456789)
    for a, b in zip(found, model(images, 123456789, degree, per_pixel), strict=True):
        np.testing.assert_array_equal(a, b)


def test_mask_and_iterations():
    image = pictures(np.random.default_rng(1), "uint8", (4, 6, 3))[0]

    def graph():
        data = fn.external_source(lambda: [image] * 2, layout="HWC")
        mask = fn.external_source(lambda: np.int32([1, 0]))
        return fn.jitter(data, mask=mask, seed=5, nDegree=3), fn.jitter(data.gpu(), seed=5, nDegree=3, interp_type=types.INTERP_LINEAR)

    with pipeline_of(graph, batch_size=2, device_id=0) as pipeline:
        for iteration in range(3):
            masked, plain = (batch.as_cpu() for batch in pipeline.run())
            expected = model([image] * 2, 5, 3, True, first=2 * iteration)
            np.testing.assert_array_equal(np.asarray(masked[0]), expected[0])
            np.testing.assert_array_equal(np.asarray(masked[1]), image)
            np.testing.assert_array_equal(np.asarray(plain[1]), expected[1])


def test_wrong_arguments_and_inputs():
    image = np.zeros((4, 4, 3), np.uint8)
    with pytest.raises(ValueError, match="`nDegree` must be 1 to 1048576, got 0"):
        run("jitter", [image], nDegree=0)
    with pytest.raises(ValueError, match="INTERP_NN or INTERP_LINEAR, got INTERP_CUBIC"):
        run("jitter", [image], interp_type=types.INTERP_CUBIC)
    with pytest.raises(ValueError, match="INT16 .*supported types are: UINT8, FLOAT"):
        run("jitter", [image.astype(np.int16)])
    with pytest.raises(ValueError, match="allowed layouts"):
        run("jitter", [image], "CHW")


@pytest.mark.skipif(kernels.COMPILER is None, reason="no C++ compiler to build kernels for the host")
@pytest.mark.parametrize("dtype, shape", [("uint8", (12, 9, 3)), ("uint8", (7, 9, 3)), ("float32", (7, 9, 3))])
def test_kernel(dtype, shape):
    images = pictures(np.random.default_rng(2), dtype, shape, shape, (1, 1, 3))
    for degree in (2, 5):
        assert_near(*both("jitter", images, "HWC", {"mask": np.int32([1, 0, 1])}, nDegree=degree, seed=77))

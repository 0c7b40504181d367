"""On a GPU: calls of dynamic mode give the results of the CPU; other libraries share memory with tensors; streams."""

from __future__ import annotations

import threading

import numpy as np
import pytest
from test_operators import gpu  # noqa: F401

import asyncdali.dynamic as ndd

pytestmark = pytest.mark.gpu
PICTURES = [np.random.default_rng(k).integers(0, 256, (60 + 9 * k, 81, 3), np.uint8) for k in range(4)]

CASES = {
    "flip": lambda x: ndd.flip(x, horizontal=1),
    "resize": lambda x: ndd.resize(x, size=[37, 45]),
    "crop_mirror_normalize": lambda x: ndd.crop_mirror_normalize(x, crop=(48, 49), mean=[3.0, 4.0, 5.0], mirror=1),
    "sum": lambda x: ndd.reductions.sum(x, axes=[0]),
    "mean": lambda x: ndd.reductions.mean(x, axes=[0, 1]),
    "arithmetic": lambda x: (x + 3) * 2.5 - x,
    "math": lambda x: ndd.math.sqrt(x),
    "rotate": lambda x: ndd.rotate(x, angle=30.0, fill_value=3),
    "warp_affine": lambda x: ndd.warp_affine(x, matrix=[1.0, 0.2, 3.0, -0.1, 0.9, 2.0]),
    "gaussian_blur": lambda x: ndd.gaussian_blur(x, sigma=1.5),
    "brightness_contrast": lambda x: ndd.brightness_contrast(x, brightness=1.2, contrast=0.7),
    "hsv": lambda x: ndd.hsv(x, hue=30.0, saturation=0.8),
    "color_space": lambda x: ndd.color_space_conversion(x, image_type=ndd_types().RGB, output_type=ndd_types().YCbCr),
    "transpose": lambda x: ndd.transpose(x, perm=[2, 0, 1]),
    "pad": lambda x: ndd.pad(x, shape=[130, 90, 3], fill_value=7),
    "slice": lambda x: ndd.slice(x, [5, 6], [20, 30], axes=[0, 1]),
    "cast": lambda x: ndd.cast(x, dtype=ndd.float32),
    "erase": lambda x: ndd.erase(x, anchor=[5, 6], shape=[10, 11], axes=[0, 1], fill_value=9),
    "cat": lambda x: ndd.cat(x, x, axis=0),
    "reshape": lambda x: ndd.reshape(ndd.crop(x, crop=(40, 40)), shape=[20, 80, 3]),
    "two calls": lambda x: ndd.flip(ndd.crop(x, crop=(48, 49))),
}


def ndd_types():
    from asyncdali import types

    return types


def equal(made, expected):
    assert made.device.device_type == "gpu"
    assert (made.shape, made.layout, made.dtype) == (expected.shape, expected.layout, expected.dtype)
    pairs = zip(made.cpu(), expected, strict=True) if isinstance(made, ndd.Batch) else [(made.cpu(), expected)]
    for one, other in pairs:
        np.testing.assert_allclose(np.asarray(one).astype(float), np.asarray(other).astype(float), atol=1.01, rtol=1e-5)


@pytest.mark.parametrize("name", CASES)
def test_results_equal_those_of_the_cpu(name):
    call = CASES[name]
    batch, single = ndd.batch(PICTURES, layout="HWC"), ndd.tensor(PICTURES[1], layout="HWC")
    for _ in range(3):
        equal(call(batch.gpu()), call(batch))
        equal(call(single.gpu()), call(single))


def test_random_numbers_are_those_of_the_cpu():
    on_cpu = ndd.random.uniform(batch_size=4, rng=ndd.random.RNG(5), shape=[3])
    equal(ndd.random.uniform(batch_size=4, rng=ndd.random.RNG(5), shape=[3], device="gpu"), on_cpu)


def test_torch_shares_memory():
    torch = pytest.importorskip("torch")
    x = ndd.tensor(PICTURES[0]).gpu()
    shared = torch.from_dlpack(x)
    assert shared.is_cuda
    np.testing.assert_array_equal(shared.cpu().numpy(), PICTURES[0])
    np.testing.assert_array_equal(x.torch().cpu().numpy(), PICTURES[0])
    given = torch.arange(12, device="cuda", dtype=torch.int32).reshape(3, 4)
    made = ndd.as_tensor(given) + 1
    np.testing.assert_array_equal(np.asarray(made.cpu()), np.arange(12, dtype=np.int32).reshape(3, 4) + 1)


def test_cupy_shares_memory():
    cupy = pytest.importorskip("cupy")
    x = ndd.tensor(PICTURES[0]).gpu()
    np.testing.assert_array_equal(cupy.asnumpy(cupy.asarray(x)), PICTURES[0])


def test_slices():
    x = ndd.tensor(PICTURES[0], layout="HWC").gpu()
    np.testing.assert_array_equal(np.asarray(x[2:5, ::2].cpu()), PICTURES[0][2:5, ::2])


def test_many_calls_in_flight_and_threads():
    batch = ndd.batch(PICTURES, layout="HWC").gpu()
    expected = [np.asarray(item) for item in ndd.flip(batch).cpu()]
    wrong = []

    def work():
        for _ in range(50):
            made = ndd.flip(ndd.flip(ndd.flip(batch)))
            wrong.extend(k for k, item in enumerate(made.cpu()) if not np.array_equal(np.asarray(item), expected[k]))

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)
    assert not any(thread.is_alive() for thread in threads)
    assert wrong == []


def test_streams():
    stream = ndd.Stream()
    assert stream.handle
    stream.synchronize()
    with ndd.EvalContext(cuda_stream=stream) as context:
        assert context.cuda_stream == stream
        equal(ndd.flip(ndd.tensor(PICTURES[0], layout="HWC").gpu()), ndd.flip(ndd.tensor(PICTURES[0], layout="HWC")))
    ndd.set_default_stream(stream)
    assert ndd.get_default_stream() == stream
    ndd.set_default_stream(None)


def test_modes():
    x = ndd.batch(PICTURES, layout="HWC").gpu()
    for mode in ndd.EvalMode:
        with mode:
            equal(ndd.resize(x, size=[20, 20]), ndd.resize(x.cpu(), size=[20, 20]))

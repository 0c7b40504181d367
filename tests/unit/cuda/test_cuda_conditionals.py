"""Conditionals on the CUDA simulator: results equal the CPU's, and splits and merges copy no sample."""

from __future__ import annotations

import inspect

import numpy as np
import pytest
from helpers import kernels

from asyncdali import fn, pipeline_def, types

pytestmark = pytest.mark.skipif(kernels.COMPILER is None, reason="no C++ compiler to build kernels for the host")
BATCH = 7


def picture(info):
    rng = np.random.default_rng(info.idx_in_epoch)
    return rng.integers(0, 255, (*rng.integers(8, 30, 2), 3), np.uint8)


def number(info):
    return np.int32(info.idx_in_epoch * 5 % 7)


def both(body, iterations=4, **options):
    """The samples of all outputs with data on the GPU and on the CPU: two lists by iteration, output, sample."""
    found = []
    for gpu in (True, False):

        @pipeline_def(batch_size=BATCH, num_threads=2, device_id=0, seed=11, enable_conditionals=True, **options)
        def graph(body=body, gpu=gpu):
            images = fn.external_source(picture, batch=False, layout="HWC")
            return body(images.gpu() if gpu else images, fn.external_source(number, batch=False))

        pipe = graph()
        pipe.build()
        assert (pipe._core.session.gpu is not None) == gpu
        batches = []
        for _ in range(iterations):
            outputs = [output.as_cpu() if gpu and hasattr(output, "as_cpu") else output for output in pipe.run()]
            batches.append([[np.array(sample) for sample in output] for output in outputs])
        pipe.close()
        found.append(batches)
    return found


def assert_same(body, **options):
    """The results are equal, except for the last bit after a resize."""
    tolerance = {np.uint8: 1, np.float32: 1 / 60 + 1e-6} if "resize" in inspect.getsource(body) else {}
    for ours, expected in zip(*both(body, **options), strict=True):
        for a, b in zip(ours, expected, strict=True):
            for x, y in zip(a, b, strict=True):
                assert x.dtype == y.dtype
                assert x.shape == y.shape
                assert np.abs(x.astype(float) - y.astype(float)).max(initial=0) <= tolerance.get(x.dtype.type, 0)


def home(data):
    """The device for operators of a body that have no input."""
    return "gpu" if data.device == "gpu" else "cpu"


def one_branch(images, k):
    if k > 2:
        images = fn.flip(images)
    return images


def nested(images, k):
    turned = fn.flip(images, vertical=1)
    if k > 2:
        if k == 4:
            made = fn.crop(images, crop=[5, 4])
        elif fn.random.coin_flip(dtype=types.BOOL):
            made = fn.flip(turned)
        else:
            made = images
    else:
        made = fn.brightness(turned, brightness=fn.random.uniform(range=(0.5, 1.5)))
    return made, turned, k


def stateful(images, k):
    """A random operator with inputs in a branch advances by the samples of the branch."""
    noise = types.Constant(np.zeros((4, 5), np.float32), device=home(images))
    if k > 3:
        noise = fn.random.uniform(range=(-1.0, 1.0), shape=[4, 5], device=home(images))
    return noise, fn.random.uniform(range=(0.0, 9.0), shape=[2], device=home(images))


def read_by_a_branch_and_by_a_kernel(images, k):
    """A result is read by a branch, and also by a kernel that could compute it while reading."""
    small = fn.resize(images, size=[16.0, 12.0])
    normal = fn.crop_mirror_normalize(small, mean=[120.0], std=[60.0], output_layout="HWC")
    if k > 3:
        other = fn.flip(small)
    else:
        other = fn.copy(small)
    return normal, other


def within_a_branch(images, k):
    """Both operators are within a branch, where their kernels may be fused."""
    if k > 3:
        made = fn.crop_mirror_normalize(fn.resize(images, size=[16.0, 12.0]), mean=[120.0], std=[60.0], output_layout="HWC")
    else:
        made = fn.cast(fn.crop(images, crop=[5, 6]), dtype=types.FLOAT)
    return made


def through_the_cpu(images, k):
    """A branch that copies its samples to the CPU and back, and an empty branch."""
    if k > 3:
        images = fn.rotate(images.cpu(), angle=30.0, fill_value=0)
        if home_is_gpu:
            images = images.gpu()
    if k > 100:
        images = fn.crop(images, crop=[2, 2])
    return images


def views(images, k):
    """Operators that launch no kernel (shapes, reshape, a constant), and a flip."""
    if k > 3:
        shape = fn.shapes(images)
        images = fn.reshape(images, shape=[-1])
    else:
        images = fn.reshape(fn.flip(images), shape=[-1])
        shape = types.Constant(np.zeros(3, np.int64), dtype=types.INT64, device=home(images))
    return images, shape


home_is_gpu = True


@pytest.mark.parametrize("body", [one_branch, nested, stateful, read_by_a_branch_and_by_a_kernel, within_a_branch, views])
def test_same_as_on_the_cpu(cuda, body):
    assert_same(body)


def test_a_branch_that_goes_to_the_cpu_and_back(cuda, monkeypatch):
    def body(images, k):
        monkeypatch.setitem(globals(), "home_is_gpu", images.device == "gpu")
        return through_the_cpu(images, k)

    assert_same(body)
    assert cuda.calls["pageable downloads"] == 0


@pytest.mark.parametrize("policy", [types.StreamPolicy.SINGLE, types.StreamPolicy.PER_OPERATOR])
def test_under_other_stream_policies(cuda, policy):
    assert_same(nested, stream_policy=policy)


def test_samples_are_not_copied(cuda):
    """Splits and merges launch nothing: the merged batch is the memory of the branches."""

    @pipeline_def(batch_size=BATCH, num_threads=1, device_id=0, enable_conditionals=True, prefetch_queue_depth=1)
    def graph():
        images = fn.external_source(picture, batch=False, layout="HWC").gpu()
        return one_branch(images, fn.external_source(number, batch=False)), images

    merged, images = graph().run()
    chosen = np.array([k * 5 % 7 > 2 for k in range(BATCH)])
    np.testing.assert_array_equal(merged._batch.addresses[~chosen], images._batch.addresses[~chosen])
    assert not np.isin(merged._batch.addresses[chosen], images._batch.addresses).any()
    assert cuda.calls["launch"] == 1  # the flip's kernel


def test_equal_samples_are_one_tensor(cuda):
    """The merge runs on the pipeline's stream, so `as_tensor()` does not let the host wait."""

    @pipeline_def(batch_size=BATCH, num_threads=1, device_id=0, enable_conditionals=True)
    def graph():
        images = fn.resize(fn.external_source(picture, batch=False, layout="HWC").gpu(), size=[6.0, 5.0])
        return one_branch(images, fn.external_source(number, batch=False))

    cuda.use(0)
    stream = cuda.stream_create()
    pipe = graph()
    (images,) = pipe.run(stream)
    waits = cuda.calls["stream_synchronize"] + cuda.calls["event_synchronize"]
    assert images.as_tensor().shape() == [BATCH, 6, 5, 3]
    assert cuda.calls["stream_synchronize"] + cuda.calls["event_synchronize"] == waits
    dense = images.as_cpu().as_array()
    expected = graph().run()[0].as_cpu().as_array()
    np.testing.assert_array_equal(dense, expected)


def test_a_condition_on_the_gpu_is_refused(cuda):
    @pipeline_def(batch_size=2, num_threads=1, device_id=0, enable_conditionals=True)
    def graph():
        k = fn.external_source(number, batch=False)
        return one_branch(k, k.gpu())

    with pytest.raises(ValueError, match="conditions must be on the CPU"):
        graph().build()

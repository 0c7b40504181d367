"""On a GPU: every operator gives the results of its CPU twin. Also streams, lifetimes, checkpoints. Run ``pytest -m gpu tests/gpu``."""

from __future__ import annotations

import gc
import os

import numpy as np
import pytest

from asyncdali import fn, pipeline_def, types
from asyncdali.device import select

pytestmark = pytest.mark.gpu
BATCH = 16


@pytest.fixture(autouse=True)
def gpu(monkeypatch):
    """A CUDA device, or the test is skipped."""
    monkeypatch.setenv("ASYNCDALI_DEVICE", "cuda")
    if select._driver is None:
        try:
            select._driver = select.make_driver()
        except select.NoCuda as error:
            pytest.skip(str(error))
    return select._driver


def pictures(info):
    rng = np.random.default_rng(info.idx_in_epoch)
    small = rng.integers(0, 255, (12, 12, 3), np.uint8)
    height, width = rng.integers(40, 200, 2)
    return np.ascontiguousarray(small.repeat(17, 0).repeat(17, 1)[:height, :width])


def samples_of(tensors):
    tensors = tensors.as_cpu() if hasattr(tensors, "as_cpu") else tensors
    return [np.array(tensors[i]) for i in range(len(tensors))]


def results(body, on_gpu, iterations=3):
    @pipeline_def(batch_size=BATCH, num_threads=4, device_id=0, seed=7)
    def graph():
        data = fn.external_source(pictures, batch=False, layout="HWC")
        return body(data.gpu() if on_gpu else data)

    pipe = graph()
    pipe.build()
    assert (pipe._core.session.gpu is not None) == on_gpu
    made = [[samples_of(output) for output in pipe.run()] for _ in range(iterations)]
    pipe.close()
    return made


CASES = {
    "resize": lambda x: fn.resize(x, size=[70.0, 50.0]),
    "resize shorter, cubic": lambda x: fn.resize(x, resize_shorter=90.0, interp_type=types.INTERP_CUBIC),
    "resize nearest": lambda x: fn.resize(x, size=[33.0, 77.0], interp_type=types.INTERP_NN),
    "resize to float": lambda x: fn.resize(x, size=[33.0, 77.0], dtype=types.FLOAT),
    "resize to a few": lambda x: fn.resize(x, size=[5.0, 7.0]),
    "resize enlarges": lambda x: fn.resize(x, size=[270.0, 1300.0], interp_type=types.INTERP_LANCZOS3),
    "resize floats": lambda x: fn.resize(fn.cast(x, dtype=types.FLOAT), size=[70.0, 50.0]),
    "resize gray": lambda x: fn.resize(fn.color_space_conversion(x, image_type=types.RGB, output_type=types.GRAY), size=[70.0, -50.0]),
    "resize volumes": lambda x: fn.resize(fn.stack(x, fn.flip(x), x, axis=0, axis_name="D"), size=[5.0, 30.0, 40.0]),
    "tensor_resize": lambda x: fn.tensor_resize(x, sizes=[70.0, 50.0], axes=[0, 1]),
    "tensor_resize, to floats": lambda x: fn.tensor_resize(x, scales=[0.7, 1.3], axes=[0, 1], alignment=[0.0], dtype=types.FLOAT),
    "resize and normalize": lambda x: fn.crop_mirror_normalize(
        fn.resize(x, resize_longer=301.0, interp_type=types.INTERP_CUBIC), crop=[180, 310], out_of_bounds_policy="pad", fill_values=[2.0],
        mirror=fn.random.coin_flip(), mean=[100.0, 110.0, 120.0], std=[250.0], dtype=types.FLOAT,
    ),
    "normalize": lambda x: fn.crop_mirror_normalize(
        x, crop=[30, 30], mirror=fn.random.coin_flip(), mean=[100.0, 110.0, 120.0], std=[50.0], dtype=types.FLOAT16
    ),
    "normalize to bytes": lambda x: fn.crop_mirror_normalize(x, mean=[9.0], std=[2.0], dtype=types.UINT8, output_layout="HWC"),
    "flip": lambda x: fn.flip(x, horizontal=fn.random.coin_flip(), vertical=1),
    "crop": lambda x: fn.crop(x, crop=[60, 220], out_of_bounds_policy="reflect", dtype=types.FLOAT),
    "cast": lambda x: fn.cast(fn.cast(x, dtype=types.FLOAT16), dtype=types.INT32),
    "copy": lambda x: fn.copy(x),
    "brightness_contrast": lambda x: fn.brightness_contrast(x, brightness=fn.random.uniform(range=(0.5, 1.5)), contrast=1.3),
    "hsv": lambda x: fn.hsv(x, hue=30.0, saturation=1.2),
    "rotate": lambda x: fn.rotate(x, angle=fn.random.uniform(range=(-90.0, 90.0)), fill_value=0),
    "rotate, border": lambda x: fn.rotate(x, angle=33.0, keep_size=True),
    "warp_affine": lambda x: fn.warp_affine(x, matrix=[1.0, 0.2, 3.0, -0.1, 0.9, 4.0], fill_value=7.0),
    "transpose": lambda x: fn.transpose(x, perm=[2, 0, 1]),
    "pad": lambda x: fn.pad(x, axes=[0, 1], fill_value=3.0),
    "cat": lambda x: fn.cat(x, fn.flip(x), axis=1),
    "stack": lambda x: fn.stack(x, x),
    "slice": lambda x: fn.slice(x, rel_start=[0.1, 0.2], rel_end=[0.7, 0.9], axes=[0, 1]),
    "multi_paste": lambda x: fn.multi_paste(
        fn.rotate(x, angle=20.0, keep_size=True), in_ids=[3, 0, 3],
        shapes_rel=types.Constant(np.array([[0.5, 0.5], [0.9, 0.4], [0.3, 0.3]], np.float32)),
        out_anchors=types.Constant(np.array([[3, 5], [0, 0], [40, 11]], np.int32)), output_size=[300, 320], dtype=types.FLOAT,
    ),
    "reshape": lambda x: fn.reshape(x, shape=[-1]),
    "subscript": lambda x: x[5:20, 3:30:2],
    "uniform": lambda x: fn.random.uniform(x, device="gpu" if x.device == "gpu" else "cpu"),
    "normal": lambda x: fn.random.normal(x, device="gpu" if x.device == "gpu" else "cpu"),
}


@pytest.mark.parametrize("name", CASES)
def test_operator(name):
    expected, found = (results(CASES[name], on_gpu) for on_gpu in (False, True))
    for a, b in zip(expected, found, strict=True):
        for x, y in zip(a[0], b[0], strict=True):
            assert x.shape == y.shape and x.dtype == y.dtype
            difference = np.abs(x.astype(np.float64) - y.astype(np.float64))
            if x.dtype.kind in "iu":
                assert difference.max(initial=0) <= 1 and (difference > 0).mean() < 0.02
            else:
                step = 1.01 / 250 if name == "resize and normalize" else 0.0  # one grey level: the rounding may differ
                assert difference.max(initial=0) <= max(step, 1e-4 * max(1.0, np.abs(x.astype(np.float64)).max()))


def test_there_and_back():
    """Data goes from the GPU to the CPU and back, and a CPU argument is computed from GPU data."""

    def body(data):
        there = fn.resize(data, size=[30.0, 40.0])
        if there.device == "cpu":
            return fn.flip(fn.rotate(there, angle=10.0))
        back = fn.rotate(there.cpu(), angle=10.0)
        return fn.flip(back.gpu())

    for a, b in zip(results(body, False), results(body, True), strict=True):
        for x, y in zip(a[0], b[0], strict=True):
            assert np.abs(x.astype(int) - y.astype(int)).max() <= 2


@pipeline_def(batch_size=BATCH, num_threads=4, device_id=0, seed=7)
def numbered():
    data = fn.external_source(lambda info: np.full((200, 300, 3), info.iteration % 250, np.uint8), batch=False, layout="HWC")
    return fn.crop_mirror_normalize(fn.flip(data.gpu()), dtype=types.FLOAT)


@pytest.mark.parametrize("policy", list(types.StreamPolicy.__members__.values()))
def test_a_slow_consumer_on_its_own_stream(policy):
    """Outputs stay unchanged until the consumer's stream has read them, however late that is."""
    import cupy

    pipe = numbered(stream_policy=policy)
    pipe.build()
    stream = cupy.cuda.Stream(non_blocking=True)
    busy = cupy.random.random((2048, 2048), dtype=cupy.float32)
    sums = []
    for _ in range(40):
        with stream:
            (images,) = pipe.run(stream.ptr)
            for _ in range(5):
                busy = busy @ busy * cupy.float32(1e-3)
            sums.append(cupy.from_dlpack(images.as_tensor()).mean())
            del images
    stream.synchronize()
    assert [float(value) for value in sums] == [float(k) for k in range(40)]
    pipe.close()


def test_memory_is_flat():
    """The free memory of the card does not change. No other process may use the card during the test."""
    import cupy

    if int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1")) > 1:
        pytest.skip("other tests use the card at the same time: run this test alone")
    pipe = numbered()
    pipe.build()
    for _ in range(300):  # until the number of batches in flight has reached its maximum
        pipe.run()
    device = pipe._core.session.gpu
    before = device.pool.allocations, device.events.created, device.staging.allocated_bytes, device.pinned.allocated_bytes
    free = cupy.cuda.runtime.memGetInfo()[0]
    for _ in range(5000):
        pipe.run()
    assert (device.pool.allocations, device.events.created, device.staging.allocated_bytes, device.pinned.allocated_bytes) == before
    assert free - cupy.cuda.runtime.memGetInfo()[0] < 1 << 20  # memory of earlier tests may be freed meanwhile
    pipe.close()
    del pipe, device
    gc.collect()


def test_checkpoint(tmp_path):
    @pipeline_def(batch_size=BATCH, num_threads=4, device_id=0, seed=7, enable_checkpointing=True)
    def graph():
        noise = fn.random.uniform(range=(0.0, 255.0), shape=[40, 40, 3], device="gpu")
        return fn.rotate(fn.reinterpret(noise, layout="HWC"), angle=fn.random.uniform(range=(-30.0, 30.0)))

    first = graph()
    first.build()
    for _ in range(3):
        first.run()
    saved = first.checkpoint()
    expected = [samples_of(first.run()[0]) for _ in range(3)]
    second = graph(checkpoint=saved)
    second.build()
    for batch in expected:
        for x, y in zip(batch, samples_of(second.run()[0]), strict=True):
            np.testing.assert_array_equal(x, y)


def test_out_of_memory_is_an_error_of_its_iteration():
    """12 samples of 14.7 GB. A sample of 24 GB exceeds the limit."""
    sizes = {1: 70_000.0, 3: 90_000.0}

    @pipeline_def(batch_size=12, num_threads=2, device_id=0)
    def graph():
        size = fn.external_source(lambda info: np.array([sizes.get(info.iteration, 20.0)] * 2, np.float32), batch=False)
        data = fn.external_source(pictures, batch=False, layout="HWC")
        return fn.resize(data.gpu(), size=size)

    pipe = graph()
    pipe.build()
    assert len(pipe.run()[0]) == 12
    with pytest.raises(MemoryError, match="out of memory on GPU 0"):
        pipe.run()
    assert len(pipe.run()[0]) == 12
    with pytest.raises(MemoryError, match=r"a sample may have 17,179,869,184 \(ASYNCDALI_MAX_SAMPLE_BYTES\)\n"):
        pipe.run()
    assert len(pipe.run()[0]) == 12

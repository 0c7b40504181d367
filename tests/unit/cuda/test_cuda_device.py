"""Pipelines on the CUDA simulator: results equal the CPU's, memory is not reused too early, and steady state allocates no memory."""

from __future__ import annotations

import gc

import numpy as np
import pytest
from helpers import kernels

from asyncdali import fn, pipeline_def, types
from asyncdali.device import select
from asyncdali.device.cuda.commands import Commands
from asyncdali.device.cuda.memory import DevicePool, Events
from asyncdali.operators.base import REGISTRY
from asyncdali.types import OperatorConcurrency, StreamPolicy

pytestmark = pytest.mark.skipif(kernels.COMPILER is None, reason="no C++ compiler to build kernels for the host")


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
    """The results are equal, except where the last bit of an integer differs and changes later results."""
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
    assert cuda.calls["pageable downloads"] == 0


def kernels_of(cuda, pipe):
    names = []
    load, launch = cuda.load, cuda.launch
    loaded = {}
    cuda.load = lambda kernel: loaded.setdefault(id(found := load(kernel)), (found, kernel))[0]
    cuda.launch = lambda function, *rest: (names.append(loaded[id(function)][1]), launch(function, *rest))
    outputs = samples_of(pipe.run()[0])
    pipe.close()
    return {kernel.entry for kernel in names}, outputs


def wide(info):
    rng = np.random.default_rng(info.idx_in_epoch)
    return rng.integers(0, 255, (*rng.integers((20, 300), (200, 700)), 3), np.uint8)


@pytest.mark.parametrize("source, size, crop, options", [
    (source, [16.0, 12.0], [20, 9], {"pad_output": True}),
    (wide, [21.0, 301.0], [13, 300], {"output_layout": "CHW", "dtype": types.FLOAT16}),
    pytest.param(wide, [5.0, 700.0], [7, 690], {"output_layout": "CHW", "dtype": types.UINT8, "scale": 30.0}, marks=pytest.mark.slow),
])  # fmt: skip
def test_resize_and_normalise_are_one_kernel(cuda, source, size, crop, options):
    """Resize and crop_mirror_normalize are fused unless another operator reads the resized images. The results are the same."""

    def graph(shown, layout="HWC"):
        @pipeline_def(batch_size=6, num_threads=2, device_id=0, seed=3, prefetch_queue_depth=2)
        def define():
            images = fn.external_source(source, batch=False, layout=layout).gpu()
            small = fn.resize(images, size=size)
            normal = fn.crop_mirror_normalize(
                small, mirror=fn.random.coin_flip(), crop=crop, out_of_bounds_policy="pad", fill_values=[3.0], mean=[120.0, 9.0, 1.0],
                std=[60.0, 2.0, 110.0], **options,
            )  # fmt: skip
            return (normal, small) if shown else normal

        return define()

    fused, found = kernels_of(cuda, graph(False))
    separate, expected = kernels_of(cuda, graph(True))
    assert fused == {"taps", "crop_mirror_normalize"}
    assert separate == {"taps", "resize", "normalize_planes"}
    for a, b in zip(expected, found, strict=True):
        np.testing.assert_array_equal(a, b)


COLORS = {
    "matrix": lambda x: fn.color_twist(x, hue=fn.random.uniform(range=(-40.0, 40.0)), brightness=1.2),
    "linear": lambda x: fn.brightness_contrast(x, contrast=fn.random.uniform(range=(0.5, 1.5))),
}


@pytest.mark.parametrize("name", COLORS)
def test_colors_and_normalise_are_one_kernel(cuda, name):
    """The colour operator is fused unless another operator reads its output. The results are the same, bit for bit."""

    def graph(shown):
        @pipeline_def(batch_size=6, num_threads=2, device_id=0, seed=3, prefetch_queue_depth=2)
        def define():
            images = COLORS[name](fn.external_source(source, batch=False, layout="HWC").gpu())
            normal = fn.crop_mirror_normalize(
                images, mirror=fn.random.coin_flip(), crop=[14, 21], out_of_bounds_policy="pad", fill_values=[3.0, 2.0, 1.0],
                mean=[120.0, 9.0, 1.0], std=[60.0, 2.0, 110.0], dtype=types.FLOAT16,
            )  # fmt: skip
            return (normal, images) if shown else normal

        return define()

    fused, found = kernels_of(cuda, graph(False))
    separate, expected = kernels_of(cuda, graph(True))
    assert fused == {"normalize_planes"}
    assert separate == {name, "normalize_planes"}
    for a, b in zip(expected, found, strict=True):
        np.testing.assert_array_equal(a, b)


def test_the_steady_state_allocates_no_memory(cuda):
    pipe = pictures()
    run(pipe, 30)
    before = {name: cuda.calls[name] for name in ("malloc", "host_alloc", "event_create", "stream_create")}
    run(pipe, 60)
    # The number of batches in flight depends on timing and may still grow by one. Memory does not grow with the iterations.
    assert all(cuda.calls[name] <= count + 3 for name, count in before.items())
    assert cuda.calls["free"] == 0


def test_outputs_are_not_overwritten_under_a_slow_consumer(cuda):
    """The consumer's stream reads batch k late, when the pipeline has worked on later batches. It still finds batch k."""
    cuda.use(0)
    stream = cuda.stream_create()
    copies = []
    pipe = pictures()
    for _ in range(6):
        small, *_ = pipe.run(stream)
        size = int(small._batch.sizes().sum())
        target = cuda.host_alloc(size)
        cuda.copy(target, small.data_ptr(), size, stream)
        copies.append((target, size))
        del small
        gc.collect()
    again = pictures()
    expected = [again.run()[0] for _ in range(6)]
    cuda.stream_synchronize(stream)
    for (target, size), batch in zip(copies, expected, strict=True):
        found = cuda._pinned[target][:size]
        np.testing.assert_array_equal(found, np.concatenate([sample.reshape(-1) for sample in samples_of(batch)]))


@pytest.mark.parametrize("policy", [StreamPolicy.SINGLE, StreamPolicy.PER_BACKEND, StreamPolicy.PER_OPERATOR])
@pytest.mark.parametrize("concurrency", [OperatorConcurrency.NONE, OperatorConcurrency.BACKEND, OperatorConcurrency.FULL])
def test_policies_change_nothing(cuda, policy, concurrency):
    """Stream policies do not change results, also if data moves from the GPU to the CPU and back."""

    @pipeline_def(batch_size=4, num_threads=2, device_id=0, seed=3, stream_policy=policy, concurrency=concurrency)
    def graph(gpu=True):
        images = fn.external_source(source, batch=False, layout="HWC")
        images = fn.flip(images.gpu() if gpu else images)
        turned = fn.rotate(images.cpu() if gpu else images, angle=fn.random.uniform(range=(-20.0, 20.0)))
        return fn.flip(turned.gpu() if gpu else turned), images

    pipe, plain = graph(), graph(gpu=False)
    for a, b in zip(run(pipe, 4), run(plain, 4), strict=True):
        for x, y in zip(a, b, strict=True):
            for s, t in zip(x, y, strict=True):
                np.testing.assert_array_equal(s, t)


def test_dlpack_orders_the_consumers_stream(cuda):
    pipe = pictures()
    (small, *_rest) = pipe.run()
    cuda.use(0)
    stream = cuda.stream_create()
    waits = cuda.calls["stream_wait"]
    small.as_tensor().__dlpack__(stream=stream)
    assert cuda.calls["stream_wait"] == waits + 1
    assert stream in small._batch.memory_owner.readers
    interface = small.as_tensor().__cuda_array_interface__
    assert interface["shape"] == (6, 16, 12, 3) and interface["data"][0] == small.data_ptr()


def test_an_operator_without_kernels_is_refused(cuda, monkeypatch):
    monkeypatch.setattr(REGISTRY["flip"], "on_cuda", False)

    @pipeline_def(batch_size=2, num_threads=1, device_id=0)
    def graph():
        return fn.flip(fn.external_source(source, batch=False, layout="HWC").gpu())

    with pytest.raises(RuntimeError, match="no CUDA kernels yet for: flip"):
        graph().build()


def test_out_of_memory_names_the_request_and_leaves_the_pipeline_usable(cuda):
    @pipeline_def(batch_size=1, num_threads=1, device_id=0, prefetch_queue_depth=1)
    def graph():
        size = fn.external_source(lambda info: np.array([4000.0 if info.iteration == 1 else 9.0] * 2, np.float32), batch=False)
        return fn.resize(fn.external_source(source, batch=False, layout="HWC").gpu(), size=size)

    cuda._limit = 4 << 20
    pipe = graph()
    assert pipe.run()[0].as_cpu()[0].shape() == [9, 9, 3]
    with pytest.raises(RuntimeError, match=r"out of memory on GPU 0: allocating \d+ bytes of device memory"):
        pipe.run()
    assert pipe.run()[0].as_cpu()[0].shape() == [9, 9, 3]


def test_a_failing_kernel_is_the_error_of_its_batch(cuda):
    pipe = pictures()
    pipe.run()
    cuda.broken = "an illegal memory access was encountered"
    with pytest.raises(RuntimeError, match="illegal memory access"):
        run(pipe, 4)  # more than are in flight: those may have been finished before
    cuda.broken = None


def test_devices_that_do_not_exist(cuda):
    with pytest.raises(RuntimeError, match="device_id=3: there is 1 CUDA device"):
        pictures(device_id=3).build()


def test_memory_in_a_cycle_of_garbage_is_returned_and_not_freed(cuda):
    """The garbage collector finalizes a whole cycle. The buffer returns its block; the block is freed only if nothing else refers to it."""
    cuda.use(0)
    pool = DevicePool(cuda, 0, Events(cuda, 0))
    stream = cuda.stream_create()
    cycle = [pool.allocate(1000, Commands(cuda, stream))]
    address = cycle[0].address
    cycle.append(cycle)
    del cycle
    gc.collect()
    assert cuda.calls["free"] == 0
    assert pool.allocate(1000, Commands(cuda, stream)).address == address


def test_memory_that_is_written_at_once_is_idle_or_names_its_events(cuda):
    """A library that writes when it is called gets a block without work, also without work of the same stream. The pool may grow for that,
    up to `ahead` blocks; then the caller gets the events of all streams."""
    cuda.use(0)
    events = Events(cuda, 0)
    pool = DevicePool(cuda, 0, events)
    pool.ahead = 2
    own, other = cuda.stream_create(), cuda.stream_create()

    def used(block):
        """Give the block back while work of two streams uses it."""
        for stream in (own, other):
            block.used(stream, events.record(stream))
        block.readers = set()
        return block.address

    def taken():
        return pool.allocate(1 << 26, Commands(cuda, own), at_once=True)

    places = set()
    for _ in range(3):  # the second allocation grows the pool by a spare block, too
        buffer = taken()
        assert list(buffer.before) == [] and buffer.address not in places
        places.add(used(buffer))
        del buffer
    assert pool.allocations == 3
    buffer = taken()
    assert pool.allocations == 3 and len(buffer.before) == 2 and buffer.address in places
    del buffer
    for stream in (own, other):
        cuda.stream_synchronize(stream)
    assert list(taken().before) == [] and pool.allocations == 3


@pytest.fixture
def no_collection():
    """Only references free memory."""
    gc.collect()
    gc.disable()
    yield
    gc.enable()


@pytest.mark.parametrize("debug", [False, True])
def test_a_closed_pipeline_frees_its_memory_of_the_gpu(cuda, no_collection, debug):
    """A program that makes one pipeline after the other does not wait for the garbage collector."""
    for _ in range(2):
        pipe = pictures(debug=debug)
        for _ in range(6):
            kept, *rest = pipe.run()
        expected = samples_of(kept)
        del rest
        pipe.close()
        assert list(cuda._memory) == [kept.data_ptr()]
        for x, y in zip(samples_of(kept), expected, strict=True):
            np.testing.assert_array_equal(x, y)
        del kept
        assert not cuda._memory


def test_streams_and_events_of_closed_pipelines_are_used_again(cuda):
    for _ in range(6):
        pipe = pictures()
        run(pipe, 2)
        pipe.close()
        del pipe
        gc.collect()
    assert cuda.calls["stream_create"] <= 4  # two per pipeline; other threads may release a pipeline after the next one was built
    assert len(cuda._events) < 100


def test_the_first_use_of_the_driver_restores_the_context_of_another_library(monkeypatch):
    """As with ``torch.cuda.set_device(1)`` before the first pipeline: the driver is made inside of the block."""
    restored = []

    class Driver:
        def restore(self, context):
            restored.append(context)

    monkeypatch.setattr(select, "_driver", None)
    monkeypatch.setattr(select, "current_context", lambda: 77)
    with select.users_device():
        select._driver = Driver()
    assert restored == [77]

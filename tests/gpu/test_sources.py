"""On a GPU: external_source(device="gpu") fed with host data, CuPy arrays, torch tensors and outputs of another pipeline."""

from __future__ import annotations

import cloudpickle
import numpy as np
import pytest
from test_operators import gpu, samples_of  # noqa: F401

from asyncdali import fn, pipeline_def

pytestmark = pytest.mark.gpu
BATCH = 16
ITERATIONS = 40


def dense(iteration):
    return np.random.default_rng(iteration).integers(0, 255, (BATCH, 200, 300, 3), np.uint8)


def ragged(iteration):
    return [np.random.default_rng(iteration * BATCH + k).integers(0, 255, (100 + 7 * k, 90, 3), np.uint8) for k in range(BATCH)]


def check(source, expected, **options):
    """Compare two outputs, of which one is the data itself. They are compared only at the end."""

    @pipeline_def(batch_size=BATCH, num_threads=2, device_id=0, py_start_method="spawn", py_callback_pickler=cloudpickle)
    def graph():
        data = fn.external_source(source, device="gpu", layout="HWC", **options)
        return data, fn.flip(data)

    pipe = graph()
    pipe.build()
    made = [pipe.run() for _ in range(ITERATIONS)]
    for i, (same, flipped) in enumerate(made):
        for a, b, sample in zip(samples_of(same), samples_of(flipped), expected(i), strict=True):
            np.testing.assert_array_equal(a, sample)
            np.testing.assert_array_equal(b, sample[:, ::-1])
    pipe.close()


@pytest.mark.parametrize("no_copy", [False, True])
@pytest.mark.parametrize("data", [dense, ragged])
def test_host_data(data, no_copy):
    check(data, data, no_copy=no_copy)


def test_workers():
    check(lambda info: ragged(info.iteration)[info.idx_in_batch], ragged, batch=False, parallel=True)


@pytest.mark.parametrize("no_copy", [False, True])
@pytest.mark.parametrize("data", [dense, ragged])
@pytest.mark.parametrize("own_stream", [False, True])
def test_cupy(data, no_copy, own_stream):
    """Arrays made on a stream, behind much other work, and dropped immediately: CuPy's pool reuses their memory.

    CuPy's arrays name the stream that is current when they are asked. A stream that the source has left again is named by `cuda_stream`.
    """
    cupy = pytest.importorskip("cupy")
    stream = cupy.cuda.Stream(non_blocking=True) if own_stream else cupy.cuda.Stream.null
    busy = cupy.zeros(1 << 26, np.float32)

    def source(iteration):
        with stream:
            for _ in range(5):
                busy.__iadd__(1)
            found = data(iteration)
            ahead = [cupy.asarray(array) + np.uint8(1) for array in found] if data is ragged else cupy.asarray(found) + np.uint8(1)
            return [array - np.uint8(1) for array in ahead] if data is ragged else ahead - np.uint8(1)

    check(source, data, no_copy=no_copy, **({"cuda_stream": stream} if own_stream else {}))


def test_arrays_that_are_not_dense():
    cupy = pytest.importorskip("cupy")
    check(lambda i: cupy.asarray(dense(i))[:, ::2, ::-1], lambda i: dense(i)[:, ::2, ::-1])


@pytest.mark.parametrize("no_copy", [False, True])
def test_torch(no_copy):
    torch = pytest.importorskip("torch")
    if not torch.cuda.is_available():
        pytest.skip("torch has no CUDA")
    stream = torch.cuda.Stream()

    def source(iteration):
        with torch.cuda.stream(stream):
            return [torch.from_numpy(array).cuda(non_blocking=True) for array in ragged(iteration)]

    check(source, ragged, no_copy=no_copy, cuda_stream=stream)  # the source has left the stream again


@pytest.mark.parametrize("no_copy", [False, True])
def test_fed_on_a_stream(no_copy):
    """Work given to the stream after `feed_input` does not affect a copy."""
    cupy = pytest.importorskip("cupy")
    stream = cupy.cuda.Stream(non_blocking=True)

    @pipeline_def(batch_size=BATCH, num_threads=2, device_id=0, prefetch_queue_depth=1)
    def graph():
        return fn.flip(fn.external_source(name="x", device="gpu", layout="HWC", no_copy=no_copy))

    pipe = graph()
    pipe.build()
    for i in range(ITERATIONS):
        with stream:
            array = cupy.asarray(dense(i))
            pipe.feed_input("x", array, cuda_stream=stream)
            if not no_copy:
                array.fill(7)
        for made, sample in zip(samples_of(pipe.run()[0]), dense(i), strict=True):
            np.testing.assert_array_equal(made, sample[:, ::-1])
    pipe.close()


@pytest.mark.parametrize("no_copy", [False, True])
def test_outputs_of_another_pipeline(no_copy):
    cupy = pytest.importorskip("cupy")
    stream = cupy.cuda.Stream(non_blocking=True)

    @pipeline_def(batch_size=BATCH, num_threads=2, device_id=0)
    def first():
        return fn.external_source(ragged, device="gpu", layout="HWC")

    @pipeline_def(batch_size=BATCH, num_threads=2, device_id=0, prefetch_queue_depth=1)
    def second():
        return fn.flip(fn.external_source(name="x", device="gpu", no_copy=no_copy))

    one, two = first(), second()
    one.build()
    two.build()
    for i in range(ITERATIONS):
        two.feed_input("x", one.run(stream)[0])
        for made, sample in zip(samples_of(two.run()[0]), ragged(i), strict=True):
            np.testing.assert_array_equal(made, sample[:, ::-1])
    one.close()
    two.close()


def test_properties():
    @pipeline_def(batch_size=BATCH, num_threads=2, device_id=0)
    def graph():
        data = fn.external_source(ragged, device="gpu", layout="HWC")
        return fn.get_property(data, key="layout"), data.shape()

    pipe = graph()
    layout, shapes = pipe.run()
    assert [bytes(sample) for sample in samples_of(layout)] == [b"HWC"] * BATCH
    assert [tuple(shape) for shape in samples_of(shapes)] == [sample.shape for sample in ragged(0)]
    pipe.close()


@pytest.mark.parametrize("no_copy", [False, True])
@pytest.mark.parametrize("depth", [1, 2, 3])
@pytest.mark.parametrize("of", ["numpy", "cupy"])
def test_feeding_too_little(gpu, no_copy, depth, of):  # noqa: F811
    """A batch that is missing is an error, also where the memory of earlier batches is used in place."""
    library = np if of == "numpy" else pytest.importorskip("cupy")

    @pipeline_def(batch_size=BATCH, num_threads=2, device_id=0, prefetch_queue_depth=depth)
    def graph():
        return fn.flip(fn.external_source(name="x", device="gpu", no_copy=no_copy, layout="HWC"))

    pipe = graph()
    pipe.build()
    fed = [library.asarray(dense(k)) for k in range(2)]
    for data in fed:
        pipe.feed_input("x", data)
    for k in range(2):
        for found, expected in zip(samples_of(pipe.run()[0]), dense(k), strict=True):
            np.testing.assert_array_equal(found, expected[:, ::-1])
    with pytest.raises(IndexError, match="Nothing was fed"):
        pipe.run()
    pipe.close()

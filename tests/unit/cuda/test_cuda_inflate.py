"""decoders.inflate and dump_image on a GPU: kernels compiled for the host, and pipelines over the CUDA simulator."""

from __future__ import annotations

import random

import numpy as np
import pytest
from helpers import kernels
from helpers.lz4 import compress
from helpers.operators import batch_of, first_iteration, make
from helpers.twins import GUARD

from asyncdali import fn, pipeline_def, types
from asyncdali.batch import Batch
from asyncdali.errors import SampleError
from asyncdali.operators.base import Arguments

pytestmark = pytest.mark.skipif(kernels.COMPILER is None, reason="no C++ compiler to build kernels for the host")


def block(array):
    return np.frombuffer(compress(np.ascontiguousarray(array).tobytes()), np.uint8)


def compressible(rng, count):
    """Long runs, repeated parts, and noise."""
    runs = np.repeat(rng.integers(0, 9, count), rng.integers(1, 300, count))[:count]
    noise = rng.integers(0, 256, count)
    return np.where(rng.random(count) < 0.02, noise, runs).astype(np.uint8)


def by_kernel(data, per_sample=None, **arguments):
    """The kernel's output for one sample, between guard bytes. SampleError for invalid data."""
    named = {key: Batch.from_values(np.asarray(value)) for key, value in (per_sample or {}).items()}
    source, operator = batch_of([data]), make("decoders.inflate", 1, arguments, named)
    planned = operator.plan([source], Arguments(operator.spec, named, 1), first_iteration(operator, 1))
    output = planned.outputs[0]
    memory = np.full(int(output.sizes().sum()) + 2 * GUARD, 0xA5, np.uint8)
    output.place(memory[GUARD : len(memory) - GUARD])
    (step,) = planned.steps
    kernels.run_launches(step.launches())
    assert (memory[:GUARD] == 0xA5).all() and (memory[-GUARD:] == 0xA5).all(), "the kernel left its output"
    step.afterwards()
    return np.array(output.sample(0))


def test_blocks_of_all_sizes():
    rng = np.random.default_rng(3)
    for count in (1, 3, 12, 13, 31, 32, 33, 64, 400, 5000, 70000):
        data = compressible(rng, count)
        np.testing.assert_array_equal(by_kernel(block(data), shape=[count], check_output_size=True), data)


def test_matches_that_overlap_their_output():
    for distance in (1, 2, 3, 7, 31, 32, 33, 64, 65):
        data = np.resize(np.random.default_rng(distance).integers(0, 256, distance).astype(np.uint8), 900 + distance)
        np.testing.assert_array_equal(by_kernel(block(data), shape=[len(data)], check_output_size=True), data)


def test_chunks():
    rng = np.random.default_rng(4)
    frames = np.stack([compressible(rng, 120).reshape(12, 10) for _ in range(5)])
    blocks = [block(frame) for frame in frames]
    found = by_kernel(np.concatenate(blocks), shape=[12, 10], chunk_sizes=[len(one) for one in blocks])
    np.testing.assert_array_equal(found, frames)


def test_other_sizes():
    data = block(np.arange(200, dtype=np.uint8))
    assert by_kernel(data, shape=[210]).tolist() == [*range(200), *[0] * 10]
    assert by_kernel(data, shape=190).tolist() == [*range(190)]
    for shape, text in ((210, "chunk 0 of 1 decompresses to fewer bytes"), (190, "chunk 0 of 1 decompresses to more bytes")):
        with pytest.raises(SampleError, match=text):
            by_kernel(data, shape=shape, check_output_size=True)


def guarded(data):
    """A copy that ends at the end of a page. The next page cannot be read."""
    import ctypes
    import mmap

    page = mmap.PAGESIZE
    pages = -(-len(data) // page)
    memory = mmap.mmap(-1, (pages + 1) * page)
    view = np.frombuffer(memory, np.uint8)
    libc = ctypes.CDLL(None, use_errno=True)
    libc.mprotect.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
    assert libc.mprotect(view.ctypes.data + pages * page, page, 0) == 0
    placed = view[pages * page - len(data) : pages * page]
    placed[:] = data
    return placed


def test_damaged_data_never_leave_their_memory():
    """The input ends at a guard page, and the output is between guard bytes. For each block the CPU's step gives the same result."""
    from helpers.operators import run

    good = block(compressible(np.random.default_rng(1), 3000))
    chance = random.Random(3)
    refused = 0
    for _ in range(300):
        data = good.copy()
        for _ in range(chance.randint(1, 5)):
            data[chance.randrange(len(data))] = chance.randrange(256)
        data = guarded(data[: chance.randint(1, len(data))])
        shape = [chance.choice([0, 1, 100, 3000, 5000])]
        try:
            expected = run("decoders.inflate", [data], shape=shape)[0]
        except AssertionError as error:
            refused += 1
            with pytest.raises(SampleError, match=str(error).splitlines()[0]):
                by_kernel(data, shape=shape)
        else:
            np.testing.assert_array_equal(by_kernel(data, shape=shape), expected)
    assert 20 < refused < 280


@pytest.mark.parametrize("depth", [1, 3])
def test_pipeline(cuda, depth):
    """A damaged sample fails only its iteration. The error names the sample and the chunk."""
    arrays = [np.arange(k, k + 24, dtype=np.int16).reshape(4, 6) for k in range(3)]
    good = [block(array) for array in arrays]

    def blocks(info):
        return good[info.idx_in_batch][:-1] if (info.iteration, info.idx_in_batch) == (1, 2) else good[info.idx_in_batch]

    @pipeline_def(batch_size=3, num_threads=2, device_id=0, prefetch_queue_depth=depth)
    def graph():
        data = fn.external_source(blocks, batch=False)
        return fn.decoders.inflate(data.gpu(), shape=[4, 6], dtype=types.INT16)

    pipe = graph()
    pipe.build()
    for iteration in range(4):
        if iteration == 1:
            with pytest.raises(RuntimeError, match="chunk 0 of 1 is not a valid LZ4 block") as caught:
                pipe.run()
            assert "decoders.inflate" in str(caught.value) and "sample 2" in str(caught.value)
            continue
        (output,) = pipe.run()
        for array, found in zip(arrays, output.as_cpu(), strict=True):
            np.testing.assert_array_equal(np.asarray(found), array)
    pipe.close()


def test_in_a_branch(cuda):
    """An error in a branch names the sample's number in the whole batch."""
    array = np.arange(24, dtype=np.uint8)
    good = block(array)

    @pipeline_def(batch_size=4, num_threads=2, device_id=0, enable_conditionals=True, prefetch_queue_depth=1)
    def graph():
        data = fn.external_source(lambda info: good[:-1] if info.iteration and info.idx_in_batch == 3 else good, batch=False)
        odd = fn.external_source(lambda info: np.array(info.idx_in_batch % 2 == 1), batch=False)
        data = data.gpu()
        if odd:
            data = fn.decoders.inflate(data, shape=[24])
        return data

    pipe = graph()
    pipe.build()
    (output,) = pipe.run()
    np.testing.assert_array_equal(np.asarray(output.as_cpu()[3]), array)
    with pytest.raises(RuntimeError, match="sample 3"):
        pipe.run()
    pipe.close()


@pytest.mark.parametrize("depth", [1, 3])
def test_dumped_images(cuda, tmp_path, monkeypatch, depth):
    """The files equal the files of the CPU, and the images are passed on without a copy."""
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    images = [rng.integers(0, 256, (5 + k, 7, 1 + 2 * (k % 2))).astype(np.uint8) for k in range(3)]

    def written(device):
        @pipeline_def(batch_size=3, num_threads=2, device_id=0, prefetch_queue_depth=depth)
        def graph():
            data = fn.external_source(lambda: images, layout="HWC")
            return fn.dump_image(data.gpu() if device == "gpu" else data, suffix=device)

        pipe = graph()
        pipe.build()
        (output,) = pipe.run()
        found = [np.asarray(sample) for sample in output.as_cpu()]
        pipe.close()
        for a, b in zip(found, images, strict=True):
            np.testing.assert_array_equal(a, b)
        return [(tmp_path / f"{k}-{device}-0.ppm").read_bytes() for k in range(3)]

    assert written("gpu") == written("cpu")


def test_images_that_cannot_be_dumped(cuda, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)

    @pipeline_def(batch_size=2, num_threads=2, device_id=0, prefetch_queue_depth=1)
    def graph(suffix, channels):
        data = fn.external_source(lambda: [np.zeros((2, 2, channels), np.uint8)] * 2, layout="HWC")
        return fn.dump_image(data.gpu(), suffix=suffix)

    for suffix, channels, text in (("x/y", 3, "sample 0.*cannot write the image|No such file"), ("a", 2, "1 or 3 channels")):
        pipe = graph(suffix, channels)
        pipe.build()
        with pytest.raises(RuntimeError, match=text):
            pipe.run()
        pipe.close()
    assert not list(tmp_path.iterdir())


def test_results_that_kernels_write_for_the_host_are_pinned():
    """The pipeline's pool keeps small results in ordinary memory, which a GPU cannot write. These results need pinned memory."""
    from types import SimpleNamespace

    from asyncdali.device.buffers import BufferPool
    from asyncdali.operators.base import Environment

    pinned = []

    def allocate(size):
        pinned.append(size)
        return np.empty(size, np.uint8)

    ordinary = BufferPool().allocate
    gpu = SimpleNamespace(staging=SimpleNamespace(allocate=allocate))
    assert len(Environment(1, 1, 0, False, ordinary, gpu=gpu).mapped(8)) == 8 and pinned == [8]
    assert len(Environment(1, 1, None, False, ordinary).mapped(8)) == 8 and pinned == [8]

    operator = make("decoders.inflate", 2, {"shape": [5]}, {})
    object.__setattr__(operator.environment, "gpu", gpu)
    source = batch_of([block(np.arange(5, dtype=np.uint8))] * 2)
    planned = operator.plan([source], Arguments(operator.spec, {}, 2), first_iteration(operator, 2))
    planned.outputs[0].place(np.empty(10, np.uint8))
    planned.steps[0].launches()
    assert pinned == [8, 16]

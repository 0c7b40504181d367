"""On a GPU: debug mode gives the results of the same pipelines without debug mode."""

from __future__ import annotations

import gc
import os

import numpy as np
import pytest
from helpers.debug_programs import (
    BATCH,
    PROGRAMS,
    assert_equal,
    images,
    jpeg,
    number,
    observed,
    picture,
    reader,
    run,
    square,
    write_files,
)  # fmt: skip
from test_operators import CASES, gpu, pictures  # noqa: F401

from asyncdali import fn, pipeline_def
from asyncdali.device.cuda.arrays import CudaMemory
from asyncdali.tensors import TensorListGPU
from asyncdali.tensors.lists import memory_of

pytestmark = pytest.mark.gpu


def debugged(function, **options):
    options = {"batch_size": BATCH, "num_threads": 2, "device_id": 0, "seed": 7, **options}
    return pipeline_def(function, debug=True, **options)()


def is_on_gpu(output):
    return isinstance(output, TensorListGPU) and isinstance(memory_of(output), CudaMemory)


def contents(output):
    return [np.array(sample) for sample in output.as_cpu()]


def compare(function, **options):
    options = {"enable_conditionals": False, **options}
    assert_equal(run(function, True, **options), run(function, False, **options))


@pytest.mark.parametrize("name", PROGRAMS)
def test_equal_to_the_graph(name):
    compare(PROGRAMS[name], enable_conditionals=True)


@pytest.mark.parametrize("name", [name for name in CASES if "random" not in CASES[name].__code__.co_names])
def test_operators(name):
    """Operators without draws, because automatic seeds of debug mode are others."""
    compare(lambda: CASES[name](fn.external_source(pictures, batch=False, layout="HWC").gpu()), iterations=2, batch_size=8)


def test_readers(tmp_path):
    compare(reader(write_files(tmp_path)))


@pytest.mark.parametrize("decoder", ["hardware", "hybrid", "shared", "cpu", ""])
def test_decoders(decoder):
    """In a batch of this size and depth all decoders share the pictures."""

    def body():
        return fn.decoders.image(fn.external_source(jpeg, batch=False), device="mixed", decoder=decoder)

    compare(body, batch_size=64, prefetch_queue_depth=5, num_threads=4)


def test_nodes_show_their_data():
    seen = []

    def body():
        y = fn.flip(images(square).gpu())
        seen.append((str(y), y.shape(), y.get(), y.cpu().get()))
        return y, y[1:3], y.cpu()

    pipe = debugged(body)
    whole, rows, host = pipe.run()
    (text, shape, made, back) = seen[0]
    assert is_on_gpu(whole) and is_on_gpu(rows) and is_on_gpu(made) and not isinstance(host, TensorListGPU)
    assert text.startswith('DataNodeDebug(\n    name="') and "TensorListGPU" in text
    assert shape == [(9, 11, 3)] * BATCH
    for a, b, c, d, part in zip(contents(whole), host, contents(made), back, contents(rows), strict=True):
        np.testing.assert_array_equal(a, b)
        np.testing.assert_array_equal(a, c)
        np.testing.assert_array_equal(a, d)
        np.testing.assert_array_equal(a[1:3], part)
    pipe.close()


@pytest.mark.parametrize("whole", [False, True])
def test_python_functions_of_cupy(whole):
    import cupy

    def function(given):
        arrays = given if whole else [given]
        assert all(isinstance(array, cupy.ndarray) for array in arrays)
        made, sums = [255 - array[::-1] for array in arrays], [array.sum(dtype=cupy.int64).reshape(1) for array in arrays]
        return (made, sums) if whole else (made[0], sums[0])

    def body():
        x = fn.flip(images().gpu())
        made, sums = fn.python_function(x, function=function, num_outputs=2, batch_processing=whole, device="gpu", output_layouts=["HWC"])
        return fn.flip(made), sums

    compare(body, iterations=6)


def batch(k):
    class Info:
        idx_in_epoch = 0

    found = []
    for i in range(BATCH):
        Info.idx_in_epoch = k * BATCH + i
        found.append(picture(Info))
    return found


@pytest.mark.parametrize("no_copy", [False, True])
@pytest.mark.parametrize("own_stream", [False, True])
def test_sources_of_cupy(no_copy, own_stream):
    """Arrays that are made behind much other work of a stream, and dropped immediately."""
    import cupy

    stream = cupy.cuda.Stream(non_blocking=True) if own_stream else cupy.cuda.Stream.null
    busy = cupy.zeros(1 << 26, np.float32)

    def source(k):
        with stream:
            for _ in range(5):
                busy.__iadd__(1)
            ahead = [cupy.asarray(array) + np.uint8(1) for array in batch(k)]
            return [array - np.uint8(1) for array in ahead]

    def body():
        x = fn.external_source(source, device="gpu", layout="HWC", no_copy=no_copy, **({"cuda_stream": stream} if own_stream else {}))
        return x, fn.flip(x), x.cpu()

    made = run(body, True, iterations=8, enable_conditionals=False)
    for k, outputs in enumerate(made):
        for data, same, turned, host in zip(batch(k), *[output[-1] for output in outputs], strict=True):
            np.testing.assert_array_equal(same, data)
            np.testing.assert_array_equal(turned, data[:, ::-1])
            np.testing.assert_array_equal(host, data)


def test_feeding_arrays_of_cupy():
    """Also before the first run, when no input is known."""
    import cupy

    pipe = debugged(lambda: fn.flip(fn.external_source(name="x", device="gpu", layout="HWC")))
    stream = cupy.cuda.Stream(non_blocking=True)
    for k in range(4):
        with stream:
            arrays = [cupy.asarray(data) for data in batch(k)]
            pipe.feed_input("x", arrays, cuda_stream=stream)
            for array in arrays:
                array.fill(7)
        if k:
            for made, data in zip(contents(pipe.run()[0]), batch(k - 1), strict=True):
                np.testing.assert_array_equal(made, data[:, ::-1])
    pipe.close()


def test_arrays_and_tensor_lists_as_inputs():
    import cupy

    other = debugged(PROGRAMS["only_a_transfer"])
    (given,) = other.run()
    pipe = debugged(lambda: (fn.flip(given), given))
    turned, same = pipe.run()
    assert is_on_gpu(turned) and is_on_gpu(same)
    for x, y in zip(contents(turned), contents(given), strict=True):
        np.testing.assert_array_equal(x, y[:, ::-1])
    pipe.close()
    pipe = debugged(lambda: fn.flip([cupy.asarray(data) for data in batch(1)]) + [cupy.ones(1, np.uint8)] * BATCH)
    for x, data in zip(contents(pipe.run()[0]), batch(1), strict=True):
        np.testing.assert_array_equal(x, data[:, ::-1] + np.uint8(1))
    pipe.close()
    other.close()


def test_torch():
    torch = pytest.importorskip("torch")
    if not torch.cuda.is_available():
        pytest.skip("this torch has no CUDA")
    from asyncdali.plugin.pytorch.fn import torch_python_function

    def body():
        x = fn.external_source(lambda k: [torch.from_numpy(data).cuda() for data in batch(k)], device="gpu", layout="HWC")
        return torch_python_function(x, function=lambda images: [(255 - image).flip(0) for image in images], device="gpu"), x

    made = run(body, True, enable_conditionals=False)
    assert_equal(made, run(body, False, enable_conditionals=False))


def test_errors_name_the_line_of_the_user():
    def with_function():
        return fn.python_function(images().gpu(), function=lambda array: array.no_such_method(), device="gpu")  # line A

    def too_large():
        return fn.crop(images().gpu(), crop=[500, 500])  # line B

    for body, text, line in ((with_function, "(?s)sample 0.*AttributeError", "line A"), (too_large, "(?s)crop.*sample 0", "line B")):
        pipe = debugged(body)
        with pytest.raises(RuntimeError, match=text) as raised:
            pipe.run()
        assert line in str(raised.value)
        pipe.close()


def test_the_threads_device_stays():
    import cupy

    before = cupy.cuda.runtime.getDevice()
    pipe = debugged(PROGRAMS["mixed_decoding"])
    pipe.run()
    assert cupy.cuda.runtime.getDevice() == before
    pipe.close()
    assert cupy.cuda.runtime.getDevice() == before


def test_memory_is_released():
    """The free memory of the card does not change. No other process may use the card during the test."""
    import cupy

    if int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1")) > 1:
        pytest.skip("other tests use the card at the same time: run this test alone")

    def free():
        cupy.cuda.Device().synchronize()
        return cupy.cuda.runtime.memGetInfo()[0]

    left = []
    for _ in range(6):
        pipe = debugged(PROGRAMS["mixed_decoding"], batch_size=32)
        for _ in range(3):
            outputs = pipe.run()
        pipe.close()
        del pipe, outputs
        gc.collect()
        left.append(free())
    assert left[-1] >= left[1] - (4 << 20)


def test_interrupts_lose_no_data():
    raised = []

    def body():
        x = fn.flip(images(square).gpu())
        y = fn.external_source(number, batch=False)
        if len(raised) < 1:
            raised.append(True)
            raise KeyboardInterrupt
        return x, y

    pipe = debugged(body)
    with pytest.raises(KeyboardInterrupt):
        pipe.run()
    made = [[observed(output) for output in pipe.run()] for _ in range(3)]
    pipe.close()
    assert_equal(made, run(body, False, iterations=3, enable_conditionals=False))

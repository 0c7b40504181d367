"""On a GPU: conditionals, Python functions of CuPy arrays and torch tensors, several GPUs at once, checkpoints of mixed pipelines."""

from __future__ import annotations

import io

import numba
import numpy as np
import pytest
from numba import cuda
from PIL import Image
from test_operators import gpu, pictures, results, samples_of  # noqa: F401

from asyncdali import fn, pipeline_def, types

pytestmark = pytest.mark.gpu
BATCH = 16


def conditional(on_gpu, iterations=4):
    home = "gpu" if on_gpu else "cpu"

    @pipeline_def(batch_size=BATCH, num_threads=4, device_id=0, seed=7, enable_conditionals=True)
    def graph():
        data = fn.external_source(pictures, batch=False, layout="HWC")
        images = data.gpu() if on_gpu else data
        k = fn.external_source(lambda info: np.int32(info.idx_in_epoch * 5 % 7), batch=False)
        if k > 2:
            if k == 4:
                made = fn.crop(images, crop=[30, 24])
            elif fn.random.coin_flip(dtype=types.BOOL):
                made = fn.flip(images)
            else:
                made = images
        else:
            made = fn.flip(images, vertical=1)
        noise = types.Constant(np.zeros((4, 5), np.float32), device=home)
        if k > 3:
            noise = fn.random.uniform(range=(-1.0, 1.0), shape=[4, 5], device=home)
        return made, noise

    pipe = graph()
    pipe.build()
    made = [[samples_of(output) for output in pipe.run()] for _ in range(iterations)]
    pipe.close()
    return made


def test_conditionals():
    for a, b in zip(conditional(False), conditional(True), strict=True):
        for one, other in zip(a, b, strict=True):
            for x, y in zip(one, other, strict=True):
                np.testing.assert_array_equal(x, y)


def test_a_branch_through_the_cpu_and_equal_outputs_as_a_tensor():
    @pipeline_def(batch_size=BATCH, num_threads=4, device_id=0, enable_conditionals=True)
    def graph():
        images = fn.resize(fn.external_source(pictures, batch=False, layout="HWC").gpu(), size=[30.0, 40.0])
        if fn.external_source(lambda info: np.bool_(info.idx_in_batch % 3), batch=False):
            turned = fn.flip(images.cpu()).gpu()
        else:
            turned = images
        return turned, images

    pipe = graph()
    for _ in range(3):
        turned, images = (output.as_tensor().as_cpu() for output in pipe.run())
        turned, images = np.array(turned), np.array(images)
        for k in range(BATCH):
            np.testing.assert_array_equal(turned[k], images[k, :, ::-1] if k % 3 else images[k])
    pipe.close()


@pytest.mark.parametrize("whole", [False, True])
def test_python_function(whole):
    import cupy

    def function(given):
        arrays = given if whole else [given]
        assert all(isinstance(array, cupy.ndarray) for array in arrays)
        made = [255 - array[::-1] for array in arrays]
        sums = [array.sum(dtype=cupy.int64).reshape(1) for array in arrays]
        return (made, sums) if whole else (made[0], sums[0])

    def body(x):
        if x.device == "cpu":
            return fn.flip(255 - fn.flip(x, horizontal=0, vertical=1))
        made, sums = fn.python_function(x, function=function, num_outputs=2, batch_processing=whole, device="gpu", output_layouts=["HWC"])
        return fn.flip(made), sums

    for a, b in zip(results(body, False, 6), results(body, True, 6), strict=True):
        for x, y, total in zip(a[0], b[0], b[1], strict=True):
            np.testing.assert_array_equal(x, y)
            assert int(total[0]) == int((255 - x.astype(np.int64)).sum())


def test_python_function_does_not_wait_for_the_gpu():
    """The function's kernels run after those of the pipeline. The memory of its results is reused only after they were copied."""
    import cupy

    busy = cupy.random.random((2048, 2048), dtype=cupy.float32)

    def function(array):
        return (busy @ busy)[:1, :1].astype(cupy.uint8) * cupy.uint8(0) + array

    def body(x):
        return fn.flip(fn.python_function(fn.flip(x), function=function, device="gpu", output_layouts="HWC")) if x.device == "gpu" else x

    for a, b in zip(results(body, False, 6), results(body, True, 6), strict=True):
        for x, y in zip(a[0], b[0], strict=True):
            np.testing.assert_array_equal(x, y)


@pytest.mark.parametrize("synchronize", [True, False])
def test_dl_tensor_python_function(synchronize):
    import cupy

    class Holder:
        def __init__(self, capsule):
            self.capsule = capsule

        def __dlpack__(self, **options):
            return self.capsule

        def __dlpack_device__(self):
            return 2, 0

    def function(capsule):
        return (cupy.from_dlpack(Holder(capsule)) + cupy.uint8(3)).__dlpack__()

    def body(x):
        if x.device == "cpu":
            return fn.python_function(x, function=lambda array: array + np.uint8(3))
        return fn.dl_tensor_python_function(x, function=function, device="gpu", synchronize_stream=synchronize, batch_processing=False)

    for a, b in zip(results(body, False), results(body, True), strict=True):
        for x, y in zip(a[0], b[0], strict=True):
            np.testing.assert_array_equal(x, y)


def test_torch_python_function():
    torch = pytest.importorskip("torch")
    if not torch.cuda.is_available():
        pytest.skip("this torch has no CUDA")
    from asyncdali.plugin.pytorch.fn import torch_python_function

    def function(images):
        assert all(image.is_cuda for image in images)
        return [(255 - image).flip(0) for image in images]

    def body(x):
        if x.device == "cpu":
            return fn.flip(255 - x, horizontal=0, vertical=1)
        return torch_python_function(x, function=function, device="gpu", synchronize_stream=False)

    for a, b in zip(results(body, False, 6), results(body, True, 6), strict=True):
        for x, y in zip(a[0], b[0], strict=True):
            np.testing.assert_array_equal(x, y)


def swapped(out, a):
    """A kernel for numba.cuda."""
    x, y, c = cuda.grid(3)
    by_x, by_y, by_c = cuda.gridsize(3)
    for i in range(x, a.shape[0], by_x):
        for j in range(y, a.shape[1], by_y):
            for k in range(c, a.shape[2], by_c):
                out[i, a.shape[1] - 1 - j, k] = a[i, j, k] // 2


def test_numba_function():
    """Kernels run between operators, in their order, and give the results of the host device."""
    try:
        cuda.compile_ptx(lambda out: None, numba.void(numba.uint8[::1]), cc=(7, 5))
    except AttributeError as error:
        pytest.skip(f"the installed numba-cuda does not go with the installed NumPy: {error}")
    kinds = {"in_types": [types.UINT8], "out_types": [types.UINT8], "ins_ndim": [3], "outs_ndim": [3]}

    def run(device, iterations=4):
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("ASYNCDALI_DEVICE", device)

            @pipeline_def(batch_size=BATCH, num_threads=4, device_id=0)
            def graph():
                images = fn.flip(fn.external_source(pictures, batch=False, layout="HWC").gpu())
                made = fn.experimental.numba_function(
                    images, run_fn=swapped, device="gpu", blocks=[4, 4, 1], threads_per_block=[8, 8, 3], **kinds
                )
                return images, made + types.Constant(1).uint8()

            pipe = graph()
            pipe.build()
            made = [[samples_of(output) for output in pipe.run()] for _ in range(iterations)]
            pipe.close()
        return made

    for gpu_batch, host_batch in zip(run("cuda"), run("host"), strict=True):
        for image, sample, other in zip(*gpu_batch, host_batch[1], strict=True):
            np.testing.assert_array_equal(sample, image[:, ::-1] // 2 + 1)
            np.testing.assert_array_equal(sample, other)


def test_an_error_in_a_python_function():
    def body(x):
        return fn.python_function(x, function=lambda array: array.no_such_method(), device="gpu")

    with pytest.raises(RuntimeError, match="(?s)sample 0.*AttributeError"):
        results(body, True, 1)


def encoded(info):
    rng = np.random.default_rng(info.idx_in_epoch)
    width, height = rng.integers(100, 300, 2).tolist()
    small = rng.integers(0, 255, (16, 16, 3), np.uint8)
    out = io.BytesIO()
    Image.fromarray(small).resize((width, height)).save(out, "JPEG", quality=90, progressive=info.idx_in_epoch % 9 == 4)
    return np.frombuffer(out.getvalue(), np.uint8)


@pipeline_def(batch_size=64, num_threads=4, seed=7)
def decoded(decoder=""):
    data = fn.external_source(encoded, batch=False)
    images = fn.decoders.image_random_crop(data, device="mixed", decoder=decoder)
    return fn.resize(images, size=[60.0, 60.0]), images


def first(pipe, iterations=3):
    return [[samples_of(output) for output in pipe.run()] for _ in range(iterations)]


def assert_equal(a, b):
    for x, y in zip(a, b, strict=True):
        for one, other in zip(x, y, strict=True):
            for s, t in zip(one, other, strict=True):
                np.testing.assert_array_equal(s, t)


@pytest.mark.parametrize("decoder", ["", "shared", "hardware", "hybrid", "cpu"])
def test_checkpoint_of_a_mixed_pipeline(decoder):
    """The restored pipeline continues with the same samples in the same lanes."""
    pipe = decoded(decoder=decoder, device_id=0, enable_checkpointing=True)
    first(pipe, 2)
    saved = pipe.checkpoint()
    expected = first(pipe)
    pipe.close()
    assert_equal(expected, first(decoded(decoder=decoder, device_id=0, enable_checkpointing=True, checkpoint=saved)))


@pytest.mark.parametrize("options", [{"decoder": "cpu"}, {"num_threads": 12}])
def test_pictures_of_the_cpu_are_those_of_the_host_device(options, monkeypatch):
    """With 12 threads the CPU is the default of windows."""
    found = [batch[1] for batch in first(decoded(device_id=0, **options))]
    monkeypatch.setenv("ASYNCDALI_DEVICE", "host")
    expected = [batch[1] for batch in first(decoded(device_id=0, **options))]
    for x, y in zip(expected, found, strict=True):
        for s, t in zip(x, y, strict=True):
            np.testing.assert_array_equal(s, t)


def test_shared_by_load():
    """Other lanes give nearly the same pixels. The pictures are coloured noise, at whose edges lanes differ most."""
    expected, found = first(decoded(device_id=0)), first(decoded(decoder="dynamic", device_id=0), 3)
    for x, y in zip(expected, found, strict=True):
        for s, t in zip(x[1], y[1], strict=True):
            assert s.shape == t.shape and np.abs(s.astype(int) - t.astype(int)).mean() < 10


def test_two_gpus_at_once(gpu):  # noqa: F811
    if gpu.device_count() < 2:
        pytest.skip("there is one GPU")
    pipes = [decoded(device_id=k, decoder="hardware") for k in (0, 1)]
    made = [[], []]
    for _ in range(4):
        for k, pipe in enumerate(pipes):
            made[k].append([samples_of(output) for output in pipe.run()])
    assert_equal(*made)
    import cupy

    for k, pipe in enumerate(pipes):
        for mine in (0, 1):  # the current device of the user's thread does not change
            with cupy.cuda.Device(mine):
                (small, _) = pipe.run()
                assert small.device_id() == k
                assert cupy.cuda.runtime.getDevice() == mine
        with cupy.cuda.Device(k):
            assert cupy.from_dlpack(small.as_tensor()).device.id == k
        pipe.close()

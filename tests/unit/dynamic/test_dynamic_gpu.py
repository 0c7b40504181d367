"""Dynamic mode on a GPU, over the CUDA simulator: the results of the CPU."""

from __future__ import annotations

import copy
import ctypes
import pickle
import signal
import threading
from types import SimpleNamespace

import numpy as np
import pytest
from helpers import kernels
from helpers.cuda import StandIn, StandInNvjpeg, use
from helpers.debug_programs import jpeg

import asyncdali.dynamic as ndd
from asyncdali.batch import Batch as Samples
from asyncdali.device.cuda import nvjpeg_library
from asyncdali.imperative import cuda as gpu_calls
from asyncdali.imperative import devices
from asyncdali.runtime.work.jobs import CompiledSamples

pytestmark = pytest.mark.skipif(kernels.COMPILER is None, reason="no C++ compiler to build kernels for the host")
PICTURES = [np.random.default_rng(k).integers(0, 256, (11 + k, 13, 3), np.uint8) for k in range(3)]


@pytest.fixture
def cuda(monkeypatch):
    library = StandInNvjpeg(StandIn())
    use(library.driver, monkeypatch)
    monkeypatch.setattr(nvjpeg_library, "load", lambda: library)
    monkeypatch.setattr(gpu_calls, "_engines", {})
    devices.forget()
    yield library.driver
    for engine in gpu_calls._engines.values():
        engine.engine.close()
    devices.forget()


CASES = {
    "flip": lambda x: ndd.flip(x, horizontal=1),
    "resize": lambda x: ndd.resize(x, size=[7, 5]),
    "crop_mirror_normalize": lambda x: ndd.crop_mirror_normalize(x, crop=(8, 9), mean=[3.0, 4.0, 5.0], mirror=1),
    "sum": lambda x: ndd.reductions.sum(x, axes=[0]),
    "arithmetic": lambda x: (x + 3) * 2.5 - x,
    "rotate": lambda x: ndd.rotate(x, angle=30.0, fill_value=3),
    "two calls": lambda x: ndd.flip(ndd.crop(x, crop=(8, 9))),
}


@pytest.fixture
def two_gpus(monkeypatch):
    use(StandIn(devices=2), monkeypatch)
    monkeypatch.setattr(gpu_calls, "_engines", {})
    devices.forget()
    yield
    for engine in gpu_calls._engines.values():
        engine.engine.close()
    devices.forget()


def test_a_tensor_of_the_second_gpu_is_exported_as_memory_of_that_gpu(two_gpus):
    """It was exported as memory of the host, at the address that it has on the GPU."""
    tensor = ndd.flip(ndd.tensor(PICTURES[1], layout="HWC").to_device("gpu:1"))
    assert tensor.device == ndd.Device("gpu:1")
    assert tensor.__dlpack_device__() == (2, 1)
    assert hasattr(gpu_calls.exported(tensor), "__cuda_array_interface__")
    np.testing.assert_array_equal(tensor.cpu(), PICTURES[1][:, ::-1])


def test_a_context_takes_threads_of_its_own_gpu_only(two_gpus):
    pool = ndd.ThreadPool(2, device_id=1)
    assert pool.device_id == 1 and ndd.EvalContext(device_id=1, thread_pool=pool).thread_pool is pool
    with pytest.raises(ValueError, match="GPU 1, the context is for 0"):
        ndd.EvalContext(device_id=0, thread_pool=pool)


def test_values_of_two_gpus_are_no_item_of_torch(two_gpus):
    torchdata = pytest.importorskip("torchdata.nodes", reason="torchdata is not installed")
    values = {name: ndd.tensor([1, 2]).to_device(name) for name in ("gpu:0", "gpu:1")}
    with pytest.raises(ValueError, match="several GPUs: 0, 1"):
        next(ndd.pytorch.nodes.ToTorch(torchdata.IterableWrapper([values])))


@pytest.mark.parametrize("name", CASES)
def test_results_equal_those_of_the_cpu(cuda, name):
    call = CASES[name]
    batch, single = ndd.batch(PICTURES, layout="HWC"), ndd.tensor(PICTURES[1], layout="HWC")
    for _ in range(3):
        for given in (batch, single):
            expected, made = call(given), call(given.gpu())
            assert made.device == ndd.Device("gpu:0")
            assert made.shape == expected.shape
            assert made.layout == expected.layout
            items = zip(made.cpu(), expected, strict=True) if isinstance(made, ndd.Batch) else [(made.cpu(), expected)]
            for one, other in items:
                np.testing.assert_allclose(np.asarray(one).astype(float), np.asarray(other).astype(float), atol=1.01)
    assert cuda.calls["copy"]


def test_the_device_without_a_block_is_the_gpu(cuda):
    assert ndd.Device.current() == ndd.Device("gpu:0")
    with ndd.Device("cpu") as device:
        assert ndd.Device.current() == device == ndd.Device.CPU


def test_two_gpus_in_one_call_are_refused(monkeypatch):
    use(StandIn(devices=2), monkeypatch)
    monkeypatch.setattr(gpu_calls, "_engines", {})
    devices.forget()
    try:
        here, there = (ndd.tensor(PICTURES[0], layout="HWC").to_device(name) for name in ("gpu:0", "gpu:1"))
        for wrong in (lambda: ndd.cat(here, there), lambda: here + there):
            with pytest.raises(RuntimeError, match="several GPUs"):
                wrong()
    finally:
        for engine in gpu_calls._engines.values():
            engine.engine.close()
        devices.forget()


def test_inputs_move_to_the_device_of_the_call(cuda):
    x = ndd.tensor(PICTURES[0], layout="HWC")
    made = ndd.flip(x, device="gpu")
    assert made.device.device_type == "gpu"
    assert ndd.flip(made).device.device_type == "gpu"
    np.testing.assert_array_equal(np.asarray(ndd.flip(made).cpu()), PICTURES[0])
    with pytest.raises(TypeError, match=r"cpu\(\)"):
        np.asarray(made)
    with pytest.raises(ValueError, match="different devices"):
        made + x


def test_random_numbers_of_a_gpu_are_those_of_the_cpu(cuda):
    for device in ("cpu", "gpu"):
        made = ndd.random.uniform(batch_size=4, rng=ndd.random.RNG(5), device=device, shape=[3])
        if device == "cpu":
            expected = np.stack([np.asarray(item) for item in made])
        else:
            np.testing.assert_array_equal(np.stack([np.asarray(item) for item in made.cpu()]), expected)


def test_decoding_for_the_gpu(cuda):
    encoded = [np.frombuffer(jpeg(SimpleNamespace(idx_in_epoch=k)), np.uint8) for k in range(3)]
    expected = ndd.decoders.image(ndd.batch(encoded))
    made = ndd.decoders.image(ndd.batch(encoded), device="gpu")
    assert made.device.device_type == "gpu"
    assert made.shape == expected.shape


def test_slices(cuda):
    x = ndd.tensor(PICTURES[0], layout="HWC").gpu()
    assert x[2:5, ::2].device.device_type == "gpu"
    np.testing.assert_array_equal(np.asarray(x[2:5, ::2].cpu()), PICTURES[0][2:5, ::2])
    batch = ndd.batch(PICTURES).gpu()
    for made, picture in zip(batch.slice[1:4, 0].cpu(), PICTURES, strict=True):
        np.testing.assert_array_equal(np.asarray(made), picture[1:4, 0])


def test_deferred_work_and_errors(cuda):
    x = ndd.batch(PICTURES, layout="HWC").gpu()
    with ndd.EvalMode.deferred:
        made = ndd.flip(x)
        wrong = ndd.reshape(x, shape=[7])
    assert made.device.device_type == "gpu"
    assert made.shape == [picture.shape for picture in PICTURES]
    with pytest.raises(RuntimeError, match="reshape"):
        wrong.evaluate()
    assert ndd.flip(x).shape == made.shape


def test_readers_and_sources_give_batches_on_the_gpu(cuda, tmp_path):
    paths = []
    for k in range(5):
        np.save(tmp_path / f"{k}.npy", np.arange(12, dtype=np.float32).reshape(3, 4) + k)
        paths.append(str(tmp_path / f"{k}.npy"))

    def first(batch):
        assert batch.device == ndd.Device("gpu")
        return [np.asarray(t.cpu())[0, 0] for t in batch.tensors]

    made = ndd.readers.Numpy(files=paths, device="gpu", enable_checkpointing=True)
    items = made.next_epoch(batch_size=2)
    assert first(next(items)[0]) == [0, 1]
    other = ndd.readers.Numpy(files=paths, device="gpu")
    other.set_state(str(made.get_state()))
    expected = [[2, 3], [4, 0]]
    assert [first(item) for (item,) in items] == expected
    assert [first(item) for (item,) in other.next_epoch(batch_size=2)] == expected
    captured = ndd.readers.Numpy(files=paths, device="gpu").next_epoch(batch_size=2, capture=True)
    found = [
        first(ndd.flip(ndd.reshape(item, shape=[3, 4, 1], layout="HWC"), vertical=0, horizontal=0).slice[:, :, 0]) for (item,) in captured
    ]
    assert found == [[0, 1], [2, 3], [4, 0]]
    assert first(ndd.ExternalSource([np.full((2, 2), 7)], device="gpu")(batch_size=2)) == [7, 7]


@pytest.fixture
def untouched(cuda, monkeypatch):
    """The program must not read a GPU's memory as memory of the host, which the simulator would allow."""
    sample = Samples.sample

    def checked(self, index):
        assert self.device == "cpu", "memory of a GPU was read by the host"
        return sample(self, index)

    monkeypatch.setattr(Samples, "sample", checked)
    return cuda


def numbers(value):
    host = value.cpu()
    return [np.asarray(item) for item in host] if isinstance(host, ndd.Batch) else [np.asarray(host)]


def written(value):
    """Change the first element of a value in the GPU's memory."""
    samples = value._samples()
    for address in samples.addresses:
        ctypes.memset(int(address), 99, 1)


def test_O10_a_cast_to_the_same_type_is_a_copy(untouched):
    for x in (ndd.batch(PICTURES, layout="HWC").gpu(), ndd.tensor(PICTURES[0]).gpu()):
        for made in (ndd.cast(x, dtype=ndd.uint8), ndd.cast_like(x, x)):
            assert made.device == x.device
            assert not set(made._samples().addresses.tolist()) & set(x._samples().addresses.tolist())
            expected = numbers(x)
            written(made)
            for one, other in zip(numbers(x), expected, strict=True):
                np.testing.assert_array_equal(one, other)


COPIES = {
    "to_device": lambda x: x.to_device("gpu", force_copy=True),
    "deepcopy": copy.deepcopy,
    "pickle": lambda x: pickle.loads(pickle.dumps(x)),
    "copy": lambda x: ndd.batch(x) if isinstance(x, ndd.Batch) else ndd.tensor(x),
}


@pytest.mark.parametrize("name", COPIES)
def test_copies_of_values_on_a_gpu(untouched, name):
    for x in (ndd.batch(PICTURES, layout="HWC").gpu(), ndd.tensor(PICTURES[0], layout="HWC").gpu()):
        made = COPIES[name](x)
        assert made.device == x.device
        assert made.layout == x.layout
        assert not set(made._samples().addresses.tolist()) & set(x._samples().addresses.tolist())
        for one, other in zip(numbers(made), numbers(x), strict=True):
            np.testing.assert_array_equal(one, other)


def test_batches_and_tensors_of_values_on_a_gpu(untouched):
    ragged, equal = ndd.batch(PICTURES, layout="HWC").gpu(), ndd.batch(PICTURES[:1] * 3, layout="HWC").gpu()
    whole = ndd.as_tensor(equal)
    np.testing.assert_array_equal(numbers(whole)[0], np.stack(PICTURES[:1] * 3))
    assert (whole.layout, whole.device) == ("NHWC", equal.device)
    padded = ndd.tensor(ragged, pad=True)
    assert padded.device == ragged.device
    np.testing.assert_array_equal(numbers(padded)[0], np.asarray(ndd.tensor(ragged.cpu(), pad=True)))
    cut = ndd.as_batch(whole)
    assert (cut.device, cut.layout, cut.shape) == (whole.device, "HWC", equal.shape)
    for one, other in zip(numbers(ndd.flip(cut)), numbers(ndd.flip(equal)), strict=True):
        np.testing.assert_array_equal(one, other)
    listed = ndd.batch([ragged.tensors[2], ragged.tensors[0]])
    assert listed.device == ragged.device
    for one, k in zip(numbers(listed), (2, 0), strict=True):
        np.testing.assert_array_equal(one, PICTURES[k])
    for one, k in zip(numbers(ndd.flip(ragged.select([2, 0]), horizontal=0)), (2, 0), strict=True):
        np.testing.assert_array_equal(one, PICTURES[k])
    broadcast = ndd.Batch.broadcast(whole, 2)
    assert broadcast.shape == [whole.shape] * 2
    repr(ragged)
    ragged._repr_html_()
    few = ndd.batch([np.arange(3)] * 2).gpu()
    np.testing.assert_array_equal(numbers(ndd.as_tensor(few))[0], [[0, 1, 2]] * 2)
    assert ndd.tensor([1, 2]).gpu()[1].item() == 2


class SharedJob(CompiledSamples):
    """A job of two threads. This thread is interrupted, and the other one works until the job is stopped."""

    def __init__(self):
        super().__init__(2, [])
        self.stopped, self.left = threading.Event(), False

    def work(self, thread):
        signal.raise_signal(signal.SIGINT)

    def stop(self):
        self.stopped.set()

    def others(self):
        assert self.stopped.wait(30)
        self.left = True
        self.finished()


def test_an_interrupted_call_on_a_gpu_waits_for_the_threads_that_help(cuda):
    home = gpu_calls.gpu_engine(0)
    assert home is not None and home.gpu is not None
    job, threads = SharedJob(), []

    class Helpers:
        def submit(self, job, count):
            assert count == 1
            threads.append(threading.Thread(target=job.others))
            threads[0].start()

    own, home.engine._helpers = home.engine._helpers, Helpers()
    try:
        with pytest.raises(KeyboardInterrupt):
            home.engine.work(job)
        assert job.left
    finally:
        home.engine._helpers = own
    threads[0].join(30)
    picture = ndd.tensor(np.arange(48, dtype=np.uint8).reshape(4, 4, 3), layout="HWC")
    assert np.array_equal(np.asarray(ndd.flip(picture, device="gpu").cpu()), np.asarray(ndd.flip(picture)))

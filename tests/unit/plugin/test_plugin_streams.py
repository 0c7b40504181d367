"""Iterators over outputs on a GPU, over the CUDA simulator: the framework's stream waits for the outputs, and `next` does not."""

from __future__ import annotations

import ctypes
from types import SimpleNamespace

import numpy as np
import pytest
from helpers import kernels
from helpers.cuda import StandIn, use

from asyncdali import fn, pipeline_def
from asyncdali.batch import AddressView
from asyncdali.plugin.base_iterator import BaseIterator

pytestmark = pytest.mark.skipif(kernels.COMPILER is None, reason="no C++ compiler to build kernels for the host")

WAITS = ("event_synchronize", "stream_synchronize")


@pytest.fixture
def cuda(monkeypatch):
    """The CUDA simulator in place of the machine's CUDA. Exported arrays are views of the simulated device memory."""
    driver = StandIn()
    use(driver, monkeypatch)
    monkeypatch.setattr(driver, "export", lambda array, options: on_host(array).__dlpack__(max_version=options.get("max_version")))
    driver.use(0)
    return driver


def on_host(array):
    return np.asarray(AddressView(array.address, array.shape, array.dtype, array))


@pipeline_def(batch_size=4, num_threads=1, device_id=0)
def flipped():
    return fn.flip(fn.external_source(picture, batch=False, layout="HWC").gpu(), horizontal=1)


def picture(info):
    return np.random.default_rng(info.idx_in_epoch).integers(0, 255, (9, 7, 3), np.uint8)


def expected(iteration):
    return np.stack([picture(SimpleNamespace(idx_in_epoch=4 * iteration + k))[:, ::-1] for k in range(4)])


def waits(driver):
    return sum(driver.calls[name] for name in WAITS)


class Plain(BaseIterator):
    """An iterator that returns the tensor lists unchanged."""

    stream = None

    def _stream(self, device):
        assert device == 0
        return self.stream

    def _converted(self, outputs, keep):
        return outputs


def test_outputs_are_ordered_on_the_frameworks_stream(cuda):
    iterator = Plain(flipped(), ["x"], size=400, prepare_first_batch=False)
    iterator.stream = cuda.stream_create()
    before = waits(cuda)
    batches = [next(iterator)[0][0] for _ in range(5)]
    assert waits(cuda) == before
    cuda.stream_synchronize(iterator.stream)  # completes only the work on which this stream depends
    for k, batch in enumerate(batches):
        np.testing.assert_array_equal(on_host(batch.as_tensor()._array), expected(k))


def test_without_a_stream_of_the_framework_outputs_are_complete(cuda):
    iterator = Plain(flipped(), ["x"], size=400, prepare_first_batch=False)
    for k in range(3):
        np.testing.assert_array_equal(on_host(next(iterator)[0][0].as_tensor()._array), expected(k))


def test_an_executor_that_is_not_dynamic_waits(cuda):
    pipe = flipped(exec_dynamic=False)
    iterator = Plain(pipe, ["x"], size=400, prepare_first_batch=False)
    iterator.stream = cuda.stream_create()
    np.testing.assert_array_equal(on_host(next(iterator)[0][0].as_tensor()._array), expected(0))


def test_memory_is_not_reused_before_the_stream_has_read_it(cuda):
    """Batches are released immediately, while the stream still has work that reads them. The work finds their contents."""
    iterator = Plain(flipped(), ["x"], size=400, prepare_first_batch=False)
    iterator.stream = cuda.stream_create()
    size = 4 * 9 * 7 * 3
    kept = [cuda.host_alloc(size) for _ in range(12)]
    for address in kept:
        batch = next(iterator)[0][0]
        cuda.copy(address, batch.data_ptr(), size, iterator.stream)
        del batch
    cuda.stream_synchronize(iterator.stream)
    for k, address in enumerate(kept):
        found = np.ctypeslib.as_array((ctypes.c_uint8 * size).from_address(address)).reshape(4, 9, 7, 3)
        np.testing.assert_array_equal(found, expected(k))


def test_torch(cuda, monkeypatch):
    torch = pytest.importorskip("torch")
    from asyncdali.plugin.pytorch import DALIGenericIterator, DALIRaggedIterator

    stream = cuda.stream_create()
    monkeypatch.setattr(torch.backends.cuda, "is_built", lambda: True)
    monkeypatch.setattr(torch.cuda, "current_stream", lambda device=None: SimpleNamespace(cuda_stream=stream))
    iterator = DALIGenericIterator(flipped(), ["x"], size=400)
    lists = DALIRaggedIterator(flipped(), ["x"], size=400, output_types=[DALIRaggedIterator.SPARSE_LIST_TAG])
    before = waits(cuda)
    batches = [(next(iterator)[0]["x"], next(lists)[0]["x"]) for _ in range(4)]
    assert waits(cuda) == before
    cuda.stream_synchronize(stream)
    for k, (whole, samples) in enumerate(batches):
        np.testing.assert_array_equal(whole.numpy(), expected(k))
        np.testing.assert_array_equal(torch.stack(samples).numpy(), expected(k))


def test_jax(cuda, monkeypatch):
    """Outputs reach jax through DLPack, on the stream that jax names."""
    import helpers.jax_devices  # noqa: F401  before jax

    jax = pytest.importorskip("jax")
    from asyncdali.plugin.jax import DALIGenericIterator, arrays
    from asyncdali.plugin.jax import iterator as module

    stream = cuda.stream_create()
    device = SimpleNamespace(get_stream_for_external_ready_events=lambda: stream)
    for owner in (arrays, module):
        monkeypatch.setattr(owner, "gpu_of", lambda number: device if number == 0 else None)
    taken = []

    def from_dlpack(tensor):  # as jax does for a GPU, except for the device of the result
        tensor.__dlpack__(stream=stream)
        taken.append(waits(cuda))
        cuda.stream_synchronize(stream)
        return jax.numpy.array(on_host(tensor._array))

    monkeypatch.setattr(jax.dlpack, "from_dlpack", from_dlpack)
    iterator = DALIGenericIterator(flipped(), ["x"], size=400)
    before = waits(cuda)
    for k in range(3):
        np.testing.assert_array_equal(next(iterator)["x"], expected(k))
    assert taken == [before, before + 1, before + 2]  # the waits above, and no others


def test_export_by_a_cupy_that_takes_only_a_stream(monkeypatch):
    """torch, numpy and jax pass all options of the array API; `__dlpack__` of CuPy before version 14 takes `stream` only."""
    from asyncdali.device.cuda.driver import CupyDriver

    class View:
        def __init__(self, text="shared"):
            self.text = text

        def copy(self):
            return View("copied")

        def __dlpack__(self, stream=None):
            return self.text, stream

    driver, array = object.__new__(CupyDriver), SimpleNamespace(__dlpack_device__=lambda: (2, 1))
    monkeypatch.setattr(CupyDriver, "view", lambda self, array: View())
    for options in ({}, {"max_version": (1, 0)}, {"max_version": (1, 0), "dl_device": (2, 1), "copy": False}):
        assert driver.export(array, options) == ("shared", -1)
    assert driver.export(array, {"max_version": (1, 0), "copy": True}) == ("copied", -1)
    with pytest.raises(BufferError, match=r"\(2, 1\) cannot be exported to device \(1, 0\)"):
        driver.export(array, {"dl_device": (1, 0)})


def test_a_copy_is_made_on_the_consumers_stream(cuda, monkeypatch):
    streams = []
    monkeypatch.setattr(cuda, "export", lambda array, options: streams.append(getattr(cuda._chosen, "stream", None)))
    pipe = flipped()
    pipe.build()
    (images,) = pipe.run()
    stream = cuda.stream_create()
    images[0].__dlpack__(stream=stream, max_version=(1, 0), copy=True)
    images[0].__dlpack__(stream=stream, max_version=(1, 0))
    assert streams[0] == stream and streams[1] != stream

"""CUDA failures outside of kernels: no driver, no device, an old driver, no memory, a kernel that does not compile."""

from __future__ import annotations

import sys
import types as modules

import numpy as np
import pytest
from helpers import kernels
from helpers.cuda import StandIn, use

from asyncdali import fn, pipeline_def
from asyncdali.device import select
from asyncdali.device.cuda import driver as cuda_driver


@pipeline_def(batch_size=2, num_threads=1, device_id=0, prefetch_queue_depth=1)
def flipped():
    data = fn.external_source(lambda info: np.full((4, 5, 3), info.iteration, np.uint8), batch=False, layout="HWC")
    return fn.flip(data.gpu())


class CudaError(RuntimeError):
    def __init__(self, status):
        super().__init__(f"cudaError {status}")
        self.status = status


def cupy_that(count):
    """A simulated CuPy. `getDeviceCount` returns `count`, or raises it if it is an error."""

    def answer():
        if isinstance(count, Exception):
            raise count
        return count

    names = (
        "setDevice", "free", "freeHost", "deviceSynchronize", "streamDestroy", "streamSynchronize", "streamWaitEvent", "eventDestroy",
        "eventQuery", "eventRecord", "eventSynchronize",
    )  # fmt: skip
    runtime = modules.SimpleNamespace(**dict.fromkeys(names), CUDARuntimeError=CudaError, getDeviceCount=answer)
    runtime.driverGetVersion, runtime.runtimeGetVersion = lambda: 11040, lambda: 12090
    cupy = modules.ModuleType("cupy")
    cupy.cuda = modules.SimpleNamespace(runtime=runtime)
    cupy.ndarray = type("ndarray", (), {})
    cupy.__spec__ = modules.SimpleNamespace(name="cupy")
    return cupy


REASONS = {
    "no driver": (None, r"no CUDA driver was found \(libcuda.so.1\)"),
    "no device": (0, "there is no CUDA device"),
    "no device, as an error": (CudaError(100), "there is no CUDA device"),
    "driver too old": (CudaError(35), r"driver is too old: it supports CUDA 11\.4, this CuPy needs 12\.9"),
    "taken": (CudaError(46), "CUDA cannot be used: cudaError 46"),
}


@pytest.mark.parametrize("case", REASONS)
def test_no_gpu(monkeypatch, case):
    """The host device takes over, and one warning gives the reason. With ASYNCDALI_DEVICE=cuda, an error gives the reason."""
    found, reason = REASONS[case]
    monkeypatch.setattr(select, "_driver", None)
    monkeypatch.setattr(select, "_warned", set())
    monkeypatch.setattr(select, "cuda_driver_present", lambda: found is not None)
    monkeypatch.setattr(cuda_driver, "ctypes", modules.SimpleNamespace(PyDLL=lambda name: None))
    monkeypatch.setitem(sys.modules, "cupy", cupy_that(found))
    monkeypatch.setenv("ASYNCDALI_DEVICE", "cuda")
    with pytest.raises(RuntimeError, match=f"device_id=0: .*({reason}).*ASYNCDALI_DEVICE=cuda forbids the host device"):
        flipped().build()
    monkeypatch.delenv("ASYNCDALI_DEVICE")
    with pytest.warns(RuntimeWarning, match=reason) as caught:
        for _ in range(2):
            pipe = flipped()
            assert np.array(pipe.run()[0].as_cpu()[0]).shape == (4, 5, 3)
            pipe.close()
    assert len(caught) == 1


def test_no_cupy(monkeypatch):
    monkeypatch.setattr(select, "_driver", None)
    monkeypatch.setattr(select, "cuda_driver_present", lambda: True)
    monkeypatch.setattr(select.importlib.util, "find_spec", lambda name: None)
    monkeypatch.setenv("ASYNCDALI_DEVICE", "cuda")
    with pytest.raises(RuntimeError, match=r"CuPy is not installed \(pip install asyncdali\[cuda12\]"):
        flipped().build()


@pytest.fixture
def cuda(monkeypatch):
    """The CUDA simulator in place of the machine's CUDA."""
    if kernels.COMPILER is None:
        pytest.skip("no C++ compiler to build kernels for the host")
    driver = StandIn(devices=2)
    use(driver, monkeypatch)
    return driver


def test_a_kernel_that_does_not_compile(cuda):
    """The error names the operator and the user's line, and contains the compiler's log. The pipeline continues."""
    load = cuda.load

    def failing(kernel):
        raise RuntimeError(f"the kernel {kernel.entry} of {kernel.source.name} () does not compile: kernel.cu(3): error: no such thing")

    pipe = flipped()
    pipe.build()
    cuda.load = failing
    said = r"(?s)GPU operator `asyncdali.fn.flip`.*test_cuda_errors.py.*kernel reversed of .*no such thing"
    with pytest.raises(RuntimeError, match=said):
        pipe.run()
    cuda.load = load
    while True:  # iterations that were in flight
        try:
            (images,) = pipe.run()
            break
        except RuntimeError as error:
            assert "no such thing" in str(error)
    assert np.array(images.as_cpu()[0]).shape == (4, 5, 3)
    pipe.close()


def test_out_of_pinned_memory(cuda):
    """The iteration fails. The error names the request and the pool."""
    pipe = flipped(batch_size=1)
    pipe.run()
    alloc, size = cuda.host_alloc, 1 << 20

    @pipeline_def(batch_size=1, num_threads=1, device_id=0, prefetch_queue_depth=1)
    def graph():
        return fn.flip(fn.external_source(lambda info: np.zeros((size, 1, 1), np.uint8), batch=False, layout="HWC").gpu()).cpu()

    def none_left(wanted):
        if wanted >= size:
            raise cuda_driver.DeviceMemoryError(f"allocating {wanted} bytes of pinned memory failed: out of memory")
        return alloc(wanted)

    other = graph()
    other.build()
    cuda.host_alloc = none_left
    with pytest.raises(MemoryError, match=r"out of pinned memory.* allocating \d+ bytes of pinned memory.*this pool .* holds \d+ bytes"):
        other.run()
    cuda.host_alloc = alloc
    assert len(other.run()[0]) == 1
    other.close()
    pipe.close()


def test_the_users_current_device_does_not_change(cuda):
    """No call of a pipeline changes the current device of the user's thread, for any GPU of the pipeline."""
    for before in (None, 0):
        if before is not None:
            cuda.use(before)
        pipe = flipped(device_id=1)
        expected = cuda.current()
        pipe.build()
        assert cuda.current() == expected
        (images,) = pipe.run()
        assert cuda.current() == expected
        images.as_cpu()
        images.as_tensor().__dlpack__(stream=0)
        images[0].as_cpu()
        assert cuda.current() == expected
        pipe.run(0)
        assert cuda.current() == expected
        pipe.close()
        assert cuda.current() == expected


def test_two_gpus_at_once(cuda):
    """Every stream, event and block of memory is used on its own GPU. The simulator checks this."""
    pipes = [flipped(device_id=device) for device in (0, 1)]
    for k in range(5):
        for device, pipe in enumerate(pipes):
            (images,) = pipe.run()
            assert images.device_id() == device
            assert cuda._homes[images._batch.memory_owner._block.address] == device
            assert images.as_tensor().__dlpack_device__() == (2, device)
            np.testing.assert_array_equal(np.array(images.as_cpu()[1]), np.full((4, 5, 3), k))
    for pipe in pipes:
        pipe.close()


def test_memory_that_a_finalizer_releases_while_it_is_searched():
    """The garbage collector may run in the middle of any call of the simulated driver, on the same thread ("dictionary changed size")."""
    driver = StandIn()
    driver.use(0)
    blocks = [np.zeros(64, np.uint8) for _ in range(3)]
    first, second, third = sorted(block.ctypes.data for block in blocks)  # the length of blocks below is asked for
    for address in (first, second):
        driver.host_register(address, 64)

    class Collects(np.ndarray):
        """Its length is asked for during the search."""

        def __len__(self):
            if second in driver._pinned and not released:
                released.append(second)
                driver.host_unregister(second)
            return super().__len__()

    released = []
    driver._pinned[first] = driver._pinned[first].view(Collects)
    driver.host_register(third, 64)
    assert released == [second]
    assert list(driver._pinned) == [first, third]
    driver.host_register(second, 64)  # it was released when the search was over

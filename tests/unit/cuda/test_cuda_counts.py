"""Driver calls in steady state, counted over the CUDA simulator: no allocation, and `run()` waits only for its own batch."""

from __future__ import annotations

import io
import threading
from collections import Counter

import numpy as np
import pytest
from helpers import kernels
from helpers.cuda import StandIn, StandInNvjpeg, use
from PIL import Image

from asyncdali import fn, pipeline_def, types
from asyncdali.compiled.tables import laid_out
from asyncdali.device.buffers import BufferPool
from asyncdali.device.cuda import nvjpeg_library
from asyncdali.device.cuda.commands import Commands
from asyncdali.device.cuda.memory import DevicePool, Events
from asyncdali.operators import steps

pytestmark = pytest.mark.skipif(kernels.COMPILER is None, reason="no C++ compiler to build kernels for the host")
WARM, COUNTED = 12, 20


@pytest.fixture
def cuda(monkeypatch):
    """Simulators of CUDA and nvJPEG. `waits` counts the waits of each thread for the device."""
    driver = StandIn()
    driver.waits = Counter()

    def noted(call):
        def waiting(handle):
            driver.waits[threading.current_thread().name] += 1
            call(handle)

        return waiting

    driver.event_synchronize, driver.stream_synchronize = noted(driver.event_synchronize), noted(driver.stream_synchronize)
    use(driver, monkeypatch)
    library = StandInNvjpeg(driver)
    monkeypatch.setattr(nvjpeg_library, "load", lambda: library)
    return driver


def encoded():
    files = []
    for k in range(8):
        out = io.BytesIO()
        Image.fromarray(np.random.default_rng(k).integers(0, 255, (9, 8, 3), np.uint8)).resize((80, 72)).save(out, "JPEG")
        files.append(np.frombuffer(out.getvalue(), np.uint8))
    return files


FILES = encoded()


@pipeline_def(batch_size=8, num_threads=2, device_id=0, seed=5, prefetch_queue_depth=2)
def training(decoder=""):
    data = fn.external_source(lambda info: FILES[info.idx_in_batch], batch=False)
    images = fn.decoders.image(data, device="mixed", decoder=decoder)
    small = fn.flip(fn.crop(images, crop=[20, 24]), horizontal=fn.random.coin_flip())
    return fn.crop_mirror_normalize(small, mean=[120.0], std=[60.0], dtype=types.FLOAT16)


def test_a_gpu_needs_no_tables_of_the_host(cuda, monkeypatch):
    """The tables of steps are laid out when the host runs the steps. Launches have tables of their own."""
    made = []
    monkeypatch.setattr(steps, "laid_out", lambda entries: made.append(entries) or laid_out(entries))
    pipe = training("cpu")
    pipe.build()
    for _ in range(4):
        pipe.run()
    pipe.close()
    assert made == []
    step = steps.TableStep(0, (3, np.arange(2)), steps.no_explanation, 8, 0)
    step.keep = [*step.keep, "more"]
    step.place_scratch(16)
    assert len(made) == 1 and step.context[0] == 16 and step.keep[-1] == "more" and step.keep[0] is made[0][1]


ASKED = ("malloc", "free", "host_alloc", "host_free", "event_create", "stream_create", "stream_destroy", "event_destroy")


def counted(cuda, pipe, run):
    """Calls for memory, events and streams, and waits by thread, over COUNTED iterations.

    The number of batches in flight depends on timing and may still grow at first. So several such stretches run, and the first one without
    such calls counts.
    """
    for _ in range(WARM):
        run(pipe)
    for _ in range(10):
        pipe._core.session.wait_all()
        before = {name: cuda.calls[name] for name in ASKED}
        cuda.waits.clear()
        for _ in range(COUNTED):
            run(pipe)
        waits = Counter(cuda.waits)
        asked = {name: cuda.calls[name] - count for name, count in before.items()}
        if not any(asked.values()):
            break
    pipe.close()
    return asked, waits


@pytest.mark.parametrize("arguments", [{}, {"decoder": "hardware"}, {"decoder": "cpu"}])
def test_run(cuda, arguments):
    """run() waits for its own batch, once. The engines' thread waits before and behind its call of nvJPEG. No other thread waits."""
    asked, waits = counted(cuda, training(**arguments), lambda pipe: pipe.run())
    main = waits.pop(threading.current_thread().name)
    assert main == COUNTED
    assert all(name.startswith("asyncdali-nvjpeg") for name in waits)
    assert sum(waits.values()) <= 2 * (COUNTED + 4)  # a batch may begin before the measurement, or end after it
    assert (sum(waits.values()) == 0) == (arguments == {"decoder": "cpu"})
    assert not any(asked.values()), asked


def test_run_with_a_stream(cuda):
    """With a stream, run() does not wait on the host; the consumer's stream waits on the device."""
    cuda.use(0)
    stream = cuda.stream_create()

    def run(pipe):
        (images,) = pipe.run(stream)
        images.as_tensor().__dlpack__(stream=stream)
        StandIn.stream_synchronize(cuda, stream)

    asked, waits = counted(cuda, training(decoder="cpu"), run)
    assert not waits
    assert not any(asked.values()), asked


def test_calls_do_not_grow_with_the_batch(cuda):
    """A batch of any size has one upload of tables and one launch per kernel."""
    made = []
    for size in (8, 2):
        cuda.calls.clear()
        pipe = training(decoder="cpu", batch_size=size)
        for _ in range(4):
            pipe.run()
        pipe._core.session.wait_all()
        made.append({name: cuda.calls[name] for name in ("copy", "launch")})
        pipe.close()
    assert made[0] == made[1]


def test_marks_need_no_copy(cuda):
    """On the engines a batch has one upload, the tables of the other operators: marks are found through pinned memory."""
    pipe = training(decoder="hardware")
    for _ in range(WARM):
        pipe.run()
    pipe._core.session.wait_all()
    before = Counter(cuda.calls)
    for _ in range(COUNTED):
        pipe.run()
    pipe._core.session.wait_all()
    assert cuda.calls["copy"] - before["copy"] == COUNTED
    pipe.close()


# --- pools


class Traffic:
    """The requests that a pipeline makes of a pool: up to `depth` batches at a time, returned oldest first. Sizes vary by `spread`."""

    def __init__(self, depth, spread, allocate):
        self._chance, self._depth, self._spread, self._allocate = np.random.default_rng(3), depth, spread, allocate
        self._in_flight = []

    def iterations(self, count):
        for _ in range(count):
            for mean in (150 << 20, 20 << 20, 5 << 20, 40 << 10):
                size = int(mean * self._chance.uniform(1 - self._spread, 1 + self._spread))
                self._in_flight.append(self._allocate(size))
            wanted = 4 * int(self._chance.integers(1, self._depth + 1))  # sometimes the consumer is late, and sometimes the producer
            del self._in_flight[: max(len(self._in_flight) - wanted, 0)]


class Unbacked:
    """A simulated driver that returns addresses without memory, so pools may have any size."""

    def __init__(self):
        self.calls = Counter()

    def __getattr__(self, name):
        def call(*_):
            self.calls[name] += 1
            return self.calls.total() << 40

        return call


@pytest.mark.parametrize("depth", [2, 3, 4, 8])
def test_pools_are_complete_after_a_few_iterations(depth):
    """Later the pool does not grow, for any number of batches in flight up to the depth, and sizes that vary by a few percent."""
    driver = Unbacked()
    device = DevicePool(driver, 0, Events(driver, 0))
    pinned = BufferPool(lambda size: np.empty(size, np.uint8), small=0, spare=8.0, ahead=1)
    device.ahead = pinned.ahead = depth + 2
    traffic = [Traffic(depth, 0.04, lambda size: device.allocate(size, Commands(driver, 7))), Traffic(depth, 0.04, pinned.allocate)]
    for each in traffic:
        each.iterations(20)
    before = driver.calls["malloc"], driver.calls["event_create"], pinned.allocated_bytes
    for each in traffic:
        each.iterations(400)
    assert (driver.calls["malloc"], driver.calls["event_create"], pinned.allocated_bytes) == before


def test_a_block_returned_while_others_are_taken_back_waits_for_its_own_work():
    """One event stands for all blocks that are taken back together. A block that is returned meanwhile needs its own event."""
    driver = Unbacked()
    events = Events(driver, 0)
    pool = DevicePool(driver, 0, events)
    first, second = pool.allocate(100, Commands(driver, 7)), pool.allocate(100, Commands(driver, 7))
    record, late = events.record, [second]
    del second

    def recorded(stream):
        found = record(stream)
        late.clear()  # the last work of this block is queued after the event
        return found

    events.record = recorded
    del first
    kept = pool.allocate(1 << 30, Commands(driver, 7))
    assert kept and len(pool._returned) == 1

"""Pictures are decoded of one iteration more than `prefetch_queue_depth`; its GPU segments are held back. On the CUDA simulator."""

from __future__ import annotations

import asyncio
import threading

import numpy as np
import pytest
from helpers import kernels
from helpers.cuda import StandIn, StandInNvjpeg, use
from helpers.processes import wait_until
from test_cuda_decoders import jpeg

from asyncdali import fn, pipeline_def, types
from asyncdali.device.cuda import nvjpeg_library
from asyncdali.runtime.order.record import Record
from asyncdali.runtime.order.scheduler import Scheduler
from asyncdali.types import OperatorConcurrency

pytestmark = pytest.mark.skipif(kernels.COMPILER is None, reason="no C++ compiler to build kernels for the host")

BATCH = 4


@pytest.fixture(autouse=True)
def nvjpeg(monkeypatch):
    driver = StandIn()
    library = StandInNvjpeg(driver)
    use(driver, monkeypatch)
    monkeypatch.setattr(nvjpeg_library, "load", lambda: library)
    return library


@pytest.fixture
def paths(tmp_path):
    for k in range(30):
        (tmp_path / f"{k:02}.jpg").write_bytes(jpeg(k, (90 + k % 5, 70)).tobytes())
    return sorted(map(str, tmp_path.iterdir()))


def training(paths, depth=2, shift=None, **options):
    @pipeline_def(batch_size=BATCH, num_threads=2, device_id=0, seed=3, prefetch_queue_depth=depth, **options)
    def graph():
        files, labels = fn.readers.file(files=paths, random_shuffle=True, initial_fill=8, name="Reader")
        images = fn.decoders.image_random_crop(files, device="mixed", decoder="hardware")
        images = fn.resize(images, size=[40.0, 30.0])
        images = images if shift is None else shift(images)
        mirrored = fn.crop_mirror_normalize(images, mirror=fn.random.coin_flip(), dtype=types.FLOAT, output_layout="CHW")
        return mirrored, labels

    pipe = graph()
    pipe.build()
    return pipe


def shown(outputs):
    return [np.array(out.as_cpu().as_array() if hasattr(out, "as_cpu") else out.as_array()) for out in outputs]


def same(made, expected):
    for ours, theirs in zip(made, expected, strict=True):
        for one, other in zip(ours, theirs, strict=True):
            np.testing.assert_array_equal(one, other)


@pytest.fixture
def expected(paths):
    with training(paths, 1) as pipe:
        return [shown(pipe.run()) for _ in range(12)]


def in_flight(pipe):
    return list(pipe._core.session.in_flight)


def decoded(record):
    """The segments of an iteration that are done, when its pictures are decoded: the reader, the draws, the decoder."""
    on_gpu = {segment.index for segment in record.lane._segments if segment.backend == "gpu"}
    others = {segment.index for segment in record.lane._segments} - on_gpu
    wait_until(lambda: others <= record.done_segments)
    return on_gpu & record.done_segments


@pytest.mark.parametrize("depth", [2, 3, 6])
def test_the_newest_iteration_is_only_decoded(paths, expected, depth):
    with training(paths, depth) as pipe:
        for iteration in expected:
            same([shown(pipe.run())], [iteration])
            *older, newest = in_flight(pipe)
            assert len(older) == depth - 1
            for record in older:
                wait_until(lambda record=record: record.finished)
            assert not decoded(newest) and not newest.finished


@pytest.mark.parametrize("depth", [2, 3])
def test_iterations_that_are_fetched_without_queueing_others(paths, expected, depth):
    """A caller that waits for the newest iteration gets it."""
    with training(paths, depth) as pipe:
        pipe.schedule_run()
        same([shown(pipe.share_outputs()) for _ in range(depth + 1)], expected[: depth + 1])


def test_everything_that_is_queued_can_be_awaited(paths, expected):
    with training(paths) as pipe:
        made = [shown(pipe.run())]
        for _ in range(3):
            pipe._core.session.wait_all()
            assert all(record.finished for record in in_flight(pipe))
            made.append(shown(pipe.run()))
    same(made, expected[:4])


def test_coroutines_that_await_iterations(paths, expected):
    async def run(pipe):
        made = [shown(await pipe.run_async()) for _ in range(3)]
        return [*made, *map(shown, await asyncio.gather(*[pipe.run_async() for _ in range(4)]))]

    with training(paths) as pipe:
        same(asyncio.run(run(pipe)), expected[:7])


def test_threads_that_run_one_pipeline(paths, expected):
    found, lock = [], threading.Lock()
    with training(paths) as pipe:

        def run():
            for _ in range(4):
                outputs = shown(pipe.run())
                with lock:
                    found.append(outputs)

        threads = [threading.Thread(target=run) for _ in range(3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    key = lambda outputs: (outputs[1].tolist(), float(outputs[0].sum()))  # noqa: E731
    same(sorted(found, key=key), sorted(expected, key=key))


@pytest.mark.parametrize("held", [False, True])
def test_checkpoints_are_those_of_the_consumer(paths, expected, held):
    with training(paths, enable_checkpointing=True) as pipe:
        for _ in range(4):
            pipe.run()
        if held:
            decoded(in_flight(pipe)[-1])
        state = pipe.checkpoint()
        same([shown(pipe.run()) for _ in range(3)], expected[4:7])
    with training(paths, enable_checkpointing=True, checkpoint=state) as pipe:
        same([shown(pipe.run()) for _ in range(8)], expected[4:])


@pytest.mark.parametrize("status", [3, 6])
def test_a_decoder_that_fails_ahead(nvjpeg, paths, expected, status):
    with training(paths) as pipe:
        same([shown(pipe.run())], expected[:1])
        decoded(in_flight(pipe)[-1])
        nvjpeg.fails["DecodeBatched"] = status
        if status == 3:
            with pytest.warns(RuntimeWarning, match="the CPU decoded it"):
                same([shown(pipe.run()) for _ in range(5)], expected[1:6])
            return
        for k in range(1, 3):
            same([shown(pipe.run())], expected[k : k + 1])
        with pytest.raises(RuntimeError, match="did not decode"):
            pipe.run()
        nvjpeg.fails.clear()


def test_bad_samples_are_replaced(paths):
    """The iterations in flight are finished first, also the one that is held back."""
    with open(paths[7], "r+b") as file:
        file.truncate(900)
    with training(paths, on_error="replace") as pipe:
        labels = [int(label) for _ in range(9) for label in shown(pipe.run())[1].ravel()]
    assert len(labels) == 9 * BATCH


def test_closing_while_an_iteration_is_held_back(paths, caplog):
    for _ in range(3):
        pipe = training(paths)
        pipe.run()
        newest = in_flight(pipe)[-1]
        decoded(newest)
        pipe.close()
        assert newest.finished and newest.let_go is not None
        newest.let_go()  # too late: nothing starts
    assert not caplog.records


@pytest.mark.parametrize("case", ["depth", "source", "function", "cpu"])
def test_pipelines_that_decode_nothing_ahead(paths, case):
    """User code is called for `prefetch_queue_depth` iterations, and a depth of 1 means one at a time."""

    @pipeline_def(batch_size=BATCH, num_threads=2, device_id=0, prefetch_queue_depth=1 if case == "depth" else 2)
    def graph():
        files, _ = fn.readers.file(files=paths)
        if case == "source":
            files = fn.external_source(lambda info: jpeg(info.idx_in_epoch, (90, 70)), batch=False)
        images = fn.decoders.image(files, device="cpu" if case == "cpu" else "mixed")
        if case == "function":
            images = fn.python_function(images, function=lambda image: image, device="gpu")
        return fn.resize(images.gpu(), size=[40.0, 30.0])

    with graph() as pipe:
        pipe.build()
        pipe.schedule_run()
        records = in_flight(pipe)
        assert len(records) == (1 if case == "depth" else 2)
        for record in records:
            wait_until(lambda record=record: record.finished)


# --- the scheduler alone


class Segment:
    backend, index, producers = "gpu", 0, frozenset()


@pytest.fixture
def scheduler():
    made = Scheduler([Segment()], OperatorConcurrency.FULL, lambda segment, record: made.begun.append(record.index), lambda pump: pump())
    made.begun = []
    return made


def test_an_iteration_is_held_back_until_the_next(scheduler):
    first, second = Record(0, 1, 0), Record(1, 1, 0)
    scheduler.admit(first)
    assert scheduler.begun == []
    scheduler.admit(second)
    assert scheduler.begun == [0]


def test_an_iteration_is_held_back_until_it_is_awaited(scheduler):
    record = Record(0, 1, 0)
    scheduler.admit(record)
    record.on_finished(lambda: None)
    assert scheduler.begun == [0]


def test_an_iteration_that_is_awaited_is_not_held_back(scheduler):
    record = Record(0, 1, 0)
    record.on_finished(lambda: None)
    scheduler.admit(record)
    assert scheduler.begun == [0]


def test_a_wait_between_the_steps_of_holding_back(scheduler):
    """The scheduler and the caller each write before they read, so one of them sees the other."""

    class Late(Record):
        """A record that a caller begins to wait for when the scheduler has set `let_go` and has not read `awaited` yet."""

        __slots__ = ("asked",)

        def __getattribute__(self, name):
            if name == "awaited" and not hasattr(self, "asked"):
                self.asked = True
                self.on_finished(lambda: None)
            return super().__getattribute__(name)

    scheduler.admit(Late(0, 1, 0))
    assert scheduler.begun == [0]

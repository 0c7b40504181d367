"""Launches that are recorded while pictures are decoded, on the CUDA simulator: who executes them, and what happens if something fails."""

from __future__ import annotations

import gc
import threading
import warnings
import weakref

import numpy as np
import pytest
from helpers import kernels
from helpers.cuda import StandIn, StandInNvjpeg, use
from helpers.processes import wait_until
from test_cuda_decoders import jpeg

from asyncdali import fn, pipeline_def, types
from asyncdali.compiled import gate
from asyncdali.compiled import joint as joints
from asyncdali.compiled.addresses import address_of
from asyncdali.compiled.job_tables import GATE, JOINT
from asyncdali.device.cuda import nvjpeg_library
from asyncdali.device.cuda.continuation import Continuation
from asyncdali.device.joint import Joint
from asyncdali.runtime.gpu.device_segments import DeviceSegmentRun
from asyncdali.runtime.order.placement import OnThreads

pytestmark = pytest.mark.skipif(kernels.COMPILER is None, reason="no C++ compiler to build kernels for the host")

BATCH = 6
LANES = [{"decoder": "hardware"}, {"hw_decoder_load": 0.5}]


@pytest.fixture
def nvjpeg(monkeypatch):
    driver = StandIn()
    library = StandInNvjpeg(driver)
    use(driver, monkeypatch)
    monkeypatch.setattr(nvjpeg_library, "load", lambda: library)
    return library


def picture(info):
    return jpeg(info.idx_in_epoch, (90 + info.idx_in_epoch % 5, 70))


def training(device, source=picture, depth=2, **decoder):
    @pipeline_def(batch_size=BATCH, num_threads=2, device_id=0, seed=3, prefetch_queue_depth=depth)
    def graph():
        images = fn.decoders.image(fn.external_source(source, batch=False), device=device, **decoder)
        images = fn.resize(images, size=[40.0, 30.0])
        mirrored = fn.crop_mirror_normalize(images, mirror=fn.random.coin_flip(), dtype=types.FLOAT, output_layout="CHW")
        return mirrored, images

    pipe = graph()
    pipe.build()
    return pipe


def outputs(pipe):
    return [out.as_cpu().as_array() if hasattr(out, "as_cpu") else out.as_array() for out in pipe.run()]


def close_to(found, expected):
    for one, other in zip(found, expected, strict=True):
        assert np.abs(one.astype(float) - other).max() <= 1


@pytest.fixture
def expected():
    with training("cpu") as pipe:
        return [outputs(pipe) for _ in range(5)]


@pytest.fixture
def executed(monkeypatch):
    """States of the continuations when the decoders had ended."""
    states = []
    settle = Continuation.settle

    def noted(self):
        states.append(int(self._table[JOINT.word.state]))
        return settle(self)

    monkeypatch.setattr(Continuation, "settle", noted)
    return states


@pytest.mark.parametrize("depth", [1, 2, 3])
@pytest.mark.parametrize("decoder", LANES, ids=str)
def test_launches_are_executed_behind_the_decoders(nvjpeg, expected, executed, decoder, depth):
    """No segment behind a decoder waits for a thread to enter the interpreter, and outputs are the same."""
    with training("mixed", depth=depth, **decoder) as pipe:
        for iteration in expected:
            close_to(outputs(pipe), iteration)
    assert set(executed) == {joints.EXECUTED} and len(executed) >= len(expected)


@pytest.mark.parametrize("decoder", [*LANES, {"decoder": "cpu"}], ids=str)
def test_iterations_need_no_garbage_collector(nvjpeg, monkeypatch, decoder):
    """Cycles would keep memory, events and pinned memory of iterations that are over."""
    made = []
    for kind in (DeviceSegmentRun, Continuation, Joint):

        def noted(self, *arguments, init=kind.__init__):
            made.append(weakref.ref(self))
            init(self, *arguments)

        monkeypatch.setattr(kind, "__init__", noted)
    with training("mixed", **decoder) as pipe:
        outputs(pipe)
        gc.collect()
        gc.disable()
        try:
            for _ in range(4):
                outputs(pipe)
            pipe._core.session.wait_all()
            first = len(made) // 2
            wait_until(lambda: not any(one() is not None for one in made[:first]))
        finally:
            gc.enable()


def test_a_caller_does_the_bookkeeping(nvjpeg, expected, monkeypatch):
    """A call of `run()` needs no other thread behind the launches, because all threads that report are kept from reporting."""
    from asyncdali.device import joint

    main, kept = threading.main_thread(), []
    finish = joint.Joint.finish

    def later(self):
        if threading.current_thread() is main:
            finish(self)
        else:
            kept.append(self)

    monkeypatch.setattr(joint.Joint, "finish", later)
    with training("mixed", hw_decoder_load=0.5) as pipe:
        for iteration in expected:
            close_to(outputs(pipe), iteration)
        for one in kept:
            finish(one)


def test_a_caller_that_comes_to_the_gate_late(nvjpeg):
    """Another thread has done the bookkeeping. The commands behind the gate are still there."""
    gates, found = [], []
    close = Continuation.close

    def noted(self):
        gates.append(self)
        close(self)

    with pytest.MonkeyPatch.context() as patch, training("mixed", hw_decoder_load=0.5) as pipe:
        patch.setattr(Continuation, "close", noted)
        outputs(pipe)
        pipe._core.session.wait_all()
        wait_until(lambda: all(one.is_over() for one in gates))
        gc.collect()
        with pipe._core.session.gpu.entered():
            for one in gates:
                before = nvjpeg.driver.calls["event_synchronize"]
                assert one.pass_gate(1.0, complete=True)
                found.append(nvjpeg.driver.calls["event_synchronize"] - before)
    assert set(found) == {1}  # both outputs are behind one event


@pytest.mark.parametrize("status", [3, 6])
def test_a_decoder_that_fails(nvjpeg, expected, executed, status):
    """Nothing is executed behind a failed decoder. The CPU decodes, and the launches of both segments follow."""
    with training("mixed", decoder="hardware") as pipe:
        close_to(outputs(pipe), expected[0])
        nvjpeg.fails["DecodeBatched"] = status
        if status == 6:
            with pytest.raises(RuntimeError, match="did not decode"):
                for _ in range(4):
                    outputs(pipe)
            return
        with pytest.warns(RuntimeWarning, match="the CPU decoded it"):
            for iteration in expected[1:4]:
                close_to(outputs(pipe), iteration)
        nvjpeg.fails.clear()
        close_to(outputs(pipe), expected[4])
    assert joints.NOT_EXECUTED in executed and executed[0] == joints.EXECUTED


def test_pictures_that_a_decoder_leaves_out(nvjpeg, expected, executed):
    with training("mixed", decoder="hardware") as pipe:
        close_to(outputs(pipe), expected[0])
        nvjpeg.skips = {2}
        with pytest.warns(RuntimeWarning, match="the CPU decoded it"):
            for iteration in expected[1:]:
                close_to(outputs(pipe), iteration)
    assert joints.NOT_EXECUTED in executed


@pytest.mark.parametrize("decoder", LANES, ids=str)
def test_pictures_of_one_size(nvjpeg, executed, decoder):
    """Copied iterations keep device memory, which is safe only for commands that are executed in order. So none is copied here."""

    def source(info):
        return jpeg(info.idx_in_epoch, (90, 70))

    with training("cpu", source) as pipe:
        expected = [outputs(pipe) for _ in range(9)]
    with training("mixed", source, depth=3, **decoder) as pipe, warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        for k, iteration in enumerate(expected):
            nvjpeg.skips = {1} if k == 4 else set()
            close_to(outputs(pipe), iteration)
    assert {joints.EXECUTED, joints.NOT_EXECUTED} == set(executed)


@pytest.mark.parametrize("decoder", LANES, ids=str)
def test_a_broken_file(nvjpeg, expected, decoder):
    """The error names the sample. The other iterations are right, also random numbers."""

    def source(info):
        file = picture(info)
        return file[: len(file) // 3] if info.idx_in_epoch == 2 * BATCH + 4 else file

    with training("mixed", source, **decoder) as pipe:
        for k, iteration in enumerate(expected):
            if k == 2:
                with pytest.raises(RuntimeError, match="sample 4"):
                    outputs(pipe)
            else:
                close_to(outputs(pipe), iteration)


@pytest.mark.parametrize("failing", ["launch", "copy"])
@pytest.mark.parametrize("decoder", LANES, ids=str)
def test_a_command_that_fails(nvjpeg, expected, executed, decoder, failing):
    with training("mixed", depth=1, **decoder) as pipe:
        close_to(outputs(pipe), expected[0])
        nvjpeg.driver.fails[failing] = 719
        with pytest.raises(RuntimeError, match="719"):
            outputs(pipe)
        nvjpeg.driver.fails.clear()
        for iteration in expected[2:]:
            close_to(outputs(pipe), iteration)


def test_launches_that_cannot_be_recorded(nvjpeg, expected, monkeypatch):
    """An error while the launches are recorded is met again when the pictures are decoded."""
    add = Continuation.add

    def refused(self, commands, event, awaited):
        if len(self._parts) == number:
            raise MemoryError("none left")
        return add(self, commands, event, awaited)

    for number in (0, 1):
        with training("mixed", hw_decoder_load=0.5) as pipe:
            close_to(outputs(pipe), expected[0])
            monkeypatch.setattr(Continuation, "add", refused)
            if number:  # the second segment meets the error itself
                with pytest.raises(MemoryError, match="none left"):
                    for _ in range(4):
                        outputs(pipe)
            else:
                for iteration in expected[1:]:
                    close_to(outputs(pipe), iteration)
            monkeypatch.setattr(Continuation, "add", add)


def test_decoders_that_end_after_closing(nvjpeg, monkeypatch):
    """The launches behind them are not executed, because their memory may be gone."""
    late = []
    monkeypatch.setattr(OnThreads, "close_when_planned", lambda self, continuation: late.append(continuation))
    pipe = training("mixed", hw_decoder_load=0.5)
    pipe.schedule_run()
    pipe.close()
    assert len(late) == 2
    for continuation in late:
        continuation.close()
        assert continuation._table[JOINT.word.state] == joints.NOT_EXECUTED


class Ended:
    """A joint whose jobs have ended, with commands that count their calls."""

    def __init__(self, **words):
        import ctypes

        self.calls = []
        kind = ctypes.CFUNCTYPE(ctypes.c_int64, *[ctypes.c_int64] * 3)
        self.function = kind(lambda driver, begin, end: self.calls.append((driver, begin, end)) or words.get("gives", 0))
        self.gate, self.places = np.zeros(GATE.words, np.int64), np.zeros(3, np.uint8)
        gate.make(address_of(self.gate))
        self.zeros = np.array([address_of(self.places), 1, address_of(self.places) + 1, 2])
        self.table, _ = JOINT.make(
            left=0, perform=ctypes.cast(self.function, ctypes.c_void_p).value, driver=5, begin=10, end=20, zeros=address_of(self.zeros),
            checks=2, stop=words.get("stop", 0), state=0, result=0, gate=address_of(self.gate), waits=30, waits_end=40,
        )  # fmt: skip

    def end(self):
        joints.end_here(address_of(self.table))
        assert self.gate[GATE.word.open] == 1
        return int(self.table[JOINT.word.state]), self.gate[[GATE.word.begin, GATE.word.end]].tolist()


@pytest.fixture(autouse=True)
def compiled():
    for function in (joints.end_here, gate.make):
        function.compile()


def test_commands_behind_jobs_that_succeeded():
    ended = Ended()
    assert ended.end() == (joints.EXECUTED, [30, 40]) and ended.calls == [(5, 10, 20)]


@pytest.mark.parametrize("place", range(3))
def test_commands_behind_a_job_that_failed(place):
    ended = Ended()
    ended.places[place] = 1
    assert ended.end() == (joints.NOT_EXECUTED, [0, 0]) and not ended.calls


def test_commands_that_are_stopped():
    ended = Ended(stop=1)
    assert ended.end() == (joints.NOT_EXECUTED, [0, 0]) and not ended.calls


def test_commands_of_which_one_fails():
    ended = Ended(gives=7 << 32 | 719)
    assert ended.end() == (joints.BROKEN, [0, 0]) and ended.table[JOINT.word.result] == 7 << 32 | 719

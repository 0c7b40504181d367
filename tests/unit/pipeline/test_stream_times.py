"""Busy times of CUDA streams, over the CUDA simulator, where each command takes a millisecond."""

from __future__ import annotations

from collections import deque

import numpy as np
import pytest
from helpers import kernels
from helpers.cuda import StandIn, use

from asyncdali import fn, pipeline_def
from asyncdali.device.cuda.commands import Commands
from asyncdali.device.cuda.timing import StreamTimes

pytestmark = pytest.mark.skipif(kernels.COMPILER is None, reason="no C++ compiler to build kernels for the host")


@pytest.fixture
def cuda(monkeypatch):
    """The CUDA simulator in place of the machine's CUDA."""
    driver = StandIn()
    use(driver, monkeypatch)
    driver.use(0)
    return driver


@pipeline_def(batch_size=3, num_threads=1, device_id=0)
def flipped():
    return fn.flip(fn.external_source(lambda info: np.zeros((5, 4, 3), np.uint8), batch=False, layout="HWC").gpu(), horizontal=1)


def of_the_device(pipe):
    return sum(stream.device_seconds for stream in pipe.statistics().streams)


def test_streams_report_the_busy_time_of_the_device(cuda):
    """Each batch has two commands: an upload of data, and a kernel whose tables are there already. One iteration of sixteen is timed."""
    pipe = flipped()
    for _ in range(33):
        pipe.run()
    cuda.stream_synchronize(pipe.output_stream())
    assert {stream.name for stream in pipe.statistics().streams if stream.device_seconds > 0} == {"gpu"}
    assert cuda.calls["timer_create"] <= 6
    before = of_the_device(pipe)
    cuda.calls["event_synchronize"] = 0
    for _ in range(64):
        pipe.run()
    assert 0.002 * 62 <= of_the_device(pipe) - before <= 0.002 * 66
    assert cuda.calls["timer_create"] <= 6  # the existing timers are reused
    pipe.close()


def test_times_are_read_without_waiting(cuda):
    stream = cuda.stream_create()
    times = StreamTimes(cuda, 0)
    memory, host = cuda.malloc(8), cuda.host_alloc(8)

    def timed(work):
        commands = Commands(cuda, stream)
        begun = times.mark(commands)
        for _ in range(work):
            commands.copy(memory, host, 8)
        ended = times.mark(commands)
        commands.perform()
        times.queued(begun, ended)

    timed(1)
    timed(4)
    assert times.taken() == []
    assert not cuda.calls["event_synchronize"] and not cuda.calls["stream_synchronize"]
    cuda.stream_synchronize(stream)
    assert times.taken() == [1_000_000, 4_000_000] and times.taken() == []
    events = cuda.calls["timer_create"]
    timed(0)
    assert cuda.calls["timer_create"] == events


def test_the_end_of_the_times_destroys_each_event_once(cuda):
    """Also those of the last piece of work, which another thread queues meanwhile."""
    times = StreamTimes(cuda, 0)
    commands = Commands(cuda, cuda.stream_create())
    events = [times.mark(commands) for _ in range(6)]
    times.queued(*events[:2])
    times.queued(*events[2:4])
    times._under_way = Growing(times._under_way, events[4:])
    destroyed = []
    cuda.event_destroy = destroyed.append
    del times
    assert sorted(destroyed) == sorted(events)


class Growing(deque):
    """Gets one more pair when the first one is taken, or when it is walked."""

    def __init__(self, pairs, late):
        super().__init__(pairs)
        self._late = [tuple(late)]

    def popleft(self):
        found = super().popleft()
        self.extend(self._late)
        self._late = []
        return found

    def __iter__(self):
        walk = super().__iter__()
        yield next(walk)
        self.extend(self._late)
        yield from walk


def test_without_statistics_nothing_is_timed(cuda):
    pipe = flipped(enable_statistics=False)
    for _ in range(20):
        pipe.run()
    assert not cuda.calls["timer_create"]
    pipe.close()

"""The time limit of engines that start: what counts as progress, and the errors when there is none."""

from __future__ import annotations

import os
import threading

import pytest
from helpers.engines import pipeline, stream
from helpers.processes import children

from asyncdali import fn
from asyncdali.engines.child import process, server
from asyncdali.engines.parent import starting


def numbers():
    return fn.random.uniform(range=[0, 1])


class Clock:
    """The time, and the processor time of processes."""

    def __init__(self, monkeypatch):
        self.now, self.used = 1000.0, {7: 40.0, 8: 3.0}
        monkeypatch.setattr(starting, "monotonic", lambda: self.now)
        monkeypatch.setattr(starting, "processor_time", lambda process: self.used.get(process, 0.0))


def test_work_and_messages_are_progress(monkeypatch):
    clock = Clock(monkeypatch)
    start = starting.Start(None, 7)
    assert start.limit == starting.LIMIT > 120
    for _ in range(5):  # work alone
        clock.now += starting.LIMIT
        clock.used[7] += 0.1 * starting.LIMIT
        assert not start.stuck()
    clock.now += 0.9 * starting.LIMIT
    start.progressed(8)  # a message alone, of the process itself
    clock.now += 0.9 * starting.LIMIT
    clock.used[7] += 1000
    assert not start.stuck()
    clock.now += 0.1 * starting.LIMIT
    clock.used[8] += 0.01 * starting.LIMIT  # a thread that looks for something
    assert start.stuck()


def test_a_longer_engine_timeout_is_the_limit():
    assert starting.Start(5.0, 0).limit == starting.LIMIT
    assert starting.Start(4000.0, 0).limit == 4000.0


def test_processor_time_is_read():
    before = starting.processor_time(os.getpid())
    assert before > 0.1  # the imports of this module
    assert starting.processor_time(0) == starting.processor_time(-1) == starting.processor_time(1 << 30) == 0.0


def waits(*_args, **_more):
    threading.Event().wait(600)


@pytest.fixture
def short(monkeypatch):
    """No time passes without an end, and nothing is progress."""
    monkeypatch.setattr(starting, "LIMIT", 0.3)
    monkeypatch.setattr(starting, "SHARE", 1e6)


@pytest.mark.parametrize("where", [(process, "run_engine"), (server, "EngineServer")])
def test_an_engine_that_never_gets_ready_is_an_error(short, monkeypatch, where):
    """One that waits before its first message, and one that waits while it builds."""
    monkeypatch.setattr(*where, waits)
    pipe = pipeline(numbers, 2)
    wanted = r"engine [01] did not get ready: no message came from it for 0\.3 s.* waits .*py-spy.*engine_timeout"
    with pytest.raises(RuntimeError, match=wanted):
        pipe.build()
    pipe.close()
    assert not children()


def test_a_process_that_forks_engines_and_never_loads_is_an_error(short, monkeypatch):
    monkeypatch.setattr(process, "_preload", waits)
    pipe = pipeline(numbers, 1)
    with pytest.raises(RuntimeError, match=r"engine 0 did not get ready"):
        pipe.build()
    pipe.close()
    assert not children()


def test_replacements_that_never_get_ready_end_the_pipeline(monkeypatch, tmp_path):
    """They wait, as the first engine did not, so `run` ends with an error after three of them."""
    real = server.EngineServer

    def first_only(*args):
        if (tmp_path / "built").exists():
            waits()
        (tmp_path / "built").touch()
        return real(*args)

    monkeypatch.setattr(server, "EngineServer", first_only)
    pipe = pipeline(numbers, 1)
    stream(pipe, 2)
    monkeypatch.setattr(starting, "LIMIT", 0.3)
    monkeypatch.setattr(starting, "SHARE", 1e6)
    pipe._core.processes.engines.loader.places[0].engine.kill("died")
    with pytest.raises(RuntimeError, match=r"engine 0 did not get ready.* 3 times before it was ready"):
        stream(pipe, 20)
    pipe.close()
    assert not children()

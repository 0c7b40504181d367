"""Many calls of dynamic mode leave memory, descriptors and threads as they were."""

from __future__ import annotations

import gc
import os
import threading
from collections.abc import Callable

import numpy as np
import pytest

import asyncdali.dynamic as ndd
from asyncdali.imperative import bricks, brief
from asyncdali.imperative.contexts import EvalContext

PICTURES = [np.random.default_rng(k).integers(0, 256, (12 + k % 3, 10, 3), np.uint8) for k in range(6)]


def calls(number: int) -> None:
    """About ten calls; their constants and shapes come again in later numbers, but for one constant that is always new."""
    picture, batch = ndd.tensor(PICTURES[number % 6], layout="HWC"), ndd.batch(PICTURES[: 2 + number % 4], layout="HWC")
    for value in (picture, batch):
        small = ndd.resize(value, size=[4 + number % 5, 6])
        ndd.crop_mirror_normalize(small, mean=[1.0, 2.0, 3.0], mirror=number % 2).evaluate()
        (small + number % 7).evaluate()
    ndd.brightness(picture, brightness=1.0 + number * 1e-4).evaluate()
    ndd.random.uniform(range=[0.0, 1.0], batch_size=3).evaluate()
    np.asarray(ndd.reductions.sum(batch.tensors[1]))
    with pytest.raises(RuntimeError, match="out of bounds"):
        ndd.crop(picture, crop=(99, 99)).evaluate()


def resident() -> int:
    """Bytes of the process's memory."""
    with open("/proc/self/statm", encoding="ascii") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def held() -> tuple[int, int, int]:
    """Descriptors, threads, and objects of Python."""
    gc.collect()
    return len(os.listdir("/proc/self/fd")), len(os.listdir("/proc/self/task")), len(gc.get_objects())


def assert_flat(work: Callable[[int], None], rounds: int, first: int) -> tuple[int, int]:
    """Do rounds; the second half of them may hold no more than the first. Returns both numbers of bytes."""
    for number in range(first):
        work(number)
    before, bytes_before = held(), resident()
    for number in range(first, first + rounds):
        work(number)
    after, bytes_after = held(), resident()
    assert after[:2] == before[:2]
    assert after[2] <= before[2] * 1.02 + 500
    return bytes_before, bytes_after


@pytest.mark.skipif(not os.path.exists("/proc/self/statm"), reason="counts descriptors and threads by /proc")
def test_calls_leave_nothing_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    """The tables of calls are full after the first rounds, so that later ones replace entries."""
    monkeypatch.setattr(bricks, "MOST", 40)
    with EvalContext(num_threads=2) as context:
        context.engine.crew.workers()  # they start with the first long call, which may be any call on a busy machine
        assert_flat(calls, 120, 120)
        engine = context.engine
        assert len(engine.bricks) <= 41 and len(engine.bricks._given) <= 40 and len(engine.brief._known) <= 40
        assert 0 < len(brief.kinds_of_all.table) <= 160


@pytest.mark.slow
@pytest.mark.skipif(not os.path.exists("/proc/self/statm"), reason="counts descriptors and threads by /proc")
def test_a_hundred_thousand_calls_leave_nothing_behind() -> None:
    before, after = assert_flat(calls, 10_000, 2_000)
    assert after - before < 16 << 20


@pytest.mark.slow
@pytest.mark.skipif(not os.path.exists("/proc/self/statm"), reason="counts descriptors and threads by /proc")
def test_calls_of_eight_threads_leave_nothing_behind() -> None:
    failures: list[BaseException] = []

    def work(thread: int) -> None:
        try:
            for number in range(thread, 400 + thread):
                calls(number)
        except BaseException as error:
            failures.append(error)

    def round_of_threads(_: int) -> None:
        threads = [threading.Thread(target=work, args=(k,)) for k in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(300)
            assert not thread.is_alive()

    before, after = assert_flat(round_of_threads, 2, 2)
    assert not failures
    assert after - before < 32 << 20

"""Limits of requests to engines on other machines: their size (`buffer_bytes`) and their time (`engine_timeout`)."""

from __future__ import annotations

import itertools
import threading
import time

import numpy as np
import pytest
from helpers.fleets import TOKEN, actors, batches_of

from asyncdali import fn, pipeline_def
from asyncdali.fleet import loader, remote


class Held:
    """A function that waits in iteration 1, on the first engine that calls the function."""

    def __init__(self):
        self.begun, self.free, self.calls = threading.Event(), threading.Event(), itertools.count()

    def __call__(self, number):
        if number == 2 and next(self.calls) == 0:
            self.begun.set()
            assert self.free.wait(300)
        return number

    def train(self, **options):
        @pipeline_def(batch_size=2, num_threads=1, seed=3, prefetch_queue_depth=8)
        def train():
            number = fn.external_source(source=lambda k: np.int32([2 * k, 2 * k + 1]))
            return fn.python_function(number, function=self), fn.random.uniform(range=[0, 1], shape=[50_000])

        return train(**options)


SIZE = 2 * 50_000 * 4
"""Bytes of an answer of :class:`Held`, about."""


@pytest.fixture
def watched(monkeypatch):
    """Watches the answers that a loader receives.

    counts: after each answer, the number of iterations that are requested or wait for delivery.
    event: set when `enough(loader)` was true after an answer.
    """
    numbers, reached = [], threading.Event()
    answer = remote.RemoteLoader._answer

    def counted(self, *args):
        answer(self, *args)
        numbers.append(len([item for item in self.asked.values() if item.places or item.answer is not None]))
        if watch.enough(self):
            reached.set()

    class watch:
        event, counts = reached, numbers

        def enough(loader):
            return False

    monkeypatch.setattr(remote.RemoteLoader, "_answer", counted)
    return watch


def one_works(loader):
    """Whether one engine has answered all its requests, and at least six iterations are requested or answered."""
    return sum(bool(place.outstanding) for place in loader._places.values()) == 1 and len(loader.asked) >= 6


@pytest.mark.parametrize("limit, most", [(int(2.5 * SIZE), 3), (100 * SIZE, 6)])
def test_buffer_bytes_limit_the_requests(watched, limit, most):
    """Iteration 1 is held, so later answers wait. The size of a batch is unknown at first, so four iterations are requested."""
    held = Held()
    watched.enough = lambda loader: len(watched.counts) == 2 if most == 3 else watched.counts[-1] >= most
    with actors(held.train, 2) as found:
        try:
            addresses = [actor.address for actor in found]
            with loader(held.train, engines=addresses, token=TOKEN, hedge_after=None, buffer_bytes=limit) as batches:
                got = batches_of(batches.pipeline, 1)
                assert held.begun.wait(300) and watched.event.wait(300)
                assert (max(watched.counts) == 3) is (most == 3)
                held.free.set()
                got += batches_of(batches.pipeline, 11)
        finally:
            held.free.set()
    with loader(held.train) as alone:
        assert batches_of(alone.pipeline, 12) == got


def test_an_engine_that_exceeds_engine_timeout_is_abandoned(monkeypatch, caplog, watched):
    ahead, held = 0.0, Held()
    monkeypatch.setattr(remote, "monotonic", lambda: time.monotonic() + ahead)
    watched.enough = one_works
    with actors(held.train, 2) as found:
        try:
            addresses = [actor.address for actor in found]
            with loader(held.train, engines=addresses, token=TOKEN, hedge_after=None, engine_timeout=1000) as batches:
                got = batches_of(batches.pipeline, 1)
                assert held.begun.wait(300) and watched.event.wait(300)
                ahead = 1001.0
                engines = batches._actors.pool.loader
                engines.call(engines._look)  # as the timer would do after 1000 s
                got += batches_of(batches.pipeline, 1)  # the other engine has computed the iteration
                assert not held.free.is_set() and sorted(item["restarts"] for item in batches.engines()) == [0, 1]
                held.free.set()
                got += batches_of(batches.pipeline, 10)
        finally:
            held.free.set()
    assert "did not answer for 1000 s (engine_timeout)" in caplog.text
    with loader(held.train) as alone:
        assert batches_of(alone.pipeline, 12) == got

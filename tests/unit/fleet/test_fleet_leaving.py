"""A dropped loader is freed without waiting for its engines. Then its trainer leaves the fleet, and its memory is free."""

from __future__ import annotations

import gc
import socket
import threading
import weakref

import numpy as np
import pytest
from helpers.fleets import TOKEN

from asyncdali import fn, pipeline_def
from asyncdali.fleet import Actor, connections, loader

HOUR = 3600.0
"""A time limit of the loader that is too long for these tests, which must not wait for it."""
SOON = 300.0
"""Seconds that suffice on any machine."""


@pipeline_def(batch_size=2, num_threads=1, seed=3)
def train():
    return fn.python_function(fn.random.uniform(range=[0, 1]), function=np.copy)


def dropped(batches, close):
    """Drop a loader. Returns an event that is set when the loader is freed."""
    freed = threading.Event()
    weakref.finalize(batches._actors, freed.set)  # `asyncdali.ray` leaves the fleet here
    if close:
        batches.close()
    return freed


@pytest.mark.parametrize("close", [True, False], ids=["closed", "dropped only"])
def test_a_dropped_loader_is_freed_after_the_loss_of_an_engine(monkeypatch, close):
    """The timer of `reconnect_timeout` once kept the loader alive."""
    lost, original = threading.Event(), connections.Connections._failed

    def failed(self, *args):
        original(self, *args)
        lost.set()

    monkeypatch.setattr(connections.Connections, "_failed", failed)
    monkeypatch.setattr(connections, "SLOWEST_RETRY", HOUR)
    with Actor(train, token=TOKEN) as actor:
        batches = loader(train, engines=[actor.address], token=TOKEN, reconnect_timeout=HOUR)
        batches.pipeline.run()
    assert lost.wait(SOON)
    freed = dropped(batches, close)
    del batches
    gc.collect()
    assert freed.wait(SOON)


@pytest.mark.parametrize("close", [True, False], ids=["closed", "dropped only"])
def test_a_dropped_loader_is_freed_while_a_host_does_not_answer(monkeypatch, close):
    monkeypatch.setattr(connections, "ATTEMPT", HOUR)
    with Actor(train, token=TOKEN) as actor, socket.create_server(("127.0.0.1", 0)) as silent:
        batches = loader(train, engines=[actor.address], token=TOKEN)
        batches.pipeline.run()
        batches.add_engine("{}:{}".format(*silent.getsockname()))
        with silent.accept()[0]:
            freed = dropped(batches, close)
            del batches
            gc.collect()
            assert freed.wait(SOON)

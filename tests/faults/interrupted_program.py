"""Receives batches while interrupts hit it, and prints the outcome. Run by test_pool_interrupts.py.

Arguments: ``places N`` (at one in N places, always the same ones; 1: all) or ``instants SECONDS`` (at random instants).
"""

from __future__ import annotations

import gc
import os
import signal
import sys
import time

import numpy as np
from asyncdali_workers import Source, WorkerPool

from tests.helpers import worker_sources as ws
from tests.helpers.interrupted_places import PlacedInterrupts

ragged = ws.Ragged(400)


class Interrupts:
    """Sends SIGINT repeatedly. KeyboardInterrupt is raised only while the consumer takes a step."""

    def __init__(self):
        self.armed = False
        self.raised = 0
        signal.signal(signal.SIGINT, self.interrupt)
        signal.signal(signal.SIGALRM, lambda *_: os.kill(os.getpid(), signal.SIGINT))

    def interrupt(self, number, frame):
        if self.armed:
            self.armed = False
            self.raised += 1
            raise KeyboardInterrupt

    def start(self):
        signal.setitimer(signal.ITIMER_REAL, 0.01, 0.003)

    def stop(self):
        signal.setitimer(signal.ITIMER_REAL, 0)
        return signal.getsignal(signal.SIGINT) == self.interrupt


class Consumer:
    """A consumer whose steps can be interrupted anywhere. An interrupted submit has made no ticket; an interrupted receive is repeated."""

    def __init__(self, pool):
        self.pool = pool
        self.tickets = {}
        self.iteration = 0

    def step(self):
        for number in range(self.iteration, self.iteration + 3):
            if number not in self.tickets:
                self.tickets[number] = self.pool.submit(0, number, 0)
        batch = self.pool.receive(self.tickets[self.iteration], 300)
        for i in range(4):
            assert np.array_equal(batch.outputs[0].sample(i), ragged.expected(4 * self.iteration + i))
        self.iteration += 1
        self.tickets.pop(self.iteration - 1, None)


def main(how, number):
    with WorkerPool([Source(ragged, "samples", 4, prefetch=3)], num_workers=2) as pool:
        consumer = Consumer(pool)
        consumer.step()
        (at_places if how == "places" else at_instants)(consumer, number)
        for _ in range(50):
            consumer.step()
        consumer.tickets.clear()
        for number in range(50):
            pool.receive(pool.submit(0, number, 0), 300)
        statistics = pool.statistics()
        print(statistics["outstanding"], statistics["restarts"])
        print(statistics["slots"], "slots", file=sys.stderr)


def at_places(consumer, parts):
    interrupts = PlacedInterrupts(Consumer.step)
    places = interrupts.chosen(consumer.step, int(parts))
    came = 0
    for place in places:
        try:
            interrupts.at(place, consumer.step)
            assert not interrupts.came, f"the interrupt was swallowed: {place}"
        except KeyboardInterrupt:
            came += 1
    assert came, "no interrupt came"
    print(came, "interrupts at", len(places), "places", file=sys.stderr)


def at_instants(consumer, seconds):
    interrupts = Interrupts()
    interrupts.start()
    limit = time.monotonic() + seconds
    while time.monotonic() < limit:
        try:
            interrupts.armed = True
            consumer.step()
            interrupts.armed = False
        except KeyboardInterrupt:
            pass
    assert interrupts.stop(), "another handler is left"
    assert interrupts.raised > 2 * seconds and consumer.iteration > 5 * seconds, (interrupts.raised, consumer.iteration)
    print(interrupts.raised, "interrupts", consumer.iteration, "batches", file=sys.stderr)


gc.disable()  # a finalizer that runs by chance would swallow an interrupt
main(sys.argv[1], float(sys.argv[2]))

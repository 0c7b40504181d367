"""Receives batches while interrupts hit it at any instant; prints what became of it. Run by test_pool_interrupts.py."""

from __future__ import annotations

import os
import signal
import sys
import time

import numpy as np
from asyncdali_workers import Source, WorkerPool

from tests.helpers import worker_sources as ws

SECONDS = float(sys.argv[1])
ragged = ws.Ragged(400)


class Interrupts:
    """SIGINT as from an impatient user, again and again; it is raised only while the consumer takes a step."""

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
    """Its steps can be cut off anywhere: an interrupted submit gave no ticket, an interrupted receive is asked again."""

    def __init__(self, pool):
        self.pool = pool
        self.tickets = {}
        self.iteration = 0

    def step(self):
        for number in range(self.iteration, self.iteration + 3):
            if number not in self.tickets:
                self.tickets[number] = self.pool.submit(0, number, 0)
        batch = self.pool.receive(self.tickets[self.iteration], 20)
        for i in range(4):
            assert np.array_equal(batch.outputs[0].sample(i), ragged.expected(4 * self.iteration + i))
        self.iteration += 1
        self.tickets.pop(self.iteration - 1, None)


def main():
    with WorkerPool([Source(ragged, "samples", 4, prefetch=3)], num_workers=2) as pool:
        consumer, interrupts = Consumer(pool), Interrupts()
        consumer.step()
        interrupts.start()
        limit = time.monotonic() + SECONDS
        while time.monotonic() < limit:
            try:
                interrupts.armed = True
                consumer.step()
                interrupts.armed = False
            except KeyboardInterrupt:
                pass
        restored = interrupts.stop()
        last = consumer.iteration
        for _ in range(50):
            consumer.step()
        consumer.tickets.clear()
        for number in range(50):
            pool.receive(pool.submit(0, number, 0), 20)
        statistics = pool.statistics()
        print(interrupts.raised > 20 * SECONDS, last > 50 * SECONDS, restored, statistics["outstanding"], statistics["restarts"])
        print(interrupts.raised, last, statistics["slots"], file=sys.stderr)


main()

"""Jobs of several crews that are reported together, by the thread that ends last."""

from __future__ import annotations

import os
import queue
import select
import threading

import numpy as np
import pytest
from helpers.processes import wait_until
from numba import types as numba_types

from asyncdali.compiled.intrinsics import load_i64, store_i64
from asyncdali.compiled.step import compiled
from asyncdali.device.joint import Joint
from asyncdali.device.threads import WorkerState, WorkerThreads
from asyncdali.operators.base import Step
from asyncdali.runtime.work.jobs import CompiledSamples

LONG = 300.0
_read = numba_types.ExternalFunction("read", numba_types.int64(numba_types.int32, numba_types.int64, numba_types.int64))


@compiled(3)
def blocks(context, sample, thread):
    """Wait for a byte in a pipe."""
    _read(load_i64(context), context + 8, 1)
    store_i64(context + 16, load_i64(context + 16) + 1)
    return 0


class Crews:
    """Two crews, and jobs that end when the test says so."""

    def __init__(self, pipes):
        self.pipes = pipes
        self.found = queue.SimpleQueue()
        self.crews = [WorkerThreads(1, f"test-joint-{k}") for k in range(2)]
        self.contexts = [np.array([pipe[0], 0, 0], np.int64) for pipe in pipes]

    def job(self, k):
        job = CompiledSamples(1, [(None, Step(blocks.address, self.contexts[k], lambda code, text, sample: text))])
        job.finished = lambda: self.found.put((k, threading.current_thread().name))
        return job

    def end(self, k):
        os.write(self.pipes[k][1], b"x")


@pytest.fixture
def crews():
    pipes = [os.pipe() for _ in range(2)]
    made = Crews(pipes)
    yield made
    for crew in made.crews:
        crew.close()
    assert all(crew.join(LONG) for crew in made.crews)
    for pipe in pipes:
        for end in pipe:
            os.close(end)


@pytest.mark.parametrize("last", [0, 1])
def test_the_thread_that_ends_last_reports_both(crews, last):
    joint = Joint()
    jobs = [crews.job(k) for k in range(2)]
    joint.add(jobs[0])
    crews.crews[0].submit(jobs[0], 1)
    joint.replace(jobs[1])
    crews.crews[1].submit(jobs[1], 1)
    crews.end(1 - last)
    wait_until(lambda: joint._left[0] == 1)
    assert crews.found.empty()
    crews.end(last)
    found = [crews.found.get(timeout=LONG) for _ in range(2)]
    assert [k for k, _ in found] == [0, 1]
    assert {name for _, name in found} == {f"test-joint-{last}-worker-0"}
    assert crews.found.empty()


def test_a_thread_without_a_job_leaves_before_the_other_job_ends(crews):
    joint = Joint()
    job = crews.job(0)
    joint.add(job)
    crews.crews[0].submit(job, 1)
    joint.leave()
    assert crews.found.empty()
    crews.end(0)
    assert crews.found.get(timeout=LONG)[0] == 0


def test_a_thread_without_a_job_leaves_after_the_other_job_and_reports_it(crews):
    joint = Joint()
    job = crews.job(0)
    joint.add(job)
    crews.crews[0].submit(job, 1)
    crews.end(0)
    wait_until(lambda: joint._left[0] == 1)
    assert crews.found.empty()
    joint.leave()
    assert crews.found.get(timeout=LONG) == (0, threading.current_thread().name)


@pytest.mark.parametrize("offered", [True, False])
def test_a_thread_outside_of_the_crew_does_the_work_of_a_job(crews, offered):
    joint = Joint()
    jobs = [crews.job(k) for k in range(2)]
    joint.add(jobs[0])
    crews.crews[0].submit(jobs[0], 1)
    joint.replace(jobs[1])
    crews.end(1)
    if offered:
        crews.crews[1].submit(jobs[1], 1)
    jobs[1].work(WorkerState())
    crews.end(0)
    assert sorted(crews.found.get(timeout=LONG)[0] for _ in range(2)) == [0, 1]
    assert crews.found.empty()


def test_ends_wait_until_they_are_reported(crews):
    reports = crews.crews[0].collect_reports()
    joint, jobs = Joint(), [crews.job(k) for k in range(2)]
    for k, job in enumerate(jobs):
        joint.add(job)
        crews.crews[k].submit(job, 1)
    joint.leave()
    crews.end(1)
    wait_until(lambda: crews.contexts[1][2])
    assert not select.select([reports.descriptor], [], [], 0)[0]
    crews.end(0)
    assert select.select([reports.descriptor], [], [], LONG)[0]
    assert crews.found.empty()
    reports.report()
    here = threading.current_thread().name
    assert [crews.found.get(timeout=LONG) for _ in range(2)] == [(0, here), (1, here)]
    assert not select.select([reports.descriptor], [], [], 0)[0]
    again = crews.job(0)
    crews.crews[0].submit(again, 1)
    crews.end(0)
    assert select.select([reports.descriptor], [], [], LONG)[0]  # it is written again after the list was empty
    reports.report()
    reports.report()
    assert crews.found.get(timeout=LONG) == (0, here) and crews.found.empty()

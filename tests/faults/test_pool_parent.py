"""However the parent ends, no worker outlives the parent."""

from __future__ import annotations

import contextlib
import os
import select
import signal
import subprocess
import sys
import textwrap
import time

import pytest

PROGRAM = """
import os, signal, sys, time, ctypes
import numpy as np
from asyncdali_workers import Source, WorkerPool

def source(info):
    if info.idx_in_batch == {busy}:
        {what}
    return np.zeros(10)

def main():
    pool = WorkerPool([Source(source, "samples", 4)], num_workers=3, start_method={method!r})
    pool.start()
    helper = pool._dispatcher._launcher.process
    print(*pool.pids, *([helper] if helper else []), flush=True)
    tickets = [pool.submit(0, i, 0) for i in range(6)]
    {then}

main()
"""


def run(then, what="time.sleep(1000)", busy=0, method="fork", **options):
    """Start the program. Returns its process, and pidfds of its workers and their helper."""
    code = PROGRAM.format(busy=busy, what=what, then=textwrap.indent(then, "    ").strip(), method=method)
    process = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **options)
    line = b""
    while not line.endswith(b"\n") and (byte := os.read(process.stdout.fileno(), 1)):  # `communicate` reads the rest
        line += byte
    if not line:
        raise AssertionError(process.communicate()[1])
    descriptors = []
    for pid in line.split():
        with contextlib.suppress(ProcessLookupError):  # the process has ended already
            descriptors.append(os.pidfd_open(int(pid)))
    return process, descriptors


def ended(descriptors):
    """Whether all processes end without a signal, although their work would take a quarter of an hour."""
    limit = time.monotonic() + 300
    try:
        return all(select.select([descriptor], [], [], max(0, limit - time.monotonic()))[0] for descriptor in descriptors)
    finally:
        for descriptor in descriptors:
            os.close(descriptor)


WAIT = "pool.receive(tickets[0])"


@pytest.mark.parametrize("method", ["fork", "spawn", pytest.param("forkserver", marks=pytest.mark.slow)])
@pytest.mark.parametrize("what", ["time.sleep(1000)", "ctypes.PyDLL(None).sleep(1000)"])
def test_the_parent_is_killed(what, method):
    process, workers = run(WAIT, what, method=method)
    process.kill()
    process.wait()
    assert ended(workers)
    process.communicate()


def test_the_parent_is_killed_while_idle():
    process, workers = run("time.sleep(1000)", busy=-1)
    process.kill()
    process.wait()
    assert ended(workers)
    process.communicate()


def test_a_forked_child_of_the_parent_does_not_keep_workers_alive():
    process, workers = run("if os.fork() == 0: os.read(0, 1); os._exit(0)\n" + WAIT, stdin=subprocess.PIPE)
    process.kill()
    process.wait()
    assert ended(workers)
    process.communicate()  # closing its input ends the child


ENDS = {
    "falls off its end": ("", 0, ""),
    "exits": ("sys.exit(3)", 3, ""),
    "raises": ("raise KeyError('mine')", 1, "KeyError: 'mine'"),
    "leaves the pool in a cycle": ("cycle = [pool]; cycle.append(cycle); del pool, tickets", 0, ""),
    "is terminated": ("os.kill(os.getpid(), signal.SIGTERM); time.sleep(5)", -signal.SIGTERM, ""),
    "leaves at once": ("os._exit(4)", 4, ""),
    "closes": ("pool.close()", 0, ""),
}


@pytest.mark.parametrize("name", ENDS)
def test_the_parent_ends_with_tasks_in_flight(name):
    then, code, words = ENDS[name]
    process, workers = run(then or "pass")
    _, err = process.communicate(timeout=300)
    assert ended(workers)
    assert process.returncode == code
    assert words in err and err.count("Traceback") == bool(words)


TOLD = """
import threading
def tell(ident=threading.get_ident()):
    while not pool._dispatcher._pumping or sys._current_frames()[ident].f_code.co_name != "_pump":
        os.sched_yield()
    print("waiting", flush=True)
threading.Thread(target=tell, daemon=True).start()
"""


@pytest.mark.parametrize("group", [False, True])
def test_interrupts(group):
    """Ctrl-C: one traceback, the parent's. Interrupts at other places: test_pool_interrupts."""
    process, workers = run(TOLD + WAIT, start_new_session=True)
    assert process.stdout.readline() == "waiting\n"
    (os.killpg if group else os.kill)(process.pid, signal.SIGINT)
    _, err = process.communicate(timeout=300)
    assert ended(workers)
    assert err.count("Traceback") == 1 and err.rstrip().endswith("KeyboardInterrupt")


def test_a_child_that_forks_and_leaves_does_not_close_the_pool():
    then = """
    if os.fork() == 0:
        sys.exit(0)
    os.wait()
    pool.receive(tickets[0])
    print("good")
    """
    process, workers = run(textwrap.dedent(then).strip(), busy=-1)
    out, err = process.communicate(timeout=300)
    assert out == "good\n" and not err
    assert ended(workers)


def test_a_forked_child_cannot_use_the_pool():
    then = """
    if os.fork() == 0:
        for action in (lambda: pool.submit(0, 0, 0), lambda: pool.receive(tickets[0])):
            try:
                action()
            except Exception as error:
                print(type(error).__name__, "was forked" in str(error), flush=True)
        os._exit(0)
    os.wait()
    pool.receive(tickets[5])
    """
    process, workers = run(textwrap.dedent(then).strip(), busy=-1)
    out, err = process.communicate(timeout=300)
    assert out == "PoolClosed True\n" * 2 and not err
    assert ended(workers)


def test_busy_workers_are_closed_at_once():
    then = "pool.close(); print('closed')"
    for what in ("time.sleep(1000)", "ctypes.PyDLL(None).sleep(1000)"):
        process, workers = run(then, what)
        out, _ = process.communicate(timeout=300)
        assert out == "closed\n"
        assert ended(workers)

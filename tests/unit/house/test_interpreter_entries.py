"""The number of times that an iteration enters the interpreter. Beside a busy Python thread, each entry may wait 5 ms.

The test uses the stubs of CUDA and nvJPEG, in a process that counts calls of Python (``benchmarks/interpreter_entries.py``). The bounds are
the numbers of this code with some room for chance, because sleeping depends on timing. They may shrink; a larger bound needs a reason.
"""

from __future__ import annotations

import shutil

import pytest

from benchmarks import interpreter_entries
from benchmarks.pictures import picture_folder

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not interpreter_entries.available(), reason="Python's library cannot be replaced in part"),
    pytest.mark.skipif(shutil.which("g++") is None, reason="no C++ compiler for the stubs"),
]

MOST = {"training": 1.3, "two_views": 1.5}
"""Entries of all threads but the caller of `run()`, per iteration: the end of decoding, and a job of reading for several iterations."""

ALL = 3.5
"""Entries of all threads with an engine. The number is the same for four operators and for eight."""

BUSY = 1.9
"""Entries of all threads beside a thread that runs pure Python, with an engine (measured: 0.7 to 1.4; with a thread for each kind of work
2.0 to 2.7). The caller handles everything that came while it waited for the interpreter."""


@pytest.mark.parametrize("pipeline", list(MOST))
@pytest.mark.parametrize(("depth", "threads"), [(2, 2), (2, 8), (3, 8), (6, 2), (12, 8)])
@pytest.mark.parametrize("busy", [False, True], ids=["alone", "beside a busy thread"])
def test_entries_of_an_iteration(pipeline, depth, busy, threads):
    """The caller of `run()` admits and plans an iteration in its call. The thread that decodes last queues the launches."""
    found = interpreter_entries.measure(pipeline, picture_folder(None), iterations=200, threads=threads, depth=depth, busy=busy)
    assert not found.get("cpu") and not found.get("gpu") and not found.get("loop"), found
    found.pop("MainThread")
    assert sum(found.values()) <= MOST[pipeline], found


@pytest.mark.parametrize("pipeline", list(MOST))
@pytest.mark.parametrize("threads", [2, 8])
def test_entries_of_an_iteration_with_an_engine(pipeline, threads):
    """The caller does the work of the thread `engines` while it waits."""
    found = interpreter_entries.measure(pipeline, picture_folder(None), threads=threads, engines=1)
    assert found.get("engines", 0) < 1.5, found
    assert not found.get("gpu"), found  # the thread that reports a result also plans the next segments
    assert found.get("loop", 0) < 0.5, found
    assert found.get("worker", 0) + found.get("device", 0) < 0.1, found  # the thread that talks to engines reports, or the caller
    assert sum(found.values()) < ALL, found


@pytest.mark.parametrize("pipeline", ["training", "two_views"])
def test_entries_beside_a_busy_thread(pipeline):
    found = interpreter_entries.measure(pipeline, picture_folder(None), engines=1, busy=True)
    assert sum(found.values()) < BUSY, found

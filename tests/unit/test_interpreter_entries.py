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

ALL = {("training", 0): 4.5, ("two_views", 0): 4.5, ("training", 1): 3.5, ("two_views", 1): 3.5}
"""Entries of all threads, by number of engines. The number is the same for four operators and for eight."""


ALONE = {0: {"cpu": 2, "MainThread": 1.5}, 1: {"engines": 1.5}}
"""Entries of single threads. The caller of `run()` waits once, for the iteration and for the GPU. With engines it also does the work of the
thread `engines` while it waits."""

BUSY = 1.9
"""Entries of all threads beside a thread that runs pure Python, with an engine (measured: 0.7 to 1.4; with a thread for each kind of work
2.0 to 2.7). The caller handles everything that came while it waited for the interpreter."""


@pytest.mark.parametrize("pipeline, engines", list(ALL))
@pytest.mark.parametrize("threads", [2, 8])
def test_entries_of_an_iteration(pipeline, engines, threads):
    found = interpreter_entries.measure(pipeline, picture_folder(None), threads=threads, engines=engines)
    for role, most in ALONE[engines].items():
        assert found.get(role, 0) < most, found
    assert not found.get("gpu"), found  # the thread that reports a result also plans the next segments
    assert found.get("loop", 0) < 0.5, found
    # The threads that decode report once per iteration: the last of all, however many there are.
    # With engines the thread that talks to engines reports, or the caller.
    assert found.get("worker", 0) + found.get("device", 0) < (0.1 if engines else 1.5), found
    assert sum(found.values()) < ALL[pipeline, engines], found


@pytest.mark.parametrize("pipeline", ["training", "two_views"])
def test_entries_beside_a_busy_thread(pipeline):
    found = interpreter_entries.measure(pipeline, picture_folder(None), engines=1, busy=True)
    assert sum(found.values()) < BUSY, found

"""The number of interpreter entries per iteration: beside a busy thread each entry may take a switch interval of 5 ms.

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

ALL = {"training": 6, "two_views": 8}
"""Entries of all threads: the number is the same for four operators and for eight."""


ALONE = {"cpu": 2, "engines": 3, "device": 2, "MainThread": 1.5}
"""Entries of single threads. The caller of `run()` waits once, for the iteration and for the GPU."""


@pytest.mark.parametrize("pipeline", list(ALL))
@pytest.mark.parametrize("threads", [2, 8])
@pytest.mark.parametrize("engines", [0, 1])
def test_entries_of_an_iteration(pipeline, threads, engines):
    found = interpreter_entries.measure(pipeline, picture_folder(None), threads=threads, engines=engines)
    for role, most in ALONE.items():
        assert found.get(role, 0) < most, found
    assert not found.get("gpu"), found  # the thread that reports a result plans what may start then
    assert found.get("loop", 0) < 0.5, found
    assert found["worker"] < 2, found  # one entry per job, independent of the number of threads
    assert sum(found.values()) < ALL[pipeline], found

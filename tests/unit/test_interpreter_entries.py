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

ALL = {("training", 0): 4.5, ("two_views", 0): 4.5, ("training", 1): 4, ("two_views", 1): 4}
"""Entries of all threads, by number of engines. The number is the same for four operators and for eight."""


ALONE = {"cpu": 2, "engines": 1.5, "MainThread": 1.5}
"""Entries of single threads. The caller of `run()` waits once, for the iteration and for the GPU. With engines it sends the request."""


@pytest.mark.parametrize("pipeline, engines", list(ALL))
@pytest.mark.parametrize("threads", [2, 8])
def test_entries_of_an_iteration(pipeline, engines, threads):
    found = interpreter_entries.measure(pipeline, picture_folder(None), threads=threads, engines=engines)
    for role, most in ALONE.items():
        assert found.get(role, 0) < most + 0.5 * engines * (role == "MainThread"), found
    assert not found.get("gpu"), found  # the thread that reports a result also plans the next segments
    assert found.get("loop", 0) < 0.5, found
    # The threads that decode report once per iteration: the last of all, however many there are.
    assert found.get("worker", 0) + found.get("device", 0) < 1.5, found
    assert sum(found.values()) < ALL[pipeline, engines], found

"""What the whole suite shares: the host device, and no thread left behind."""

from __future__ import annotations

import gc
import os
import re
import threading
import time

import pytest

os.environ.setdefault("ASYNCDALI_DEVICE", "host")  # the same program everywhere, without the warning that there is no CUDA

_PIPELINE_THREAD = re.compile(r"asyncdali-(fetch|[0-9a-f]+-)")


def _pipeline_threads() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if _PIPELINE_THREAD.match(thread.name)]


_FORKING = ("test_workers_", "test_pool_", "test_parallel_source", "test_restoring_sources", "test_histories", "test_engine")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Tests that fork this process come first: with all kernels and test modules in memory a fork takes 0.1 s, and each page that is
    written then is copied. (test_workers_*: 110 s at the end of a run, 26 s at its begin.)
    """
    items.sort(key=lambda item: not item.path.name.startswith(_FORKING))


@pytest.fixture(autouse=True, scope="module")
def young_heap():
    """Collecting garbage, as below, looks only at what came since: with compiled kernels around, everything would be half a second each."""
    gc.collect()
    gc.freeze()


@pytest.fixture(autouse=True, scope="session")
def kernels_are_compiled_where_they_are_used():
    """No process that compiles for later is started: tests that count processes, or forbid them, do not depend on what is in the cache."""
    from asyncdali.compiled import later

    later._MOST_STARTS = 0


@pytest.fixture(autouse=True)
def no_threads_left():
    """A test fails when pipeline threads outlive it: dropping a pipeline must end them."""
    before = set(_pipeline_threads())
    yield
    if not set(_pipeline_threads()) - before:
        return
    limit = time.monotonic() + 60
    while (left := set(_pipeline_threads()) - before) and time.monotonic() < limit:
        # Pipelines are referenced by tracebacks of expected errors; what is still in flight may hold on to one a moment longer.
        gc.collect()
        next(iter(left)).join(0.1)
    assert not left, f"threads left behind: {sorted(thread.name for thread in left)}"

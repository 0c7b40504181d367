"""Fixtures and hooks of the whole suite: the host device, and the check that no thread is left behind."""

from __future__ import annotations

import faulthandler
import gc
import os
import re
import signal
import sys
import threading
import time
from collections.abc import Generator

import pytest

os.environ.setdefault("ASYNCDALI_DEVICE", "host")  # the host device on every machine, and no warning about missing CUDA

# Keep byte code, also where PYTHONDONTWRITEBYTECODE is set (as in many containers). About 150 tests start interpreters that import the
# package, and without byte code each of them compiles 420 modules in 0.5 s. pytest keeps test files with rewritten assertions, too, which
# saves 10 s in every run after the first.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False

# A shell starts background jobs with SIGINT ignored, and programs inherit that. Tests that send SIGINT would wait forever.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

_PIPELINE_THREAD = re.compile(r"asyncdali-(fetch|[0-9a-f]+-)")


def _pipeline_threads() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if _PIPELINE_THREAD.match(thread.name)]


_FORKING = ("test_workers_", "test_pool_", "test_parallel_source", "test_restoring_sources", "test_histories", "test_engine")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Run tests that fork this process first. With all kernels and test modules in memory, a fork takes 0.1 s, and each page written after
    it is copied. (test_workers_*: 110 s at the end of a run, 26 s at its beginning.)
    """
    items.sort(key=lambda item: not item.path.name.startswith(_FORKING))


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Without garbage collection: 400 modules and 17,000 tests are made, and stay. Collections took a quarter of the time."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.enable()


@pytest.fixture(autouse=True, scope="module")
def young_heap():
    """Make garbage collection look only at new objects: with compiled kernels in memory, a full collection takes half a second."""
    gc.collect()
    gc.freeze()


_LIMIT, _LIMIT_OF_SLOW = 900, 7200
"""Seconds that a test may take. Programs that tests start have limits of their own, of at most 600 s."""

_REPORTS = pytest.StashKey[int]()


def pytest_configure(config: pytest.Config) -> None:
    config.stash[_REPORTS] = os.dup(sys.__stderr__.fileno())  # output is not captured yet


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    """End the run with the stacks of all threads if a test waits forever. The stack of the main thread names the test."""
    limit = int(os.environ.get("ASYNCDALI_TEST_LIMIT", "0")) or (_LIMIT_OF_SLOW if item.get_closest_marker("slow") else _LIMIT)
    faulthandler.dump_traceback_later(limit, exit=True, file=item.config.stash[_REPORTS])
    try:
        return (yield)
    finally:
        faulthandler.cancel_dump_traceback_later()


_PASSED = pytest.StashKey[bool]()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    if report.when == "call":
        item.stash[_PASSED] = report.passed
    return report


@pytest.fixture(autouse=True)
def no_threads_left(request: pytest.FixtureRequest):
    """Fail a test that passed when pipeline threads outlive it: dropping a pipeline must end its threads."""
    before = set(_pipeline_threads())
    yield
    if not set(_pipeline_threads()) - before or not request.node.stash.get(_PASSED, False):
        return  # the traceback of a test that failed refers to its pipelines
    limit = time.monotonic() + 300
    while (left := set(_pipeline_threads()) - before) and time.monotonic() < limit:
        # Tracebacks of expected errors refer to pipelines; iterations in flight may keep a pipeline for a moment longer.
        gc.collect()
        next(iter(left)).join(0.1)
    assert not left, f"threads left behind: {sorted(thread.name for thread in left)}"

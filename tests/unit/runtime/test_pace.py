"""The choice of the thread that plans an iteration of a short segment."""

from __future__ import annotations

import threading

import numpy as np
import pytest

from asyncdali import fn, pipeline_def
from asyncdali.operators.base import PythonJob, SampleError
from asyncdali.readers.files.contents import FileContentsReader
from asyncdali.readers.files.file_table import FileTable
from asyncdali.runtime.work.pace import AWAITED_FILES_NS, AWAITED_NS, QUICK_NS, SHORT_PIXELS_NS, Pace


def _run(pace: Pace, pixels: int, planning: int = 1000) -> None:
    """One iteration with these times."""
    pace.begins()
    pace.planned()
    pace._planned = planning
    if pace.brief:
        pace.computed(pixels)
    else:
        pace.shared(pixels)


def test_short_segments_become_quick() -> None:
    pace = Pace(True)
    _run(pace, 10_000)
    assert (pace.brief, pace.quick) == (True, False), "the first times include the hand-over to a worker thread, so a trial follows"
    _run(pace, 10_000)
    assert pace.brief and pace.quick


def test_segments_that_may_wait_are_never_quick() -> None:
    pace = Pace(False)
    for _ in range(3):
        _run(pace, 10_000)
    assert pace.brief and not pace.quick


def test_long_planning_is_not_quick() -> None:
    pace = Pace(True)
    for _ in range(3):
        _run(pace, 10_000, QUICK_NS)
    assert pace.brief and not pace.quick


def test_one_slow_iteration_changes_nothing() -> None:
    pace = Pace(True)
    for _ in range(3):
        _run(pace, 10_000)
    _run(pace, 10 * SHORT_PIXELS_NS)
    assert pace.quick


def test_pixels_that_take_longer_repeatedly_are_shared() -> None:
    pace = Pace(True)
    for _ in range(3):
        _run(pace, 10_000)
    for _ in range(12):
        _run(pace, 3 * SHORT_PIXELS_NS)
    assert not pace.brief and not pace.quick


@pytest.mark.parametrize("quick", [False, True])
def test_very_long_pixels_are_shared_at_once(quick: bool) -> None:
    pace = Pace(quick)
    for _ in range(3):
        _run(pace, 10_000)
    _run(pace, 5_000_000)
    assert not pace.brief and not pace.quick


def test_trials_are_rare() -> None:
    pace = Pace(True)
    tried = []
    for _ in range(200):
        tried.append(pace.brief)
        _run(pace, 3 * SHORT_PIXELS_NS)
    assert sum(tried) <= 4


def test_results_do_not_depend_on_the_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    threads: set[str] = set()

    @pipeline_def(batch_size=4, num_threads=2, device_id=None, seed=5, prefetch_queue_depth=2)
    def graph():
        data = fn.external_source(source=lambda k: np.full((4, 8), k, np.float32), batch=True)
        return fn.random.uniform(data, range=[0.0, 1.0]) + data, fn.flip(fn.reshape(data, shape=[2, 4, 1], layout="HWC"), horizontal=1)

    def outputs(quick: bool) -> list[np.ndarray]:
        with monkeypatch.context() as patch:
            begins = Pace.begins

            def noted(self: Pace) -> None:
                threads.add(threading.current_thread().name)
                begins(self)
                self.brief = self.quick = quick

            patch.setattr(Pace, "begins", noted)
            patch.setattr(Pace, "shared", lambda self, took: None)
            patch.setattr(Pace, "computed", lambda self, took: None)
            pipe = graph()
            pipe.build()
            found = [np.copy(output.as_array()) for _ in range(6) for output in pipe.run()]
            pipe.close()
            return found

    for one, other in zip(outputs(False), outputs(True), strict=True):
        np.testing.assert_array_equal(one, other)
    assert any(name.endswith("-cpu") for name in threads), "the stage thread"


def test_segments_without_pixels_become_quick() -> None:
    pace = Pace(True)
    for _ in range(2):
        pace.begins()
        pace.planned()
        pace._planned = 1000
        pace.without_pixels()
    assert pace.quick and pace.awaited


def test_segments_of_known_contents_are_made_by_the_deciding_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    threads: list[str] = []
    begins = Pace.begins

    def noted(self: Pace) -> None:
        threads.append(threading.current_thread().name)
        begins(self)

    monkeypatch.setattr(Pace, "begins", noted)

    @pipeline_def(batch_size=4, num_threads=1, device_id=None, prefetch_queue_depth=1)
    def graph():
        return fn.zeros_like(fn.external_source(source=lambda k: np.full((4, 8), k, np.float32), batch=True))

    with graph() as pipe:
        for _ in range(20):
            pipe.run()
    assert threads[-1] == threading.current_thread().name


@pytest.mark.parametrize(("files", "limit"), [(True, AWAITED_FILES_NS), (False, AWAITED_NS)])
def test_a_caller_that_waits_reads_local_files_only_if_they_come_fast(files: bool, limit: int) -> None:
    pace = Pace(False, AWAITED_FILES_NS if files else AWAITED_NS)
    for planning in (limit - 1, limit):
        pace.begins()
        pace.planned()
        pace._planned, pace._whole = planning, limit
        pace.without_pixels()
        assert pace.awaited == (planning < limit) and not pace.quick


def test_readers_of_remote_files_never_run_on_the_calling_thread(tmp_path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A server may never answer, and Ctrl-C must work. `on_caller`: whether a time of 0 puts the segment on the calling thread."""
    (tmp_path / "a").write_bytes(b"a")
    on_caller, ended = [], Pace._ended
    for remote in (False, True):
        with monkeypatch.context() as patch:
            patch.setattr(FileTable, "remote", property(lambda table, remote=remote: remote, lambda table, found: None), raising=False)
            patch.setattr(FileContentsReader, "fetched", lambda self, draw, fetch: fetch(draw.indices))
            paths: list[Pace] = []
            patch.setattr(Pace, "_ended", lambda self, took, paths=paths: paths.append(self) or ended(self, took))

            @pipeline_def(batch_size=1, num_threads=1, device_id=None, prefetch_queue_depth=1)
            def graph():
                return fn.readers.file(files=[str(tmp_path / "a")])[0]

            with graph() as pipe:
                pipe.run()
            paths[0]._planned = paths[0]._whole = 0
            paths[0].without_pixels()
            on_caller.append(paths[0].awaited)
    assert on_caller == [True, False]


def test_a_preparation_gets_the_error_of_its_job() -> None:
    """It may catch the error, or raise another one."""

    def fail(sample: int) -> None:
        raise SampleError(sample, f"job {sample}")

    def prepare(self, inputs, arguments, iteration):
        try:
            yield PythonJob([1], fail)
        except SampleError as error:
            found = str(error)
        try:
            yield PythonJob([0], fail)
        except SampleError as error:
            raise SampleError(1, f"{found}, then {error}") from error

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(FileContentsReader, "read_contents", lambda self, draw: prepare(self, None, None, None))

        @pipeline_def(batch_size=2, num_threads=2, device_id=None)
        def graph():
            return fn.readers.file(files=[__file__])[0]

        with graph() as pipe, pytest.raises(RuntimeError, match=r"(?s)sample 1.*job 1, then job 0"):
            pipe.run()

"""How much of the processors other programs took: counts of the system, their meaning, and the estimate without them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading

import pytest
from helpers.benches import ROOT, bench

from asyncdali.runtime.counting.statistics import ThreadStatistics
from asyncdali.tooling import bench as command
from asyncdali.tooling import sharing
from asyncdali.tooling.sharing import CONSUMER, STAGES, WORKERS


def _proc(folder, threads):
    """A folder like /proc with these threads of process 7: id -> text of its file; None: no file."""
    for number, text in threads.items():
        place = folder / "7" / "task" / str(number)
        place.mkdir(parents=True)
        if text is not None:
            (place / "schedstat").write_text(text)
    (folder / "7" / "task" / "no_number").mkdir()
    return folder


def test_the_times_of_all_threads(tmp_path):
    proc = _proc(tmp_path, {7: "100 20 3\n", 8: "0 5 1\n", 9: None, 10: "", 11: "x y z"})
    assert sharing.taken([7, 99], proc) == {(7, 7): (100, 20), (7, 8): (0, 5)}


@pytest.mark.parametrize("text", [None, "0 0 0\n", "nothing"])
def test_systems_without_counts(tmp_path, text):
    assert sharing.taken([7], _proc(tmp_path, {7: text})) is None


def test_this_process_has_counts_or_none():
    found = sharing.taken([os.getpid()])
    assert found is None or (os.getpid(), threading.get_native_id()) in found


S = 10**9


def test_delays_that_others_cause():
    before = {(7, 7): (S, 0), (7, 8): (S, S)}
    after = {(7, 7): (2 * S, S), (7, 8): (4 * S, 4 * S), (7, 9): (S, S)}
    found = sharing.between(before, after, {7: CONSUMER, 8: WORKERS, 9: WORKERS}, 5.0, 2)
    assert found.own_seconds == 5 and found.delayed_seconds == 5 and found.others_seconds == 5 and found.others_share == 0.5
    assert found.stretch == {CONSUMER: 2.0, WORKERS: 2.0} and not found.is_estimated


def test_delays_that_a_program_causes_itself():
    """Eight threads on two processors that nothing else uses: six of them always wait."""
    after = {(7, k): (S, 3 * S) for k in range(8)}
    found = sharing.between({}, after, dict.fromkeys(range(8), WORKERS), 4.0, 2)
    assert found.delayed_seconds == 24 and found.others_seconds == 0 and found.others_share == 0 and found.stretch == {WORKERS: 4.0}
    assert sharing.between({}, {}, {}, 0.0, 2).others_share == 0


def test_the_estimate_without_counts():
    found = sharing.estimated(6.0, ThreadStatistics(2, 18.0, 6.0), 10.0, 2)
    assert found.is_estimated and found.others_seconds == 12 and found.stretch == {WORKERS: 3.0}
    assert found.others_share == pytest.approx(2 / 3)
    assert sharing.estimated(6.0, ThreadStatistics(2, 0.0, 0.0), 10.0, 2).others_seconds == 0


def test_threads_have_groups():
    release = threading.Event()
    threads = [threading.Thread(target=release.wait, name=name) for name in ("asyncdali-1-worker-0", "asyncdali-1-cpu")]
    for thread in threads:
        thread.start()
    try:
        groups = sharing.groups_of_threads()
        assert [groups[thread.native_id] for thread in threads] == [WORKERS, STAGES]
        assert groups[threading.get_native_id()] == CONSUMER
    finally:
        release.set()
        for thread in threads:
            thread.join()


def test_the_lines_for_people():
    known = {"others_share": 0.414, "others_seconds": 3.2, "is_estimated": False}
    assert command.sharing_text(known) == "other programs had 41 % of the processor time that this one asked for (3.20 s, run delay)"
    assert "no other program" in command.sharing_text({**known, "others_share": 0.004})
    assert "estimated" in command.sharing_text({**known, "is_estimated": True})


@pytest.mark.slow
def test_a_busy_processor_is_seen(tmp_path):
    """Beside three programs on one processor: others have most of it, and a function that computes does not wait."""
    if sharing.taken([os.getpid()]) is None:
        pytest.skip("this system does not count delays")
    program = tmp_path / "program.py"
    program.write_text(
        "from asyncdali import fn, pipeline_def\n"
        "@pipeline_def(batch_size=8, num_threads=1, device_id=None)\n"
        "def computing():\n"
        "    return fn.python_function(fn.random.uniform(shape=[8]), function=lambda a: a + sum(range(200_000)) % 3)\n"
    )
    place = min(os.sched_getaffinity(0))
    spin = f"import os; os.sched_setaffinity(0, [{place}])\nwhile True: pass"
    busy = [subprocess.Popen([sys.executable, "-c", spin]) for _ in range(3)]
    try:
        start = f"import os, sys; os.sched_setaffinity(0, [{place}]); from asyncdali.__main__ import main; sys.exit(main())"
        done = subprocess.run(
            [sys.executable, "-c", start, "bench", f"{program}:computing", "--iterations", "40", "--json"],
            env={**os.environ, "PYTHONPATH": str(ROOT)}, capture_output=True, text=True, timeout=300, check=False,
        )  # fmt: skip
    finally:
        for process in busy:
            process.kill()
            process.wait()
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)["measurement"]
    assert found["sharing"]["others_share"] > 0.4
    assert "computes in Python" in found["bottleneck"]["sentence"], found["bottleneck"]["sentence"]


def test_a_measurement_says_what_others_took():
    found = bench("slow_python_function", "--iterations", "5")
    shared = found["sharing"]
    assert 0 <= shared["others_share"] <= 1 and shared["own_seconds"] > 0 and shared["others_seconds"] <= shared["delayed_seconds"] + 1e-9

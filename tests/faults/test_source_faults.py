"""Pipelines with parallel sources when processes die, exit, hang or misbehave."""

from __future__ import annotations

import contextlib
import gc
import os
import random
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import numpy as np
import pytest
from asyncdali_workers.processes import overtime
from helpers.clocks import TIMEOUT, PoolClock
from helpers.pipelines import pipeline_of, values
from helpers.processes import wait_until
from helpers.sources import SIZE, Positions
from helpers.warm import run_warm

from asyncdali import fn

ENDLESS = 1 << 40


def make(source, **options):
    given = {"batch_size": SIZE, "py_num_workers": 2, **options}
    return pipeline_of(lambda: fn.external_source(source, batch=False, parallel=True, prefetch_queue_depth=2), **given)


def wanted(k):
    return [[SIZE * k + j, j, k, 0] for j in range(SIZE)]


def workers_of(pipe):
    return pipe._core.processes.parallel.pool.pids


def alive(pid):
    try:
        with open(f"/proc/{pid}/stat") as file:
            return file.read().rsplit(")", 1)[1].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):  # the process ended before its file was opened, or while it was read
        return False


def kill_one(pipe, chance):
    """SIGKILL for a random worker. It may be dead already if no thread has waited for it since."""
    with contextlib.suppress(ProcessLookupError):
        os.kill(chance.choice(workers_of(pipe)), signal.SIGKILL)


def shared_memory_files(pid):
    """Files below /dev/shm that a process has open or mapped."""
    found = {line.split(maxsplit=5)[5] for line in Path(f"/proc/{pid}/maps").read_text().splitlines() if "/dev/shm/" in line}
    for link in Path(f"/proc/{pid}/fd").iterdir():
        with contextlib.suppress(FileNotFoundError):  # the descriptor of this listing
            found.add(os.readlink(link))
    return {name for name in found if name.startswith("/dev/shm/")}


def wait_until_gone(pids):
    limit = time.monotonic() + 300
    while any(alive(pid) for pid in pids):
        assert time.monotonic() < limit, "processes are left"
        os.sched_yield()


@pytest.mark.parametrize("method", ["fork", "spawn", pytest.param("forkserver", marks=pytest.mark.slow)])
def test_a_killed_worker_changes_nothing(method):
    pipe = make(Positions(ENDLESS), py_start_method=method)
    chance = random.Random(1)
    for k in range(40):
        assert values(pipe.run())[0] == wanted(k)
        if k % 10 == 5:
            kill_one(pipe, chance)
    k, limit = 40, time.monotonic() + 300
    while pipe.worker_statistics()["restarts"] < 2:  # a thread that waits for a batch notices deaths, or every 64 batches
        assert values(pipe.run())[0] == wanted(k)
        k += 1
        assert time.monotonic() < limit


@pytest.mark.slow
@pytest.mark.parametrize("method", ["fork", "spawn", pytest.param("forkserver", marks=pytest.mark.slow)])
def test_a_minute_of_killing(method):
    """For 60 s a random worker dies every 200 ms. Batches stay the same, and no process is left. test_pool_death also kills the zygote."""
    pipe = make(Positions(ENDLESS), py_start_method=method)
    chance = random.Random(2)
    descriptors = None
    kills, k, start = 0, 0, time.monotonic()
    while (now := time.monotonic() - start) < 60:
        assert values(pipe.run())[0] == wanted(k)
        k += 1
        if now > 0.2 * (kills + 1):
            kills += 1
            kill_one(pipe, chance)
        if k == 200:
            descriptors = len(os.listdir("/proc/self/fd"))
    assert kills > 250
    assert len(os.listdir("/proc/self/fd")) <= descriptors + 8
    pids = workers_of(pipe)
    pipe.close()
    wait_until_gone(pids)


def killer(info):
    if info.idx_in_epoch == 6 and not os.path.exists(os.environ["GATE"]):
        os.kill(os.getpid(), signal.SIGKILL)
    return np.int32([info.idx_in_epoch])


def test_a_sample_that_kills_its_worker_is_named(tmp_path, monkeypatch):
    gate = tmp_path / "gate"
    monkeypatch.setenv("GATE", str(gate))
    pipe = make(killer, max_retries=1)
    assert values(pipe.run()) == [[[0], [1], [2], [3]]]
    with pytest.raises(RuntimeError, match=r"sample 2 of iteration 1.*SIGKILL.*max_retries=1"):
        pipe.run()
    gate.touch()  # the same batch is requested again, and this time the source works
    assert values(pipe.run()) == [[[4], [5], [6], [7]]]


def hangs(info):
    if info.idx_in_epoch == 5 and not os.path.exists(os.environ["GATE"]):
        stuck_here()
    return np.int32([info.idx_in_epoch])


def stuck_here():
    open(os.environ["GATE"] + ".stuck", "w").close()
    while True:
        time.sleep(60)


def test_a_callable_that_hangs_is_shown(tmp_path, monkeypatch):
    gate = tmp_path / "gate"
    monkeypatch.setenv("GATE", str(gate))
    pipe = make(hangs, worker_timeout=TIMEOUT, prefetch_queue_depth=1)
    pipe.run()  # the next batches have been requested
    wait_until((tmp_path / "gate.stuck").exists)  # the pool's time limit counts from before the call
    clock = PoolClock(pipe._core.processes.parallel.pool)
    monkeypatch.setattr(overtime, "time", clock)
    clock.over()
    with pytest.raises(RuntimeError, match=r"(?s)stuck_here"):
        pipe.run()
    clock.back()
    gate.touch()
    assert values(pipe.run()) == [[[4], [5], [6], [7]]]


def test_a_pipeline_deleted_during_an_iteration():
    pipe = make(Positions(ENDLESS))
    pipe.run()
    pids = workers_of(pipe)
    del pipe
    gc.collect()
    wait_until_gone(pids)


def test_two_pipelines_with_one_source_object():
    source = Positions(ENDLESS)
    one, two = make(source), make(source)
    for k in range(5):
        assert values(one.run())[0] == wanted(k)
        if k % 2:
            assert values(two.run())[0] == wanted(k // 2)


def test_workers_beside_running_threads_of_another_pipeline():
    """A fork while the loop and other pipelines' threads are working."""
    busy = pipeline_of(lambda: fn.random.uniform(shape=[1000]), prefetch_queue_depth=4)
    for _ in range(3):
        busy.run()
        pipe = make(Positions(ENDLESS))
        assert values(pipe.run())[0] == wanted(0)
        pipe.close()


EXIT = """
    import sys, time
    from helpers.pipelines import pipeline_of
    from helpers.sources import Positions
    from asyncdali import fn

    class Slow(Positions):
        def __call__(self, info):
            if info.iteration:
                time.sleep(100)
            return super().__call__(info)

    pipe = pipeline_of(lambda: fn.external_source(Slow(1 << 40), batch=False, parallel=True, prefetch_queue_depth=3),
                       batch_size=4, py_num_workers=2, py_start_method=sys.argv[1], prefetch_queue_depth=1)
    pipe.run()
    print(*pipe._core.processes.parallel.pool.pids, flush=True)
    if sys.argv[2] == "kill":
        import os, signal
        os.kill(os.getpid(), signal.SIGKILL)
"""


_OTHERS = [pytest.param(method, "exit", marks=pytest.mark.slow) for method in ("spawn", "forkserver")]


@pytest.mark.parametrize("method, how", [("fork", "exit"), ("fork", "kill"), ("spawn", "kill"), ("forkserver", "kill"), *_OTHERS])
def test_no_orphans(method, how):
    """The interpreter ends, or is killed, with busy workers."""
    done = run_warm(EXIT, method, how)
    pids = [int(word) for word in done.stdout.split()]
    assert len(pids) == 2, done.stderr
    assert done.returncode == (0 if how == "exit" else -signal.SIGKILL)
    assert "Traceback" not in done.stderr
    wait_until_gone(pids)


CTRL_C = """
    import signal
    from helpers.pipelines import pipeline_of, values
    from helpers.sources import Positions
    from asyncdali import fn

    pipe = pipeline_of(lambda: fn.external_source(Positions(1 << 40), batch=False, parallel=True), batch_size=4, py_num_workers=2)
    k = 0
    for _ in range(4):
        for _ in range(50):
            found = values(pipe.run())[0][0][2]
            assert found == k, (found, k)
            k += 1
        if k < 200:
            try:
                print("batch", flush=True)
                while True:
                    signal.pause()
            except KeyboardInterrupt:
                pass
    assert pipe.worker_statistics()["restarts"] == 0
    print("interrupted, lost nothing", flush=True)
"""


def test_ctrl_c_reaches_main_only():
    """A terminal sends SIGINT to the whole process group. Workers ignore it. test_interrupts has interrupts in `run`."""
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    process = subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(CTRL_C)], env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        start_new_session=True
    )
    for _ in range(3):
        assert process.stdout.readline() == "batch\n", process.stderr.read()
        os.killpg(process.pid, signal.SIGINT)
    out, err = process.communicate(timeout=300)
    assert "lost nothing" in out, err
    assert "Traceback" not in err
    assert process.returncode == 0


@pytest.mark.parametrize("method", ["fork", "spawn", pytest.param("forkserver", marks=pytest.mark.slow)])
def test_main_without_a_file(method):
    """A program from standard input, like a notebook: functions of __main__ reach the workers."""
    program = f"""
import numpy as np
from asyncdali import Pipeline, fn
def source(info):
    return np.int32([info.idx_in_epoch])
pipe = Pipeline(batch_size=3, num_threads=1, py_num_workers=2, py_start_method={method!r})
with pipe:
    pipe.set_outputs(fn.external_source(source, batch=False, parallel=True))
print([int(np.asarray(x)[0]) for x in pipe.run()[0]])
"""
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run([sys.executable, "-"], input=program, env=env, capture_output=True, text=True, timeout=300, check=False)
    assert done.stdout.strip() == "[0, 1, 2]", done.stderr


def odd_result(info):
    return {0: "text", 1: None, 2: np.zeros(2, complex), 3: np.array([None])}[info.idx_in_epoch % 4]


def test_odd_results_are_refused_by_name():
    pipe = make(odd_result, batch_size=1)
    for words in ("str", "NoneType", "complex128", "object"):
        with pytest.raises((TypeError, RuntimeError), match=words):
            pipe.run()
        pipe._core.session.producer.sources.pullers[0].iteration += 1  # without this step the same sample would be requested again


def test_small_shared_memory_folder_does_not_matter():
    """Neither this process nor a worker has a file of /dev/shm open or mapped. Other programs may change the listing of the folder."""
    pipe = make(Positions(ENDLESS))
    pipe.run()
    for pid in (os.getpid(), *workers_of(pipe)):
        assert "/memfd:" in Path(f"/proc/{pid}/maps").read_text()
        assert shared_memory_files(pid) == set()
    pipe.close()


@pytest.mark.slow
def test_endurance():
    """100,000 iterations: no growth of descriptors, memory or processes."""
    import resource

    pipe = make(Positions(ENDLESS))
    marks = []
    for k in range(100_000):
        outputs = pipe.run()
        if k % 10_000 == 0:
            assert values(outputs)[0] == wanted(k)
        if k in (5_000, 99_999):
            with open("/proc/self/statm") as file:
                resident = int(file.read().split()[1]) * resource.getpagesize()
            marks.append((len(os.listdir("/proc/self/fd")), resident, len(workers_of(pipe))))
    (fds, memory, processes), (fds_after, memory_after, processes_after) = marks
    assert fds_after <= fds
    assert processes_after == processes
    assert memory_after < memory * 1.05 + (4 << 20)

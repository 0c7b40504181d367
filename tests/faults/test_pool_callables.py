"""Callables that misbehave. The pool continues, or its error says what happened."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys

import numpy as np
import pytest
from asyncdali_workers import Source, WorkerDied, WorkerError, WorkerPool
from helpers.processes import wait_for_zygote
from helpers.warm import run_warm


@pytest.fixture
def make_pool():
    pools = []

    def make(callback, kind="batch", workers=2, batch_size=4, **options):
        pool = WorkerPool([Source(callback, kind, batch_size)], num_workers=workers, **options)
        pools.append(pool)
        pool.start()
        return pool

    yield make
    for pool in pools:
        pool.close()


def ask(pool, iteration=0):
    return pool.receive(pool.submit(0, iteration, 0), timeout=300)


def value(pool, iteration=0):
    return int(ask(pool, iteration).outputs[0].sample(0).flat[0])


def test_printing(capfd, make_pool):
    def source(iteration):
        print(f"batch {iteration}")
        print("a hint", file=sys.stderr)
        return np.zeros((1, 1))

    pool = make_pool(source)
    print("said before the fork", end="")
    for iteration in range(3):
        ask(pool, iteration)
    pool.close()
    out, err = capfd.readouterr()
    assert out.count("said before the fork") == 1
    assert all(f"batch {iteration}\n" in out for iteration in range(3)) and err.count("a hint") == 3


def test_text_printed_before_the_fork_is_printed_once():
    code = """
import sys, numpy as np
from asyncdali_workers import Source, WorkerPool
sys.stdout.write("once")
with WorkerPool([Source(lambda i: np.zeros((1, 1)), "batch", 1)], num_workers=2) as pool:
    pool.receive(pool.submit(0, 0, 0))
"""
    assert run_warm(code).stdout == "once"


@pytest.mark.parametrize("child", ["exits", "returns", "execs"])
def test_forking(make_pool, child):
    def source(iteration):
        pid = os.fork()
        if pid:
            if child != "returns":
                os.waitpid(pid, 0)
            return np.full((1, 1), iteration)
        if child == "exits":
            os._exit(0)
        if child == "execs":
            os.execv("/bin/true", ["true"])
        return np.full((1, 1), -1)  # this process is not a worker

    pool = make_pool(source)
    assert [value(pool, i) for i in range(6)] == list(range(6))


def test_subprocesses(make_pool):
    def source(iteration):
        return np.full((1, 1), int(subprocess.run(["echo", str(iteration)], capture_output=True, close_fds=False, check=True).stdout))

    pool = make_pool(source)
    assert [value(pool, i) for i in range(4)] == list(range(4))


def test_a_forked_child_of_a_callable_does_not_keep_the_pool_alive(make_pool):
    """The child holds none of our descriptors: neither answers nor the pipe that reports the parent's death."""

    def source(iteration):
        if os.fork() == 0:
            paths = [f"/proc/self/fd/{name}" for name in os.listdir("/proc/self/fd")]
            os._exit(sum("memfd:asyncdali" in os.readlink(path) for path in paths if os.path.islink(path)))
        return np.full((1, 1), os.wait()[1])

    assert value(make_pool(source)) == 0


def test_changing_the_directory(make_pool, tmp_path):
    def source(iteration):
        os.chdir(tmp_path)
        return np.full((1, 1), iteration)

    here = os.getcwd()
    pool = make_pool(source)
    assert [value(pool, i) for i in range(4)] == list(range(4))
    assert os.getcwd() == here


def test_closing_standard_streams(make_pool):
    def source(iteration):
        for descriptor in range(3):
            with contextlib.suppress(OSError):
                os.close(descriptor)
        return np.full((1, 1), iteration)

    pool = make_pool(source)
    assert [value(pool, i) for i in range(4)] == list(range(4))
    pool.close()


@pytest.mark.parametrize("reuse", [False, True])
def test_closing_our_descriptors(reuse, tmp_path):
    """A worker without its descriptors cannot answer. It is replaced, and none of our data goes to files that it opens later."""
    code = f"""
import os, numpy as np
from asyncdali_workers import Source, WorkerDied, WorkerError, WorkerPool

def source(iteration):
    if iteration == 2:
        os.closerange(3, 5000)
        if {reuse}:
            for number in range(20):
                os.open({str(tmp_path)!r} + "/" + str(number), os.O_RDWR | os.O_CREAT)
    return np.full((1, 1), iteration)

with WorkerPool([Source(source, "batch", 1)], num_workers=2, max_retries=1) as pool:
    for iteration in (0, 1, 2, 3):
        try:
            print(pool.receive(pool.submit(0, iteration, 0), timeout=300).outputs[0].values[0, 0])
        except WorkerDied as error:
            print("2 in all" in str(error))
"""
    done = run_warm(code)
    assert done.stdout.split() == ["0", "1", "True", "3"], done.stderr
    assert all((tmp_path / name).stat().st_size == 0 for name in os.listdir(tmp_path))


def test_ending_the_process(make_pool):
    def source(iteration):
        if iteration == 1:
            os._exit(3)
        if iteration == 2:
            signal.signal(signal.SIGABRT, signal.SIG_DFL)  # without the handler of the test runner
            os.abort()
        return np.full((1, 1), iteration)

    pool = make_pool(source, max_retries=0)
    with pytest.raises(WorkerDied, match="exited with code 3"):
        ask(pool, 1)
    with pytest.raises(WorkerDied, match="SIGABRT"):
        ask(pool, 2)
    assert value(pool, 5) == 5


def test_a_segmentation_fault(make_pool):
    def source(iteration):
        if iteration == 1:
            signal.signal(signal.SIGSEGV, signal.SIG_DFL)
            os.kill(os.getpid(), signal.SIGSEGV)
        return np.full((1, 1), iteration)

    pool = make_pool(source, max_retries=1)
    with pytest.raises(WorkerDied, match="SIGSEGV"):
        ask(pool, 1)
    assert value(pool) == 0


def test_changing_what_was_returned_later(make_pool):
    """Data is copied immediately, so a callable may reuse its array."""
    own = np.zeros((4, 3000), np.int64)

    def source(iteration):
        own[:] = iteration
        return own

    pool = make_pool(source, workers=1)
    kept = [ask(pool, i).outputs[0].values for i in range(5)]
    assert [int(values[0, 0]) for values in kept] == [0, 1, 2, 3, 4]


def test_a_deep_recursion(make_pool):
    def source(iteration):
        return source(iteration)

    with pytest.raises(RecursionError):
        ask(make_pool(source))


def test_an_error_with_a_huge_text(make_pool):
    def source(iteration):
        raise ValueError("x" * 5_000_000)

    with pytest.raises(ValueError) as caught:
        ask(make_pool(source))
    assert len(str(caught.value)) >= 5_000_000


def test_an_exception_that_cannot_be_shown(make_pool):
    class Odd(Exception):
        def __str__(self):
            raise RuntimeError

    def source(iteration):
        raise Odd

    with pytest.raises(WorkerError, match="Odd"):
        ask(make_pool(source))


def test_threads_of_a_callable(make_pool):
    import threading

    def source(iteration):
        threading.Thread(target=threading.Event().wait, daemon=False).start()  # this thread never ends
        return np.full((1, 1), iteration)

    pool = make_pool(source)
    assert [value(pool, i) for i in range(4)] == list(range(4))


def test_workers_draw_different_numbers(make_pool, tmp_path):
    def draws(number):
        meeting = tmp_path / str(number)
        meeting.mkdir()

        def source(iteration):
            import random

            (meeting / str(os.getpid())).touch()
            while len(list(meeting.iterdir())) < 2:  # each worker waits for the other, so both get tasks
                os.sched_yield()
            return np.array([[os.getpid(), random.getrandbits(30), np.random.randint(1 << 30)]])

        pool = make_pool(source, seed=7)
        tickets = [pool.submit(0, i, 0) for i in range(6)]
        found = {}
        for ticket in tickets:
            pid, *numbers = pool.receive(ticket, 300).outputs[0].sample(0)[...].tolist()
            found.setdefault(pool.pids.index(pid), []).append(tuple(numbers))
        return found

    one, two = draws(1), draws(2)
    assert len(one) == len(two) == 2
    assert not set(one[0]) & set(one[1])
    for worker in one:
        assert all(a == b for a, b in zip(one[worker], two[worker]))


def test_libraries_get_one_thread(make_pool, monkeypatch):
    cv2 = pytest.importorskip("cv2")
    cv2.setNumThreads(4)
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    image = np.zeros((2000, 2000, 3), np.uint8)
    cv2.GaussianBlur(image, (31, 31), 5)  # OpenCV's threads run now, and a forked child that uses them hangs

    def source(iteration):
        cv2.GaussianBlur(image, (31, 31), 5)
        return np.array([[cv2.getNumThreads(), int(os.environ["OMP_NUM_THREADS"]), int(os.environ["MKL_NUM_THREADS"])]])

    monkeypatch.setenv("MKL_NUM_THREADS", "3")  # the user's setting
    pool = make_pool(source)
    assert ask(pool).outputs[0].sample(0).tolist() == [1, 1, 3]
    os.kill(pool.pids[0], signal.SIGKILL)
    wait_for_zygote(pool)
    os.kill(pool._dispatcher._launcher.process, signal.SIGKILL)  # a new zygote will be forked later
    for iteration in range(4):
        assert ask(pool, iteration).outputs[0].sample(0).tolist() == [1, 1, 3]
    assert cv2.getNumThreads() == 4


@pytest.mark.parametrize(
    ("result", "kind", "what"),
    [
        (np.float32, "samples", "sample 0 of iteration 0, epoch 0.*the class numpy.float32 is not accepted as a sample"),
        (int, "samples", "sample 0 of iteration 0, epoch 0.*the class int is not accepted as a sample"),
        (None, "samples", "sample 0 of iteration 0, epoch 0.*a sample of type NoneType is not accepted"),
        (np.float32, "batch", "batch 0, epoch 0.*the class numpy.float32 is not accepted as a batch"),
        (None, "batch", "batch 0, epoch 0.*a batch of type NoneType is not accepted"),
        ([np.zeros(2), np.float32], "batch", "sample 1 of batch 0, epoch 0.*the class numpy.float32 is not accepted as a sample"),
        ([np.float32, np.zeros(2)], "batch", "sample 0 of batch 0, epoch 0.*the class numpy.float32 is not accepted as a sample"),
        ([np.zeros(1 << 20), None], "batch", "sample 1 of batch 0, epoch 0.*a sample of type NoneType is not accepted"),
    ],
)
def test_a_class_or_nothing_in_place_of_data(make_pool, result, kind, what):
    pool = make_pool(lambda position: result, kind, workers=1, batch_size=2)
    with pytest.raises(TypeError, match=rf"(?s)\(worker 0, process \d+\), {what}"):
        pool.receive(pool.submit(0, 0, 0), timeout=300)


@pytest.mark.parametrize(
    ("result", "what"),
    [
        ((np.zeros(2), np.float32), "sample 0 of iteration 0, epoch 0, output 1.*the class numpy.float32"),
        (np.float32, r"sample 0 of iteration 0, epoch 0.*2 components are expected \(num_outputs\), not the class numpy.float32"),
    ],
)
def test_a_class_where_several_outputs_are_expected(result, what):
    source = Source(lambda info: result, "samples", 2, name="pictures", num_outputs=2)
    with WorkerPool([source], num_workers=1) as pool, pytest.raises(TypeError, match=rf"(?s)pictures \(worker 0, process \d+\), {what}"):
        pool.receive(pool.submit(0, 0, 0), timeout=300)

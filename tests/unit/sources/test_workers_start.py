"""Start methods, how sources reach the workers, and error messages."""

from __future__ import annotations

import json
import pickle
import shutil
import subprocess
import sys
import threading
import warnings

import numpy as np
import pytest
from asyncdali_workers import Source, WorkerCallbackError, WorkerDied, WorkerPool, check_fork_allowed, pickle_by_value
from helpers import worker_sources as ws
from helpers.places import PROJECT

METHODS = ["fork", "spawn", "forkserver"]


@pytest.fixture
def make_pool():
    pools = []

    def make(callback, kind="batch", workers=1, **options):
        pool = WorkerPool([Source(callback, kind, 4, name="mine")], num_workers=workers, **options)
        pools.append(pool)
        pool.start()
        return pool

    yield make
    for pool in pools:
        pool.close()


def value(pool, iteration=0):
    return pool.receive(pool.submit(0, iteration, 0), timeout=300).outputs[0].sample(0).tolist()


class Local:
    def __init__(self, **attributes):
        self.__dict__.update(attributes)

    def __call__(self, iteration):
        return np.full((1, 1), iteration)


@pytest.mark.parametrize("method", METHODS)
def test_every_kind_with_every_method(method):
    factor = 3
    sources = [
        Source(lambda info: np.full(2, info.idx_in_epoch * factor), "samples", 5),
        Source(ws.whole_batch, "batch", 4),
        Source(ws.generated, "stream", 4),
        Source([np.zeros((1, 1))], "stream", 1),
    ]
    with WorkerPool(sources, num_workers=2, start_method=method) as pool:
        assert pool.start_method == method and pool.num_workers == 2
        for iteration in range(3):
            tickets = [pool.submit(source, iteration, 0) for source in range(3)]
            one, two, three = (pool.receive(ticket, 300).outputs[0] for ticket in tickets)
            assert [one.sample(i)[0] for i in range(5)] == [15 * iteration + 3 * i for i in range(5)]
            assert (two.values == iteration).all() and (three.values == iteration).all()


def test_a_second_start_has_no_effect(make_pool):
    pool = make_pool(ws.whole_batch)
    pids = pool.pids
    pool.start()
    assert pool.pids == pids


@pytest.mark.parametrize("method", ["spawn", "forkserver"])
def test_an_unpicklable_source_is_explained(make_pool, method):
    with pytest.raises(TypeError, match=r"mine\.inner\.parts\['a'\]\[1\]: cannot pickle '_thread.lock' object") as caught:
        make_pool(Local(ok=1, inner=Local(parts={"a": [0, threading.Lock()]})), start_method=method)
    assert isinstance(caught.value.__cause__, TypeError)


def test_an_unpicklable_closure_is_explained(make_pool):
    lock = threading.Lock()
    with pytest.raises(TypeError, match=r"mine \(its variable lock\): cannot pickle"):
        make_pool(lambda i: lock, start_method="spawn")
    with pytest.raises(TypeError, match="generator"):
        make_pool((i for i in range(3)), "stream", start_method="spawn")


class FailsToLoad:
    def __call__(self, iteration):
        return None

    def __reduce__(self):
        return FailsToLoad.load, ()

    @staticmethod
    def load():
        raise LookupError("not today")


@pytest.mark.parametrize("method", ["spawn", "forkserver"])
def test_a_source_that_cannot_be_loaded(make_pool, method):
    with pytest.raises(LookupError, match="could not start.*unpickled.*not today") as caught:
        make_pool(FailsToLoad(), start_method=method)
    assert isinstance(caught.value, WorkerCallbackError)


def test_workers_that_die_at_the_start(make_pool):
    class Dies:
        def __reduce__(self):
            import os

            return os._exit, (9,)

        def __call__(self, iteration):
            return None

    with pytest.raises(WorkerDied, match="could not start.*exited with code 9"):
        make_pool(Dies(), start_method="spawn")


class Pickler:
    """A pickler with the functions of the module `pickle`. It notes their arguments."""

    @staticmethod
    def dumps(value, note="plain"):
        return pickle.dumps((note, value))

    @staticmethod
    def loads(data, expected="plain"):
        note, value = pickle.loads(data)
        assert note == expected
        return value


@pytest.mark.parametrize(
    "pickler", [pickle, Pickler, Pickler(), (Pickler,), (Pickler, {"note": "x"}, {"expected": "x"}), [Pickler, None, None]]
)
def test_picklers(make_pool, pickler):
    assert value(make_pool(ws.whole_batch, start_method="spawn", pickler=pickler), 7) == [7, 7, 7]


@pytest.mark.parametrize("pickler", [3, "pickle", (), (pickle, {}, {}, {}), (3, {})])
def test_wrong_picklers(make_pool, pickler):
    with pytest.raises(ValueError, match="dumps and loads"):
        make_pool(ws.whole_batch, start_method="spawn", pickler=pickler)


def test_a_plain_pickler_fails_for_lambdas(make_pool):
    with pytest.raises((pickle.PicklingError, AttributeError), match="mine"):
        make_pool(lambda i: None, start_method="spawn", pickler=pickle)


FACTOR = 1


@pickle_by_value
def by_value(iteration):
    return np.full((1, 1), FACTOR * iteration)


def by_reference(iteration):
    return np.full((1, 1), FACTOR * iteration)


def test_functions_by_value(make_pool, monkeypatch):
    """A function that is sent by value keeps its current globals. Other functions are imported again."""
    monkeypatch.setitem(globals(), "FACTOR", 10)
    assert value(make_pool(by_value, start_method="spawn"), 3) == [30]
    assert value(make_pool(by_reference, start_method="spawn"), 3) == [3]


def test_only_functions_go_by_value():
    for wrong in (Local(), len, Local, 3):
        with pytest.raises(TypeError, match="only functions"):
            pickle_by_value(wrong)


MAIN = """
import sys, numpy as np
from asyncdali_workers import Source, WorkerPool
import asyncdali_workers

SCALE = 5

class Callable:
    def __call__(self, info):
        return scaled(info.idx_in_epoch)

def scaled(value):
    return np.int64([SCALE * value])

GUARD
    for callback in (Callable(), lambda info: scaled(info.idx_in_epoch)):
        with WorkerPool([Source(callback, "samples", 3)], num_workers=2, start_method="METHOD", pickler=PICKLER) as pool:
            print(pool.receive(pool.submit(0, 1, 0), 300).outputs[0].values[:, 0].tolist())
        if PICKLER is not None:
            break
"""


def main_program(method, guard=True, pickler="None"):
    condition = "if __name__ == '__main__':" if guard else "if True:"
    return MAIN.replace("GUARD", condition).replace("METHOD", method).replace("PICKLER", pickler)


WAYS = [("spawn", way) for way in ("script without guard", "-c", "stdin", "-m")]
WAYS += [("forkserver", way) for way in ("script", "-c")]
WAYS += [pytest.param("spawn", "script", marks=pytest.mark.slow)]


@pytest.mark.parametrize("method, way", WAYS)
def test_functions_of_main(tmp_path, method, way):
    program = main_program(method, guard=way != "script without guard")
    (tmp_path / "program.py").write_text(program)
    command = {"-c": ["-c", program], "stdin": ["-"], "-m": ["-m", "program"]}.get(way, ["program.py"])
    done = subprocess.run(
        [sys.executable, *command], input=program if way == "stdin" else None, cwd=tmp_path, capture_output=True, text=True, timeout=300,
        check=False,
    )  # fmt: skip
    assert done.stdout.splitlines() == ["[15, 20, 25]"] * 2, done.stderr
    assert not done.stderr


def test_functions_of_main_with_a_plain_pickler(tmp_path):
    """A plain pickler imports the main module again, as `multiprocessing` does."""
    (tmp_path / "program.py").write_text(main_program("spawn", pickler="__import__('pickle')"))
    done = subprocess.run([sys.executable, "program.py"], cwd=tmp_path, capture_output=True, text=True, timeout=300, check=False)
    assert done.stdout.splitlines() == ["[15, 20, 25]"], done.stderr


def test_settings_of_multiprocessing_are_unchanged():
    """After a pool was started, a program can still choose the start method of `multiprocessing`."""
    code = main_program("spawn") + "\n    import multiprocessing\n    multiprocessing.set_start_method('spawn')\n    print('free')"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=300, check=False)
    assert done.stdout.splitlines()[-1] == "free", done.stderr


def test_forking_beside_threads_gives_no_warning(make_pool):
    stop = threading.Event()
    thread = threading.Thread(target=stop.wait)
    thread.start()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            pool = make_pool(ws.whole_batch)
        assert value(pool, 2) == [2, 2, 2]
    finally:
        stop.set()
        thread.join()


def test_a_pool_started_by_a_thread_that_ends(make_pool):
    pools = []
    thread = threading.Thread(target=lambda: pools.append(make_pool(ws.whole_batch)))
    thread.start()
    thread.join()
    assert value(pools[0], 2) == [2, 2, 2]


def test_two_pools_share_a_source():
    source = ws.Counting()
    with WorkerPool([Source(source, "samples", 4)], num_workers=2) as one, WorkerPool([Source(source, "samples", 4)], num_workers=1) as two:
        for iteration in range(3):
            tickets = [(pool, pool.submit(0, iteration, 0)) for pool in (one, two)]
            for pool, ticket in tickets:
                assert pool.receive(ticket, 300).outputs[0].sample(3)[0] == 4 * iteration + 3
        one.close()
        assert two.receive(two.submit(0, 9, 0), 300).count == 4


def test_importing_the_package_is_cheap():
    code = "import sys, asyncdali_workers, json; print(json.dumps(sorted(sys.modules)))"
    loaded = set(json.loads(subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=300, check=True).stdout))
    assert not {"cloudpickle", "multiprocessing", "subprocess", "numpy"} & loaded


# ------------------------------------------------------------------------------------------------------------------- CUDA

DRIVER = """
static int ready = 0;
int initialised_by_question = 0;
int cuInit(unsigned flags) { ready = 1; return 0; }
int cuDeviceGetCount(int *count) { if (!ready) return 3; *count = 1; return 0; }
"""

CUDA = """
import ctypes, os, sys
import numpy as np
from asyncdali_workers import Source, WorkerPool, check_fork_allowed

def attempt(method="fork"):
    try:
        with WorkerPool([Source(lambda i: np.zeros((1, 1)), "batch", 1)], num_workers=1, start_method=method) as pool:
            return pool.receive(pool.submit(0, 0, 0), 300).count
    except RuntimeError as error:
        return str(error)

print(attempt())
driver = ctypes.CDLL(sys.argv[1])
print(attempt())
pool = WorkerPool([Source(lambda i: np.zeros((1, 1)), "batch", 1)], num_workers=1)
pool.start()
driver.cuInit(0)
print(attempt())
print(attempt("spawn"))
import select, signal
victim = os.pidfd_open(pool.pids[0])
signal.pidfd_send_signal(victim, signal.SIGKILL)
print(pool.receive(pool.submit(0, 0, 0), 300).count)
pool.close()
"""


@pytest.mark.skipif(shutil.which("gcc") is None, reason="no gcc to build a stand-in for the CUDA driver")
def test_no_fork_once_cuda_is_initialised(tmp_path):
    library = tmp_path / "libcuda.so.1"
    (tmp_path / "driver.c").write_text(DRIVER)
    subprocess.run(["gcc", "-shared", "-fPIC", "-Wl,-soname,libcuda.so.1", "-o", library, tmp_path / "driver.c"], check=True)
    done = subprocess.run([sys.executable, "-c", CUDA, str(library)], capture_output=True, text=True, timeout=300, check=False)
    lines = done.stdout.splitlines()
    assert lines[:2] == ["1", "1"], done.stderr  # CUDA is not loaded, or loaded and not initialised
    assert "cannot be forked once CUDA is initialised" in lines[2] and "start_py_workers()" in lines[2] and "'spawn'" in lines[2]
    assert lines[3] == "1"
    assert lines[4] == "1"  # the zygote, which was forked before, forks the replacement


def test_a_fork_is_allowed_without_cuda():
    check_fork_allowed()


# ------------------------------------------------------------------------------------------------------------- documentation


def test_the_example_of_the_documentation():
    text = (PROJECT / "docs" / "workers.md").read_text()
    example = text.partition("```python\n")[2].partition("```")[0]
    done = subprocess.run([sys.executable, "-c", example], capture_output=True, text=True, timeout=300, check=False)
    assert done.stdout.splitlines()[-1].strip("[]").split() == ["1296", "1369", "1444", "1521"], done.stderr

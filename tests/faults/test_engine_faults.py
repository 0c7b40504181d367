"""Engines that die, stop or hang: batches stay the same, and no process or memory is left behind."""

from __future__ import annotations

import ctypes
import os
import random
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pytest
from helpers.clocks import TIMEOUT, EngineClock
from helpers.engines import data_files, pipeline, stream
from helpers.marks import slow
from helpers.processes import children, wait_until
from helpers.warm import run_warm

from asyncdali import fn, pipeline_def, types
from asyncdali.compiled.intrinsics import store_i64
from asyncdali.engines.parent import faults
from asyncdali.engines.parent.search import Search
from asyncdali.engines.wire import blocks
from asyncdali.fleet import loader

TESTS = Path(__file__).resolve().parent.parent


@pytest.fixture
def files(tmp_path):
    return data_files(tmp_path)


def training(files):
    def define():
        data, labels = fn.readers.file(files=files, name="reader", random_shuffle=True)
        return data, labels, fn.random.normal(shape=[80, 80, 3], dtype=types.FLOAT)

    return define


def pids(pipe):
    return [item.pid for item in pipe.statistics().engines if item.pid]


def send(pipe, signals, choose):
    for pid in choose(pids(pipe)):
        try:
            os.kill(pid, signals())
        except ProcessLookupError:  # a replacement has taken its place already
            pass


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_a_killed_engine_is_replaced(files, method):
    wanted = stream(pipeline(training(files), 0), 24)
    pipe = pipeline(training(files), 2, engine_start_method=method)
    found = []
    for _ in range(3):
        found += stream(pipe, 6)
        os.kill(pids(pipe)[0], signal.SIGKILL)
    found += stream(pipe, 6)
    assert found == wanted
    assert sum(item.restarts for item in pipe.statistics().engines) >= 1
    pipe.close()
    assert not children()


@pytest.mark.parametrize("engines, method", [(1, "spawn"), (2, "fork"), *slow((1, "fork"), (2, "spawn"))])
def test_an_idle_engine_that_ends_is_replaced_without_a_call(files, engines, method):
    wanted = stream(pipeline(training(files), 0), 20)
    pipe = pipeline(training(files), engines, engine_start_method=method)
    found = stream(pipe, 8)
    place = pipe._core.processes.engines._loader.places[-1]
    for restarts in (1, 2):
        wait_until(lambda: place.engine.pid)
        os.kill(place.engine.pid, signal.SIGKILL)
        wait_until(lambda restarts=restarts: place.restarts == restarts)
        found += stream(pipe, 6)
    assert found == wanted
    pipe.close()
    assert not children()


def test_a_stopped_engine_is_replaced(files, monkeypatch):
    wanted = stream(pipeline(training(files), 0), 10)
    pipe = pipeline(training(files), 1, engine_timeout=TIMEOUT)
    found = stream(pipe, 5)
    [place] = pipe._core.processes.engines._loader.places
    os.kill(place.engine.pid, signal.SIGSTOP)
    monkeypatch.setattr(faults, "WATCHING", 0.05)
    EngineClock(monkeypatch, lambda: place.restarts == 0)
    found += stream(pipe, 5)
    assert found == wanted
    pipe.close()


def kills(value):
    if 60 < value < 80:
        os.kill(os.getpid(), signal.SIGKILL)
    return value


def test_the_second_death_is_an_error_and_the_pipeline_continues():
    def define():
        return fn.python_function(fn.random.uniform(range=[0, 100]), function=kills, name="culprit")

    draws = pipeline(lambda: fn.random.uniform(range=[0, 100]), 0, batch_size=1)
    wanted = [np.asarray(draws.run()[0][0]).item() for _ in range(12)]
    assert sum(60 < value < 80 for value in wanted) >= 2
    for engines in (1, 2):
        pipe = pipeline(define, engines, batch_size=1, prefetch_queue_depth=3)
        for k, value in enumerate(wanted):
            if 60 < value < 80:
                with pytest.raises(RuntimeError, match=rf"iteration {k}\b[\s\S]*engines ended at this iteration") as caught:
                    pipe.run()
                assert caught.value.name == "culprit" and caught.value.iteration == k and caught.value.sample == 0
                assert "while it ran `asyncdali.fn.python_function`" in str(caught.value)
            else:
                assert np.asarray(pipe.run()[0][0]).item() == value
        pipe.close()


def test_the_sample_at_which_engines_end_is_named():
    def ends(value):
        if value == 7:
            os._exit(3)
        return value

    def define():
        return fn.python_function(fn.external_source(lambda k: np.arange(4 * k, 4 * k + 4)), function=ends)

    pipe = pipeline(define, 1, enable_checkpointing=False)
    pipe.run()
    with pytest.raises(RuntimeError, match=r"iteration 1, sample 3") as caught:
        pipe.run()
    assert caught.value.sample == 3
    assert [np.asarray(sample).item() for sample in pipe.run()[0]] == [8, 9, 10, 11]
    pipe.close()


set_handler = ctypes.CDLL(None).signal
set_handler.argtypes, set_handler.restype = [ctypes.c_int, ctypes.c_ssize_t], ctypes.c_ssize_t
DEFAULT = int(signal.SIG_DFL)


def crashes(out, given):
    if given[0] == 21:
        set_handler(signal.SIGSEGV, DEFAULT)  # the engine would inherit pytest's handler, which prints all stacks
        store_i64(8, 1)  # an address where no memory is mapped
    out[0] = given[0]


@pytest.mark.parametrize("rank, ranks", [(0, 1), (1, 2)])
def test_a_crash_in_compiled_code_is_traced_to_its_sample(rank, ranks):
    """Threads compute the pixels of all samples at the same time. Bisection finds the sample, and single steps find the operator."""

    @pipeline_def(batch_size=8, num_threads=2, seed=1)
    def train():
        numbers = fn.external_source(lambda k: np.arange(8 * k, 8 * k + 8).reshape(8, 1))
        made = fn.experimental.numba_function(
            numbers * 1, run_fn=crashes, out_types=[types.INT64], in_types=[types.INT64], outs_ndim=[1], ins_ndim=[1], name="culprit"
        )
        return made + 1

    with loader(train, rank=rank, world_size=ranks, engines=2) as batches:
        for k in range(4):
            if k == 2:
                with pytest.raises(RuntimeError, match=r"while it made the pixels of `asyncdali.fn.experimental.numba_function`") as caught:
                    batches.pipeline.run()
                assert (caught.value.name, caught.value.iteration, caught.value.sample) == ("culprit", 2, 5)
            else:
                share = range(8 * k + 8 * rank // ranks, 8 * k + 8 * (rank + 1) // ranks)
                assert [np.asarray(item)[0] for item in batches.pipeline.run()[0]] == [number + 1 for number in share]


def test_the_search_for_the_sample_that_ends_engines():
    """Bisection finds any sample that ends engines. It names no sample if no single sample ends engines."""
    for size in range(1, 20):
        for guilty in (*range(size), None):
            search, deaths = Search(10, 10 + size), 0
            while search.probe is not None:
                low, high = search.probe
                assert 10 <= low < high <= 10 + size
                if guilty is not None and low <= 10 + guilty < high:
                    search.died()
                    deaths += 1
                else:
                    search.survived()
            assert search.sample == (-1 if guilty is None else 10 + guilty)
            assert deaths <= 7


def test_a_hung_function_is_an_error(tmp_path, monkeypatch):
    hung = tmp_path / "hung"
    hung.touch()

    def hangs(value):
        if value > 50:
            with open(hung, "a") as file:
                file.write(".")
            time.sleep(3600)
        return value

    def define():
        return fn.python_function(fn.random.uniform(range=[0, 100]), function=hangs)

    pipe = pipeline(define, 1, batch_size=1, engine_timeout=TIMEOUT)
    pipe.build()
    [place] = pipe._core.processes.engines._loader.places
    monkeypatch.setattr(faults, "WATCHING", 0.05)
    EngineClock(monkeypatch, lambda: hung.stat().st_size > place.restarts)
    failed = 0
    for _ in range(6):
        try:
            pipe.run()
        except RuntimeError as error:
            assert "did not answer for 600 s (engine_timeout)" in str(error)
            failed += 1
    assert 0 < failed < 6
    pipe.close()


def test_an_iteration_is_made_again_when_no_sample_ends_engines(tmp_path):
    """Two engines end at an iteration, and no part of the iteration ends a third engine. Then the whole iteration is repeated."""
    ends = tmp_path / "ends"
    ends.touch()

    def function(value):
        if ends.stat().st_size < 2:
            with open(ends, "a") as file:
                file.write(".")
            os.kill(os.getpid(), signal.SIGKILL)
        return value

    wanted = stream(pipeline(lambda: fn.random.uniform(range=[0, 1]), 0), 4)
    pipe = pipeline(lambda: fn.python_function(fn.random.uniform(range=[0, 1]), function=function), 1, engine_timeout=TIMEOUT)
    assert stream(pipe, 4) == wanted
    pipe.close()


@pytest.mark.parametrize("kills", [3, faults.REPEATS, faults.REPEATS + 1])
def test_an_iteration_is_made_again_after_further_kills(tmp_path, kills):
    """Two engines are killed at the first sample, the sample tried alone does not end a third one, and the whole is killed again."""
    calls = tmp_path / "calls"
    calls.touch()
    wanted = stream(pipeline(lambda: fn.random.uniform(range=[0, 1]), 0), 4)
    first = np.frombuffer(wanted[0][0][0], np.float32)[0]

    def function(value):
        if value == first:
            with open(calls, "a") as file:
                file.write(".")
            number = calls.stat().st_size
            if number <= 2 or 3 < number <= 3 + kills:
                os.kill(os.getpid(), signal.SIGKILL)
        return value

    pipe = pipeline(lambda: fn.python_function(fn.random.uniform(range=[0, 1]), function=function), 1, prefetch_queue_depth=1)
    if kills <= faults.REPEATS:
        assert stream(pipe, 4) == wanted
    else:
        with pytest.raises(RuntimeError, match="No sample does so by itself"):
            pipe.run()
        assert stream(pipe, 3) == wanted[1:]
    pipe.close()


def sourced(callback):
    def define():
        return fn.external_source(source=callback, batch=False, name="rows"), fn.random.uniform(range=[0, 1])

    return define


def test_an_engine_killed_among_calls_of_a_source_is_replaced():
    define = sourced(lambda info: np.full(info.idx_in_epoch % 7 + 1, info.idx_in_epoch))
    wanted = stream(pipeline(define, 0), 18)
    pipe = pipeline(define, 2, prefetch_queue_depth=4)
    found = []
    for _ in range(3):
        found += stream(pipe, 5)
        os.kill(pids(pipe)[0], signal.SIGKILL)
    assert found + stream(pipe, 3) == wanted
    pipe.close()


def test_a_source_that_ends_engines_is_an_error_that_names_the_sample():
    def ends(info):
        if info.idx_in_epoch == 10:
            os._exit(3)
        return np.int32(info.idx_in_epoch)

    pipe = pipeline(sourced(ends), 2)
    assert len(stream(pipe, 2)) == 2
    for _ in range(2):  # the same position is requested again, as after any error of a source
        with pytest.raises(RuntimeError, match="while it called the source 'rows'. 3 engines ended at this call") as caught:
            pipe.run()
        assert (caught.value.name, caught.value.iteration, caught.value.sample) == ("rows", 2, 2)
    pipe.close()
    assert not children()


def test_a_source_that_hangs_is_an_error(tmp_path, monkeypatch):
    hung = tmp_path / "hung"
    hung.touch()

    def hangs(info):
        if info.iteration == 1:
            with open(hung, "a") as file:
                file.write(".")
            time.sleep(3600)
        return np.int32(info.idx_in_epoch)

    pipe = pipeline(sourced(hangs), 1, engine_timeout=TIMEOUT, prefetch_queue_depth=1)
    pipe.build()
    [place] = pipe._core.processes.engines._loader.places
    EngineClock(monkeypatch, lambda: hung.stat().st_size > place.restarts)
    stream(pipe, 1)
    with pytest.raises(RuntimeError, match=r"did not answer for 600 s \(engine_timeout\) while it called the source"):
        pipe.run()
    pipe.close()


def test_closing_ends_a_source_that_hangs(tmp_path):
    called = tmp_path / "called"

    def hangs(info):
        called.touch()
        time.sleep(3600)

    pipe = pipeline(sourced(hangs), 1)
    pipe.build()

    def run():
        with pytest.raises(RuntimeError, match="closed"):
            pipe.run()

    runner = threading.Thread(target=run)
    runner.start()
    wait_until(called.exists)
    pipe.close()
    runner.join()
    assert not children()


def test_closing_ends_engines_that_hang():
    def define():
        return fn.python_function(fn.random.uniform(), function=lambda value: time.sleep(3600))

    pipe = pipeline(define, 2)
    pipe.build()
    ids = pids(pipe)

    def run():
        with pytest.raises(RuntimeError):
            pipe.run()

    runner = threading.Thread(target=run)
    runner.start()
    wait_until(lambda: pipe.statistics().engines[0].outstanding > 0)
    pipe.close()
    runner.join(300)
    assert not runner.is_alive() and len(ids) == 2
    wait_until(lambda: not any(alive(pid) for pid in ids))
    assert not children()


def alive(pid):
    try:
        with open(f"/proc/{pid}/stat") as file:
            return file.read().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


PARENT = """
import os, sys, time
sys.path.insert(0, {tests!r})
from helpers.engines import pipeline
from asyncdali import fn
pipe = pipeline(lambda: fn.python_function(fn.random.normal(shape=[100, 100, 3]), function=lambda x: x), 2, engine_start_method={method!r})
pipe.run()
print(*[item.pid for item in pipe.statistics().engines], flush=True)
while True:
    pipe.run()
"""


def killed_parent(method, stop=False):
    """Kill a parent while it works; returns the ids of its engines."""
    code = PARENT.format(tests=str(TESTS), method=method)
    parent = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
    ids = list(map(int, parent.stdout.readline().split()))
    if stop:
        os.kill(ids[0], signal.SIGSTOP)
    parent.kill()
    parent.wait()
    parent.stdout.close()
    return ids


@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
def test_engines_die_with_their_parent(method):
    ids = killed_parent(method, stop=True)
    assert len(ids) == 2
    wait_until(lambda: not any(alive(pid) for pid in ids))


LIMITS = """
    import resource, sys
    from helpers.engines import pipeline
    from asyncdali import fn, types

    def big():
        return fn.random.normal(shape=[600, 600, 3], dtype=types.FLOAT)

    kind, number = sys.argv[1], int(sys.argv[2])
    resource.setrlimit(getattr(resource, kind), (number, number))
    pipe = pipeline(big, 1)
    for _ in range(2):
        try:
            pipe.run()
        except (RuntimeError, MemoryError) as error:
            print(type(error).__name__, str(error).splitlines()[-1])
"""


@pytest.mark.parametrize(
    "kind, number, text",
    [
        ("RLIMIT_FSIZE", 1 << 20, "more than the limit of file sizes (ulimit -f) allows"),
        ("RLIMIT_NOFILE", 24, "this process may open 24 files"),
    ],
)  # fmt: skip
def test_limits_are_named(kind, number, text):
    """The error names the limit. Only the affected iterations fail, and no process dies."""
    done = run_warm(LIMITS, kind, number)
    lines = done.stdout.splitlines()
    assert len(lines) == 2 and all(text in line for line in lines), (done.stdout, done.stderr)


def many_shapes():
    """Answers whose frames are too large for a message: 8,000 shapes."""
    return fn.external_source(lambda info: np.zeros(info.idx_in_epoch % 3 + 1, np.uint8), batch=False)


def test_no_room_for_a_large_frame_fails_one_iteration(monkeypatch):
    """The frame of an answer lies in a block, which cannot be mapped for once."""
    refused, read = [], blocks.ForeignBlocks.bytes

    def bytes_of(self, place):
        if not refused:
            refused.append(place)
            raise MemoryError("no room for the block")
        return read(self, place)

    plain = pipeline(many_shapes, 0, batch_size=8000)
    wanted = stream(plain, 4)
    plain.close()
    pipe = pipeline(many_shapes, 1, batch_size=8000)
    monkeypatch.setattr(blocks.ForeignBlocks, "bytes", bytes_of)
    with pytest.raises((RuntimeError, MemoryError), match="the answer of engine 0 cannot be used: no room for the block"):
        pipe.run()
    assert len(refused) == 1
    assert stream(pipe, 3) == wanted[1:]
    assert max(engine.lent for engine in pipe.statistics().engines) <= 3
    pipe.close()


NO_ROOM = """
    import resource
    from helpers.engines import pipeline
    from asyncdali import fn, types

    def big():
        return fn.random.normal(shape=[3_000_000], dtype=types.FLOAT)

    pipe = pipeline(big, 1)
    pipe.build()
    with open("/proc/self/statm") as file:
        used = 4096 * int(file.read().split()[0])
    before = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (used + 20_000_000, before[1]))
    try:
        pipe.run()
    except RuntimeError as error:
        print(error)
    resource.setrlimit(resource.RLIMIT_AS, before)
    for _ in range(6):
        pipe.run()
    print("lent", max(engine.lent for engine in pipe.statistics().engines))
"""


def test_no_room_for_a_block_fails_one_iteration():
    """A block that could not be mapped is mapped for a later iteration, and its lease was returned."""
    done = run_warm(NO_ROOM)
    assert "bytes of address space: ulimit -v" in done.stdout, (done.stdout, done.stderr)
    assert int(done.stdout.split("lent")[-1]) <= 3, done.stdout


@pytest.mark.slow
def test_fifty_killed_parents_leave_nothing():
    before = set(os.listdir("/dev/shm"))
    for k in range(50):
        ids = killed_parent("fork", stop=k % 2 == 0)
        wait_until(lambda ids=ids: not any(alive(pid) for pid in ids))
    assert set(os.listdir("/dev/shm")) == before


@pytest.mark.slow
def test_signals_for_a_minute(files):
    """SIGKILL or SIGSTOP to a random engine every 200 ms."""
    plain = pipeline(training(files), 0)
    pipe = pipeline(training(files), 2, engine_timeout=0.3)
    pipe.build()
    choose = random.Random(0)
    over = threading.Event()

    def attack():
        while not over.wait(0.2):
            send(pipe, lambda: choose.choice([signal.SIGKILL, signal.SIGSTOP]), lambda ids: [choose.choice(ids)] if ids else [])

    attacker = threading.Thread(target=attack)
    attacker.start()
    end, count, failed = time.monotonic() + 60, 0, 0
    while time.monotonic() < end:
        wanted = stream(plain, 1)
        try:
            assert stream(pipe, 1) == wanted
        except RuntimeError as error:
            assert "engines ended at this iteration" in str(error)
            failed += 1
        count += 1
    over.set()
    attacker.join()
    restarts = sum(item.restarts for item in pipe.statistics().engines)
    print(f"{count} iterations, {restarts} restarts, {failed} with two deaths")
    pipe.close()
    assert not children()


FORKING = """
    import os, signal, sys, time
    import numpy as np
    from asyncdali import Pipeline, fn

    engines, method, path = int(sys.argv[1]), sys.argv[2], sys.argv[3]

    def forks(value):
        '''Starts one child, which holds the engine's sockets forever.'''
        try:
            made = os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY)
        except FileExistsError:
            return value
        pid = os.fork()
        if pid == 0:
            os.closerange(0, 3)  # the test waits for the end of the output
            while True:
                time.sleep(3600)
        os.write(made, str(pid).encode())
        return value

    pipe = Pipeline(4, 1, seed=5, engines=engines, engine_start_method=method)
    with pipe:
        pipe.set_outputs(fn.python_function(fn.random.uniform(range=[0, 1]), function=forks, num_outputs=1))
    pipe.build()
    found = [pipe.run()[0].as_array().tolist() for _ in range(4)]
    for place in pipe._core.processes.engines.loader.places:
        os.kill(place.engine.pid, signal.SIGKILL)
    found += [pipe.run()[0].as_array().tolist() for _ in range(8)]
    pipe.close()
    print(found)
"""


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_a_killed_engine_with_a_forked_child_is_replaced(method, tmp_path):
    """The child keeps the engine's end of the socket open, so only the process itself reports its end."""
    path = tmp_path / "child"
    try:
        done = run_warm(FORKING, 2, method, path, timeout=120)
        assert done.returncode == 0, done.stderr
        path.rename(tmp_path / "killed")
        os.kill(int((tmp_path / "killed").read_text()), signal.SIGKILL)
        plain = run_warm(FORKING.replace("os.fork()", "1 << 22"), 1, method, tmp_path / "none", timeout=120)
        assert done.stdout == plain.stdout and done.stdout
    finally:
        if path.exists():
            os.kill(int(path.read_text()), signal.SIGKILL)


@pytest.mark.parametrize("method", ["fork", "forkserver"])
def test_a_killed_forker_is_made_again(files, method):
    wanted = stream(pipeline(training(files), 0), 24)
    pipe = pipeline(training(files), 2, engine_start_method=method)
    found = stream(pipe, 4)
    pool = pipe._core.processes.engines
    for restarts in (1, 2):
        forker = pool._forker[2]
        os.kill(forker if isinstance(forker, int) else forker.pid, signal.SIGKILL)
        place = pool.loader.places[0]
        os.kill(place.engine.pid, signal.SIGKILL)
        wait_until(lambda place=place, restarts=restarts: place.restarts >= restarts and place.engine.ready)
        found += stream(pipe, 4)
    assert found + stream(pipe, 12) == wanted
    pipe.close()
    assert not children()


GROUP = """
    import os, signal, sys
    from asyncdali import Pipeline, fn

    method, came = sys.argv[1], []
    for name in ("SIGUSR1", "SIGUSR2", "SIGTERM", "SIGHUP"):
        signal.signal(getattr(signal, name), lambda number, frame: came.append(number))
    pipe = Pipeline(4, 1, seed=5, engines=2, engine_start_method=method)
    with pipe:
        pipe.set_outputs(fn.random.uniform(range=[0, 1]))
    pipe.build()
    found = []
    for number in (0, signal.SIGUSR1, signal.SIGTERM, signal.SIGHUP, signal.SIGUSR2):
        if number:
            os.killpg(0, number)
        found += [pipe.run()[0].as_array().tolist() for _ in range(4)]
    places = pipe._core.processes.engines.loader.places
    print(len(came), [place.restarts for place in places], len(found))
    pipe.close()
"""


@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
def test_signals_of_the_process_group_are_the_programs(method):
    """Engines and the process that forks them neither die nor run the program's handlers."""
    text = GROUP.replace("import os, signal, sys\n", "import os, signal, sys\n    os.setsid()\n", 1)
    done = run_warm(text, method, timeout=120)
    assert (done.stdout, done.stderr) == ("4 [0, 0] 20\n", "")

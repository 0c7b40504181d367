"""Compilation in ``build()`` with an empty cache: helpers, shared kernels, progress."""

from __future__ import annotations

import contextlib
import fcntl
import io
import json
import os
import pickle
import random
import select
import signal
import subprocess
import sys
import time
from pathlib import Path
from subprocess import PIPE

import pytest
from helpers.warm import run_warm
from numba import config

from asyncdali import fn, pipeline_def, types
from asyncdali.__main__ import main
from asyncdali.compiled import cache, kernel_store, progress, waiting
from asyncdali.compiled.step import collecting, compiled, history
from asyncdali.graph.plan import PlannedOperator, build_plan
from asyncdali.runtime import compiling

_PROGRAM = """
import io, json, sys
from asyncdali.compiled import cache
from asyncdali.runtime import compiling
missed = []
cache.missed.append(lambda: missed.append(1))
compiling.serve(io.BytesIO(sys.stdin.buffer.read()))
print(len(missed))
"""


@pipeline_def(batch_size=2, num_threads=1, device_id=None, seed=1)
def _pictures(folder: str):
    encoded, _ = fn.readers.file(file_root=folder)
    images = fn.decoders.image(encoded, output_type=types.RGB)
    images = fn.flip(images, horizontal=1)
    images = fn.flip(images, horizontal=1)
    images = fn.flip(images, horizontal=fn.random.coin_flip())
    return fn.python_function(images, function=lambda image: image)


def _operators(folder: str = "nowhere") -> list[PlannedOperator]:
    pipeline = _pictures(folder)
    return build_plan(pipeline._core.output_nodes(), pipeline._core.definition.instances, pipeline._core.definition, lambda k: 0).operators


def _described(operators: list[PlannedOperator]) -> list[str]:
    stream, names = io.BytesIO(compiling.described(operators)), []
    while True:
        try:
            names.append(pickle.load(stream)[0].schema.name)
        except EOFError:
            return names


def test_the_description_lists_operators_last_to_first_without_readers_and_functions():
    assert _described(_operators()) == ["flip", "random.coin_flip", "flip", "decoders.image"]  # equal operators once


def test_a_description_is_cut_to_the_capacity_of_a_pipe(monkeypatch):
    monkeypatch.setattr(compiling, "_PIPE", len(compiling.described(_operators())) - 1)
    assert _described(_operators()) == ["flip", "random.coin_flip", "flip"]


def _misses(text: bytes, folder: Path) -> int:
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(folder)}
    done = subprocess.run([sys.executable, "-c", _PROGRAM], input=text, capture_output=True, env=environment, check=True)
    return int(done.stdout)


def test_kernels_of_the_compiling_process_are_found(tmp_path):
    text = compiling.described([item for item in _operators() if item.spec.schema.name == "random.coin_flip"])
    assert _misses(text, tmp_path) > 0
    assert _misses(text, tmp_path) == 0


def test_the_compiling_process_uses_this_process_kernel_folder(monkeypatch, tmp_path):
    """If the user's folder is not writable, both processes use the same temporary folder."""
    (tmp_path / "asyncdali").mkdir(mode=0o777)
    (tmp_path / "asyncdali").chmod(0o777)
    monkeypatch.setattr(config, "CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(kernel_store, "_stores", {})
    monkeypatch.setattr(kernel_store, "_notified", True)
    program = "import os, sys; sys.stdin.buffer.read(); print(os.environ['NUMBA_CACHE_DIR'], file=sys.stderr)"
    monkeypatch.setattr(compiling, "_PROGRAM", program)
    helpers, original = compiling.Helpers(_operators()), subprocess.Popen
    monkeypatch.setattr(subprocess, "Popen", lambda *given, **options: original(*given, **{**options, "stderr": subprocess.PIPE}))
    helpers._start()
    (process,) = helpers._processes
    process.stdin = None  # closed
    assert process.communicate()[1].decode().strip() == str(cache.folder()[0]) == str(kernel_store._temporary_root())


def test_broken_operators_do_not_end_the_compiling_process():
    stream = io.BytesIO(pickle.dumps((object, "cpu", {}, (), 1, 1)) + compiling.described(_operators()))
    compiling.serve(stream)
    assert stream.read() == b""


@pytest.fixture
def processors(monkeypatch):
    """Sets the number of usable processors; 3 by default."""

    def use(count):
        monkeypatch.setattr(os, "sched_getaffinity", lambda pid: set(range(count)))

    use(3)
    return use


def test_the_second_miss_starts_helpers_and_close_ends_them(monkeypatch, processors):
    monkeypatch.setattr(compiling, "_PROGRAM", "import time; time.sleep(60)")
    helpers = compiling.Helpers(_operators())
    helpers.miss()
    assert not helpers._processes
    helpers.miss()
    started = list(helpers._processes)
    helpers.miss()
    assert len(started) == 2 and helpers._processes == started and all(process.poll() is None for process in started)
    helpers.close()
    assert all(process.wait(300) != 0 for process in started)
    helpers.close()


def test_the_number_of_helpers(monkeypatch, processors):
    operators = _operators()
    assert compiling.Helpers(operators).wanted == 2
    processors(1)
    assert compiling.Helpers(operators).wanted == 0
    processors(64)
    assert compiling.Helpers(operators * 3).wanted == compiling._MOST_HELPERS
    assert compiling.Helpers(operators[:2]).wanted == 1
    assert compiling.Helpers(operators[:1]).wanted == 0
    monkeypatch.setenv("ASYNCDALI_COMPILE_AHEAD", "0")
    assert compiling.Helpers(operators).wanted == 0


def test_helpers_that_cannot_be_started_are_ignored(monkeypatch, processors):
    monkeypatch.setattr(compiling, "python_command", lambda *_: ["/nonexistent/python"])
    helpers = compiling.Helpers(_operators())
    helpers.miss()
    helpers.miss()
    assert helpers._processes == []
    helpers.close()


KILLED = """
import os, signal, sys, time
from asyncdali.runtime import compiling
compiling._PROGRAM = compiling._PROGRAM.replace("from asyncdali", sys.argv[1] + "; from asyncdali")
helpers = compiling.Helpers([])
helpers._start()
print(helpers._processes[0].pid, flush=True)
sys.stdin.readline()
os.kill(os.getpid(), signal.SIGKILL)
"""
BUSY = "pathlib = __import__('pathlib'); pathlib.Path({ready!r}).touch(); exec('while True: pass')"


def test_the_compiling_process_dies_with_its_parent(tmp_path):
    """The compiling process is busy when its parent dies, so it may take seconds until it reads its pipe and ends."""
    ready = tmp_path / "ready"
    command = [sys.executable, "-c", KILLED, BUSY.format(ready=str(ready))]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as parent:
        helper = int(parent.stdout.readline())
        watch = os.pidfd_open(helper)
        poll = select.poll()
        poll.register(watch, select.POLLIN)
        while not ready.exists():
            assert not poll.poll(10), "the other process ended by itself"
        parent.communicate("now\n", timeout=300)
        assert parent.returncode == -signal.SIGKILL
    ended = poll.poll(300_000)  # without the parent's death the process would run forever
    if not ended:
        signal.pidfd_send_signal(watch, signal.SIGKILL)
    os.close(watch)
    assert ended, "the other process outlived its parent"


def test_the_compiling_process_ends_if_its_parent_died_before_the_start():
    done = subprocess.run([sys.executable, "-c", compiling._PROGRAM, str(os.getpid() + 1), *sys.path], input=b"", timeout=300, check=False)
    assert done.returncode == 1
    done = subprocess.run([sys.executable, "-c", compiling._PROGRAM, str(os.getpid()), *sys.path], input=b"", timeout=300, check=False)
    assert done.returncode == 0


# --- claims


COMPILES = """
import sys
from asyncdali.compiled import cache
from asyncdali.operators.flip import flip_kernels
compiled = []
save = cache.Entry.save

def saved(self, code):
    compiled.append(code.symbol)
    if sys.argv[1:] == ["die"]:
        print("compiled", flush=True)
        __import__("os").kill(__import__("os").getpid(), 9)
    return save(self, code)

cache.Entry.save = saved
print("ready", flush=True)
sys.stdin.readline()
from asyncdali.compiled.step import compile_all
compile_all(flip_kernels)
print(len(compiled), flush=True)
"""


def _compilers(folder: Path, *arguments: list[str]) -> list[subprocess.Popen[str]]:
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(folder)}
    started = [
        subprocess.Popen([sys.executable, "-c", COMPILES, *given], stdin=PIPE, stdout=PIPE, text=True, env=environment)
        for given in arguments
    ]
    assert all(process.stdout.readline() == "ready\n" for process in started)
    return started


def test_processes_that_start_together_compile_each_kernel_once(tmp_path):
    started = _compilers(tmp_path, [], [], [])
    for process in started:
        process.stdin.write("now\n")
        process.stdin.flush()
    counts = [int(process.communicate(timeout=300)[0]) for process in started]
    (alone,) = _compilers(tmp_path / "other", [])
    assert sum(counts) == int(alone.communicate("now\n", timeout=300)[0]) > 0
    assert not list(tmp_path.rglob("*.claim"))


def test_a_killed_process_leaves_no_claim(tmp_path):
    (killed,) = _compilers(tmp_path, ["die"])
    assert killed.communicate("now\n", timeout=300)[0].endswith("compiled\n")
    assert killed.returncode == -signal.SIGKILL and list(tmp_path.rglob("*.claim"))
    (second,) = _compilers(tmp_path, [])
    assert int(second.communicate("now\n", timeout=300)[0]) > 0
    assert not list(tmp_path.rglob("*.claim"))


def test_a_claim_is_exclusive_until_it_is_released(tmp_path):
    store = kernel_store.store_in(tmp_path)
    first = store.claim("versions", "kernel-1")
    assert store.claim("versions", "kernel-1") is None
    other = store.claim("versions", "kernel-2")
    first.release()
    first.release()
    second = store.claim("versions", "kernel-1")
    assert second is not None
    second.release()
    other.release()
    assert not list(tmp_path.rglob("*.claim")) and store.usage().files == 0


def test_a_claim_that_another_process_keeps_too_long_is_not_waited_for(monkeypatch):
    now = [0.0]
    monkeypatch.setattr(waiting.time, "monotonic", lambda: now[0])
    monkeypatch.setattr(waiting.time, "sleep", lambda seconds: now.__setitem__(0, now[0] + seconds))
    assert waiting.claim(lambda: None) is None
    assert waiting._LONGEST_S <= now[0] < waiting._LONGEST_S + 1


def _unused(number):
    @compiled(1)
    def unused(value):
        return value + number

    return unused


def test_collected_kernels_are_compiled_when_their_address_is_read(monkeypatch, tmp_path):
    monkeypatch.setattr(config, "CACHE_DIR", str(tmp_path))
    kernel = _unused(1)
    with collecting() as missing:
        kernel.compile()
        assert list(missing.values()) == [kernel] and not kernel.ready
        assert kernel.address and kernel(2) == 3
    called = _unused(2)
    with collecting():
        called.compile()
        assert called(2) == 4


def test_a_helper_neither_waits_nor_runs_what_another_process_compiles(monkeypatch, tmp_path):
    monkeypatch.setattr(config, "CACHE_DIR", str(tmp_path))
    kernel = _unused(3)
    with monkeypatch.context() as claimed:
        claimed.setattr(kernel_store.Store, "claim", lambda self, *place: None)
        with collecting(waiting.CompilePolicy.SHARE) as missing:
            kernel.compile()
            assert list(missing.values()) == [kernel]
            with pytest.raises(waiting.NotCompiled):
                kernel(2)
    assert kernel(2) == 5


# --- progress


class Terminal(io.StringIO):
    def isatty(self):
        return True


def _shown(monkeypatch, stream, late=True):
    """The output for two expected kernels, of which one is compiled after two seconds (`late`) or before."""
    monkeypatch.setattr(sys, "stderr", stream)
    timers = []

    class Timer:
        def __init__(self, seconds, function):
            self.function = function
            timers.append(self)

        def start(self):
            self.started = True

        def cancel(self):
            pass

    monkeypatch.setattr(progress.threading, "Timer", Timer)
    with progress.shown("/folder") as shown:
        shown.expect(2)
        shown.step()
        if late and getattr(timers[0], "started", False):
            timers[0].function()
        with progress.of_one("/elsewhere"):
            pass
    return stream.getvalue()


def test_two_lines_in_a_file(monkeypatch):
    monkeypatch.delenv("ASYNCDALI_QUIET", raising=False)
    lines = _shown(monkeypatch, io.StringIO()).splitlines()
    assert lines[0] == "asyncdali: compiling kernels, once on this machine: 1 of 2 so far"
    assert lines[1].startswith("asyncdali: compiled 2 of 3 kernels in ") and lines[1].endswith("kept in /folder")


def test_one_line_in_a_terminal_is_updated(monkeypatch):
    monkeypatch.delenv("ASYNCDALI_QUIET", raising=False)
    text = _shown(monkeypatch, Terminal())
    assert text.count("\n") == 1 and text.count("\r") == 2


def test_short_compilations_and_quiet_programs_show_nothing(monkeypatch):
    monkeypatch.delenv("ASYNCDALI_QUIET", raising=False)
    assert _shown(monkeypatch, io.StringIO(), late=False) == ""
    monkeypatch.setenv("ASYNCDALI_QUIET", "1")
    assert _shown(monkeypatch, io.StringIO()) == ""


def test_a_closed_stderr_changes_nothing(monkeypatch):
    stream = io.StringIO()
    stream.close()
    monkeypatch.setattr(sys, "stderr", stream)
    shown = progress.Progress("/folder")
    shown.expect(1)
    shown._late()
    shown.step()
    shown.end()


PIPELINE = """
from asyncdali import fn, pipeline_def

@pipeline_def(batch_size=2, num_threads=1, device_id=None, seed=1)
def pipeline():
    return fn.random.coin_flip()
"""


def test_the_command_fills_the_cache(tmp_path):
    program = tmp_path / "train.py"
    program.write_text(PIPELINE)
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path / "cache")}
    command = [sys.executable, "-m", "asyncdali", "cache", "--fill"]
    outputs = []
    for target in (f"{program}:pipeline", f"{program}:pipeline", f"{program}:other"):
        done = subprocess.run([*command, target], capture_output=True, text=True, env=environment, timeout=300, check=False)
        outputs.append((done.returncode, done.stdout.partition(" compiled in ")[0], done.stderr))
    assert outputs[0][0] == 0 and int(outputs[0][1].rpartition(": ")[2].split()[0]) > 5
    assert outputs[1] == (0, f"{program}:pipeline: 0 kernels", "")
    assert outputs[2][0] == 1 and "defines no 'other'" in outputs[2][2]


SMALL = """
from asyncdali.compiled.step import compiled

@compiled(1)
def add_{name}(a):
    return a + {number}

@compiled(2)
def multiply_{name}(a, b):
    return a * b * {number}
"""


def test_kernels_that_take_long_are_compiled_first(monkeypatch, tmp_path):
    """Otherwise the last one may begin when the other processors have nothing left to do."""
    monkeypatch.setattr(config, "CACHE_DIR", str(tmp_path))

    @compiled(1)
    def short(a):
        return a + 7

    @compiled(1)
    def long(a):
        for k in range(a):
            a = a * 3 + k if k & 1 else a - k
        return a

    before = len(history)
    with compiling.Compilation(()) as compilation:
        compilation.compile([short, long])
    assert [made.name for made in history[before:]] == ["test_compiling.long", "test_compiling.short"]
    assert compilation.compiled == 2 and long.weight > short.weight > 0


class _Made:
    """In place of an operator's class: its constructor reads the address of a short kernel, calls another one, and reads a long one's."""


def test_a_helper_compiles_the_longest_kernel_of_all_operators_first(monkeypatch, tmp_path):
    """Not in the order in which operators need kernels: the process that builds the pipeline begins with short ones."""
    monkeypatch.setattr(config, "CACHE_DIR", str(tmp_path))

    @compiled(1)
    def short(a):
        return a + 8

    @compiled(1)
    def called(a):
        return a + 1 if a & 3 else a - 5

    @compiled(1)
    def long(a):
        for k in range(a):
            a = a * 5 + k if k & 1 else a - k
        return a

    results = []

    def make(kind, environment, first, second):
        assert kind is _Made
        results.append((short.address != 0, long.address != 0, called(2) if second else None))

    monkeypatch.setattr(compiling, "_make", make)
    before = len(history)
    compiling.serve(io.BytesIO(pickle.dumps((_Made, 1, True)) + pickle.dumps((_Made, 2, False))))
    assert [made.name.partition(".")[2] for made in history[before:]] == ["long", "called", "short"]
    assert results == [(False, False, None), (True, True, 3), (True, True, None)]  # the first call found no code, and ended its operator


def test_all_kernels_of_modules_are_compiled_once(tmp_path, monkeypatch):
    """By this process and by helpers; a second call finds all of them."""
    for k, name in enumerate(("kernel_module_one", "kernel_module_two")):
        (tmp_path / f"{name}.py").write_text(SMALL.format(name=name, number=k + 3))
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(config, "CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setattr(compiling, "processors", lambda: [0, 1])
    modules = ["kernel_module_one", "kernel_module_two"]
    assert compiling.compile_modules(modules) == 4
    assert len(list((tmp_path / "cache").rglob("*.kernel"))) == 4
    for name in modules:
        del sys.modules[name]
    assert compiling.compile_modules(modules) == 0
    assert [sys.modules[name].__dict__[f"multiply_{name}"](2, 5) for name in modules] == [30, 40]
    for name in modules:
        del sys.modules[name]


def test_modules_with_kernels_are_found():
    found = compiling.kernel_modules()
    assert {"asyncdali.compiled.crew", "asyncdali.codecs.jpeg.jpeg_kernels", "asyncdali.operators.moves.pieces_kernels"} <= set(found)
    assert "asyncdali.compiled.tables" not in found


@pytest.mark.parametrize("arguments, words", [
    (["--fill"], "takes FILE.py:pipeline, or --all"),
    (["--fill", "a.py:b", "--all"], "takes FILE.py:pipeline, or --all"),
    (["--all"], "--all belongs to --fill"),
    (["--set", "a=1"], "--set belongs to --fill"),
    (["--fill", "--all", "--set", "a=1"], "--fill --all has none"),
    (["--fill", "--all", "--clear"], "are opposites"),
])  # fmt: skip
def test_wrong_arguments_of_the_command(capsys, arguments, words):
    assert main(["cache", *arguments]) == 2
    assert words in capsys.readouterr().err


def test_all_fills_the_cache_with_every_module(capsys, monkeypatch, tmp_path):
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path))
    filled = []
    monkeypatch.setattr(compiling, "compile_modules", filled.append)
    assert main(["cache", "--fill", "--all"]) == 0
    assert filled == [compiling.kernel_modules()] and "all: 0 kernels compiled" in capsys.readouterr().out


def test_missing_kernels_are_named_and_not_compiled(tmp_path):
    """By doctor; the statistics of a pipeline say what build() has compiled, and what came later."""
    done = run_warm(NAMES, compiler=True, NUMBA_CACHE_DIR=str(tmp_path))
    assert done.returncode == 0, done.stderr
    missing, kept, compiled_before, again, late = json.loads(done.stdout.splitlines()[-1])
    assert "crew.serve" in missing and "random_streams_kernels.draw_coins" in missing and kept == 0
    assert compiled_before >= len(missing) and again == []
    assert late == ["cast_kernels.late_kernel"]


NAMES = """
import json, os
from pathlib import Path
from asyncdali import fn, pipeline_def
from asyncdali.compiled import step
from asyncdali.tooling import doctor, doctor_checks

@pipeline_def(batch_size=2, num_threads=1, device_id=None, seed=1)
def coins():
    return fn.random.coin_flip()

from asyncdali.runtime import compiling
def missing():
    return compiling.missing(doctor.setup_of(coins()).planned)

@pipeline_def(batch_size=2, num_threads=1, device_id=None)
def pictures():
    return fn.resize(fn.decoders.image(fn.external_source(source=lambda: [b"", b""])), size=[8, 8])

first = missing()
decoding = compiling.missing(doctor.setup_of(pictures()).planned)
assert {"window_decoding.decode_window", "jpeg_kernels.decode_step", "resize_kernels.resize_image"} <= set(decoding), decoding
kept = len(list(Path(os.environ["NUMBA_CACHE_DIR"]).rglob("*.kernel")))
finding = doctor_checks.missing_kernels(doctor.setup_of(coins()))
assert finding.note and finding.check == "missing_kernels" and first[0] in finding.message
pipe = coins()
pipe.run()
before = pipe.statistics().kernels
assert before.compiled_seconds > 0 and before.after_build == ()
assert doctor_checks.missing_kernels(doctor.setup_of(coins())) is None

@step.compiled(1)
def late_kernel(a):
    return a + 1

late_kernel._function.__module__ = "asyncdali.operators.casts.cast_kernels"
late_kernel(3)
after = pipe.statistics()
assert after.since(pipe.statistics()).kernels.compiled == 0 and after.kernels.after_build_seconds > 0
print(json.dumps([first, kept, before.compiled, missing(), after.kernels.after_build]))
"""


def test_a_timer_that_fires_after_the_end_shows_nothing(monkeypatch):
    stream = io.StringIO()
    monkeypatch.setattr(sys, "stderr", stream)
    shown = progress.Progress("/folder")
    shown.expect(1)
    shown.step()
    shown.end()
    shown._late()
    assert stream.getvalue() == ""


# --- cold starts that are killed

_LONG = 1500  # a cold start takes 15 s of a processor, which other programs may use
COLD = "from asyncdali.demo import training_pipeline, _pictures; training_pipeline(_pictures(None), 2).run()"


def _processes_with(folder: Path) -> list[int]:
    """Processes whose environment names a folder of kernels: a program and its helpers. A zombie has no environment."""
    found = []
    for path in Path("/proc").glob("[0-9]*/environ"):
        with contextlib.suppress(OSError):
            if f"NUMBA_CACHE_DIR={folder}".encode() in path.read_bytes().split(b"\0"):
                found.append(int(path.parent.name))
    return found


def _processor_time(process: int) -> float:
    """Seconds, for moments that do not depend on other programs. A process that has ended has taken long enough."""
    try:
        user, system = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[11:13]
    except OSError:
        return float("inf")
    return (int(user) + int(system)) / os.sysconf("SC_CLK_TCK")


def _kernel_files(folder: Path) -> dict[str, tuple[int, int, int]]:
    """Inode, time and size of each kernel."""
    return {path.name: ((status := path.stat()).st_ino, status.st_mtime_ns, status.st_size) for path in folder.rglob("*.kernel")}


@pytest.mark.slow
def test_killed_cold_starts_leave_no_process_and_lose_no_kernel(tmp_path):
    """30 kills after random processor times. A saved kernel is kept as it is and whole; a full cache is replaced by an empty one."""
    moments = random.Random(34)
    number, folder, kept = 0, tmp_path / "0", {}
    killed = kernels = 0
    while killed < 30:
        environment = {**os.environ, "NUMBA_CACHE_DIR": str(folder), "ASYNCDALI_QUIET": "1", "PYTHONPATH": os.pathsep.join(sys.path)}
        with subprocess.Popen([sys.executable, "-c", COLD], env=environment) as process:
            moment, limit = moments.uniform(0.1, 4.0), time.monotonic() + _LONG
            while process.poll() is None and _processor_time(process.pid) < moment:
                assert time.monotonic() < limit
                time.sleep(0.01)
            if process.poll() is None:
                process.kill()
                killed += 1
        limit = time.monotonic() + 60
        while left := _processes_with(folder):
            assert time.monotonic() < limit, f"processes {left} outlive their parent by a minute"
            time.sleep(0.05)
        found = _kernel_files(folder)
        assert {name: found.get(name) for name in kept} == kept, "a kernel was compiled again"
        kernels += len(found) - len(kept)
        kept = found
        if process.returncode == 0:  # all kernels are there
            _check_whole(folder, kept)
            number, kept = number + 1, {}
            folder = tmp_path / str(number)
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(folder), "PYTHONPATH": os.pathsep.join(sys.path)}
    subprocess.run([sys.executable, "-c", COLD], env=environment, check=True, timeout=_LONG)
    found = _kernel_files(folder)
    assert {name: found.get(name) for name in kept} == kept
    _check_whole(folder, found)
    assert kernels > 10  # otherwise the kills came before anything was compiled


def _check_whole(folder: Path, kept: dict[str, tuple[int, int, int]]) -> None:
    """A run that finds all its kernels loads them: it replaces none, and removes none. A file that is not whole is removed when read."""
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(folder), "PYTHONPATH": os.pathsep.join(sys.path)}
    text = f"{COLD}; from asyncdali.compiled.step import history; assert history == [], history"
    subprocess.run([sys.executable, "-c", text], env=environment, check=True, timeout=_LONG)
    assert _kernel_files(folder) == kept
    for path in folder.rglob("*.claim"):  # of a process that was killed behind the end of a kernel: empty, and free
        with open(path, "rb+") as claim:
            fcntl.flock(claim, fcntl.LOCK_EX | fcntl.LOCK_NB)
            assert claim.read() == b""

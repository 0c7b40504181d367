"""Compilation in ``build()`` with an empty cache: helpers, shared kernels, progress."""

from __future__ import annotations

import io
import os
import pickle
import select
import signal
import subprocess
import sys
from pathlib import Path
from subprocess import PIPE

import pytest
from numba import config

from asyncdali import fn, pipeline_def, types
from asyncdali.compiled import cache, kernel_store, progress, waiting
from asyncdali.compiled.step import collecting, compiled
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
    monkeypatch.setattr(compiling, "_PROGRAM", "import os, sys; print(os.environ['NUMBA_CACHE_DIR'], file=sys.stderr)")
    helpers, original = compiling.Helpers(_operators()), subprocess.Popen
    monkeypatch.setattr(subprocess, "Popen", lambda *given, **options: original(*given, **{**options, "stderr": subprocess.PIPE}))
    helpers._start(0)
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


def test_each_helper_begins_at_another_operator():
    operators = _operators()
    whole = [_described(operators)]
    texts = [io.BytesIO(compiling.described(operators, number, 2)) for number in range(2)]
    firsts = [pickle.load(text)[0].schema.name for text in texts]
    assert firsts == [whole[0][0], whole[0][2]]


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
helpers._start(0)
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
        with collecting(waiting.Policy.SHARE) as missing:
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
    lines = _shown(monkeypatch, io.StringIO()).splitlines()
    assert lines[0] == "asyncdali: compiling 2 kernels, once on this machine: 1 done"
    assert lines[1].startswith("asyncdali: compiled 2 of 3 kernels in ") and lines[1].endswith("kept in /folder")


def test_one_line_in_a_terminal_is_updated(monkeypatch):
    text = _shown(monkeypatch, Terminal())
    assert text.count("\n") == 1 and text.count("\r") == 2


def test_short_compilations_and_quiet_programs_show_nothing(monkeypatch):
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


def test_a_timer_that_fires_after_the_end_shows_nothing(monkeypatch):
    stream = io.StringIO()
    monkeypatch.setattr(sys, "stderr", stream)
    shown = progress.Progress("/folder")
    shown.expect(1)
    shown.step()
    shown.end()
    shown._late()
    assert stream.getvalue() == ""

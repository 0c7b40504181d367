"""The helper process that compiles kernels while a pipeline is built with an empty cache."""

from __future__ import annotations

import io
import os
import pickle
import select
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from numba import config

from asyncdali import fn, pipeline_def, types
from asyncdali.compiled import cache
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
    from asyncdali.compiled import kernel_store

    (tmp_path / "asyncdali").mkdir(mode=0o777)
    (tmp_path / "asyncdali").chmod(0o777)
    monkeypatch.setattr(config, "CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(kernel_store, "_stores", {})
    monkeypatch.setattr(kernel_store, "_notified", True)
    monkeypatch.setattr(compiling, "_PROGRAM", "import os, sys; print(os.environ['NUMBA_CACHE_DIR'], file=sys.stderr)")
    helper, original = compiling.Helper(_operators()), subprocess.Popen
    monkeypatch.setattr(subprocess, "Popen", lambda *given, **options: original(*given, **{**options, "stderr": subprocess.PIPE}))
    helper._start()
    assert helper._process.communicate()[1].decode().strip() == str(cache.folder()[0]) == str(kernel_store._temporary_root())


def test_broken_operators_do_not_end_the_compiling_process():
    stream = io.BytesIO(pickle.dumps((object, "cpu", {}, (), 1, 1)) + compiling.described(_operators()))
    compiling.serve(stream)
    assert stream.read() == b""


def test_the_second_miss_starts_one_process_and_close_ends_it(monkeypatch):
    monkeypatch.setattr(compiling, "_PROGRAM", "import time; time.sleep(60)")
    helper = compiling.Helper(_operators())
    helper.miss()
    assert helper._process is None
    helper.miss()
    process = helper._process
    helper.miss()
    assert process is not None and helper._process is process and process.poll() is None
    helper.close()
    assert process.wait(300) != 0
    helper.close()


@pytest.mark.parametrize("change", ["switched off", "one processor", "one operator"])
def test_conditions_without_a_compiling_process(monkeypatch, change):
    operators = _operators()
    assert compiling.Helper(operators).wanted or len(os.sched_getaffinity(0)) == 1
    if change == "switched off":
        monkeypatch.setenv("ASYNCDALI_COMPILE_AHEAD", "0")
    elif change == "one processor":
        monkeypatch.setattr(os, "sched_getaffinity", lambda pid: {0})
    else:
        del operators[1:]
    assert not compiling.Helper(operators).wanted


def test_a_compiling_process_that_cannot_be_started_is_ignored(monkeypatch):
    monkeypatch.setattr(sys, "executable", "/nonexistent/python")
    helper = compiling.Helper(_operators())
    helper.miss()
    helper.miss()
    helper.close()


KILLED = """
import os, signal, sys, time
from asyncdali.runtime import compiling
compiling._PROGRAM = compiling._PROGRAM.replace("from asyncdali", sys.argv[1] + "; from asyncdali")
helper = compiling.Helper([])
helper._start()
print(helper._process.pid, flush=True)
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

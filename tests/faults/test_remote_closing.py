"""Pipelines that are closed while they wait for a server: requests end, no thread is left behind, and no call hangs."""

from __future__ import annotations

import asyncio
import gc
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("aiohttp", reason="fsspec reads http:// through aiohttp")
pytest.importorskip("fsspec", reason="reading URLs needs fsspec")

import fsspec
from fsspec.asyn import get_loop
from helpers.readers import EVERY_KIND, pipeline
from helpers.web import Server, moved

from asyncdali import Pipeline, fn
from asyncdali.errors import PipelineClosed
from asyncdali.readers.remote import remote

ROOT = Path(__file__).resolve().parent.parent
SOON = 300.0
"""Seconds that suffice for closing on any machine. The requests themselves would wait for the server forever."""


def fetching():
    return [thread for thread in threading.enumerate() if thread.name == "asyncdali-fetch"]


def requests_left():
    """Requests that do not end although they are cancelled: the server keeps them waiting longer."""

    async def left():
        others = asyncio.all_tasks() - {asyncio.current_task()}
        return len((await asyncio.wait(others, timeout=SOON))[1]) if others else 0

    return asyncio.run_coroutine_threadsafe(left(), get_loop()).result(2 * SOON)


@pytest.fixture
def server(tmp_path):
    """A server that answers until `hold` is set."""
    fsspec.filesystem("http").clear_instance_cache()
    with Server(tmp_path) as served:
        yield served
        served.hold.set()
    assert not fetching()


def files_pipeline(server, tmp_path):
    (tmp_path / "a").write_bytes(b"content")
    pipe = Pipeline(batch_size=2, num_threads=1, device_id=None)
    with pipe:
        pipe.set_outputs(fn.readers.file(files=[f"{server.url}/a"] * 8, prefetch_queue_depth=3)[0])
    pipe.build()
    return pipe


def closed_soon(pipe):
    begun = time.monotonic()
    pipe.close()
    assert time.monotonic() - begun < SOON
    assert not fetching() and not requests_left()


@pytest.mark.parametrize("depth", [pytest.param(1, marks=pytest.mark.slow), 3])
@pytest.mark.parametrize("name", ["file", "numpy", "webdataset", "caffe", "fits", "nemo_asr", "sequence", "io.file.read", "video"])
def test_close(name, depth, server, tmp_path):
    if name not in EVERY_KIND:
        pytest.skip("PyAV is not installed")
    kind = EVERY_KIND[name]
    arguments = kind.write(tmp_path)
    if name in ("fits", "numpy"):
        arguments = {"files": [f"{tmp_path}/{k}.{'fits' if name == 'fits' else 'npy'}" for k in range(10)]}
    if name == "caffe":  # a client of a web server cannot tell a folder from a file
        arguments = {"path": [f"{path}/data.mdb" for path in arguments["path"]]}
    for manifest in tmp_path.glob("*.json"):
        manifest.write_bytes(manifest.read_bytes().replace(str(tmp_path).encode(), server.url.encode()))
    there = {key: moved(value, tmp_path, server.url) for key, value in arguments.items()}
    if name != "io.file.read":
        there["prefetch_queue_depth"] = depth
    pipe = pipeline(kind, there)
    server.arrived = threading.Semaphore(0)  # requests of the build do not count
    server.hold.clear()
    pipe.schedule_run()
    assert server.arrived.acquire(timeout=300)
    closed_soon(pipe)


def test_waiting_callers_get_an_error(server, tmp_path):
    pipe = files_pipeline(server, tmp_path)
    server.hold.clear()
    told = []

    def consume():
        with pytest.raises(PipelineClosed):
            pipe.run()
        told.append(True)

    consumer = threading.Thread(target=consume)
    consumer.start()
    assert server.arrived.acquire(timeout=300)
    closed_soon(pipe)
    consumer.join(SOON)
    assert told


def test_dropping_the_pipeline(server, tmp_path):
    pipe = files_pipeline(server, tmp_path)
    server.hold.clear()
    pipe.schedule_run()
    assert server.arrived.acquire(timeout=300)
    del pipe
    gc.collect()
    assert not fetching() and not requests_left()


def test_earlier_outputs_stay_valid(server, tmp_path):
    pipe = files_pipeline(server, tmp_path)
    [batch] = pipe.run()
    server.hold.clear()
    closed_soon(pipe)
    assert np.asarray(batch[1]).tobytes() == b"content"


def test_closing_between_two_attempts(server, tmp_path, monkeypatch):
    """Without closing, the next attempt would come after an hour."""
    monkeypatch.setattr(remote.retries, "first", 3600.0)
    server.failures = 99
    pipe = files_pipeline(server, tmp_path)
    pipe.schedule_run()
    for _ in range(6):  # of three batches
        assert server.arrived.acquire(timeout=300)
    closed_soon(pipe)


def test_closing_while_files_are_discovered(server, tmp_path):
    """A lazy reader asks for sizes and indices when it is run."""
    kind = EVERY_KIND["webdataset"]
    arguments = {key: moved(value, tmp_path, server.url) for key, value in kind.write(tmp_path).items()}
    pipe = pipeline(kind, {**arguments, "lazy_init": True})
    name = pipe._core.session.executor.stages.name
    server.hold.clear()
    pipe.schedule_run()
    assert server.arrived.acquire(timeout=300)
    closed_soon(pipe)
    assert not [thread for thread in threading.enumerate() if thread.name.startswith(name)]


class Stuck(fsspec.AbstractFileSystem):
    """A synchronous file system that does not answer."""

    protocol = "stuck"
    cachable = False
    asked, answer = threading.Semaphore(0), threading.Event()

    def cat_file(self, path, start=None, end=None, **_):
        Stuck.asked.release()
        Stuck.answer.wait(2 * SOON)
        return b"content"


def test_a_file_system_that_cannot_be_interrupted(tmp_path):
    """`close()` does not wait for the answer. The thread that waits ends with the answer."""
    fsspec.register_implementation("stuck", Stuck, clobber=True)
    Stuck.answer.clear()
    pipe = Pipeline(batch_size=1, num_threads=1, device_id=None)
    with pipe:
        pipe.set_outputs(fn.readers.file(files=["stuck://a"] * 4, prefetch_queue_depth=2)[0])
    pipe.build()
    pipe.schedule_run()
    assert Stuck.asked.acquire(timeout=300)
    name = pipe._core.session.executor.stages.name
    begun = time.monotonic()
    pipe.close()
    assert time.monotonic() - begun < SOON
    assert not [thread for thread in threading.enumerate() if thread.name.startswith(name)]
    left = fetching()
    assert 1 <= len(left) <= 2 and all(thread.daemon for thread in left)
    Stuck.answer.set()
    for thread in left:
        thread.join(300)
    assert not fetching()
    assert not Stuck.asked.acquire(blocking=False)  # the next batch was not requested any more


def program(how, server):
    paths = os.pathsep.join([str(ROOT), str(ROOT.parent), os.environ.get("PYTHONPATH", "")])
    return subprocess.Popen([sys.executable, "-m", "helpers.remote_program", how, f"{server.url}/a"], text=True, stdin=subprocess.PIPE,
                            stdout=subprocess.PIPE, stderr=subprocess.PIPE, env={**os.environ, "PYTHONPATH": paths})  # fmt: skip


@pytest.mark.parametrize("how", ["exit", "interrupt", "interrupted to death"])
def test_programs_that_end(how, server, tmp_path):
    (tmp_path / "a").write_bytes(b"content")
    server.hold.clear()
    run = program(how, server)
    try:
        assert server.arrived.acquire(timeout=300)
        if how != "exit":
            run.send_signal(signal.SIGINT)
        out, errors = run.communicate("go on\n", timeout=300)
    finally:
        run.kill()
    if how == "exit":
        assert (run.returncode, out, errors) == (0, "", "")
    elif how == "interrupt":
        assert (run.returncode, out, errors) == (0, "interrupted\n[]\n", "")
    else:
        assert run.returncode == -signal.SIGINT and errors.rstrip().endswith("KeyboardInterrupt")
        assert errors.count("Traceback") == 1

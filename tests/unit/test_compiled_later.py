"""While another process compiles kernels, the pipeline works without them and gives the same results."""

from __future__ import annotations

import os
import subprocess
import sys

import numpy as np
import pytest
from helpers.images import encode, picture

_HERE = os.path.dirname(__file__)
_PROGRAM = """
import sys, time
sys.path.insert(0, sys.argv[1])
from helpers.operators import run_operator
from helpers.processes import children
import numpy as np
from asyncdali import fn, pipeline_def
from asyncdali.compiled import later
from asyncdali.codecs.jpeg import progressive, window

files = [np.fromfile(path, np.uint8) for path in sys.argv[3:]]

@pipeline_def(batch_size=len(files), num_threads=1, device_id=None, prefetch_queue_depth=1)
def decode():
    return fn.decoders.image(fn.external_source(source=lambda: files, batch=True), name="decode")

def decoded():
    (out,) = pipe.run()
    print([number for _, number in pipe.statistics().operator("decode").counted][:2], [int(np.asarray(x).sum()) for x in out], flush=True)

with decode() as pipe:
    decoded()
    print(window.decode_window.ready)
    for kernel in (window.decode_window, progressive.decode_scans):
        while any(watcher.is_alive() and place not in later._processes for place, watcher in later._watchers.items()):
            time.sleep(0.01)
        for process in list(later._processes.values()) if sys.argv[2] == "kill" else ():
            process.kill()
        for watcher in list(later._watchers.values()):
            watcher.join()
        later._processes.clear()
        if later._watchers:
            assert not children(), "no thread has waited for the process that compiled"
        decoded()
    print(window.decode_window.ready, progressive.decode_scans.ready, len(later._starts))
"""


def run(tmp_path, how: str = "", **environment: str) -> list[str]:
    """The lines that the program prints, starting with an empty kernel cache."""
    paths = []
    for name, options in {"a": {}, "b": {"progressive": True}}.items():
        paths.append(str(tmp_path / f"{name}.jpg"))
        with open(paths[-1], "wb") as file:
            file.write(encode(picture(50, 60), "JPEG", **options))
    settings = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path / "cache"), **environment}
    command = [sys.executable, "-c", _PROGRAM, os.path.dirname(_HERE), how, *paths]
    done = subprocess.run(command, env=settings, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout.splitlines()


def numbers(line: str) -> tuple[list[int], str]:
    counts, _, sums = line.partition("] ")
    return [int(number) for number in counts[1:].split(", ")], sums


@pytest.mark.slow
def test_libjpeg_turbo_decodes_until_the_kernel_is_compiled(tmp_path):
    first, ready, second, third, end = run(tmp_path)
    assert ready == "False"
    (ours, turbos), pixels = numbers(first)
    assert ours == 0 and turbos >= 2
    assert numbers(second)[1] == numbers(third)[1] == pixels
    assert numbers(third)[0][0] > 0
    assert end == "True True 2"
    # The kernels are in the cache now.
    first, ready, *_, end = run(tmp_path)
    assert numbers(first)[0][1] == 0 and ready == "True" and end == "True True 0"


@pytest.mark.slow
def test_a_killed_compiling_process_is_started_again(tmp_path):
    *lines, end = run(tmp_path, "kill")
    assert len({numbers(line)[1] for line in lines if line.startswith("[")}) == 1
    assert end.startswith("False False")


@pytest.mark.slow
def test_without_a_compiling_process_kernels_are_compiled_before_their_use(tmp_path):
    first, ready, *_, end = run(tmp_path, ASYNCDALI_COMPILE_AHEAD="0")
    assert numbers(first)[0][1] == 0 and ready == "True" and end == "True True 0"


def test_a_compiled_kernel_is_used_immediately(monkeypatch):
    from asyncdali.codecs.jpeg import window
    from asyncdali.compiled import later

    address = window.decode_window.address
    monkeypatch.setattr(later, "_is_being_compiled", lambda kernel: pytest.fail("asked for"))
    assert later.address_or_later(window.decode_window) == address


def test_after_leave_out_no_kernel_is_compiled_for_later_use(monkeypatch):
    from asyncdali.compiled import later
    from asyncdali.compiled.step import compiled

    @compiled(1)
    def unused(value):
        return np.int64(value)

    later.leave_out()
    try:
        assert later.address_or_later(unused) == 0 and not unused.ready
    finally:
        later._left_out.clear()

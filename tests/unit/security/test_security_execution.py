"""Code execution by helper processes and stored machine code. No code comes from the working directory or from other users."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys

import pytest

from asyncdali.device.cuda import code_cache
from asyncdali.system.processes import python_command
from asyncdali.tooling import doctor_checks

HOSTILE = "raise SystemExit('the working directory was imported from')"


@pytest.fixture
def hostile_folder(tmp_path, monkeypatch):
    """A data folder with modules that shadow the standard library and this package."""
    for name in ("json", "ctypes", "time", "importlib", "pickle", "numpy", "asyncdali", "asyncdali_workers", "argparse", "dataclasses"):
        (tmp_path / f"{name}.py").write_text(HOSTILE)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [entry for entry in sys.path if entry])
    return tmp_path


def output_of(command):
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert not done.stderr, done.stderr
    return done.stdout


def test_arguments_and_module_path_arrive(hostile_folder):
    program = "from __future__ import annotations\nimport json, sys\nprint(json.dumps([sys.argv, sys.path, __name__]))"
    arguments = ["a", "", "--b=c d", "'\"\n"]
    argv, path, name = json.loads(output_of(python_command(program, *arguments)))
    assert argv[1:] == arguments and path == sys.path and name == "__main__"


def test_plain_python_imports_from_the_hostile_folder(hostile_folder):
    """Plain Python imports modules from the folder. Without this, the other tests would prove nothing."""
    done = subprocess.run([sys.executable, "-c", "import json"], capture_output=True, text=True, check=False)
    assert HOSTILE.split("'")[1] in done.stderr


def test_the_probe_of_the_driver(hostile_folder):
    assert {"missing", "init"} & doctor_checks._probe().keys()


def test_the_phases_of_the_demo(hostile_folder):
    import argparse

    from asyncdali import demo

    options = argparse.Namespace(output="out", batches=4, threads=1, data=None)
    command = demo._phase(options, "run")
    command[command.index("demo")] = "--version"
    from asyncdali import __version__

    assert __version__ in output_of(command[: command.index("--version") + 1])


def test_the_helper_that_compiles(hostile_folder):
    from asyncdali.runtime import compiling

    done = subprocess.run(python_command(compiling._PROGRAM, str(os.getpid())), input=b"", capture_output=True, check=False)
    assert done.returncode == 0 and not done.stderr


def test_the_process_that_runs_dali_for_a_comparison(hostile_folder):
    from pathlib import Path

    from asyncdali.tooling import bench_rival

    source = Path(bench_rival.__file__).read_text()
    answer = output_of(python_command(source, str(hostile_folder / "no.py"), "pipe", "{}"))
    assert "was imported from" not in answer and "error" in json.loads(answer)


def test_workers_that_do_not_inherit(tmp_path, monkeypatch):
    """A spawned worker reads its module path first. Before that it imports only modules that every interpreter loads."""
    from asyncdali_workers.processes import spawning

    first = spawning._BOOT.partition("import os,sys,marshal;")
    assert first[0] == "" and first[2].index("sys.path[:]=") < first[2].index("from asyncdali_workers")
    code = "import sys; print(all(name in sys.modules or name in sys.builtin_module_names for name in ('os', 'sys', 'marshal')))"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "True\n"


# --- machine code of CUDA kernels


@pytest.fixture
def place(tmp_path, monkeypatch):
    monkeypatch.setenv("CUPY_CACHE_DIR", str(tmp_path / "cache"))
    return tmp_path / "cache" / "asyncdali"


def test_machine_code_is_kept_privately(place):
    assert code_cache.read("key") is None
    code_cache.write("key", b"code")
    assert code_cache.read("key") == b"code" and code_cache.read("other") is None
    assert place.stat().st_mode & 0o777 == 0o700
    code_cache.write("key", b"new")
    assert code_cache.read("key") == b"new" and len(list(place.iterdir())) == 1


@pytest.mark.parametrize("mode", [0o770, 0o702, 0o777])
def test_a_folder_that_others_may_write_to_is_not_used(place, mode):
    code_cache.write("key", b"code")
    place.chmod(mode)
    assert code_cache.read("key") is None
    code_cache.write("other", b"code")
    assert len(list(place.iterdir())) == 1


def test_a_folder_of_another_user_is_not_used(place, monkeypatch):
    code_cache.write("key", b"code")
    other = os.geteuid() + 1
    monkeypatch.setattr(os, "geteuid", lambda: other)
    assert code_cache.read("key") is None
    code_cache.write("other", b"code")
    assert len(list(place.iterdir())) == 1


def test_a_folder_that_is_a_link_is_not_used(place, tmp_path):
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir(mode=0o700)
    place.parent.mkdir()
    place.symlink_to(elsewhere)
    code_cache.write("key", b"code")
    assert not list(elsewhere.iterdir()) and code_cache.read("key") is None


def test_damaged_machine_code_is_not_loaded(place):
    code_cache.write("key", b"code" * 100)
    [file] = place.iterdir()
    whole = file.read_bytes()
    for damaged in (whole[:-1], whole[:10], b"", whole[:40] + b"x" + whole[41:]):
        file.write_bytes(damaged)
        assert code_cache.read("key") is None
    file.unlink()
    file.symlink_to("/etc/hostname")
    assert code_cache.read("key") is None
    assert hashlib.sha256(b"key").hexdigest() in file.name


def test_without_a_folder(monkeypatch, tmp_path):
    (tmp_path / "file").write_text("")
    for folder in ("/proc/none", str(tmp_path / "file")):
        monkeypatch.setenv("CUPY_CACHE_DIR", folder)
        code_cache.write("key", b"code")
        assert code_cache.read("key") is None


# --- answers of asyncdali_workers, and files that look like images


HOSTILE_CLASSES = [["os", "system"], ["builtins", "eval"], ["subprocess", "run"], ["antigravity", "x"], ["os", "error.__class__"]]


@pytest.mark.parametrize("name", HOSTILE_CLASSES, ids=[".".join(name) for name in HOSTILE_CLASSES])
def test_exceptions_of_workers_cannot_execute_code(name, monkeypatch):
    """Only exception classes of imported modules are made, without their constructors. No code is executed, nothing is imported."""
    from asyncdali_workers import errors

    monkeypatch.setattr(os, "system", lambda *_: pytest.fail("it ran"))
    data = json.loads(errors.encode_exception(ValueError("x"), "here"))
    data["errors"][0]["classes"].insert(0, name)
    found = errors.decode_exception(json.dumps(data).encode(), "what ")
    assert isinstance(found, errors.WorkerCallbackError) and "x" in str(found)
    assert "antigravity" not in sys.modules


@pytest.mark.parametrize("data", [
    b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 9 9\n(x) print\n",
    b"<svg xmlns='http://www.w3.org/2000/svg'><image href='/etc/passwd'/></svg>",
    b"push graphic-context\nimage over 0,0 0,0 '/etc/passwd'\n", b"\x01\xff\x02\x04\x03\x00\x02\x00 /etc/passwd",
], ids=["eps", "svg", "mvg", "fit"])  # fmt: skip
def test_files_that_are_no_images_start_no_process(data, monkeypatch):
    """Pillow would pass PostScript to Ghostscript, so it is allowed to decode TIFF only."""
    import numpy as np

    from asyncdali import Pipeline, fn

    pipe = Pipeline(batch_size=1, num_threads=1, exec_pipelined=False, exec_async=False)
    with pipe:
        pipe.set_outputs(fn.decoders.image(fn.external_source(lambda: [np.frombuffer(data, np.uint8)])))
    pipe.build()  # may start the compiling process
    monkeypatch.setattr(subprocess, "Popen", lambda *_, **__: pytest.fail("a process was started"))
    with pytest.raises(RuntimeError, match="sample 0"):
        pipe.run()

"""`asyncdali bench` and `asyncdali engine` on programs that parse arguments, exit, print, change the directory, or name a partial."""

from __future__ import annotations

import functools
import importlib
import json
import subprocess
import sys

import pytest
from helpers.fleets import TOKEN, batches_of

from asyncdali.fleet import loader
from asyncdali.tooling import program

BODY = """
from asyncdali import fn, pipeline_def
@pipeline_def(batch_size=2, num_threads=1, seed=1)
def train():
    return fn.python_function(fn.random.uniform(range=[0, 1], shape=[3]), function=same)
def same(value):
    return value
"""
ARGUMENTS = "import argparse\nparser = argparse.ArgumentParser()\nparser.add_argument('--data', required=True)\n"
ARGUMENTS += "DATA = parser.parse_args().data\n"
NOISE = "import os, sys\nprint('at import'); os.system('echo from a child'); os.write(1, b'raw')\n"
NOISE += "def same(value):\n    print('called')\n    return value\n"
OBJECT = "class Same:\n    def __call__(self, value): return value\nsame = Same()\n"
PARTIAL = "import functools\npart = functools.partial(functools.partial(train), seed=4)\nclass Maker:\n"
PARTIAL += "    def __call__(self, **options): return train(**options)\nmaker = Maker()\n"


def bench(folder, text, *words, name="train", **options):
    file = folder / "users.py"
    file.write_text(text)
    command = [sys.executable, "-m", "asyncdali", "bench", "--iterations", "3", f"users.py:{name}", *words]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=300, check=False, **options)


def test_a_program_gets_its_own_arguments(tmp_path):
    found = bench(tmp_path, ARGUMENTS + BODY, "--", "--data", "/somewhere")
    assert found.returncode == 0 and "samples/s" in found.stdout, found.stderr
    found = bench(tmp_path, ARGUMENTS + BODY)
    assert found.returncode == 1 and "usage: users.py" in found.stderr
    assert "ended itself while it was loaded (SystemExit: 2). Give its own arguments behind `--`" in found.stderr


@pytest.mark.parametrize("text", ["import sys\nsys.exit(3)\n", "raise SystemExit('no data')\n", "exit()\n"])
def test_a_program_that_exits_says_what_to_do(tmp_path, text):
    found = bench(tmp_path, BODY + text)
    assert found.returncode == 1 and 'belongs below `if __name__ == "__main__":`' in found.stderr and "Traceback" not in found.stderr


def test_results_stay_apart_from_what_a_program_prints_at_its_end(tmp_path):
    text = "import atexit, os\natexit.register(print, 'the end')\natexit.register(os.write, 1, b'raw')\n"
    found = bench(tmp_path, BODY + text, "--json")
    assert json.loads(found.stdout)["measurement"] and "the end" in found.stderr and "raw" in found.stderr


@pytest.mark.parametrize("folder", ["package", "package/inner"])
def test_a_file_of_a_package_imports_its_neighbours(tmp_path, folder):
    """As `python -m package.users` does. Such files failed with "attempted relative import with no known parent package"."""
    place = tmp_path / folder
    place.mkdir(parents=True)
    for made in (tmp_path / "package", place):
        (made / "__init__.py").touch()
    (tmp_path / "package" / "shared.py").write_text("RANGE = [0, 1]\n")
    (place / "near.py").write_text("def same(value):\n    return value\n")
    above = "from ..shared" if "inner" in folder else "from .shared"
    found = bench(place, f"{above} import RANGE\nfrom .near import same\n" + BODY)
    assert found.returncode == 0 and "samples/s" in found.stdout, found.stderr


def test_results_stay_apart_from_prints(tmp_path):
    found = bench(tmp_path, BODY + NOISE, "--json")
    assert json.loads(found.stdout)["measurement"] and found.returncode == 0
    assert all(text in found.stderr for text in ("at import", "from a child", "raw", "called"))
    found = bench(tmp_path, BODY + NOISE, "--json", "--sweep", "threads=1,2")
    assert len(json.loads(found.stdout)["rows"]) == 2


@pytest.mark.parametrize("name", ["part", "maker"])
def test_partials_and_objects(tmp_path, name):
    found = bench(tmp_path, BODY + PARTIAL, "--batch-size", "4", "--json", name=name)
    assert found.returncode == 0, found.stderr
    assert json.loads(found.stdout)["measurement"]["settings"]["batch_size"] == 4
    with pytest.raises(program.ProgramError, match=r"plain\(\) takes no batch_size"):
        program.make(functools.partial(plain), {"batch_size": 4})


def plain():
    raise AssertionError


def test_the_program_may_change_the_directory(tmp_path):
    found = bench(tmp_path, "import os\nos.chdir('/')\n" + BODY, "--trace", "trace.json", "--report", "page.html")
    assert found.returncode == 0, found.stderr
    assert (tmp_path / "trace.json").exists() and (tmp_path / "page.html").exists()


def test_spawned_processes_get_the_program(tmp_path):
    """They could not import the file under the name that the command gave it."""
    text = BODY.replace("seed=1", "seed=1, engine_start_method='spawn'")
    found = bench(tmp_path, text, "--engines", "1", "--json")
    assert found.returncode == 0 and json.loads(found.stdout)["measurement"]["settings"]["engines"] == 1, found.stderr


def test_an_engine_of_such_a_program(tmp_path, monkeypatch):
    """It parses arguments, prints, changes the directory, and names a partial. The trainer's program has the same functions."""
    file, token = tmp_path / "users.py", tmp_path / "token"
    file.write_text("import os\nos.chdir('/')\n" + ARGUMENTS + BODY + PARTIAL + OBJECT)
    token.write_bytes(TOKEN)
    token.chmod(0o600)
    words = ["--listen", "127.0.0.1:0", "--token-file", "token", "users.py:part", "--", "--data", "x"]
    engine = subprocess.Popen([sys.executable, "-m", "asyncdali", "engine", *words], cwd=tmp_path, stdout=subprocess.PIPE, text=True)

    monkeypatch.setattr(sys, "argv", ["train.py", "--data", "y"])
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    train = importlib.import_module("users").part
    try:
        address = engine.stdout.readline().split()[-1]
        with loader(train) as alone, loader(train, engines=[address], token=TOKEN) as batches:
            assert batches_of(batches.pipeline, 3) == batches_of(alone.pipeline, 3)
    finally:
        engine.kill()
        engine.communicate()
    command = [sys.executable, "-m", "asyncdali", "engine", *words[:-3]]
    found = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=300, check=False)
    assert found.returncode == 1 and "Give its own arguments behind `--`" in found.stderr
    del sys.modules["users"]

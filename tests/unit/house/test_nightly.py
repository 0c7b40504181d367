""".ci/pieces.py runs slow tests in pieces with a time limit."""

from __future__ import annotations

import argparse
import importlib.util
import subprocess
import sys

import pytest
from helpers.places import PROJECT

PIECES = PROJECT / ".ci" / "pieces.py"
HEAD = "import pytest, time\npytestmark = pytest.mark.slow\n"


def nightly(folder, *options, **files):
    for name, text in files.items():
        (folder / f"test_{name}.py").write_text(HEAD + text)
    (folder / "pytest.ini").write_text("[pytest]\nmarkers = slow: long\n")
    command = [sys.executable, str(PIECES), "--size", "2", *options, "."]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=300, check=False)
    return done.returncode, done.stdout.rpartition("== summary")[2]


def test_all_pieces_pass(tmp_path):
    status, summary = nightly(tmp_path, good="@pytest.mark.parametrize('k', range(3))\ndef test_it(k): assert k < 3\n")
    assert status == 0 and "3 slow tests in 2 pieces; 0 pieces failed" in summary and "test_good.py 2/2" in summary


@pytest.fixture(scope="module")
def program():
    spec = importlib.util.spec_from_file_location("pieces_of_ci", PIECES)
    assert spec is not None and spec.loader is not None
    sys.modules[spec.name] = module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    yield module
    del sys.modules[spec.name]


def test_the_parts_together_run_all_pieces(program):
    tests = [f"test_{file}.py::test_it[{k}]" for file in "ab" for k in range(5)]
    whole = program.pieces(tests, 2)
    assert [name for name, _ in whole] == [f"test_{file}.py {k}/3" for file in "ab" for k in (1, 2, 3)]
    assert [test for _, own in whole for test in own] == tests
    parts = [program.pieces(tests, 2, program.share(f"{part}/4")) for part in (1, 2, 3, 4)]
    assert list(map(len, parts)) == [2, 2, 1, 1] and sorted(piece for part in parts for piece in part) == whole


@pytest.mark.parametrize("part", ["0/2", "3/2", "2", "a/b"])
def test_wrong_parts(program, part):
    with pytest.raises(argparse.ArgumentTypeError, match="a part is K/N"):
        program.share(part)


WRONG = {
    "fails": ("def test_it(): assert False\n", "failed (status 1)"),
    "skips": ("def test_it(): pytest.skip('never')\n", "ran no test"),
    "leaves": ("def test_it(): __import__('os')._exit(0)\n", "no report"),
}


def test_failures_of_pieces(tmp_path):
    status, summary = nightly(tmp_path, good="def test_it(): pass\n", **{name: text for name, (text, _) in WRONG.items()})
    assert status == 1 and "4 slow tests in 4 pieces; 3 pieces failed" in summary
    lines = {name: next(line for line in summary.splitlines() if f"test_{name}.py" in line) for name in ("good", *WRONG)}
    assert lines["good"].rstrip().endswith("test_good.py")
    assert all(said in lines[name] for name, (_, said) in WRONG.items())


def test_tests_that_remain_after_the_time_limit_become_another_piece(tmp_path):
    status, summary = nightly(tmp_path, "--seconds", "0", two="def test_one(): assert False\ndef test_two(): pass\n")
    assert status == 1 and "2 slow tests in 2 pieces; 1 pieces failed" in summary
    first, second, *_ = summary.strip().splitlines()
    assert "failed (status 0)" in first and second.rstrip().endswith("test_two.py, continued")


def test_a_piece_that_does_not_end(tmp_path):
    status, summary = nightly(tmp_path, "--limit", "1", endless="def test_it():\n    while True: time.sleep(1)\n")
    assert status == 1 and "did not end in 1 s" in summary


def test_a_nightly_run_without_tests_fails(tmp_path):
    assert nightly(tmp_path)[0] == 1

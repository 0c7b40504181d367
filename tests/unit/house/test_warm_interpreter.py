"""``helpers.warm``: programs in copies of an interpreter behave like programs of ``python -c``."""

import subprocess

import pytest
from helpers.pipelines import run_script
from helpers.processes import children
from helpers.warm import run_warm

PROGRAM = """
import os, signal, sys, threading
main = sys.modules["__main__"]
print(sys.argv, sys.path, sys.flags, os.getcwd(), sorted(os.environ.items()), sorted(vars(main)), main.__spec__, threading.active_count())
print([signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)], sorted(map(int, os.listdir("/proc/self/fd")))[:-1])
"""


def test_a_program_finds_what_a_fresh_interpreter_has(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    warm, fresh = (run(PROGRAM, 1, "two", NAME="value") for run in (run_warm, run_script))
    assert (warm.returncode, warm.stderr) == (0, "")
    assert warm.stdout == fresh.stdout


@pytest.mark.parametrize("end", ["import sys; sys.exit(3)", "raise ValueError('bad')", "import os; os.kill(os.getpid(), 15)"])
def test_programs_end_with_the_status_of_a_fresh_interpreter(end):
    warm, fresh = run_warm(end), run_script(end)
    assert warm.returncode == fresh.returncode != 0
    assert warm.stderr.splitlines()[-1:] == fresh.stderr.splitlines()[-1:]


def test_programs_are_separate():
    assert run_warm("import os, sys; sys.found = os.environ['NAME'] = 'x'").returncode == 0
    assert run_warm("import os, sys; print(hasattr(sys, 'found'), 'NAME' in os.environ)").stdout == "False False\n"


def test_the_interpreter_is_no_child_that_tests_count():
    run_warm("")
    assert children() == []


def test_a_program_that_does_not_end_is_killed():
    with pytest.raises(subprocess.TimeoutExpired):
        run_warm("import time; time.sleep(600)", timeout=0)
    assert run_warm("print('next')").stdout == "next\n"


def test_what_an_interpreter_reads_at_its_start_is_refused():
    with pytest.raises(ValueError, match="PYTHONHASHSEED has no effect"):
        run_warm("", PYTHONHASHSEED="1")

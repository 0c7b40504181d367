"""Signals of engines and workers: in their first moments, and in the programs and processes that users' functions start."""

from __future__ import annotations

import json
import os
import sys

import pytest
from helpers.marks import slow
from helpers.pipelines import run_script
from helpers.warm import run_warm

PLACES = [("engines", "fork"), ("engines", "spawn"), ("workers", "fork"), ("workers", "forkserver")]
OTHERS = [("engines", "forkserver"), ("workers", "spawn")]
"""Slow: they start by the code of `PLACES`, in another combination."""
places = pytest.mark.parametrize("what, method", [*PLACES, *slow(*OTHERS)])

PIPELINE = """
import signal

for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2, signal.SIGALRM, signal.SIGINT):
    signal.signal(number, signal.SIG_DFL)  # `nohup` and shells start programs that ignore some of them
signal.signal(signal.SIGINT, signal.default_int_handler)

def made(what, method, function):
    import numpy as np
    from asyncdali import Pipeline, fn

    def source(info):
        return np.int64(function())

    def called(value):
        return np.int64(function())

    if what == "engines":
        pipe = Pipeline(1, 1, seed=5, engines=1, engine_start_method=method)
        with pipe:
            pipe.set_outputs(fn.python_function(fn.random.uniform(range=[0, 1]), function=called, num_outputs=1))
    else:
        pipe = Pipeline(1, 1, seed=5, py_num_workers=1, py_start_method=method)
        with pipe:
            pipe.set_outputs(fn.external_source(source, batch=False, parallel=True))
    return pipe
"""

STARTED = PIPELINE + """
import signal, subprocess, sys

calls = []

def masks():
    text = subprocess.run(["cat", "/proc/self/status"], capture_output=True, text=True, check=True).stdout
    return [int(line.split()[1], 16) for line in text.splitlines() if line.startswith(("SigBlk", "SigIgn"))]

def ends():
    # The first call only: `close` kills the process during a later call, and a program started by it would go on and keep our output open.
    calls.append(None)
    if len(calls) > 1:
        return [0]
    found = []
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        child = subprocess.Popen(["sleep", "1000" if number != signal.SIGINT or sys.argv[3] == "default" else "0"])
        child.send_signal(number)
        found.append(child.wait())
    return found + masks()

what, method, ctrl_c = sys.argv[1:]
signal.signal(signal.SIGUSR1, signal.SIG_IGN)
signal.signal(signal.SIGUSR2, lambda *_: None)
signal.signal(signal.SIGINT, signal.SIG_DFL if ctrl_c == "default" else signal.SIG_IGN)
pipe = made(what, method, ends)
print([*pipe.run()[0].as_array().tolist(), masks()])
pipe.close()
"""


@pytest.mark.parametrize(
    "what, method, ctrl_c",
    [
        *((*place, "default") for place in PLACES), ("engines", "fork", "ignored"), ("workers", "fork", "ignored"),
        *slow(*((*place, "default") for place in OTHERS)),
    ],
)  # fmt: skip
def test_programs_that_a_function_starts_begin_with_the_signals_of_the_program(what, method, ctrl_c):
    """They can be ended, ignore what the program ignores, and block no signal."""
    done = run_warm(STARTED, what, method, ctrl_c, timeout=120)
    assert done.returncode == 0, done.stderr
    (terminated, interrupted, hung_up, blocked, ignored), masks = json.loads(done.stdout)
    assert (terminated, interrupted, hung_up) == (-15, -2 if ctrl_c == "default" else 0, -1)
    assert [blocked, ignored] == masks and blocked == 0  # a shell may have started this session with other signals ignored, too
    assert ignored & (1 << 9 | 1 << 1) == (1 << 9 if ctrl_c == "default" else 1 << 9 | 1 << 1)


FORKS = """
import os

early = []

def in_child():  # runs before the package's own functions, which are registered later
    if early:
        os.kill(os.getpid(), early[0])

os.register_at_fork(after_in_child=in_child)
""" + PIPELINE + """
import signal, sys, time

def forks():
    found = []
    for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1, signal.SIGALRM, signal.SIGINT):
        early[:] = [number]
        pid = os.fork()
        if pid == 0:
            time.sleep(30)
            os._exit(0)
        early.clear()
        found.append(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
    return found

pipe = made(*sys.argv[1:], forks)
print(pipe.run()[0].as_array().tolist())
pipe.close()
"""


@pytest.mark.parametrize("what", ["engines", "workers"])
def test_a_process_that_a_function_forks_can_be_ended_at_once(what):
    """The signal arrives before Python has called a function in the child."""
    done = run_script(FORKS, what, "fork", timeout=120)
    assert done.stdout == "[[-15, -1, -10, -14, -2]]\n", done.stderr


EARLY = PIPELINE + """
import os, signal, sys

numbers = signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2, signal.SIGALRM, signal.SIGINT
what, method = sys.argv[1:]
main, came = os.getpid(), []

def handler(number, frame):
    print("a handler of the program runs in another process" if os.getpid() != main else "in the program", flush=True)

def group_signals():
    for number in numbers:
        os.kill(os.getpid(), number)

for number in numbers:
    signal.signal(number, handler)
os.register_at_fork(after_in_child=group_signals)  # before and after the package's own function
import asyncdali.engines.child.process
os.register_at_fork(after_in_child=group_signals)
os.environ["EARLY_SIGNALS"] = "1"  # see `sitecustomize`
count = iter(range(100))
pipe = made(what, method, lambda: next(count))
print([pipe.run()[0].as_array().tolist() for _ in range(4)])
if what == "engines":
    print([place.restarts for place in pipe._core.processes.engines.loader.places])
else:
    print([pipe.worker_statistics()["restarts"]])
pipe.close()
"""

SITE = """
import os, signal

if os.environ.get("EARLY_SIGNALS"):
    for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2, signal.SIGALRM, signal.SIGINT):
        os.kill(os.getpid(), number)
"""


@places
def test_signals_in_the_first_moments_of_a_process(what, method, tmp_path):
    """They come immediately after the fork, or when the interpreter starts, and neither end the process nor run the program's handlers."""
    (tmp_path / "sitecustomize.py").write_text(SITE)
    script = f"import sys; sys.path[:0] = {sys.path!r}\n" + EARLY
    done = run_script(script, what, method, timeout=120, PYTHONPATH=os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", "")]))
    assert (done.stdout, done.stderr) == ("[[0], [1], [2], [3]]\n[0]\n", "")


IMPORTED = """
import importlib, os, signal, sys

with open("handlers_at_import.py", "w") as file:
    file.write(
        "import os, signal\\n"
        "for number in (signal.SIGTERM, signal.SIGUSR1):\\n"
        "    signal.signal(number, lambda *_: os.write(1, b'handler\\\\n'))\\n"
        "def function():\\n"
        "    for number in (signal.SIGTERM, signal.SIGUSR1):\\n"
        "        os.kill(os.getpid(), number)\\n"
        "    return 7\\n"
    )
sys.path.insert(0, os.getcwd())
""" + PIPELINE + """
from handlers_at_import import function

pipe = made(*sys.argv[1:], function)
print(pipe.run()[0].as_array().tolist())
pipe.close()
"""


@places
def test_handlers_that_a_module_installs_when_it_is_imported(what, method, tmp_path, monkeypatch):
    """A fresh interpreter imports the modules of the program, whose handlers belong to the program."""
    monkeypatch.chdir(tmp_path)
    done = run_warm(IMPORTED, what, method, timeout=120)
    assert (done.stdout, done.stderr) == ("[7]\n", "")

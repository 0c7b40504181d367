"""Programs whose process is not like that of a shell: closed streams, a foreign sys.executable, imports of other threads, default timeouts
of sockets, managers, refused system calls."""

import ast
import errno
import os
import re
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest
from asyncdali_workers.processes import python
from asyncdali_workers.processes.greenlets import refuse_greenlets
from asyncdali_workers.shared import calls
from helpers.marks import slow
from helpers.places import PROJECT as HERE
from helpers.refused_calls import refuse
from helpers.warm import run_warm

from asyncdali.tooling import doctor_checks, doctor_setup

LIMIT = 120

PROGRAM = """
import sys
import numpy as np
from asyncdali import fn, pipeline_def


class Source:
    def __call__(self, info):
        print("text of a callback")
        return np.int32([info.idx_in_epoch])


def plus_one(x):
    print("text of a function")
    return x + 1


def made(what, **options):
    kind, _, method = what.partition("-")
    options = dict(batch_size=2, num_threads=1, seed=3, **options)
    if kind == "workers":
        options.update(py_num_workers=1, py_start_method=method)
    elif kind == "engines":
        options.update(engines=1, engine_start_method=method)

    @pipeline_def(**options)
    def graph():
        if kind == "plain":
            return fn.random.uniform(range=(0, 1))
        if kind == "workers":
            return fn.external_source(Source(), batch=False, parallel=True)
        return fn.python_function(fn.random.uniform(range=(0, 1)), function=plus_one, num_outputs=1)

    pipe = graph()
    pipe.build()
    return pipe


def values(pipe, count=4):
    return [np.asarray(pipe.run()[0].as_tensor()).ravel().tolist() for _ in range(count)]


"""
KINDS = ["plain-", "workers-fork", "workers-spawn", "workers-forkserver", "engines-fork", "engines-spawn", "engines-forkserver"]
PROCESSES = KINDS[1:]
SOME = ["workers-fork", "workers-forkserver", "engines-fork", "engines-spawn", *slow("workers-spawn", "engines-forkserver")]
"""By default two ways of each start: spawned processes and those of a fork server start by the same code."""


def run(code, *args, shell=None, before=(), folder=None):
    """Run :data:`PROGRAM` and `code` in a fresh interpreter. Returns (status, what it has printed, its errors)."""
    path = Path(folder) / "program.py"
    path.write_text(PROGRAM + textwrap.dedent(code))
    command = [sys.executable, *before, str(path), *map(str, args)]
    if shell is not None:
        command = ["/bin/sh", "-c", f'exec "$@" {shell}', "sh", *command]
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=LIMIT, stdin=subprocess.DEVNULL, check=False, cwd=folder,
        env={**os.environ, "PYTHONPATH": str(HERE)},
    )  # fmt: skip
    return done.returncode, done.stdout, done.stderr


def run_copy(code, *args, refused=None):
    """Run :data:`PROGRAM` and `code` like :func:`run`, in a copy of an interpreter that has imported the package.

    `refused`: (the error's name, names of system calls that fail with this error).
    """
    refuses = ""
    if refused is not None:
        error, names = refused
        refuses = f"import errno\nfrom helpers.refused_calls import refuse\nrefuse({names.split(',')}, errno.{error})\n"
    done = run_warm(refuses + PROGRAM + textwrap.dedent(code), *args, timeout=LIMIT)
    return done.returncode, done.stdout, done.stderr


@pytest.fixture(scope="module")
def plain_values():
    """The first values of each kind of pipeline in a usual process, as text. The way in which processes start does not change them."""
    code = """
        for kind in ("plain-", "workers-fork", "engines-fork"):
            sys.stdout.write(f"\\nkind {kind.partition('-')[0]} {values(made(kind), 6)}\\n")  # in one piece: engines print beside it
    """
    status, printed, errors = run_copy(code)
    assert status == 0, errors
    found = {kind: ast.literal_eval(text) for kind, text in re.findall(r"kind (\w+) (.*)", printed)}
    assert found["workers"] == [[2 * k, 2 * k + 1] for k in range(6)]
    return {kind: repr(numbers[:4]) for kind, numbers in found.items()} | {("six", kind): repr(numbers) for kind, numbers in found.items()}


# --- standard streams


@pytest.mark.parametrize("closed", ["<&- >&- 2>&-", *slow("<&-", ">&-", "2>&-", "<&- >&-")])
@pytest.mark.parametrize("what", ["plain-", *SOME])
def test_closed_standard_streams(tmp_path, plain_values, what, closed):
    """The numbers of closed streams are kept free of our files, and a file that the program has opened is not written to."""
    code = """
        first = open(sys.argv[2] + "/first", "w+")      # it may get the number of a closed stream
        pipe = made(sys.argv[1])
        found = values(pipe)
        pipe.close()
        first.seek(0)
        with open(sys.argv[2] + "/result", "w") as file:
            file.write(repr((found, first.read())))
    """
    status, _, errors = run(code, what, tmp_path, shell=closed, folder=tmp_path)
    assert status == 0, errors
    assert (tmp_path / "result").read_text() == f"({plain_values[what.partition('-')[0]]}, '')"


# --- the interpreter


@pytest.fixture
def multiprocessing_unloaded(monkeypatch):
    monkeypatch.delitem(sys.modules, "multiprocessing.spawn", raising=False)


def test_which_interpreter_is_started(monkeypatch, multiprocessing_unloaded):
    real = sys.executable
    assert python.interpreter() == real
    for foreign in ("/opt/blender/blender", "", None):
        monkeypatch.setattr(sys, "executable", foreign)
        assert python.interpreter() is None
        with pytest.raises(RuntimeError, match=r"^engines cannot be started: .*sys\.executable is .*set_executable"):
            python.required_interpreter("engines cannot be started")
    monkeypatch.setattr(sys, "executable", real)
    monkeypatch.setattr(sys, "frozen", True, raising=False)
    assert python.interpreter() is None


def test_the_interpreter_of_multiprocessing_is_started(monkeypatch):
    import multiprocessing.spawn

    real = sys.executable
    monkeypatch.setattr(sys, "executable", "/opt/blender/blender")
    monkeypatch.setattr(multiprocessing.spawn, "_python_exe", os.fsencode("/opt/blender/blender"))
    assert python.interpreter() is None
    for given in (real, "/opt/blender/interpreter"):
        multiprocessing.set_executable(given)
        assert python.interpreter() == given
        monkeypatch.setattr(sys, "frozen", True, raising=False)
        assert python.interpreter() == given
    monkeypatch.delattr(sys, "frozen")
    monkeypatch.setattr(sys, "executable", real)  # changed after the import of multiprocessing, which still knows the application
    multiprocessing.set_executable("/opt/blender/blender")
    assert python.interpreter() == real


def test_no_helper_compiles_without_an_interpreter(monkeypatch, multiprocessing_unloaded):
    from asyncdali.runtime.compiling import Helpers

    assert len(os.sched_getaffinity(0)) == 1 or Helpers([None, None]).wanted
    monkeypatch.setattr(sys, "executable", "/opt/blender/blender")
    assert not Helpers([None, None]).wanted


@pytest.mark.parametrize("what", SOME)
def test_an_application_is_not_started_in_place_of_an_interpreter(tmp_path, what):
    application = tmp_path / "application"
    application.write_text(f"#!/bin/sh\necho started >> {tmp_path}/started\n")
    application.chmod(0o755)
    code = """
        real, sys.executable = sys.executable, sys.argv[2]
        try:
            sys.stdout.write(f"\\nfound {values(made(sys.argv[1]))}\\n")
        except RuntimeError as error:
            sys.stdout.write(f"\\nrefused {error}\\n")
        import multiprocessing
        multiprocessing.set_executable(real)
        sys.stdout.write(f"\\ngiven {values(made(sys.argv[1]))}\\n")
    """
    status, printed, errors = run_copy(code, what, application)
    assert status == 0 and "given [[" in printed, errors
    assert "found [[" in printed if what.endswith("-fork") else re.search(r"refused .*multiprocessing\.set_executable", printed)
    assert not (tmp_path / "started").exists()


def test_proxies_of_managers(tmp_path):
    """A fresh process connects to the manager of the program with the key of the program."""
    code = """
        import multiprocessing
        from functools import partial

        def counted(shared, x):
            shared["seen"] = shared.get("seen", 0) + 1
            return x

        class Counts(Source):
            def __init__(self, shared):
                self.shared = shared

            def __call__(self, info):
                self.shared["seen"] = self.shared.get("seen", 0) + 1
                return super().__call__(info)

        if __name__ == "__main__":
            with multiprocessing.Manager() as manager:
                for what in sys.argv[1:]:
                    shared = manager.dict()
                    plus_one = partial(counted, shared)
                    Source = partial(Counts, shared)
                    values(made(what))
                    assert shared["seen"] >= 8, (what, shared)
    """
    status, _, errors = run(code, *PROCESSES, folder=tmp_path)
    assert status == 0, errors


# --- what other threads do at a fork


@pytest.mark.parametrize("ends", [True, False], ids=["the import ends", "the import takes too long"])
@pytest.mark.parametrize("what", ["workers-fork", "engines-fork"])
def test_a_fork_while_another_thread_imports(tmp_path, what, ends):
    """The module is imported in the new process, too."""
    (tmp_path / "slowly.py").write_text(
        textwrap.dedent("""
        import os, __main__
        if os.getpid() == __main__.pid:
            __main__.begun.set()
            assert __main__.goes_on.wait(60)
        value = 1
    """)
    )
    code = """
        import os, threading
        from asyncdali_workers.processes import imports

        pid = os.getpid()
        begun, goes_on = threading.Event(), threading.Event()
        thread = threading.Thread(target=lambda: __import__("slowly"))
        thread.start()
        assert begun.wait(60)
        if sys.argv[2] == "True":
            looked, real = threading.Event(), imports._importing
            def importing():
                looked.set()
                return real()
            imports._importing = importing
            threading.Thread(target=lambda: looked.wait(60) and goes_on.set()).start()
        else:
            imports.LIMIT = 0.05

        class Source:
            def __call__(self, info):
                import slowly
                return np.int32([slowly.value])

        def plus_one(x):
            import slowly
            return x + slowly.value

        print(len(values(made(sys.argv[1]))), flush=True)
        goes_on.set()
        thread.join(60)
        import slowly
        assert slowly.value == 1
    """
    status, printed, errors = run_copy(f"sys.path.insert(0, {str(tmp_path)!r})\n" + textwrap.dedent(code), what, ends)
    assert (status, "4" in printed.splitlines()) == (0, True), errors
    assert ("another thread imports slowly" in errors) is not ends


def test_a_default_timeout_of_sockets():
    """``socket.setdefaulttimeout`` does not end processes that wait for a message, such as those that make replacements."""
    code = """
        import os, signal, socket, time
        for what in sys.argv[1:]:
            socket.setdefaulttimeout(0.01)
            pipe = made(what)
            found = values(pipe, 2)
            core = pipe._core.session
            time.sleep(0.1)      # ten times the timeout passes; nothing is waited for
            pid = core.parallel.pool.pids[0] if core.parallel is not None else core.engines.engines[0].pid
            os.kill(pid, signal.SIGKILL)
            found += values(pipe, 4)
            pipe.close()
            socket.setdefaulttimeout(None)
            assert found == values(made(f"{what.partition('-')[0]}-fork"), 6), (what, found)
    """
    status, _, errors = run_copy(code, *PROCESSES)
    assert status == 0, errors


# --- greenlets


class Patched:
    """Stands for ``gevent.monkey`` and ``eventlet.patcher``."""

    def __init__(self, *names):
        self.names = names

    def is_module_patched(self, name):
        return name in self.names

    is_monkey_patched = is_module_patched


def test_replaced_modules_are_refused_by_name(monkeypatch):
    def refusal(processes):
        with pytest.raises(RuntimeError) as caught:
            refuse_greenlets(processes)
        return str(caught.value)

    refuse_greenlets(True)
    monkeypatch.setitem(sys.modules, "gevent.monkey", Patched("time", "os", "socket"))
    refuse_greenlets(False)
    assert refusal(True).startswith("gevent has replaced os, socket, and a pipeline with worker processes or engines would wait")
    assert "gevent.monkey.patch_all(thread=False, queue=False, select=False, subprocess=False, os=False, socket=False)" in refusal(True)
    monkeypatch.setitem(sys.modules, "gevent.monkey", Patched("_thread"))
    assert refusal(False).startswith("gevent has replaced thread, and a pipeline with threads in compiled code would wait")
    monkeypatch.delitem(sys.modules, "gevent.monkey")
    monkeypatch.setitem(sys.modules, "eventlet.patcher", Patched("thread", "socket"))
    assert "eventlet has replaced thread" in refusal(False) and "eventlet.monkey_patch(thread=False, select=False)" in refusal(False)
    monkeypatch.delitem(sys.modules, "eventlet.patcher")
    monkeypatch.setattr("_thread.start_new_thread", lambda *_: None)
    assert refusal(False).startswith("another library has replaced thread")


@pytest.mark.parametrize("what", ["plain-", "workers-spawn", "engines-fork"])
def test_programs_with_gevent(tmp_path, what):
    pytest.importorskip("gevent", reason="gevent is not installed")
    program = (
        "import runpy, sys; from gevent import monkey; monkey.patch_all({}); sys.argv.pop(0); "
        "runpy.run_path(sys.argv[0], {{}}, '__main__')"
    )
    for options in ("", "thread=False, queue=False, select=False, subprocess=False, os=False, socket=False"):
        (tmp_path / "patched.py").write_text(program.format(options))
        status, _, errors = run("print(values(made(sys.argv[1])))", what, before=(tmp_path / "patched.py",), folder=tmp_path)
        assert status == (0 if options else 1), errors
        assert options or "RuntimeError: gevent has replaced thread, queue, select, subprocess" in errors


# --- refused system calls


@pytest.fixture(scope="module")
def filters():
    """Skips tests where system calls cannot be refused."""
    pid = os.fork()
    if pid == 0:
        status = 1
        try:
            refuse(["kcmp"], errno.EPERM)
            status = 0
        finally:
            os._exit(status)
    if os.waitpid(pid, 0)[1]:
        pytest.skip("seccomp filters cannot be installed here")


FINE = [
    "pidfd_open,pidfd_send_signal", "fallocate", "madvise", "preadv2", "sched_setaffinity", "prlimit64", "setpriority", "prctl",
    "fadvise64", "statx", "close_range,openat2,faccessat2", "mlock,userfaultfd,process_vm_readv,io_uring_setup,membarrier",
]  # fmt: skip
"""Calls that have a fallback, or that are not used. Numba asks for sched_getaffinity, glibc for rseq and (unless ENOSYS) for clone3."""


@pytest.mark.parametrize("error", ["EPERM", "ENOSYS"])
@pytest.mark.parametrize("names", [",".join(FINE), *slow(*FINE)])
@pytest.mark.parametrize("what", ["plain-", "workers-fork", "engines-fork"])
def test_calls_with_a_fallback(tmp_path, filters, plain_values, what, names, error):
    """A plain program is imported without these calls, too."""
    code = """
        import os, signal
        pipe = made(sys.argv[1], set_affinity=True)
        found = values(pipe, 2)
        if pipe._core.session.parallel is not None:      # the death of a worker is noticed
            os.kill(pipe._core.session.parallel.pool.pids[0], signal.SIGKILL)
        sys.stdout.write(f"\\nfound {found + values(pipe, 4)}\\n")
        pipe.close()
    """
    if what == "plain-":
        status, printed, errors = run(code, what, before=(HERE / "tests/helpers/refused_calls.py", error, names), folder=tmp_path)
    else:
        status, printed, errors = run_copy(code, what, refused=(error, names))
    assert status == 0, errors
    found = re.findall(r"found (\[\[.*?\]\])", printed)  # engines print beside it
    assert found == [plain_values["six", what.partition("-")[0]]]


@pytest.mark.parametrize("method", ["spawn", "forkserver"])
def test_fresh_workers_without_pidfds(filters, method):
    code = """
        import os, signal
        pipe = made(sys.argv[1])
        found = values(pipe, 2)
        os.kill(pipe._core.session.parallel.pool.pids[0], signal.SIGKILL)
        assert found + values(pipe, 3) == [[0, 1], [2, 3], [4, 5], [6, 7], [8, 9]]
        pipe.close()
    """
    status, _, errors = run_copy(code, f"workers-{method}", refused=("ENOSYS", "pidfd_open,pidfd_send_signal"))
    assert status == 0, errors


@pytest.mark.parametrize(
    ("what", "name"), [
        ("workers-fork", "memfd_create"), ("workers-spawn", "eventfd2"), ("engines-fork", "memfd_create"),
        ("engines-spawn", "memfd_create"),
    ],
)  # fmt: skip
def test_calls_without_a_fallback_are_named(filters, what, name):
    status, _, errors = run_copy("made(sys.argv[1])", what, refused=("EPERM", name))
    wanted = "py_num_workers" if "workers" in what else "engines=N"
    assert status == 1 and "CallRefused" in errors
    assert f"the system call {name} was refused" in errors.splitlines()[-1] and wanted in errors.splitlines()[-1]


@pytest.mark.parametrize(("name", "works"), [("eventfd2", True), ("epoll_create1", False)])
def test_a_loop_without_a_call(filters, name, works):
    """uvloop needs eventfd; asyncio's own loop takes its place. Both need epoll."""
    status, _, errors = run_copy("print(values(made('plain-')))", refused=("EPERM", name))
    assert (status == 0) is works
    assert works or "the system call epoll_create1 was refused" in errors.splitlines()[-1]


def test_a_call_that_fails_for_another_reason_keeps_its_error():
    with pytest.raises(OSError, match="Too many") as caught, calls.needed("eventfd2", calls.WORKERS):
        raise OSError(errno.EMFILE, "Too many open files")
    assert not isinstance(caught.value, calls.CallRefused)


def test_doctor_tries_the_calls(monkeypatch):
    assert doctor_checks.refused_calls(doctor_setup.MachineSetup()) is None
    monkeypatch.setattr(os, "pidfd_open", lambda *_: (_ for _ in ()).throw(PermissionError(errno.EPERM, "Operation not permitted")))
    finding = doctor_checks.refused_calls(doctor_setup.MachineSetup())
    assert finding.check == "refused_calls" and not finding.fatal
    assert "pidfd_open" in finding.message and "noticed through a pipe" in finding.message and "seccomp" in finding.message

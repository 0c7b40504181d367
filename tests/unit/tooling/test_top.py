"""``asyncdali top``: reports of running processes over a local socket."""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import threading
from contextlib import closing
from pathlib import Path

import pytest

import asyncdali
from asyncdali import fn, pipeline_def
from asyncdali.__main__ import main
from asyncdali.fleet import Actor
from asyncdali.runtime.counting import serving
from asyncdali.tooling import top

PICTURES = os.path.join(os.path.dirname(asyncdali.__file__), "data", "pictures")


@pipeline_def(batch_size=4, num_threads=1, seed=5)
def decoding(folder=PICTURES):
    encoded, label = fn.readers.file(file_root=folder, name="R")
    return fn.decoders.image(encoded, name="D"), label


def served(count=3, **options):
    pipe = decoding(**options)
    pipe.serve_metrics()
    for _ in range(count):
        pipe.run()
    return pipe


def listening():
    return [thread.name for thread in threading.enumerate() if thread.name == "asyncdali-top"]


@pytest.fixture(autouse=True)
def nothing_is_left():
    yield
    assert listening() == [] and not os.path.exists(serving.address_of(os.getpid()))


def test_nothing_listens_unless_it_is_wanted():
    with closing(decoding()) as pipe:
        pipe.run()
        assert listening() == []
        with pytest.raises(top.TopError, match=rf"process {os.getpid()} does not answer.*ASYNCDALI_TOP=1, or call pipe.serve_metrics"):
            top.ask(os.getpid())


def test_a_process_reports_its_pipelines():
    with closing(served()) as first, closing(served(1)) as second:
        report = top.ask(os.getpid())
        assert report["pid"] == os.getpid() and report["asyncdali"] == asyncdali.__version__
        one, two = report["pipelines"]
        assert [item["statistics"]["consumer"]["iterations"] for item in (one, two)] == [3, 1]
        assert one["batch_size"] == 4 and {item["name"] for item in one["statistics"]["operators"]} == {"R", "D"}
        (segment,) = one["statistics"]["segments"]
        assert segment["slowest_samples"][0] == list(segment["slowest_sample"]) and segment["slowest_sample"][3].endswith(".jpg")
        first.close()
        assert [item["number"] for item in top.ask(os.getpid())["pipelines"]] == [two["number"]]
        assert os.getpid() in top.processes()
        second.close()
        assert listening() == []


def test_a_pipeline_that_is_served_twice_is_reported_once():
    with closing(served()) as pipe:
        pipe.serve_metrics()
        assert len(top.ask(os.getpid())["pipelines"]) == 1


def test_a_pipeline_that_is_dropped_is_not_reported():
    with closing(served()):
        pipe = served(0)
        del pipe
        assert len(top.ask(os.getpid())["pipelines"]) == 1


def test_the_environment_asks_for_all_pipelines(monkeypatch):
    monkeypatch.setenv("ASYNCDALI_TOP", "1")
    with closing(decoding()) as pipe, closing(decoding(enable_statistics=False)) as other:
        pipe.run()
        other.run()
        one, two = top.ask(os.getpid())["pipelines"]
        assert one["statistics"]["consumer"]["samples"] == 4 and "enable_statistics" in two["error"]
    monkeypatch.setenv("ASYNCDALI_TOP", "0")
    with closing(decoding()) as pipe:
        pipe.run()
        assert listening() == []


def test_a_folder_of_others_is_refused(monkeypatch, tmp_path):
    place = tmp_path / "open"
    place.mkdir(mode=0o755)
    place.chmod(0o755)
    monkeypatch.setattr(serving, "folder", lambda base=None: str(place))
    with closing(decoding()) as pipe, pytest.raises(RuntimeError, match="is not a folder that only this user can open"):
        pipe.serve_metrics()
    monkeypatch.setenv("ASYNCDALI_TOP", "1")
    with pytest.warns(RuntimeWarning, match="cannot read this process"), closing(decoding()) as pipe:
        pipe.run()
    place.chmod(0o700)
    link = tmp_path / "link"
    link.symlink_to(place)
    with pytest.raises(RuntimeError, match="link is not a folder"):
        serving.check_private(str(link))
    serving.check_private(str(place))


def test_statistics_are_needed():
    with closing(decoding(enable_statistics=False)) as pipe, pytest.raises(RuntimeError, match="enable_statistics"):
        pipe.serve_metrics()


@pytest.mark.parametrize("question", [b"", b"GET / HTTP/1.1\r\n", b"x" * 100])
def test_other_questions_get_no_answer(question):
    with closing(served(0)), socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
        connection.settimeout(10)
        connection.connect(serving.address_of(os.getpid()))
        connection.sendall(question)
        connection.shutdown(socket.SHUT_WR)
        try:
            assert connection.recv(10) == b""
        except ConnectionResetError:  # it was closed before all of the question was read
            pass
        assert top.ask(os.getpid())["pipelines"]


def test_a_silent_client_does_not_hinder_others(monkeypatch):
    monkeypatch.setattr(serving, "_PATIENCE", 1.0)
    with closing(served(0)), socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
        connection.connect(serving.address_of(os.getpid()))
        assert top.ask(os.getpid())["pipelines"]


def test_answers_are_bounded(monkeypatch):
    monkeypatch.setattr(serving, "MOST_PIPELINES", 1)
    monkeypatch.setattr(serving, "MOST_OPERATORS", 1)
    monkeypatch.setattr(serving, "MOST_LETTERS", 5)
    with closing(served()), closing(served()):
        report = top.ask(os.getpid())
        (one,) = report["pipelines"]
        assert report["more"] == 1 and [len(item["name"]) for item in one["statistics"]["operators"]] == [1]
        assert one["statistics"]["operators"][0]["operator"] == "de..."
        monkeypatch.setattr(serving, "MOST_BYTES", 100)
        with pytest.raises(top.TopError, match="cannot be used: the report has .* bytes, more than 100"):
            top.ask(os.getpid())


WRONG = [(b"", "cannot be used: "), (b"[1]", "cannot be used"), (b'{"pipelines": 3}', "it has no pipelines")]


@pytest.mark.parametrize("answer, text", WRONG)
def test_wrong_answers_are_refused(answer, text, monkeypatch, tmp_path):
    path = str(tmp_path / "s")
    tmp_path.chmod(0o700)
    monkeypatch.setattr(serving, "address_of", lambda pid, base=None: path)
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listener:
        listener.bind(path)
        listener.listen(1)

        def reply():
            connection, _ = listener.accept()
            with connection:
                connection.recv(100)
                connection.sendall(answer)

        thread = threading.Thread(target=reply)
        thread.start()
        with pytest.raises(top.TopError, match=text):
            top.ask(os.getpid())
        thread.join(10)
        with pytest.raises(top.TopError, match="the socket of process 1 belongs to process"):
            top.ask(1)


def test_once_as_json_and_as_text(capsys):
    with closing(served()) as pipe:
        stop = threading.Event()

        def train():
            while not stop.is_set():
                pipe.run()

        thread = threading.Thread(target=train)
        thread.start()
        try:
            assert main(["top", str(os.getpid()), "--once", "--json", "--interval", "0.3"]) == 0
            report = json.loads(capsys.readouterr().out)
            assert main(["top", str(os.getpid()), "--once", "--interval", "0.3"]) == 0
            shown = capsys.readouterr().out
        finally:
            stop.set()
            thread.join(10)
    (one,) = report["pipelines"]
    rates = one["rates"]
    assert rates["iterations"] > 0
    assert abs(rates["samples"] - 4 * rates["iterations"]) * report["seconds"] < 8.1  # an iteration may be counted between two reads
    assert set(one["rates"]["operators"]) == {"R", "D"} and 0.3 <= report["seconds"] < 30
    wanted = (f"process {os.getpid()}", "batch 4, 1 threads", "iterations/s", "queue: ", "decoders.image", "slowest samples", ".jpg")
    assert all(text in shown for text in wanted), shown
    assert main(["top", "--json"]) == 0 and isinstance(json.loads(capsys.readouterr().out), list)


def test_control_characters_of_names_do_not_reach_the_terminal():
    with closing(served()) as pipe:
        report = top.compared(top.ask(os.getpid()), top.ask(os.getpid()))
        report["pipelines"][0]["statistics"]["segments"][0]["slowest_samples"] = [[0.1, 1, 2, "a\x1b[31mb\nc.jpg"]]
        assert "a?[31mb?c.jpg" in top.text(report) and "\x1b" not in top.text(report)
        pipe.close()


@pytest.mark.parametrize("arguments, text", [
    (["4194305"], "there is no process 4194305"), ([str(os.getpid()), "--interval", "0"], "--interval is 0.0"),
])  # fmt: skip
def test_errors_of_the_command(arguments, text, capsys):
    assert main(["top", *arguments]) == 1
    assert text in capsys.readouterr().err


JOB = """
import sys, asyncdali
from asyncdali import fn
pipe = asyncdali.Pipeline(batch_size=2, num_threads=1, seed=1)
with pipe:
    pipe.set_outputs(fn.random.uniform(name="U"))
pipe.run()
print("ready", flush=True)
for line in sys.stdin:
    pipe.run()
"""


@pytest.fixture
def job():
    environment = {**os.environ, "ASYNCDALI_TOP": "1"}
    with subprocess.Popen([sys.executable, "-c", JOB], stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment) as process:
        assert process.stdout.readline() == b"ready\n"
        yield process
        process.kill()


def test_a_job_that_ends(job):
    assert top.ask(job.pid)["pipelines"][0]["statistics"]["consumer"]["iterations"] == 1
    job.stdin.close()
    assert job.wait(20) == 0
    assert not os.path.exists(serving.address_of(job.pid))
    with pytest.raises(top.TopError, match="there is no process"):
        top.ask(job.pid)


def test_a_job_that_is_killed(job, capsys):
    path = serving.address_of(job.pid)
    assert job.pid in top.processes()
    job.send_signal(signal.SIGKILL)
    os.waitid(os.P_PID, job.pid, os.WEXITED | os.WNOWAIT)  # it stays in /proc until it is waited for
    with pytest.raises(top.TopError, match=f"process {job.pid} has ended"):
        top.ask(job.pid)
    job.wait(20)
    assert os.path.exists(path) and job.pid not in top.processes() and not os.path.exists(path)
    assert main(["top", str(job.pid)]) == 1 and "there is no process" in capsys.readouterr().err


@pytest.fixture
def enclosed(request):
    """A job in namespaces of its own, as in a container: the process, and its number inside."""
    command = ["unshare", "--user", "--map-root-user", "--pid", "--fork", "--mount-proc"]
    if shutil.which("unshare") is None or subprocess.run([*command, "true"], check=False, capture_output=True).returncode:
        pytest.skip("this user may not make namespaces")
    environment = {**os.environ, "ASYNCDALI_TOP": request.param}
    with subprocess.Popen(
        [*command, sys.executable, "-c", JOB], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=environment
    ) as process:
        assert process.stdout.readline() == b"ready\n"
        (child,) = map(int, Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split())
        yield child
        process.stdin.close()
        process.wait(60)


@pytest.mark.parametrize("enclosed", ["1"], indirect=True)
def test_a_job_in_another_namespace_answers(enclosed):
    """The job runs as root inside. The folder of its socket is that of root, so only root can ask from outside."""
    if os.geteuid():
        with pytest.raises(top.TopError, match=f"process {enclosed} is process 1 of another PID namespace.*asyncdali top 1 there"):
            top.ask(enclosed)
        return
    assert top.ask(enclosed)["pipelines"][0]["statistics"]["consumer"]["iterations"] == 1
    assert enclosed not in top.processes()


@pytest.mark.parametrize("enclosed", ["0"], indirect=True)
def test_a_silent_job_in_another_namespace_is_named(enclosed):
    with pytest.raises(top.TopError, match=f"process {enclosed} is process 1 of another PID namespace.*asyncdali top 1 there"):
        top.ask(enclosed)


def test_a_forked_child_leaves_the_socket_alone():
    with closing(served()):
        child = os.fork()
        if child == 0:
            left = serving._server._listener is None and listening() == []
            os._exit(0 if left else 1)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        assert top.ask(os.getpid())["pipelines"]


def test_engines_are_reported_by_the_job_that_uses_them():
    with closing(served(engines=1, engine_start_method="forkserver")):
        (one,) = top.ask(os.getpid())["pipelines"]
        (engine,) = one["statistics"]["engines"]
        assert engine["answered"] >= 3
        report = top.compared(top.ask(os.getpid()), top.ask(os.getpid()))
        assert f"engine 0 (process {engine['pid']})" in top.text(report)
        with pytest.raises(top.TopError, match=f"process {engine['pid']} (does not answer|is a child of process .* answers for it)"):
            top.ask(engine["pid"])


def test_engines_of_fleets_are_reported(monkeypatch):
    monkeypatch.setenv("ASYNCDALI_TOP", "1")
    with Actor(decoding, token="0123456789abcdef") as actor:
        report = top.compared(top.ask(os.getpid()), top.ask(os.getpid()))
        (one,) = report["pipelines"]
        assert one["actor"] == actor.address and one["statistics"]["iterations"] == 0
        assert f"engine {actor.address}: 0 iterations made" in top.text(report)

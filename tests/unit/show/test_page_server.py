"""The server of ``asyncdali show --serve``: steps on demand, and nothing for those who do not know the address."""

from __future__ import annotations

import http.client
import os
import re
import signal
import socket
import subprocess
import sys
import threading
from urllib.parse import urlsplit

import pytest
from helpers import browser as browsers
from test_show import PICTURES, training

from asyncdali.pipeline.replay.replaying import replay
from asyncdali.tooling.show_server import PageServer, Wanted


@pytest.fixture
def served():
    """A server in a thread of this process, and the steps that it has made."""
    pipe, made = training(), []

    def make(step):
        made.append(step)
        return replay(pipe, step)

    server = PageServer(make, lambda wanted: f"show {wanted.step}", Wanted(2, 1), False)
    started = threading.Event()
    thread = threading.Thread(target=server.run, args=(lambda address: started.set(),))
    thread.start()
    assert started.wait(20)
    yield server, made
    server.stop()
    thread.join(20)
    assert not thread.is_alive()


def ask(server, query="", *, path=None, host=None, method="GET"):
    """Status, headers and text of an answer."""
    parts = urlsplit(server.address)
    connection = http.client.HTTPConnection("127.0.0.1", parts.port, timeout=60)
    connection.request(method, (parts.path if path is None else path) + query, headers={} if host is None else {"Host": host})
    answer = connection.getresponse()
    text = answer.read().decode()
    connection.close()
    return answer.status, dict(answer.getheaders()), text


def test_steps_are_made_on_demand_and_kept(served):
    server, made = served
    status, headers, text = ask(server)
    assert status == 200 and "<h1>Step 2: 4 samples</h1>" in text and '<section class="sample chosen" id="sample1"' in text
    assert headers["Cache-Control"] == "no-store" and headers["Referrer-Policy"] == "no-referrer"
    assert "default-src 'none'" in headers["Content-Security-Policy"]
    assert "<pre>show 9</pre>" in ask(server, "?step=9&sample=3")[2] and made == [2, 9]
    text = ask(server, "?step=9&compare=2")[2]
    assert "<h1>Step 9 beside step 2: 4 samples</h1>" in text and made == [2, 9]
    for step in range(20, 25):
        assert ask(server, f"?step={step}")[0] == 200
    ask(server, "?step=9&compare=")
    assert made == [2, 9, 20, 21, 22, 23, 24, 9]


def test_only_the_whole_address_leads_to_pages(served):
    server, made = served
    path = urlsplit(server.address).path
    for other in ("/", "/x/", path[:-2] + "/", path + "x/", path.upper() if path != path.upper() else "/", "/%00/"):
        assert ask(server, path=other)[0] == 404
    assert ask(server, host="example.com")[0] == 404 and ask(server, host=f"localhost:{urlsplit(server.address).port}")[0] == 404
    assert ask(server, method="POST")[0] == 501 and made == []
    assert len(path) > 20 and urlsplit(server.address).hostname == "127.0.0.1"


WRONG = ["?step=-1", "?step=a", "?step=1e3", "?sample=0x1", "?step=" + "9" * 400, "?file=/etc/passwd", "?a&b&c&d&e&f&g&h&i&j"]


@pytest.mark.parametrize("query", WRONG)
def test_wrong_requests_are_refused(served, query):
    server, made = served
    status, _, text = ask(server, query)
    assert status == 400 and "<script" not in text and made == []


def test_a_step_that_cannot_be_made_is_a_page(served):
    server, _ = served
    status, _, text = ask(server, "?step=2&sample=4")
    assert status == 409 and "there is no sample 4" in text
    assert ask(server, "?step=3")[0] == 200


def test_idle_and_broken_connections_do_not_disturb(served):
    server, _ = served
    port = urlsplit(server.address).port
    idle = [socket.create_connection(("127.0.0.1", port)) for _ in range(5)]
    idle[0].sendall(b"\x00\xff garbage\r\n\r\n")
    idle[1].sendall(b"GET /")
    idle[2].close()
    assert ask(server)[0] == 200
    for one in idle:
        one.close()


@pytest.fixture
def command(tmp_path):
    """``asyncdali show --serve`` in another process, and its address."""
    program = tmp_path / "train.py"
    program.write_text(
        "from asyncdali import fn, pipeline_def\n"
        "@pipeline_def(batch_size=3, num_threads=1, seed=1)\n"
        f"def train():\n    return fn.decoders.image(fn.readers.file(file_root={PICTURES!r}, random_shuffle=True)[0], name='D')\n"
    )
    process = subprocess.Popen(
        [sys.executable, "-m", "asyncdali", "show", f"{program}:train", "--step", "5", "--serve"],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env={**os.environ, "PYTHONUNBUFFERED": "1"},
    )  # fmt: skip
    try:
        line = process.stdout.readline()
        yield process, re.match(r"(http://127\.0\.0\.1:\d+/[\w-]{20,}/) \(Ctrl-C ends the server\)", line).group(1)
    finally:
        process.kill()
        process.communicate(timeout=20)


def test_the_command_ends_with_ctrl_c(command):
    process, address = command
    parts = urlsplit(address)
    connection = http.client.HTTPConnection("127.0.0.1", parts.port, timeout=60)
    connection.request("GET", parts.path)
    text = connection.getresponse().read().decode()
    assert "train --step 5" in text and '"served": true' in text
    connection.close()
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=20)
    assert process.returncode == 0 and out == "" and err == ""
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", parts.port))


@pytest.mark.skipif(browsers.executable() is None, reason="there is no Chromium")
def test_keys_in_a_browser_make_other_steps(served):
    server, made = served

    def shown():
        return tab.run("[document.querySelector('h1').textContent, document.querySelector('section.chosen').id]")

    def pressed(key, title):
        tab.press(key)
        tab.wait_for(f"document.querySelector('h1')?.textContent === '{title}' && document.readyState === 'complete'")

    with browsers.Browser() as tab:
        tab.size(1280, 900)
        tab.visit(server.address)
        assert shown() == ["Step 2: 4 samples", "sample1"]
        tab.press("ArrowRight")
        pressed("n", "Step 3: 4 samples")
        assert shown()[1] == "sample2"
        pressed("p", "Step 2: 4 samples")
        pressed("c", "Step 2 beside step 3: 4 samples")
        pressed("n", "Step 3 beside step 4: 4 samples")
        assert tab.run("document.querySelectorAll('section.chosen').length") == 2 and shown()[1] == "sample2"
        tab.run("document.querySelector('input[name=step]').value = 7, document.querySelector('input[name=compare]').value = '', "
                "document.querySelector('form').requestSubmit()")  # fmt: skip
        tab.wait_for("document.querySelector('h1')?.textContent === 'Step 7: 4 samples'")
        assert tab.errors() == [] and made == [2, 3, 4, 7]

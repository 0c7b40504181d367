"""A redirect of a web server to another host, port or scheme is refused before a request is sent there."""

from __future__ import annotations

import http.server
import threading

import numpy as np
import pytest

pytest.importorskip("fsspec", reason="reading URLs needs fsspec")
pytest.importorskip("aiohttp", reason="fsspec reads http:// through aiohttp")

import fsspec
from helpers.containers import write_tar

from asyncdali import Pipeline, fn
from asyncdali.readers.remote import remote

pytestmark = pytest.mark.usefixtures("waits")


class Web:
    """A web server that answers with files of `contents`, or with redirects. `asked` lists the requested paths."""

    def __init__(self, contents, redirects=None):
        self.contents, self.redirects, self.asked = contents, redirects or {}, []
        web = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self):
                web.asked.append(self.path)
                target = web.redirects.get(self.path)
                body = web.contents.get(self.path, b"")
                found = self.path in web.contents
                self.send_response((302 if target.startswith("302") else 307) if target else 200 if found else 404)
                if target:
                    self.send_header("Location", target.removeprefix("302 "))
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                if self.command == "GET":
                    self.wfile.write(body)

            do_HEAD = do_GET

            def log_message(self, *_):
                pass

        self._server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.01})
        self.port = self._server.server_address[1]
        self.url = f"http://127.0.0.1:{self.port}"

    def __enter__(self):
        self._thread.start()
        return self

    def __exit__(self, *_):
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


@pytest.fixture
def webs():
    """Two servers: programs name the first one, and the second one is inside the network."""
    fsspec.filesystem("http").clear_instance_cache()
    with Web({"/data/secret.bin": b"secret", "/": b"secret"}) as inside, Web({"/data/a.bin": b"a", "/data/b.bin": b"b"}) as named:
        yield named, inside
    fsspec.filesystem("http").clear_instance_cache()


def read(url, **more):
    pipe = Pipeline(batch_size=1, num_threads=1, exec_pipelined=False, exec_async=False)
    with pipe:
        pipe.set_outputs(fn.readers.file(files=[url], **more)[0])
    pipe.build()
    return np.asarray(pipe.run()[0][0]).tobytes()


@pytest.mark.parametrize("kind", ["", "302 "])
def test_redirects_to_other_servers_are_refused(webs, kind):
    named, inside = webs
    elsewhere = {
        "host": inside.url.replace("127.0.0.1", "localhost") + "/data/secret.bin",
        "port": f"{inside.url}/data/secret.bin",
        "relative": f"//127.0.0.1:{inside.port}/data/secret.bin",
        "scheme": f"https://127.0.0.1:{named.port}/data/a.bin",
        "file": "file:///etc/passwd",
        "user": f"http://127.0.0.1:{named.port}@127.0.0.1:{inside.port}/data/secret.bin",
    }
    named.redirects = {f"/data/{name}": kind + target for name, target in elsewhere.items()}
    for name in elsewhere:
        with pytest.raises(RuntimeError, match=rf"(?s){named.url}/data/{name}.*another host, port or scheme.*allow_redirects=True"):
            read(f"{named.url}/data/{name}")
    assert not inside.asked


def test_redirects_to_the_same_server_are_followed(webs):
    named, _ = webs
    named.redirects = {"/data/old.bin": "/data/a.bin", "/data/older.bin": f"{named.url}/data/old.bin", "/data/beside": "b.bin"}
    assert read(f"{named.url}/data/older.bin") == b"a" and read(f"{named.url}/data/beside") == b"b"


def test_the_program_may_allow_redirects(webs):
    named, inside = webs
    named.redirects = {"/data/far": f"{inside.url}/data/secret.bin"}
    assert read(f"{named.url}/data/far", allow_redirects=True) == b"secret"
    with pytest.raises(RuntimeError, match="allow_redirects=True"):  # the other reader has another session
        read(f"{named.url}/data/far")

    def reader(**more):
        name = np.frombuffer(f"{named.url}/data/far".encode(), np.uint8)
        pipe = Pipeline(batch_size=1, num_threads=1, exec_pipelined=False, exec_async=False)
        with pipe:
            pipe.set_outputs(fn.io.file.read(fn.external_source(lambda: [name]), allow_remote_entries=True, **more))
        return np.asarray(pipe.run()[0][0]).tobytes()

    with pytest.raises(RuntimeError, match="allow_redirects=True"):
        reader()
    assert reader(allow_redirects=True) == b"secret"


def test_containers_are_sized_and_read_in_ranges(webs, tmp_path):
    """The sizes of containers are requested first. fsspec reports any failure of such a request as a missing file."""
    named, inside = webs
    inside.contents["/a.tar"] = open(write_tar(tmp_path / "a.tar", [("a.jpg", b"1")]), "rb").read()
    named.redirects = {"/a.tar": f"{inside.url}/a.tar"}
    for call in (lambda: remote.file_size(f"{named.url}/a.tar"), lambda: remote.read_file(f"{named.url}/a.tar"),
                 lambda: remote.read_part(f"{named.url}/a.tar", 0, 5), lambda: remote.entries(f"{named.url}/a.tar"),
                 lambda: remote.local_copy(f"{named.url}/a.tar").__enter__()):  # fmt: skip
        with pytest.raises(RuntimeError, match="another host, port or scheme"):
            call()
    assert not inside.asked


def test_chains_of_file_systems(webs):
    named, inside = webs
    named.redirects = {"/data/far": f"{inside.url}/data/secret.bin"}
    assert remote.read_file(f"simplecache::{named.url}/data/a.bin") == b"a"
    with pytest.raises(RuntimeError, match="another host, port or scheme"):
        remote.read_file(f"simplecache::{named.url}/data/far")
    assert not inside.asked


def test_the_users_own_sessions_are_used(webs, monkeypatch):
    """`fsspec.config.conf` may configure sessions (proxies, certificates, passwords)."""
    import aiohttp

    named, inside = webs
    named.redirects = {"/data/far": f"{inside.url}/data/secret.bin"}
    made = []

    async def own(**options):
        made.append(options)
        return aiohttp.ClientSession(**options)

    monkeypatch.setitem(fsspec.config.conf, "http", {"get_client": own})
    assert remote.read_file(f"{named.url}/data/a.bin") == b"a" and made
    with pytest.raises(RuntimeError, match="another host, port or scheme"):
        remote.read_file(f"{named.url}/data/far")


@pytest.mark.parametrize("name", ["x::memory", "%2e%2e", "a%2f..%2f..", ".."])
def test_entries_of_listings_stay_below_the_folder(name, monkeypatch):
    """The listing of a server may only name entries below the listed folder. Other listings are refused."""
    memory = fsspec.filesystem("memory")
    monkeypatch.setattr(type(memory), "ls", lambda self, path, detail=True, **_: [{"name": f"/data/{name}", "type": "file", "size": 1}])
    with pytest.raises(RuntimeError, match="is not the name of a file"):
        remote.entries("memory://data")

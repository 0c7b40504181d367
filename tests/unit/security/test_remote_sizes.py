"""The size of remote files is checked against the free memory while they arrive, because a server may report and send any size."""

from __future__ import annotations

import contextlib
import gzip
import http.server
import sys
import threading
from typing import ClassVar

import numpy as np
import pytest
from asyncdali_workers import limits
from helpers.memory import Machine
from helpers.pipelines import pipeline_of
from helpers.web import Server

from asyncdali import fn
from asyncdali.readers.remote import downloads, remote
from asyncdali.readers.remote.remote import Range, RemoteError, read_files, read_ranges

pytest.importorskip("aiohttp", reason="fsspec reads http:// through aiohttp")
import fsspec
from fsspec.asyn import AsyncFileSystem

MIB = 1 << 20

pytestmark = pytest.mark.usefixtures("waits", "small")


@pytest.fixture
def small(monkeypatch):
    """Requests above 1 MiB are checked against a free memory that the test sets."""
    monkeypatch.setattr(limits, "CHECKED", MIB)
    monkeypatch.setattr(downloads, "FIRST_PIECE", MIB // 4)
    fsspec.filesystem("http").clear_instance_cache()
    yield
    fsspec.filesystem("memory").store.clear()


@pytest.fixture
def machine(tmp_path_factory, monkeypatch):
    made = Machine(tmp_path_factory.mktemp("machine"), monkeypatch)
    made.free(100 * MIB)
    return made


class Liar:
    """A web server that answers with `answer(handler)`. `sent` counts the bytes that it has sent."""

    def __init__(self, answer):
        self.sent, self.asked, liar = 0, [], self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self):
                liar.asked.append(self.headers.get("Range"))
                with contextlib.suppress(ConnectionError):
                    answer(self, self.write)
                self.close_connection = True

            def write(self, data):
                self.wfile.write(data)
                liar.sent += len(data)

            def log_message(self, *_):
                pass

        self._server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.01})
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}/file"

    def __enter__(self):
        self._thread.start()
        return self

    def __exit__(self, *_):
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


def endless(handler, write):
    """An answer without a size and without an end."""
    handler.send_response(200)
    handler.end_headers()
    while True:
        write(bytes(MIB // 4))


def declared(handler, write):
    """An answer that announces 8 GiB and contains one byte."""
    handler.send_response(200)
    handler.send_header("Content-Length", str(1 << 33))
    handler.end_headers()
    write(b"a")
    threading.Event().wait(300)


def packed(handler, write):
    """An answer that compresses 256 MiB to 260 KB."""
    data = gzip.compress(bytes(256 * MIB), 1)
    handler.send_response(200)
    handler.send_header("Content-Encoding", "gzip")
    handler.send_header("Content-Length", str(len(data)))
    handler.end_headers()
    write(data)


@pytest.mark.parametrize("answer", [endless, declared, packed])
@pytest.mark.parametrize("part", [False, True], ids=["whole", "part"])
def test_a_server_that_sends_too_much(answer, part, machine):
    with Liar(answer) as server:
        asked = Range(server.url, 0, 1 << 33) if part else Range(server.url)
        with pytest.raises(RemoteError, match=r"/file \(1 attempt\).*bytes are needed; 104,857,600 are left by the free memory") as error:
            read_ranges([asked])
        assert isinstance(error.value, MemoryError) and error.value.index == 0
        # The buffers of the system may contain more.
        assert len(server.asked) <= 1 and server.sent < 120 * MIB


@pytest.mark.parametrize("answer", [endless, packed])
def test_a_small_range_of_a_server_that_sends_all(answer, machine):
    """If a server answers a request for a range with the whole file, only the range is read."""
    with Liar(answer) as server:
        assert read_ranges([Range(server.url, 10, 20)]) == [bytes(10)]
        assert server.sent < 20 * MIB


def test_the_cap_of_a_sample(machine, monkeypatch):
    monkeypatch.setenv(limits.CAP_VARIABLE, str(2 * MIB))
    for answer in (endless, declared):
        with Liar(answer) as server, pytest.raises(RemoteError, match=r"a file may have 2,097,152 bytes \(ASYNCDALI_MAX_SAMPLE_BYTES\)"):
            read_ranges([Range(server.url)])


def test_the_files_of_a_batch_add_up(machine, tmp_path):
    for k in range(8):
        (tmp_path / str(k)).write_bytes(bytes(MIB))
    machine.free(4 * MIB)
    with Server(tmp_path) as server:
        with pytest.raises(MemoryError, match="bytes are needed; 4,194,304 are left"):
            read_files([f"{server.url}/{k}" for k in range(8)])
        machine.free(100 * MIB)
        assert read_files([f"{server.url}/{k}" for k in range(8)]) == [bytes(MIB)] * 8


@pytest.mark.parametrize("size", [0, 1, MIB // 4, MIB // 4 + 1, 3 * MIB])
@pytest.mark.parametrize("ranges", [True, False])
def test_one_request_for_each_file(size, ranges, tmp_path, machine):
    data = [np.random.default_rng(k).bytes(size) for k in range(3)]
    for k, one in enumerate(data):
        (tmp_path / str(k)).write_bytes(one)
    with Server(tmp_path, ranges=ranges) as server:
        assert read_files([f"{server.url}/{k}" for k in range(3)]) == data
        if size > 9:
            assert read_ranges([Range(f"{server.url}/{k}", 3, size - 3) for k in range(3)]) == [one[3:-3] for one in data]
        assert not server.sizes and set(server.requests.values()) == {2 if size > 9 else 1}


def test_options_of_the_user(tmp_path, monkeypatch, machine):
    """Options of the user's fsspec configuration apply to every request."""
    heard = []

    def answer(handler, write):
        heard.append(handler.headers.get("X-Token"))
        handler.send_response(200)
        handler.send_header("Content-Length", "2")
        handler.end_headers()
        write(b"ok")

    monkeypatch.setitem(fsspec.config.conf, "http", {"headers": {"X-Token": "mine"}})
    with Liar(answer) as server:
        assert read_ranges([Range(server.url), Range(server.url, 0, 2)]) == [b"ok"] * 2
    assert heard == ["mine"] * 2


@pytest.mark.parametrize("size", [0, 1, MIB // 4 - 1, MIB // 4, MIB // 4 + 1, 3 * MIB])
def test_other_file_systems(size, machine, tmp_path):
    """Other file systems than HTTP are read in pieces. Memory and local files have no asynchronous interface."""
    data = np.random.default_rng(size).bytes(size)
    fsspec.filesystem("memory").pipe_file("/sizes/a", data)
    (tmp_path / "a").write_bytes(data)
    assert read_files(["memory://sizes/a", f"file://{tmp_path}/a"]) == [data, data]


class Objects(AsyncFileSystem):
    """An object store similar to S3. It reads ranges of objects, but no streams, and a range of an empty object is an error."""

    protocol = "objects"
    cachable = False
    contents: ClassVar[dict[str, bytes | int]] = {}
    asked: ClassVar[list[tuple]] = []

    async def _info(self, path, **_):
        self.asked.append(("info", path))
        content = self.contents[self._strip_protocol(path)]
        return {"name": path, "type": "file", "size": content if isinstance(content, int) else len(content)}

    async def _cat_file(self, path, start=None, end=None, **_):
        self.asked.append(("cat", path, start, end))
        content = self.contents[self._strip_protocol(path)]
        assert end is not None, "the object is asked for whatever its size"
        if isinstance(content, int):
            return bytes(min(end, content) - start)
        if not content:
            raise OSError("416: the range cannot be satisfied")
        return content[start:end]


@pytest.fixture
def objects(machine):
    fsspec.register_implementation("objects", Objects, clobber=True)
    Objects.contents, Objects.asked = {}, []
    yield Objects
    sys.modules["fsspec.registry"]._registry.pop("objects")


@pytest.mark.parametrize("size, requests", [(1, 1), (MIB // 4 - 1, 1), (MIB // 4, 2), (3 * MIB, 3)])
def test_stores_of_objects(objects, size, requests):
    data = np.random.default_rng(size).bytes(size)
    objects.contents["bucket/a"] = data
    assert read_files(["objects://bucket/a"]) == [data]
    assert len(objects.asked) == requests


def test_empty_objects(objects):
    objects.contents["bucket/empty"] = b""
    assert read_files(["objects://bucket/empty"]) == [b""]


def test_objects_of_impossible_sizes_are_refused(objects):
    objects.contents["bucket/a"] = 1 << 40
    with pytest.raises(RemoteError, match=r"1 attempt\).*1,099,511,627,776 bytes.*a file may have"):
        read_files(["objects://bucket/a"])
    objects.contents["bucket/a"] = 1 << 30
    with pytest.raises(RemoteError, match=r"1 attempt\).*bytes are needed; 104,857,600 are left"):
        read_files(["objects://bucket/a"])
    assert all(one[0] == "info" or one[3] <= MIB // 4 for one in objects.asked)


# --------------------------------------------------------------------------------------------------------- the callers that read


def test_io_file_read(machine):
    with Liar(endless) as server:
        name = np.frombuffer(server.url.encode(), np.uint8)
        pipe = pipeline_of(lambda: fn.io.file.read(fn.external_source(lambda k: [name] * 3), allow_remote_entries=True))
        with pytest.raises(MemoryError, match=r"(?s)io\.file\.read.*sample 0.*/file.*are left by the free memory"):
            pipe.run()
        pipe.close()


def test_readers(machine):
    with Liar(endless) as server:
        pipe = pipeline_of(lambda: fn.readers.file(files=[server.url])[0])
        with pytest.raises(MemoryError, match=r"(?s)readers\.file.*sample \d.*/file.*are left by the free memory"):
            pipe.run()
        pipe.close()
        pipe = pipeline_of(lambda: fn.readers.coco(file_root="/tmp", annotations_file=server.url)[0])
        with pytest.raises(MemoryError, match=r"(?s)/file.*are left by the free memory"):
            pipe.build()
        pipe.close()


def test_memory_files_of_a_batch_are_limited(machine):
    machine.free(MIB)
    stand_ins = remote.StandIns()
    with pytest.raises(limits.TooLarge, match="remote files of a batch"):
        stand_ins.add([(0, bytes(2 * MIB))])
    stand_ins.close()


def test_local_lists_and_indices_are_limited(machine, tmp_path):
    """Sizes of local files are checked, too: a sparse file may have any size."""
    path = tmp_path / "annotations.json"
    with path.open("wb") as file:
        file.truncate(1 << 30)
    with pytest.raises(MemoryError, match=r"annotations.json.*1,073,741,824 bytes are needed; 104,857,600 are left"):
        remote.read_whole(str(path))
    pipe = pipeline_of(lambda: fn.readers.file(file_root=str(tmp_path), file_list=str(path))[0])
    with pytest.raises(MemoryError, match=r"(?s)readers\.file.*annotations.json.*are left by the free memory"):
        pipe.build()
    pipe.close()

"""Readers that open files in Python, with URLs: the files of several batches are requested together, and each file once."""

from __future__ import annotations

import threading

import numpy as np
import pytest

pytest.importorskip("fsspec", reason="reading URLs needs fsspec")

import fsspec
from helpers.readers import EVERY_KIND, delivered, pipeline
from helpers.web import Server, moved, upload

from asyncdali.readers.files import batch_files
from asyncdali.readers.files.batch_files import SharedFiles
from asyncdali.readers.remote.remote import RemoteError

# Number of files of the first two samples and of the first six. Sequences of frames overlap; the sequences of a video share one file.
FILES = {"fits": (2, 6), "nemo_asr": (2, 6), "sequence": (4, 10), "video": (1, 2), "readers.video": (1, 2)}
FILES = {name: files for name, files in FILES.items() if name in EVERY_KIND}


pytestmark = pytest.mark.usefixtures("waits")


@pytest.fixture
def web():
    pytest.importorskip("aiohttp", reason="fsspec reads http:// through aiohttp")
    fsspec.filesystem("http").clear_instance_cache()


@pytest.fixture
def memory():
    """The URL of an empty directory in memory."""
    yield "memory://batches"
    fsspec.filesystem("memory").store.clear()


def local(name, tmp_path):
    """(kind, its arguments for local files). The arguments are lists of names, because the web has no directories."""
    kind = EVERY_KIND[name]
    arguments = kind.write(tmp_path)
    if name == "fits":
        arguments = {"files": [f"{tmp_path}/{k}.fits" for k in range(10)]}
    return kind, arguments


def there(arguments, folder, url):
    for text in folder.glob("*.json"):
        text.write_bytes(text.read_bytes().replace(str(folder).encode(), url.encode()))
    return {key: moved(value, folder, url) for key, value in arguments.items()}


def everything(outputs):
    return [[np.asarray(sample).tolist() for sample in column] for column in outputs]


@pytest.mark.parametrize("depth", [1, 3])
@pytest.mark.parametrize("name", sorted(FILES))
def test_files_of_several_batches_are_requested_together(name, depth, tmp_path, web):
    """The server answers only when each file of the batches in flight has been requested once."""
    kind, arguments = local(name, tmp_path)
    expected = [everything(outputs) for outputs in (lambda pipe: [pipe.run() for _ in range(3)])(pipeline(kind, arguments, batch=2))]
    with Server(tmp_path, ranges=False) as server:
        pipe = pipeline(kind, {**there(arguments, tmp_path, server.url), "prefetch_queue_depth": depth}, batch=2, num_threads=1,
                        exec_pipelined=False, exec_async=False)  # fmt: skip
        server.requests.clear()
        files = FILES[name][depth > 1]
        server.met = threading.Barrier(files)
        first = pipe.run()
        assert not server.met.broken and sorted(server.requests.values()) == [1] * files
        server.met.abort()  # from now on all requests are answered immediately
        assert [everything(outputs) for outputs in (first, pipe.run(), pipe.run())] == expected
        pipe.close()


@pytest.mark.skipif("video" not in FILES, reason="PyAV is not installed")
def test_videos_stay_for_later_batches(tmp_path, web):
    kind, arguments = local("video", tmp_path)
    expected = delivered(kind, pipeline(kind, arguments), 6)
    with Server(tmp_path, ranges=False) as server:
        pipe = pipeline(kind, {**there(arguments, tmp_path, server.url), "prefetch_queue_depth": 2}, num_threads=4)
        server.requests.clear()
        assert delivered(kind, pipe, 6) == expected
        assert server.requests == {f"/{part}.webm": 1 for part in range(3)}
        pipe.close()


@pytest.mark.parametrize("name", sorted(FILES))
def test_a_server_that_fails_at_first(name, tmp_path, web, waits):
    kind, arguments = local(name, tmp_path)
    expected = delivered(kind, pipeline(kind, arguments), 5)
    with Server(tmp_path, ranges=False) as server:
        pipe = pipeline(kind, there(arguments, tmp_path, server.url))
        server.requests.clear()
        server.failures = 2
        assert delivered(kind, pipe, 5) == expected
        pipe.close()
    assert waits[:2] == pytest.approx([0.1, 0.3])


@pytest.mark.parametrize("depth", [1, 3])
@pytest.mark.parametrize("name", sorted(FILES))
def test_a_file_that_cannot_be_downloaded(name, depth, tmp_path, memory):
    """The error names the sample and the URL, and fails only the iteration of the file."""
    kind, arguments = local(name, tmp_path)
    expected = delivered(kind, pipeline(kind, arguments, batch=1), 10)
    gone = {"fits": "4.fits", "nemo_asr": "4.wav", "sequence": "1/02.png"}.get(name, "1.webm")
    upload(tmp_path, memory)
    pipe = pipeline(kind, {**there(arguments, tmp_path, memory), "prefetch_queue_depth": depth}, batch=2)
    fsspec.filesystem("memory").rm(f"{memory}/{gone}")
    failed = {"fits": {2: 0}, "nemo_asr": {2: 0}, "sequence": {2: 0, 3: 0}}.get(name, {2: 0, 3: 0})  # iteration: sample
    for iteration in range(5):
        if iteration in failed:
            sample = failed[iteration]
            with pytest.raises(RuntimeError, match=rf"(?s)iteration {iteration}, sample {sample}.*{memory}/{gone} \(1 attempt\): No such"):
                pipe.run()
        else:
            assert delivered(kind, pipe, 1) == [[number for one in expected[2 * iteration : 2 * iteration + 2] for number in one]]
    pipe.close()


@pytest.mark.parametrize("name", sorted(FILES))
def test_resuming(name, tmp_path, memory):
    kind, arguments = local(name, tmp_path)
    upload(tmp_path, memory)
    arguments = {**there(arguments, tmp_path, memory), "prefetch_queue_depth": 3, "random_shuffle": True, "initial_fill": 5}
    pipe = pipeline(kind, arguments, enable_checkpointing=True)
    delivered(kind, pipe, 2)
    saved = pipe.checkpoint()
    expected = delivered(kind, pipe, 5)
    assert delivered(kind, pipeline(kind, arguments, enable_checkpointing=True, checkpoint=saved), 5) == expected


def test_local_and_remote_files_together(tmp_path, memory):
    kind, arguments = local("fits", tmp_path)
    expected = delivered(kind, pipeline(kind, arguments), 3)
    upload(tmp_path, memory)
    mixed = [path if k % 2 else moved(path, tmp_path, memory) for k, path in enumerate(arguments["files"])]
    pipe = pipeline(kind, {"files": mixed, "prefetch_queue_depth": 2, "read_ahead": True})
    assert delivered(kind, pipe, 3) == expected


class Reads:
    """Replaces `read_files`: calls wait until the test lets them continue, and some files are missing."""

    def __init__(self, monkeypatch, missing=()):
        self.calls, self.missing = [], missing
        self.begun, self.may_go_on = threading.Semaphore(0), threading.Event()
        monkeypatch.setattr(batch_files, "read_files", self.read)

    def read(self, paths):
        self.calls.append(paths)
        self.begun.release()
        assert self.may_go_on.wait(300)
        for index, path in enumerate(paths):
            if path in self.missing:
                raise RemoteError(index, path, f"{path} is missing")
        return [path.encode() for path in paths]


def _at_the_same_time(reads, threads):
    """Run the functions on threads. All threads begin their reads before one of them continues."""
    for thread in threads:
        thread.start()
        reads.begun.acquire()
    reads.may_go_on.set()
    for thread in threads:
        thread.join(300)


def test_files_in_flight_are_not_requested_again(monkeypatch):
    reads, files, found = Reads(monkeypatch), SharedFiles(1), {}
    threads = [threading.Thread(target=lambda k=k, paths=paths: found.update({k: files.read(paths)}))
               for k, paths in enumerate((["a", "b"], ["b", "c"]))]  # fmt: skip
    _at_the_same_time(reads, threads)
    assert found == {0: {"a": b"a", "b": b"b"}, 1: {"b": b"b", "c": b"c"}} and reads.calls == [["a", "b"], ["c"]]
    [kept] = [path for path in "abc" if path in files._known]
    files.read([kept])
    assert len(reads.calls) == 2
    files.read(["d"])
    files.read([kept])
    assert reads.calls[2:] == [["d"], [kept]]  # only one copy is kept


def test_an_error_affects_only_its_file(monkeypatch):
    """A batch waits for a file that another batch has requested. It gets the file even if another file of that request fails."""
    reads, files, found = Reads(monkeypatch, {"x"}), SharedFiles(0), []

    def with_error():
        with pytest.raises(RemoteError, match="x is missing") as caught:
            files.read(["a", "x"])
        found.append(caught.value.path)

    threads = [threading.Thread(target=with_error), threading.Thread(target=lambda: found.append(files.read(["b", "a"])))]
    _at_the_same_time(reads, threads)
    assert "x" in found and {"a": b"a", "b": b"b"} in found and files._known == {}

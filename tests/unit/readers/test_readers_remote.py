"""Every reader with URLs: memory:// and a local HTTP server that fails at times. Reads are repeated without waits."""

from __future__ import annotations

import os
import threading

import numpy as np
import pytest

pytest.importorskip("fsspec", reason="reading URLs needs fsspec")

import fsspec
from helpers.orders import Cursor
from helpers.readers import KINDS, delivered, pipeline
from helpers.web import Server, moved, upload

from asyncdali import Pipeline, fn
from asyncdali.readers.remote import remote
from asyncdali.readers.remote.prefetch import BatchesAhead, Fetches
from asyncdali.readers.remote.remote import Range, RemoteError, read_ranges

pytestmark = pytest.mark.usefixtures("waits")


@pytest.fixture
def memory():
    """The URL of an empty directory in memory."""
    yield "memory://data"
    fsspec.filesystem("memory").store.clear()


def everything(kind, arguments, runs=4):
    pipe = pipeline(kind, arguments)
    found = []
    for _ in range(runs):
        outputs = pipe.run()
        found += [[np.asarray(sample).tolist() for sample in column] for column in outputs]
        found.append([outputs[0][k].source_info() for k in range(len(outputs[0]))])
    return found


@pytest.mark.parametrize("name", sorted(KINDS))
@pytest.mark.parametrize("options", [
    pytest.param({}, marks=pytest.mark.slow), {"random_shuffle": True, "prefetch_queue_depth": 3, "dont_use_mmap": True},
], ids=str)  # fmt: skip
def test_every_reader(name, options, tmp_path, memory):
    kind = KINDS[name]
    arguments = {**kind.write(tmp_path), **options}
    upload(tmp_path, memory)
    there = {key: moved(value, tmp_path, memory) for key, value in arguments.items()}
    assert str(there) != str(arguments)
    assert everything(kind, there) == moved(everything(kind, arguments), tmp_path, memory)


def test_more_ways_to_name_files(tmp_path, memory):
    """Missing indices, lists, directories of classes, sequences, and lists of local and remote files."""
    tfrecord = KINDS["tfrecord"]
    arguments = tfrecord.write(tmp_path)
    plain = everything(tfrecord, {"path": arguments["path"]})
    upload(tmp_path, memory)
    there = {"path": moved(arguments["path"], tmp_path, memory)}
    assert everything(tfrecord, there) == moved(plain, tmp_path, memory)
    with pytest.warns(UserWarning, match="does not exist; scanned in memory"):
        pipe = Pipeline(batch_size=4, num_threads=1)
        with pipe:
            pipe.set_outputs(tfrecord.outputs(__import__("asyncdali"), {**there, "index_path": [f"{memory}/no"] * 3})[0])
        pipe.build()
    store = fsspec.filesystem("memory")
    for label, name in enumerate(["b", "a"]):
        store.pipe_file(f"{memory}/tree/{name}/x.jpg", b"%d" % label)
    (tmp_path / "local.jpg").write_bytes(b"local")
    store.pipe_file(f"{memory}/tree/list.txt", f"b/x.jpg 7\n{tmp_path}/local.jpg 8\nmemory://data/tree/a/x.jpg 9\n".encode())
    for given, expected in (
        ({"file_root": f"{memory}/tree"}, [("1", 0), ("0", 1)]),
        ({"file_list": f"{memory}/tree/list.txt", "allow_outside_root": True}, [("0", 7), ("local", 8), ("1", 9)]),
        ({"files": [str(tmp_path / "local.jpg"), f"{memory}/tree/a/x.jpg"]}, [("local", 0), ("1", 1)]),
    ):  # fmt: skip
        pipe = Pipeline(batch_size=len(expected), num_threads=1)
        with pipe:
            pipe.set_outputs(*fn.readers.file(name="R", **given))
        pipe.build()
        contents, labels = pipe.run()
        assert [(np.asarray(a).tobytes().decode(), int(np.asarray(b)[0])) for a, b in zip(contents, labels, strict=True)] == expected


@pytest.fixture
def web():
    pytest.importorskip("aiohttp", reason="fsspec reads http:// through aiohttp")
    fsspec.filesystem("http").clear_instance_cache()


@pytest.mark.parametrize("ranges", [True, False])
def test_a_server_that_fails_at_first(ranges, tmp_path, web, waits):
    kind = KINDS["webdataset"]
    arguments = kind.write(tmp_path)
    with Server(tmp_path, 2, ranges) as server:
        there = {key: moved(value, tmp_path, server.url) for key, value in arguments.items()}
        assert everything(kind, there) == moved(everything(kind, arguments), tmp_path, server.url)
    assert waits[:2] == pytest.approx([0.1, 0.3])


def numbered_files(folder, count):
    for k in range(count):
        (folder / f"{k}.bin").write_bytes(b"%d" % k)
        np.save(folder / f"{k}.npy", np.int32([k]))


@pytest.mark.parametrize("kind", ["file", "numpy"])
def test_several_batches_are_asked_for_at_a_time(kind, tmp_path, web):
    """The server answers only when the requests of three batches have arrived, so they must arrive before the first answer."""
    numbered_files(tmp_path, 6)
    with Server(tmp_path, 0, False, together=6) as server:
        names = [f"{server.url}/{k}.{'bin' if kind == 'file' else 'npy'}" for k in range(6)]
        pipe = Pipeline(batch_size=2, num_threads=1, exec_pipelined=False, exec_async=False)
        with pipe:
            made = getattr(fn.readers, kind)(name="R", files=names, prefetch_queue_depth=3)
            pipe.set_outputs(made[0] if kind == "file" else made)
        pipe.build()
        first = pipe.run()[0]
        assert not server.met.broken and sorted(server.requests.values()) == [1] * 6
        server.met.abort()  # from now on the server answers immediately
        found = [first, pipe.run()[0], pipe.run()[0]]
        values = [int(np.asarray(one).tobytes()) if kind == "file" else int(np.asarray(one)[0]) for batch in found for one in batch]
        assert values == list(range(6))


def test_several_batches_of_containers(tmp_path, web):
    """Records are read as ranges: one request for each component of two batches."""
    arguments = KINDS["webdataset"].write(tmp_path)
    expected = everything(KINDS["webdataset"], arguments, 2)
    with Server(tmp_path, 0, True) as server:
        there = {key: moved(value, tmp_path, server.url) for key, value in arguments.items()}
        pipe = pipeline(KINDS["webdataset"], {**there, "prefetch_queue_depth": 2}, exec_pipelined=False, exec_async=False)
        server.requests.clear()
        server.met = threading.Barrier(16)
        outputs = pipe.run()
        assert not server.met.broken and sum(server.requests.values()) >= 16
        assert [[np.asarray(sample).tolist() for sample in column] for column in outputs] == expected[:2]
        server.met.abort()


def test_errors_of_batches_ahead_wait_for_their_turn(tmp_path, memory):
    numbered_files(tmp_path, 6)
    upload(tmp_path, memory)
    fsspec.filesystem("memory").rm(f"{memory}/3.bin")
    pipe = Pipeline(batch_size=2, num_threads=1)
    with pipe:
        pipe.set_outputs(fn.readers.file(name="R", files=[f"{memory}/{k}.bin" for k in range(6)], prefetch_queue_depth=3)[0])
    pipe.build()
    found = []
    for _ in range(3):
        try:
            found.append([np.asarray(one).tobytes() for one in pipe.run()[0]])
        except RuntimeError as error:
            assert "iteration 1, sample 1" in str(error) and "memory://data/3.bin" in str(error)
            found.append("error")
    assert found == [[b"0", b"1"], "error", [b"4", b"5"]]


def test_resuming_with_batches_ahead(tmp_path, memory):
    kind = KINDS["webdataset"]
    arguments = {**kind.write(tmp_path), "prefetch_queue_depth": 3, "random_shuffle": True, "initial_fill": 5}
    upload(tmp_path, memory)
    there = {key: moved(value, tmp_path, memory) for key, value in arguments.items()}
    pipe = pipeline(kind, there, enable_checkpointing=True)
    delivered(kind, pipe, 2)
    saved = pipe.checkpoint()
    expected = delivered(kind, pipe, 5)
    assert delivered(kind, pipeline(kind, there, enable_checkpointing=True, checkpoint=saved), 5) == expected


def test_a_guess_that_was_wrong(tmp_path):
    """Requests ahead are a guess. The delivered samples are always correct."""
    reader = Cursor(100, 4)
    fetched = []
    batches = BatchesAhead(reader.order, 3, lambda indices: fetched.append(indices.tolist()) or indices.tolist(), Fetches())
    asked = []
    for size in (4, 4, 3, 3, 4, 4):
        indices = reader.take(size)
        asked.append(indices.tolist())
        assert batches.get(indices, reader.position) == asked[-1]
    assert all(indices in fetched for indices in asked)
    assert fetched.count(asked[1]) == fetched.count(asked[3]) == 1  # the guess was right for these files


def test_named_files_and_back_off(tmp_path, web, waits):
    (tmp_path / "a.bin").write_bytes(b"content")
    with Server(tmp_path, 3, False) as server:
        pipe = Pipeline(batch_size=1, num_threads=1, exec_pipelined=False, exec_async=False)  # no batch is requested ahead
        with pipe:
            names = fn.external_source(lambda: [np.frombuffer(f"{server.url}/a.bin".encode(), np.uint8)])
            pipe.set_outputs(fn.io.file.read(names, allow_remote_entries=True))
        pipe.build()
        [contents] = pipe.run()
        assert np.asarray(contents[0]).tobytes() == b"content" and contents[0].source_info() == f"{server.url}/a.bin"
    assert waits == pytest.approx([0.1, 0.3, 0.9]) and server.requests["/a.bin"] == 4


def test_final_errors(tmp_path, web, waits):
    (tmp_path / "a.jpg").write_bytes(b"a")
    with Server(tmp_path, 99, False) as server:
        pipe = Pipeline(batch_size=2, num_threads=1, exec_pipelined=False, exec_async=False)  # no batch is requested ahead
        with pipe:
            pipe.set_outputs(*fn.readers.file(name="R", files=[str(tmp_path / "a.jpg"), f"{server.url}/a.jpg"]))
        pipe.build()
        with pytest.raises(RuntimeError, match=rf"(?s)sample 1.*Could not read {server.url}/a.jpg \(4 attempts\).*503"):
            pipe.run()
        assert server.requests["/a.jpg"] == 4
        pipe.close()
    del waits[:]
    with Server(tmp_path, 0, False) as server:
        with pytest.raises(RemoteError, match=r"no.jpg \(1 attempt\): No such file") as caught:
            read_ranges([Range(f"{server.url}/a.jpg"), Range(f"{server.url}/no.jpg")])
        assert caught.value.index == 1 and not waits
        with pytest.raises(RemoteError, match=r"a.jpg \(1 attempt\): the file ends before"):
            read_ranges([Range(f"{server.url}/a.jpg", 0, 5)])


def test_sizes_of_a_server_that_fails(tmp_path, web, waits):
    """A web server that does not report the size of a file is asked again. A missing file is not requested again."""
    (tmp_path / "a.tar").write_bytes(b"content")
    with Server(tmp_path, 3) as server:
        assert remote.file_size(f"{server.url}/a.tar") == 7
        server.failures = 99
        with pytest.raises(RuntimeError, match=r"Could not open .*/a.tar \(4 attempts\): 503"):
            remote.file_size(f"{server.url}/a.tar")
        server.failures = 0
        with pytest.raises(RuntimeError, match=r"Could not open .*/b.tar \(1 attempt\): No such file"):
            remote.file_size(f"{server.url}/b.tar")


@pytest.mark.parametrize("call, message", [
    (lambda: remote.read_file("odd://host/x"), r"Could not open odd://host/x"),
    (lambda: remote.read_file("memory://no/such"), r"Could not read memory://no/such \(1 attempt\): No such file"),
    (lambda: remote.file_size("memory://no/such"), r"Could not open memory://no/such \(1 attempt\): No such file"),
    (lambda: remote.entries("memory://no/such"), r"Could not list memory://no/such \(1 attempt\): No such file"),
])  # fmt: skip
def test_missing_files_are_named(call, message):
    with pytest.raises(RuntimeError, match=message):
        call()


@pytest.mark.parametrize("name", ["numpy", "tfrecord", "fits", "mxnet", "sequence", "caffe"])
def test_a_file_that_is_gone_names_its_sample(name, tmp_path, memory):
    kind = KINDS[name]
    arguments = {key: moved(value, tmp_path, memory) for key, value in kind.write(tmp_path).items()}
    upload(tmp_path, memory)
    pipe = pipeline(kind, arguments)
    fsspec.filesystem("memory").store.clear()
    with pytest.raises(RuntimeError, match=r"(?s)sample 0.*memory://data.*No such file"):
        pipe.run()


def test_local_paths_stay_with_the_system(tmp_path, monkeypatch):
    monkeypatch.setattr(remote, "_filesystem", lambda url: pytest.fail(f"fsspec was asked for {url}"))
    for path in ("/a/b", "a:b", "./x://y", str(tmp_path), "C:\\x", os.sep):
        assert not remote.is_remote(path)
    assert all(map(remote.is_remote, ("s3://b/k", "http://h/x", "simplecache::s3://b/k", "gs://x", "MEMORY://x", "a+b.c-d://x")))
    kind = KINDS["numpy"]
    everything(kind, kind.write(tmp_path))


def test_without_fsspec(monkeypatch):
    import sys

    monkeypatch.setitem(sys.modules, "fsspec", None)
    with pytest.raises(RuntimeError, match=r"s3://bucket/key: reading URLs needs `fsspec`.*: pip install asyncdali\[remote\]"):
        remote.read_file("s3://bucket/key")

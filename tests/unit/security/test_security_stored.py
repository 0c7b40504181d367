"""Stored graphs of untrusted origin: deserializing opens no files, and a program can limit the files that the graph reads and writes."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import warnings

import numpy as np
import pytest
from helpers.containers import example, write_tar, write_tfrecord
from helpers.pipelines import pipeline_of, values
from helpers.readers import EVERY_KIND, KINDS

from asyncdali import Pipeline, fn, tfrecord
from asyncdali.access import Access
from asyncdali.operators import load_registry
from asyncdali.operators.base import REGISTRY

FEATURES = {"label": tfrecord.FixedLenFeature([1], tfrecord.int64, -1)}


def stored(call, **options):
    pipe = Pipeline(batch_size=2, num_threads=1, seed=1, **options)
    with pipe:
        made = call()
        pipe.set_outputs(*(made if isinstance(made, (list, tuple)) else [made]))
    return pipe.serialize()


def first(pipe):
    return np.asarray(pipe.run()[0][0]).tobytes()


@pytest.fixture
def tree(tmp_path):
    for name in ("data", "private"):
        folder = tmp_path / name / "0"
        folder.mkdir(parents=True)
        for k in range(2):
            (folder / f"{k}.jpg").write_bytes(name.encode())
    return tmp_path


@pytest.mark.parametrize("name", sorted(KINDS))
def test_deserializing_has_no_side_effects(name, tmp_path, monkeypatch):
    """Deserializing opens and lists no file, and starts no process or socket. The files that the graph names do not exist."""
    kind = KINDS[name]
    arguments = kind.write(tmp_path)
    data = stored(lambda: kind.outputs(__import__("asyncdali"), arguments))
    load_registry()
    data = data.replace(str(tmp_path).encode(), b"/no/such/folder")
    for owner, function in ((os, "open"), (os, "scandir"), (os, "listdir"), (os, "stat"), (socket, "socket"), (subprocess, "Popen")):
        real = getattr(owner, function)

        def refuse(*given, real=real, **more):
            if "no/such" in str(given):
                raise AssertionError(f"{given} was touched")
            return real(*given, **more)

        monkeypatch.setattr(owner, function, refuse)
    pipe = Pipeline.deserialize(data)
    assert pipe._core.session is None
    monkeypatch.undo()
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=".* skips a file", category=UserWarning)  # one kind of graph for each missing file
        with pytest.raises(RuntimeError, match="no/such/folder"):
            pipe.build()


def test_a_stored_graph_cannot_write_an_index_anywhere(tmp_path):
    path = write_tfrecord(tmp_path / "a.tfrecord", [example(label=k) for k in range(3)], index=False)
    index = tmp_path / "made.idx"
    data = stored(lambda: list(fn.readers.tfrecord(path=[path], index_path=[str(index)], features=FEATURES).values()))

    def labels(pipe):
        return values(pipe.run())[0]

    with pytest.warns(UserWarning, match=r"scanned in memory .*allow_write"):
        assert labels(Pipeline.deserialize(data)) == [[0], [1]]
    with pytest.warns(UserWarning, match="allow_write"):
        assert labels(Pipeline.deserialize(data, allow=[tmp_path])) == [[0], [1]]
    own = Pipeline(2, 1)
    with pytest.warns(UserWarning, match="allow_write"):
        own.deserialize_and_build(data)
    assert not index.exists()
    assert labels(Pipeline.deserialize(data, allow_write=[tmp_path])) == [[0], [1]] and index.exists()
    index.unlink()
    own = Pipeline(2, 1)
    own.deserialize_and_build(data, allow_write=[tmp_path])
    assert index.exists()


def test_a_stored_graph_cannot_save_annotations_anywhere(tmp_path):
    arguments = EVERY_KIND["coco"].write(tmp_path)
    target = tmp_path / "saved"
    target.mkdir()
    data = stored(lambda: fn.readers.coco(**arguments, save_preprocessed_annotations=True, save_preprocessed_annotations_dir=str(target)))
    with pytest.raises(RuntimeError, match=r"Refused to write .*saved.*save_preprocessed_annotations_dir.*allow_write"):
        Pipeline.deserialize(data).build()
    assert not os.listdir(target)
    Pipeline.deserialize(data, allow_write=[target]).build()
    assert os.listdir(target)


def test_reading_is_limited_to_what_is_allowed(tree):
    data = stored(lambda: fn.readers.file(file_root=str(tree / "private")))
    assert first(Pipeline.deserialize(data)) == b"private"  # without a limit the program trusts the bytes
    assert first(Pipeline.deserialize(data, allow=[tree / "private"])) == first(Pipeline.deserialize(data, allow=str(tree))) == b"private"
    for allow in ([], [tree / "data"], ["s3://"], [str(tree / "priv")], ["file://"]):
        with pytest.raises(RuntimeError, match=r"(?s)Refused to open .*private.*argument `file_root`.*`allow`"):
            Pipeline.deserialize(data, allow=allow).build()
        own = Pipeline(2, 1)
        with pytest.raises(RuntimeError, match="Refused to open"):
            own.deserialize_and_build(data, allow=allow)
    climbing = stored(lambda: fn.readers.file(file_root=str(tree / "data" / ".." / "private")))
    with pytest.raises(RuntimeError, match="Refused to open"):
        Pipeline.deserialize(climbing, allow=[tree / "data"]).build()


@pytest.mark.parametrize("name", sorted(EVERY_KIND.keys() - {"io.file.read"}))
def test_every_reader_is_limited(name, tmp_path):
    kind = EVERY_KIND[name]
    (tmp_path / "in").mkdir()
    arguments = kind.write(tmp_path / "in")
    data = stored(lambda: kind.outputs(__import__("asyncdali"), {"name": "R", **arguments}))
    with pytest.raises(RuntimeError, match="Refused to open"):
        Pipeline.deserialize(data, allow=[tmp_path / "out"]).build()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        Pipeline.deserialize(data, allow=[tmp_path / "in"]).run()


def test_entries_are_limited_too(tree):
    """The limit applies even if arguments in the stored graph allow all files."""
    (tree / "data" / "list.txt").write_text(f"{tree}/private/0/0.jpg 0\n")
    everything = {"allow_outside_root": True, "allow_remote_entries": True, "allow_redirects": True}
    data = stored(lambda: fn.readers.file(file_list=str(tree / "data" / "list.txt"), **everything))
    assert first(Pipeline.deserialize(data)) == b"private"
    with pytest.raises(RuntimeError, match=r"Refused to open .*private/0/0.jpg.*an entry of .*list.txt"):
        Pipeline.deserialize(data, allow=[tree / "data"]).build()
    name = np.frombuffer(f"{tree}/private/0/0.jpg".encode(), np.uint8)
    data = stored(lambda: fn.io.file.read(fn.external_source(name="names"), allow_remote_entries=True))
    pipe = Pipeline.deserialize(data, allow=[tree / "data"])
    pipe.feed_input("names", [name, name])
    with pytest.raises(RuntimeError, match=r"(?s)sample 0.*Refused to open .*private/0/0.jpg"):
        pipe.run()
    pipe = Pipeline.deserialize(data, allow=[tree / "private"])
    pipe.feed_input("names", [name, name])
    assert first(pipe) == b"private"


def test_schemes_are_limited(tree):
    fsspec = pytest.importorskip("fsspec", reason="reading URLs needs fsspec")
    memory = fsspec.filesystem("memory")
    try:
        for place in ("memory://data", "memory://data2"):
            memory.pipe_file(f"{place}/a.jpg", b"remote")

        def load(url, allow):
            return first(Pipeline.deserialize(stored(lambda: fn.readers.file(files=[url, url])), allow=allow))

        for allow in (["memory://"], ["memory://data"], ["memory://data/"], [tree, "memory://data/a.jpg"], "memory://"):
            assert load("memory://data/a.jpg", allow) == b"remote"
        for url in ("memory://data2/a.jpg", "memory://data/../data2/a.jpg", "memory://data/%2e%2e/data2/a.jpg",
                    "simplecache::memory://data/a.jpg", "file:///etc/hostname", str(tree / "data" / "0" / "0.jpg")):  # fmt: skip
            with pytest.raises(RuntimeError, match="Refused to open"):
                load(url, ["memory://data"])
        with pytest.raises(RuntimeError, match="Refused to open"):
            load("simplecache::memory://data/a.jpg", ["memory://"])
        assert load("simplecache::memory://data/a.jpg", ["simplecache::memory://data"]) == b"remote"
    finally:
        memory.store.clear()


@pytest.mark.parametrize("place, path, within", [
    ("/data", "/data", True), ("/data", "/data/x", True), ("/data/", "/data/x", True), ("/data", "/database", False), ("/", "/x", True),
    ("/data", "/data/../etc", False), ("https://host", "https://host/x", True), ("https://host", "https://host.evil/x", False),
    ("https://host", "https://host@evil/x", False), ("https://host", "http://host/x", False), ("s3://", "s3://b/x", True),
    ("s3://", "s3a://b/x", False), ("s3://", "x::s3://b", False), ("/data", "x::/data", False), ("s3://b", "/s3://b", False),
    ("/data", "file:///data/x", False), ("s3://b/d/", "s3://b/d", True), ("s3://b/d/", "s3://b/d/", True), ("s3://b/d", "s3://b/de", False),
])  # fmt: skip
def test_places(place, path, within):
    assert Access((place,)).may_read(path) is within and Access(None, (place,)).may_write(path) is within
    assert Access().may_read(path) and Access().may_write(path)


def test_places_are_checked():
    data = stored(fn.random.uniform)
    for wrong, error in ((3, TypeError), ([3], TypeError), ([""], ValueError), ([b"/data"], TypeError)):
        with pytest.raises(error, match=r"`allow`|iterable"):
            Pipeline.deserialize(data, allow=wrong)


def test_relative_places(tree, monkeypatch):
    monkeypatch.chdir(tree)
    (tree / "link").symlink_to(tree / "data")
    data = stored(lambda: fn.readers.file(file_root="data"))
    for allow in (["data"], ["."], [tree / "data"]):
        assert first(Pipeline.deserialize(data, allow=allow)) == b"data"
    assert first(Pipeline.deserialize(stored(lambda: fn.readers.file(file_root=str(tree / "data"))), allow=["link"])) == b"data"


# --- bytes that a call would not have made


def changed(data, change):
    document = json.loads(data)
    change(document)
    return json.dumps(document).encode()


def operator(document, name):
    return next(entry for entry in document["operators"] if entry["op"] == name)


CHANGES = {
    "an option that is never stored": lambda d: d["options"].update(checkpoint={"bytes": ""}),
    "a pickler": lambda d: d["options"].update(py_callback_pickler="os"),
    "an unknown option": lambda d: d["options"].update(no_such=1),
    "an unknown argument": lambda d: operator(d, "resize")["constants"].update(no_such=1),
    "an argument of another type": lambda d: operator(d, "resize")["constants"].update(resize_x={"dict": []}),
    "an argument missing": lambda d: operator(d, "readers.webdataset")["constants"].pop("paths"),
    "too many inputs": lambda d: operator(d, "resize").update(inputs=operator(d, "resize")["inputs"] * 9),
    "no inputs": lambda d: operator(d, "resize").update(inputs=[]),
    "another device": lambda d: operator(d, "resize").update(device="mixed"),
    "no device": lambda d: operator(d, "resize").update(device=3),
    "an input on another device": lambda d: operator(d, "resize").update(device="gpu"),
    "a name that is a list": lambda d: operator(d, "resize").update(name=["x"]),
    "a node as a constant argument": lambda d: operator(d, "resize").update(arguments={"mode": operator(d, "resize")["inputs"][0]}),
    "a path that is a list": lambda d: operator(d, "readers.file")["constants"].update(file_root=["/etc", "/"]),
    "very many outputs": lambda d: operator(d, "readers.webdataset")["constants"].update(ext=["jpg"] * (1 << 17)),
}


@pytest.mark.parametrize("name", CHANGES)
def test_stored_operators_are_checked_as_calls_are(name, tree):
    archive = write_tar(tree / "a.tar", [("a.jpg", b"1")])

    def graph():
        images, labels = fn.readers.file(file_root=str(tree / "data"))
        return [fn.resize(fn.decoders.image(images), resize_x=4), labels, fn.readers.webdataset(paths=[archive], ext=["jpg"])]

    data = stored(graph)
    Pipeline.deserialize(data)
    with pytest.raises(RuntimeError):
        Pipeline.deserialize(changed(data, CHANGES[name]))


def test_stored_graphs_contain_no_code():
    """Functions cannot be stored, and no stored bytes are restored as a function."""
    with pytest.raises(RuntimeError, match="Could not serialize"):
        pipeline_of(lambda: fn.python_function(fn.random.uniform(), function=os.getpid)).serialize()
    document = json.loads(stored(fn.random.uniform))
    document["operators"].append({"op": "python_function", "name": "P", "device": "cpu", "inputs": [[0, 0, "cpu"]],
                                  "constants": {"function": "os.system", "num_outputs": 1}})  # fmt: skip
    document["outputs"] = [[1, 0, "cpu"]]
    with pytest.raises((RuntimeError, TypeError, ValueError)):
        Pipeline.deserialize(json.dumps(document).encode()).run()


def test_every_argument_that_names_files_is_marked():
    """An argument whose documentation mentions files must be marked with `path`, or be listed here."""
    load_registry()
    marked = {(kind.schema.name, arg.name) for kind in REGISTRY.values() for arg in kind.schema.args if arg.path}
    texts = {(kind.schema.name, arg.name) for kind in REGISTRY.values() for arg in kind.schema.args if arg.kind in ("str", "str_list")}
    words, others = ("path", "file", "root", "dir", "folder", "annotations"), ("file_list_format", "file_list_rounding")
    named = {(name, argument) for name, argument in texts
             if any(word in argument for word in words) and "filter" not in argument and argument not in others}  # fmt: skip
    assert marked == named and len(marked) > 25
    assert {name for name, argument in marked if argument.startswith("save")} == {"readers.coco"}

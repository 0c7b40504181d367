"""File names inside data sets: they stay below the root and name no URL scheme, unless the program allows it."""

from __future__ import annotations

import io
import json
import os
import socket
import tarfile
from urllib.parse import unquote

import numpy as np
import pytest
from helpers.containers import fits, write_tar
from helpers.readers import EVERY_KIND
from hypothesis import given, settings
from hypothesis import strategies as st

from asyncdali import Pipeline, fn
from asyncdali.access import Access
from asyncdali.readers.files.entries import EntryRules
from asyncdali.readers.files.file_table import FileTable
from asyncdali.readers.remote.remote import folder_of, is_remote

SECRET = b"secret"


def built(call, batch=1, **options):
    pipe = Pipeline(batch_size=batch, num_threads=1, exec_pipelined=False, exec_async=False, **options)
    with pipe:
        made = call()
        pipe.set_outputs(*(made if isinstance(made, list) else [made]))
    pipe.build()
    return pipe


def contents(pipe):
    return [np.asarray(sample).tobytes() for sample in pipe.run()[0]]


@pytest.fixture
def places(tmp_path):
    """The root of a data set and a secret file beside it, on disk and in the memory file system of fsspec."""
    fsspec = pytest.importorskip("fsspec", reason="reading URLs needs fsspec")
    root = tmp_path / "root"
    (root / "inner").mkdir(parents=True)
    (root / "inner" / "a.jpg").write_bytes(b"a")
    (tmp_path / "secret.jpg").write_bytes(SECRET)
    (tmp_path / "root2").mkdir()
    (tmp_path / "root2" / "b.jpg").write_bytes(SECRET)
    memory = fsspec.filesystem("memory")
    memory.pipe_file("memory://else/secret.jpg", SECRET)
    memory.pipe_file("memory://root/inner/a.jpg", b"a")
    yield tmp_path
    memory.store.clear()


def listed(tmp_path, entry, **arguments):
    path = tmp_path / "list.txt"
    path.write_text(f"{entry} 0\n")
    return lambda: fn.readers.file(file_list=str(path), **arguments)


def annotated(tmp_path, entry, **arguments):
    path = tmp_path / "annotations.json"
    image = {"id": 1, "width": 2, "height": 2, "file_name": str(entry)}
    path.write_text(json.dumps({"images": [image], "annotations": [], "categories": []}))
    return lambda: fn.readers.coco(annotations_file=str(path), **arguments)


OUTSIDE = ["../secret.jpg", "inner/../../secret.jpg", "{tmp}/secret.jpg", "{tmp}/root2/b.jpg", "{tmp}/root/../secret.jpg",
           "inner/../inner/a.jpg"]  # fmt: skip
REMOTE = ["memory://else/secret.jpg", "MEMORY://else/secret.jpg", "simplecache::memory://else/secret.jpg", "file:///etc/hostname",
          "http://127.0.0.1:1/x", "local:///etc/hostname"]  # fmt: skip


@pytest.mark.parametrize("source", [listed, annotated])
@pytest.mark.parametrize("entry", OUTSIDE)
def test_entries_stay_below_a_root(places, source, entry):
    entry = entry.format(tmp=places)
    root = str(places / "root")
    with pytest.raises(RuntimeError, match=r"(?s)Refused to open entry 0 of .*(list.txt|annotations.json).*allow_outside_root=True"):
        built(source(places, entry, file_root=root))
    allowed = built(source(places, entry, file_root=root, allow_outside_root=True))
    assert contents(allowed) == [b"a" if entry.endswith("a.jpg") else SECRET]
    with pytest.raises(RuntimeError, match="allow_outside_root"):
        built(source(places, entry, file_root=root, allow_remote_entries=True))


@pytest.mark.parametrize("source", [listed, annotated])
@pytest.mark.parametrize("entry", REMOTE)
def test_entries_choose_no_scheme(places, source, entry):
    root = str(places / "root")
    for arguments in ({}, {"allow_outside_root": True}):
        with pytest.raises(RuntimeError, match=r"the name has a scheme.*allow_remote_entries=True"):
            built(source(places, entry, file_root=root, **arguments))
    if entry == REMOTE[0]:
        assert contents(built(source(places, entry, file_root=root, allow_remote_entries=True))) == [SECRET]


@pytest.mark.parametrize("entry", ["file:///etc/hostname", "local:///etc/hostname", "simplecache::file:///etc/hostname", "FILE:///etc/x"])
def test_a_scheme_for_local_files_is_refused_too(places, entry):
    with pytest.raises(RuntimeError, match=r"leads to local files.*allow_outside_root=True"):
        built(listed(places, entry, file_root=str(places / "root"), allow_remote_entries=True))


def test_entries_below_the_root_are_read(places):
    for entry in ("inner/a.jpg", "./inner/a.jpg", f"{places}/root/inner/a.jpg"):
        assert contents(built(listed(places, entry, file_root=str(places / "root")))) == [b"a"]
        assert contents(built(listed(places, entry, file_root=f"{places}/root/"))) == [b"a"]
    link = places / "link"
    link.symlink_to(places / "root")
    for entry in (f"{places}/root/inner/a.jpg", f"{link}/inner/a.jpg"):  # with both names of the root
        assert contents(built(listed(places, entry, file_root=str(link)))) == [b"a"]
    for name in ("a..jpg", "..a", "a:b", "x::y", "10%.jpg", "a\\..\\b"):  # unusual, but valid names of files
        (places / "root" / name).write_bytes(b"odd")
        assert contents(built(listed(places, name, file_root=str(places / "root")))) == [b"odd"]
    assert contents(built(listed(places, "/" + "etc/hostname", file_root="/"))) == [open("/etc/hostname", "rb").read()]


def test_links_inside_the_root_belong_to_its_owner(places):
    (places / "root" / "link.jpg").symlink_to(places / "secret.jpg")
    assert contents(built(listed(places, "link.jpg", file_root=str(places / "root")))) == [SECRET]


def test_a_list_without_a_root(places, monkeypatch):
    """Lists of DALI programs have absolute paths, and names relative to the list's folder. Only these two forms are read."""
    assert contents(built(listed(places, f"{places}/root2/b.jpg"))) == [SECRET]
    assert contents(built(listed(places, "root/inner/a.jpg"))) == [b"a"]
    monkeypatch.chdir(places)
    (places / "list.txt").write_text("root/inner/a.jpg 0\n")
    assert contents(built(lambda: fn.readers.file(file_list="list.txt"))) == [b"a"]
    with pytest.raises(RuntimeError, match="allow_outside_root"):
        built(listed(places / "root", "../secret.jpg"))
    assert contents(built(listed(places / "root", "../secret.jpg", allow_outside_root=True))) == [SECRET]
    for entry in REMOTE:
        with pytest.raises(RuntimeError, match="allow_remote_entries"):
            built(listed(places, entry))
    monkeypatch.chdir(places)
    (places / "list.txt").write_text("x/y://../../etc/passwd 0\n")  # neither a URL nor below the root
    with pytest.raises(RuntimeError, match="allow_outside_root"):
        built(lambda: fn.readers.file(file_list="list.txt"))


@pytest.mark.parametrize("entry", [
    "../else/secret.jpg", "memory://else/secret.jpg", "/etc/hostname", "%2e%2e/else/secret.jpg", "%252e%252e/else/secret.jpg",
    "inner%2f..%2f../x", "inner\\..\\..\\x", "memory://root/inner/../../else/secret.jpg", "x::memory", "memory://rooted/x",
])  # fmt: skip
def test_a_remote_root(places, entry):
    with pytest.raises(RuntimeError, match=r"Refused to open entry 0"):
        built(listed(places, entry, file_root="memory://root"))


def test_a_remote_root_is_read(places):
    import fsspec

    for entry in ("inner/a.jpg", "memory://root/inner/a.jpg", "./inner/a.jpg", ".//inner/a.jpg", "././/inner/a.jpg"):
        assert contents(built(listed(places, entry, file_root="memory://root"))) == [b"a"]
    for entry in ("inner/a.jpg", "memory://root/inner/a.jpg"):  # the folder of the list
        fsspec.filesystem("memory").pipe_file("memory://root/list.txt", f"{entry} 0\n".encode())
        assert contents(built(lambda: fn.readers.file(file_list="memory://root/list.txt"))) == [b"a"]
    for entry in ("../else/secret.jpg", "/etc/hostname", "memory://else/secret.jpg"):
        fsspec.filesystem("memory").pipe_file("memory://root/list.txt", f"{entry} 0\n".encode())
        with pytest.raises(RuntimeError, match="Refused to open entry 0"):
            built(lambda: fn.readers.file(file_list="memory://root/list.txt"))


def test_arguments_of_the_program_may_name_any_file(places):
    for files in ([str(places / "secret.jpg")], [f"{places}/root/../secret.jpg"], ["memory://else/secret.jpg"]):
        assert contents(built(lambda files=files: fn.readers.file(files=files))) == [SECRET]
        assert contents(built(lambda files=files: fn.readers.file(files=files, file_root=str(places / "root")))) == [SECRET]


# --- the other readers with lists


def test_numpy_and_fits(places):
    np.save(places / "secret.npy", np.arange(3))
    (places / "secret.fits").write_bytes(fits(None, np.arange(3, dtype=np.int16).reshape(1, 3)))
    for call, name in ((fn.readers.numpy, "secret.npy"), (fn.experimental.readers.fits, "secret.fits")):
        path = places / "root" / "list.txt"
        for entry, allow in ((f"../{name}", "allow_outside_root"), (f"{places}/{name}", "allow_outside_root"),
                             (f"memory://else/{name}", "allow_remote_entries")):  # fmt: skip
            path.write_text(f"{entry}\n")

            def reader(call=call, path=path, **more):
                return built(lambda: call(file_list=str(path), file_root=str(places / "root"), **more))

            with pytest.raises(RuntimeError, match=allow):
                reader()
            if allow == "allow_outside_root":
                assert np.asarray(reader(allow_outside_root=True).run()[0][0]).reshape(-1).tolist() == [0, 1, 2]


def test_preprocessed_annotations(places):
    folder = places / "saved"
    folder.mkdir()
    root = str(places / "root")
    saved = {"save_preprocessed_annotations": True, "save_preprocessed_annotations_dir": str(folder)}
    built(annotated(places, "inner/a.jpg", file_root=root, **saved))
    assert contents(built(lambda: fn.readers.coco(file_root=root, preprocessed_annotations=str(folder)))) == [b"a"]
    (folder / "filenames.dat").write_bytes(b"../secret.jpg\n")
    with pytest.raises(RuntimeError, match="allow_outside_root"):
        built(lambda: fn.readers.coco(file_root=root, preprocessed_annotations=str(folder)))


def manifest(folder, entry, **arguments):
    (folder / "manifest.json").write_text(json.dumps({"audio_filepath": entry, "duration": 1.0}))
    return lambda: fn.readers.nemo_asr(manifest_filepaths=[str(folder / "manifest.json")], **arguments)


def test_manifests(places, monkeypatch):
    """Paths in manifests are used unchanged, as in DALI: absolute, or relative to the working directory. URLs are refused."""
    import fsspec

    EVERY_KIND["nemo_asr"].write(places / "root")
    assert len(contents(built(manifest(places, f"{places}/root/3.wav")))) == 1
    monkeypatch.chdir(places / "root")
    assert len(contents(built(manifest(places, "3.wav")))) == 1
    monkeypatch.chdir(places / "root" / "inner")
    with pytest.raises(RuntimeError, match="allow_outside_root"):
        built(manifest(places, "../3.wav"))
    assert len(contents(built(manifest(places, "../3.wav", allow_outside_root=True)))) == 1
    fsspec.filesystem("memory").pipe_file("memory://else/3.wav", (places / "root" / "3.wav").read_bytes())
    with pytest.raises(RuntimeError, match=r"manifest.json.*allow_remote_entries"):
        built(manifest(places, "memory://else/3.wav"))
    assert len(contents(built(manifest(places, "memory://else/3.wav", allow_remote_entries=True)))) == 1


@pytest.mark.skipif("video" not in EVERY_KIND, reason="needs PyAV")
@pytest.mark.parametrize("name", ["video", "readers.video"])
def test_lists_of_videos(places, name, monkeypatch):
    from helpers import videos

    videos.write_video(places / "v.webm", 4, 0)
    call = fn.experimental.readers.video if name == "video" else fn.readers.video

    def reader(entry, **more):
        (places / "videos.txt").write_text(f"{entry} 0\n")
        return built(lambda: call(file_list=str(places / "videos.txt"), sequence_length=2, **more))

    assert len(contents(reader(f"{places}/v.webm"))) == 1
    monkeypatch.chdir(places / "root")
    for entry, allow in (("../v.webm", "allow_outside_root"), ("http://127.0.0.1:1/v.webm", "allow_remote_entries")):
        with pytest.raises(RuntimeError, match=allow):
            reader(entry)
    assert len(contents(reader("../v.webm", allow_outside_root=True))) == 1


def test_names_that_the_pipeline_computes(places):
    """io.file.read reads any local file. URLs are refused unless the program allows them."""

    def read(name, **more):
        text = np.frombuffer(name.encode(), np.uint8)
        return contents(built(lambda: fn.io.file.read(fn.external_source(lambda: [text]), **more)))

    assert read(f"{places}/secret.jpg") == read(f"{places}/root/../secret.jpg") == [SECRET]
    for entry in ("memory://else/secret.jpg", "file:///etc/hostname", "simplecache::memory://else/secret.jpg"):
        with pytest.raises(RuntimeError, match=r"(?s)sample 0.*Refused to open.*allow_remote_entries=True"):
            read(entry)
    assert read("memory://else/secret.jpg", allow_remote_entries=True) == [SECRET]


# --- names within containers, and indices


def test_members_of_archives_are_never_opened_as_files(tmp_path):
    """Members with names outside of the archive, links and devices: only the contents of members are delivered, and no file is written."""
    path = tmp_path / "in" / "a.tar"
    path.parent.mkdir()
    with tarfile.open(path, "w") as archive:
        for name, kind, data, target in (
            ("../../../etc/x.jpg", tarfile.REGTYPE, b"1", ""), ("/etc/y.jpg", tarfile.REGTYPE, b"2", ""),
            ("link.jpg", tarfile.SYMTYPE, b"", "/etc/hostname"), ("hard.jpg", tarfile.LNKTYPE, b"", "/etc/hostname"),
            ("null.jpg", tarfile.CHRTYPE, b"", ""), ("http://host/z.jpg", tarfile.REGTYPE, b"3", ""),
        ):  # fmt: skip
            member = tarfile.TarInfo(name)
            member.type, member.size, member.linkname = kind, len(data), target
            archive.addfile(member, io.BytesIO(data))
    pipe = built(lambda: fn.readers.webdataset(paths=[str(path)], ext=["jpg"], name="R"))
    assert pipe.epoch_size("R") == 3 and [contents(pipe)[0] for _ in range(3)] == [b"1", b"2", b"3"]
    assert os.listdir(tmp_path) == ["in"] and os.listdir(path.parent) == ["a.tar"]


@pytest.mark.parametrize("line", ["jpg 99999872 5 a.jpg", "jpg 0 999999 a.jpg", "jpg -512 5 a.jpg", "jpg 9223372036854775296 5 a.jpg"])
def test_an_index_of_an_archive_stays_within(tmp_path, line):
    path = write_tar(tmp_path / "a.tar", [("a.jpg", b"1")])
    (tmp_path / "a.idx").write_text(f"v1.2 1\n{line}\n")
    with pytest.raises(RuntimeError, match=r"a\.(idx|tar)"):
        built(lambda: fn.readers.webdataset(paths=[path], index_paths=[str(tmp_path / "a.idx")], ext=["jpg"])).run()


def test_an_index_names_offsets_and_no_files(tmp_path):
    path = write_tar(tmp_path / "a.tar", [("a.jpg", b"1")])
    (tmp_path / "a.idx").write_text("v1.2 1\njpg 512 1 http://127.0.0.1:1/etc/passwd\n")
    assert contents(built(lambda: fn.readers.webdataset(paths=[path], index_paths=[str(tmp_path / "a.idx")], ext=["jpg"]))) == [b"1"]
    most = 2**63 - 1
    for text in ("0 /etc/passwd", "http://127.0.0.1:1/ 0", "0 -1", f"0 {most}", "-1 5", f"{most} {most}"):
        for name in ("mxnet", "tfrecord"):
            folder = tmp_path / f"{name}{abs(hash(text))}"
            folder.mkdir()
            arguments = EVERY_KIND[name].write(folder)
            for index in arguments["index_path"]:
                with open(index, "w") as file:
                    file.write(text + "\n")
            with pytest.raises(RuntimeError):
                pipe = built(lambda arguments=arguments, name=name: EVERY_KIND[name].outputs(__import__("asyncdali"), arguments))
                for _ in range(3):
                    pipe.run()


# --- files inside of files


@pytest.mark.skipif("video" not in EVERY_KIND, reason="needs PyAV")
def test_a_video_cannot_open_other_files(tmp_path, monkeypatch):
    """FFmpeg accepts texts as videos: lists of other files, playlists, and session descriptions, for which it listens on a port."""
    from helpers import videos

    videos.write_video(tmp_path / "secret.webm", 4, 0)
    monkeypatch.chdir(tmp_path)
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1] & ~1
    listening = []
    texts = {
        "concat": "ffconcat version 1.0\nfile secret.webm\n",
        "hls": f"#EXTM3U\n#EXT-X-TARGETDURATION:10\n#EXTINF:10.0,\nfile://{tmp_path}/secret.webm\n#EXT-X-ENDLIST\n",
        "sdp": f"v=0\no=- 0 0 IN IP4 127.0.0.1\ns=x\nc=IN IP4 127.0.0.1\nt=0 0\nm=video {port} RTP/AVP 96\na=rtpmap:96 H264/90000\n",
    }
    for name, text in texts.items():
        (tmp_path / f"{name}.mp4").write_text(text)
        before = sorted(open("/proc/net/udp").read().split("\n"))
        for call in (fn.readers.video, fn.experimental.readers.video):
            with pytest.raises(RuntimeError), pytest.warns(UserWarning, match=f"{name}.mp4"):
                built(lambda call=call, name=name: call(filenames=[f"{name}.mp4"], sequence_length=2))
        data = np.frombuffer(text.encode(), np.uint8)
        with pytest.raises(RuntimeError):
            built(lambda data=data: fn.decoders.video(fn.external_source(lambda: [data]))).run()
        listening += [line for line in sorted(open("/proc/net/udp").read().split("\n")) if f":{port:04X} " in line and line not in before]
    assert not listening


# --- the rules alone


def test_large_lists_are_checked_quickly(monkeypatch):
    """All names are checked together. A check of single names would resolve the root for each name."""
    monkeypatch.setattr(EntryRules, "_refused", lambda *_: pytest.fail("a harmless name was checked separately"))
    EntryRules("/data", "list").check([f"class {k}/image_{k}.jpeg" for k in range(1000)])


@pytest.mark.parametrize("path, folder", [
    ("memory://list.txt", "memory://"), ("s3://bucket/list.txt", "s3://bucket"), ("s3://bucket/a/list.txt", "s3://bucket/a"),
    ("list.txt", ""), ("/list.txt", "/"), ("a/b", "a"), ("simplecache::s3://b/l", "simplecache::s3://b"),
])  # fmt: skip
def test_folders(path, folder):
    assert folder_of(path) == folder


def test_absolute_paths_behind_dots_are_refused():
    """The entry ``.//etc/passwd`` of a list at a URL once named this machine's /etc/passwd."""
    table = FileTable.of([".//etc/passwd", "././//etc/passwd", "./a"], [0, 0, 0], "memory://root")
    assert [table.path(k) for k in range(3)] == ["memory://root/etc/passwd", "memory://root/etc/passwd", "memory://root/a"]


def test_only_urls_escape_joining():
    table = FileTable.of(["a://b", "c/d://../e"], [0, 0], "/root")
    assert is_remote(table.path(0)) and table.path(1) == "/root/c/d://../e"


@pytest.mark.parametrize("names", [["/a/b/1.jpg"] * 3, ["inner/1.jpg", "10%.jpg", "x::y"]])
def test_absolute_lists_are_checked_quickly(monkeypatch, names):
    """Lists of absolute paths without a root are common, too."""
    monkeypatch.setattr(EntryRules, "_refused", lambda *_: pytest.fail("a harmless name was checked separately"))
    EntryRules("/data", "list", anywhere=True).check(names)
    EntryRules("/", "list", outside=True).check(names)


def test_saved_annotations_follow_no_links(places):
    """Another user may put a link into the folder. The link is replaced, and its target is not written."""
    folder, victim = places / "saved", places / "victim"
    folder.mkdir()
    victim.write_bytes(b"victim")
    (folder / "filenames.dat").symlink_to(victim)
    saved = {"save_preprocessed_annotations": True, "save_preprocessed_annotations_dir": str(folder)}
    built(annotated(places, "inner/a.jpg", file_root=str(places / "root"), **saved))
    assert victim.read_bytes() == b"victim" and (folder / "filenames.dat").read_bytes() == b"inner/a.jpg\n"


PARTS = [
    "..", ".", "a", "", "/", "\\", "%2e%2e", "%252E.", "%2f", "memory:", "http:", "file:", "x:", ":", "::", "//", "b.jpg", " ",
    "root", "data",
]  # fmt: skip
"""Parts of attacks on names. They are tried in any order."""


@settings(max_examples=500, deadline=None, derandomize=True)
@given(st.lists(st.sampled_from(PARTS), min_size=1, max_size=7), st.sampled_from(["", "/"]))
def test_accepted_entries_lie_below_the_root(parts, between):
    name = between.join(parts)
    for root in ("/data/root", "memory://data/root"):
        rules = EntryRules(root, "list")
        try:
            rules.check([name])
        except RuntimeError:
            continue
        path = FileTable.of([name], [0], root).path(0)
        if root.startswith("/"):
            assert not is_remote(path)
            assert os.path.normpath(path) == root or os.path.normpath(path).startswith(f"{root}/")
            assert ".." not in path.split("/")
        else:
            assert path.startswith(f"{root}/") or path == root
            assert path.count("://") == 1 or not is_remote(path[len(root) + 1 :])
            assert "::" not in path
            for _ in range(5):
                path = unquote(path)
            assert ".." not in path.replace("\\", "/").split("/")


@settings(max_examples=500, deadline=None, derandomize=True)
@given(st.lists(st.sampled_from(PARTS), min_size=1, max_size=7), st.sampled_from(["", "/"]))
def test_a_limited_graph_reads_only_allowed_places(parts, between):
    for start in ("", "/data/", "memory://data/"):
        path = start + between.join(parts)
        if Access(("/data", "memory://data")).may_read(path):
            local = os.path.normpath(os.path.abspath(path))
            assert path.startswith("memory://data/") or path == "memory://data" or local == "/data" or local.startswith("/data/")
            decoded = unquote(unquote(path)) if "://" in path else path  # in local names a percent sign is no escape
            assert "::" not in path and ".." not in decoded.split("/")
